/* Loading libkolo_NAME.so from the folder of libkolo.so. */
#define _GNU_SOURCE
#include "core/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define PLUGINS_MAX 16

/* A loaded plugin, or the reason why it could not be loaded. Plugins are never unloaded, because their kernels and
 * threads may still be running. */
typedef struct loaded {
    char name[32];
    const kolo_plugin *plugin;
    char why[512];
} loaded;

static struct {
    pthread_mutex_t mutex;
    loaded list[PLUGINS_MAX];
    int count;
} plugins = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* The path of libkolo_NAME.so in the folder of the library that contains this function. */
static void plugin_path(const char *name, char *path, size_t size)
{
    Dl_info self;
    const char *slash = NULL;
    if (dladdr(&plugins, &self) != 0 && self.dli_fname) slash = strrchr(self.dli_fname, '/');
    int folder = slash ? (int)(slash - self.dli_fname + 1) : 0;
    snprintf(path, size, "%.*slibkolo_%s.so", folder, slash ? self.dli_fname : "", name);
}

static void load(loaded *entry)
{
    char path[4096];
    plugin_path(entry->name, path, sizeof path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(entry->why, sizeof entry->why, "%s", dlerror());
        return;
    }
    const kolo_plugin *plugin = dlsym(library, "kolo_plugin_entry");
    if (!plugin) {
        snprintf(entry->why, sizeof entry->why, "libkolo_%s.so is not a plugin of Kolo", entry->name);
    } else if (plugin->version != KOLO_PLUGIN_VERSION) {
        snprintf(entry->why, sizeof entry->why, "libkolo_%s.so is of version %u, wanted %u", entry->name,
                 plugin->version, (unsigned)KOLO_PLUGIN_VERSION);
    } else {
        entry->plugin = plugin;
        return;
    }
    dlclose(library);
}

static loaded *find(const char *name)
{
    for (int i = 0; i < plugins.count; i++) {
        if (strcmp(plugins.list[i].name, name) == 0) return &plugins.list[i];
    }
    if (plugins.count == PLUGINS_MAX || strlen(name) >= sizeof plugins.list[0].name) return NULL;
    loaded *entry = &plugins.list[plugins.count++];
    snprintf(entry->name, sizeof entry->name, "%s", name);
    load(entry);
    return entry;
}

const kolo_plugin *kolo_plugin_load(const char *name, const char **why)
{
    pthread_mutex_lock(&plugins.mutex);
    loaded *entry = find(name);
    pthread_mutex_unlock(&plugins.mutex);
    if (why) *why = entry ? entry->why : "too many plugins, or too long a name";
    return entry ? entry->plugin : NULL;
}
