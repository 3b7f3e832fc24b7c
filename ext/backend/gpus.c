/* GPUs: whether this process's devices are GPUs, and which. See gpus.h. */
#include "backend/gpus.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "core/plugin.h"

#define PLUGIN "cuda"
#define CHOICE "KOLO_DEVICES"

static struct {
    pthread_once_t once;
    const kolo_device_information *information;
    int count;
    const char *why; /* why there is none: the end of a sentence */
} gpus = {.once = PTHREAD_ONCE_INIT};

/* Warns if the plugin is installed but cannot be used. */
static const kolo_device_information *load(void)
{
    const kolo_plugin *plugin = kolo_plugin_load(PLUGIN, &gpus.why);
    if (plugin && plugin->backend && plugin->backend->version == KOLO_BACKEND_VERSION) return plugin->backend->devices;
    if (plugin) gpus.why = "libkolo_" PLUGIN ".so is of another version of Kolo";
    bool installed = plugin || !strstr(gpus.why, "libkolo_" PLUGIN ".so: cannot open");
    if (installed) kolo_warn("computing without the GPUs: %s", gpus.why);
    else gpus.why = "libkolo_" PLUGIN ".so, the plugin for them, is not built: 'make cuda' does that";
    return NULL;
}

/* Loads the plugin only if there is a driver, since the plugin's libraries are large. */
static void find(void)
{
    gpus.why = "there is no NVIDIA driver; in a container it is the machine's, given by 'docker run --gpus all'";
    if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) return;
    gpus.information = load();
    if (!gpus.information) return;
    gpus.count = gpus.information->devices();
    gpus.why = "the driver gives none";
}

/* Whether the environment allows GPUs. KOLO_DEVICES decides, or KOLO_BACKEND if that is not set. */
static bool wanted(void)
{
    const char *choice = getenv(CHOICE), *backend = getenv("KOLO_BACKEND");
    if (choice && *choice) return strcmp(choice, "cpu") != 0;
    return !backend || !*backend || strcmp(backend, PLUGIN) == 0;
}

int kolo_gpus(void)
{
    if (!wanted()) return 0;
    pthread_once(&gpus.once, find);
    return gpus.count;
}

const kolo_device_information *kolo_gpu_information(void)
{
    return kolo_gpus() > 0 ? gpus.information : NULL;
}

kolo_status kolo_gpus_check_environment(void)
{
    const char *choice = getenv(CHOICE);
    if (!choice || !*choice || strcmp(choice, "cpu") == 0) return KOLO_OK;
    if (strcmp(choice, "gpu") != 0)
        return kolo_fail(KOLO_INVALID, CHOICE ": wanted \"cpu\" or \"gpu\", got \"%.40s\"", choice);
    if (kolo_gpus() > 0) return KOLO_OK;
    return kolo_fail(KOLO_NOT_FOUND, CHOICE ": wanted GPUs, got none: %s", kolo_gpus_why_none());
}

const char *kolo_gpus_why_none(void)
{
    const char *choice = getenv(CHOICE);
    if (choice && strcmp(choice, "cpu") == 0) return CHOICE " is \"cpu\"";
    if (!wanted()) return kolo_phrase("KOLO_BACKEND is \"%.40s\"", getenv("KOLO_BACKEND"));
    return kolo_gpus() > 0 ? "CUDA_VISIBLE_DEVICES or kolo_set_visible_devices() leaves none" : gpus.why;
}
