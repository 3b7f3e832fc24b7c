/* The plugin libkolo_cuda.so. Read backend/cuda/cuda.h first. */
#include "backend/cuda/cuda.h"
#include "core/plugin.h"

static kolo_status open(kolo_precision precision)
{
    (void)precision; /* prepare() rejects a precision that the device lacks */
    if (kolo_cuda_devices() > 0) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED, "backend cuda: wanted a GPU and its driver, got none");
}

static int enter_thread(void)
{
    return 0;
}

static void leave_thread(int entered)
{
    (void)entered;
}

/* Each device has a memory of its own. */
static int memories(int devices)
{
    return devices;
}

static kolo_weight_placement place_weights(kolo_weight_placement wanted)
{
    (void)wanted;
    return KOLO_WEIGHTS_COPIED;
}

static const kolo_backend cuda_backend = {
    .version = KOLO_BACKEND_VERSION,
    .name = "cuda",
    .fuses = kolo_cuda_fuses,
    .open = open,
    .enter_thread = enter_thread,
    .leave_thread = leave_thread,
    .has = kolo_cuda_has,
    .prepare = kolo_cuda_prepare,
    .run = kolo_cuda_run,
    .release = kolo_cuda_release,
    .forget = kolo_cuda_forget,
    .pack = kolo_cuda_pack,
    .unpack = kolo_cuda_unpack,
    .convert = kolo_cuda_convert,
    .add = kolo_cuda_add_gradient,
    .streams = &kolo_cuda_streams,
    .updates = &kolo_cuda_updates,
    .memories = memories,
    .place_weights = place_weights,
    .microbatch_bytes = kolo_cuda_microbatch_bytes,
    .devices = &kolo_cuda_information,
};

extern const kolo_plugin kolo_plugin_entry;
const kolo_plugin kolo_plugin_entry = {.version = KOLO_PLUGIN_VERSION, .backend = &cuda_backend};
