/* The choice of the backend: by name, by KOLO_BACKEND, or the fastest one that loads. */
#include "backend/backend.h"
#include "core/plugin.h"
#include "runtime/runtime.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const kolo_backend *const built_in[] = {&kolo_reference_backend, &kolo_enqueued_backend};
/* The backends that are plugins, the fastest first. */
static const struct {
    const char *name;
    bool on_gpus; /* only for a process whose devices are GPUs */
} plugins[] = {{"cuda", true}, {"onednn", false}};
#define PLUGIN_COUNT (sizeof plugins / sizeof *plugins)

static const kolo_backend *load(const char *name, const char **why)
{
    const kolo_plugin *plugin = kolo_plugin_load(name, why);
    if (!plugin) return NULL;
    if (plugin->backend && plugin->backend->version == KOLO_BACKEND_VERSION) return plugin->backend;
    *why = plugin->backend ? "its backend is of another version of Kolo" : "the plugin has no backend";
    return NULL;
}

static bool has_gpus(void)
{
    kolo_visible visible = kolo_visible_now();
    return visible.gpus > 0 && visible.count > 0;
}

static const char *list_of_names(void)
{
    const char *list = "reference", *why;
    for (size_t i = 0; i < PLUGIN_COUNT; i++) {
        if (plugins[i].on_gpus && !has_gpus()) continue;
        list = kolo_phrase("%s, %s%s", list, plugins[i].name, load(plugins[i].name, &why) ? "" : " (does not load)");
    }
    return list;
}

static kolo_status find_by_name(const char *name, const char *origin, const kolo_backend **backend)
{
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++) {
        *backend = built_in[i];
        if (strcmp(name, built_in[i]->name) == 0) return KOLO_OK;
    }
    for (size_t i = 0; i < PLUGIN_COUNT; i++) {
        const char *why;
        if (strcmp(name, plugins[i].name) != 0) continue;
        if (plugins[i].on_gpus && !has_gpus())
            return kolo_fail(KOLO_NOT_FOUND, "backend \"%s\": wanted a GPU, got none: %s", name, kolo_gpus_why_none());
        *backend = load(name, &why);
        return *backend ? KOLO_OK : kolo_fail(KOLO_NOT_FOUND, "backend \"%s\" does not load: %s", name, why);
    }
    return kolo_fail(KOLO_NOT_FOUND, "%s: there is no backend \"%s\"; there are: %s", origin, name, list_of_names());
}

/* The fastest backend that loads. The precision does not matter here: if the backend does not support it, the user
 * gets its error rather than a silent fallback to loops that are a hundred times slower. */
static const kolo_backend *find_fastest(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    const char *why = "", *name = "";
    for (size_t i = 0; i < PLUGIN_COUNT; i++) {
        if (plugins[i].on_gpus && !has_gpus()) continue;
        const kolo_backend *backend = load(name = plugins[i].name, &why);
        if (backend) return backend;
    }
    if (!atomic_flag_test_and_set(&warned))
        kolo_warn("computing with the reference backend, which is slow: %s does not load (%s)", name, why);
    return &kolo_reference_backend;
}

kolo_status kolo_backend_check_environment(void)
{
    const kolo_backend *backend;
    const char *name = getenv("KOLO_BACKEND");
    return name && *name ? find_by_name(name, "KOLO_BACKEND", &backend) : KOLO_OK;
}

kolo_status kolo_backend_find(const char *name, kolo_precision precision, const kolo_backend **backend)
{
    const char *origin = ".backend";
    if (!name || !*name) {
        name = getenv("KOLO_BACKEND");
        origin = "KOLO_BACKEND";
    }
    if (name && *name) {
        KOLO_TRY(find_by_name(name, origin, backend));
    } else {
        *backend = find_fastest();
    }
    return (*backend)->open(precision);
}
