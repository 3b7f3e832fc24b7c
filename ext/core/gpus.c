/* GPUs: whether this process's devices are GPUs, and which. See runtime.h. */
#include "core/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/plugin.h"

#define PLUGIN "cuda"
#define CHOICE "KOLO_DEVICES"

static struct {
    pthread_once_t once;
    const kolo_accelerator *accelerator;
    int count;
} gpus = {.once = PTHREAD_ONCE_INIT};

/* The plugin's libraries are large: none is loaded where there is no driver. */
static void find(void)
{
    const kolo_plugin *plugin = NULL;
    if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) plugin = kolo_plugin_load(PLUGIN, NULL);
    if (!plugin || !plugin->backend || plugin->backend->version != KOLO_BACKEND_VERSION) return;
    gpus.accelerator = plugin->backend->accelerator;
    gpus.count = gpus.accelerator->devices();
}

/* What KOLO_DEVICES says, or else the backend that KOLO_BACKEND chooses. */
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

const kolo_accelerator *kolo_gpu_accelerator(void)
{
    return kolo_gpus() > 0 ? gpus.accelerator : NULL;
}

kolo_status kolo_gpus_check_environment(void)
{
    const char *choice = getenv(CHOICE);
    if (!choice || !*choice || strcmp(choice, "cpu") == 0) return KOLO_OK;
    if (strcmp(choice, "gpu") != 0)
        return kolo_fail(KOLO_INVALID, CHOICE ": wanted \"cpu\" or \"gpu\", got \"%.40s\"", choice);
    if (kolo_gpus() > 0) return KOLO_OK;
    return kolo_fail(KOLO_NOT_FOUND, CHOICE ": wanted GPUs, got none: there is no driver, no device, or no plugin "
                                            "libkolo_" PLUGIN ".so");
}
