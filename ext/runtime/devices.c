/* Devices: the ones that exist, the visible ones, and those on which this process computes. See runtime.h.
 *
 * Environment variables are read each time they are needed, so that a notebook cell may set one at any time: it
 * applies to models that are compiled afterwards. */
#include "runtime/runtime.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "backend/device_information.h"
#include "backend/backend.h"
#include "comm/call.h"
#include "core/cores.h"
#include "show/bundle.h"

#define DEFAULT_CPU_DEVICES 8
#define MASK                "CUDA_VISIBLE_DEVICES"

static struct {
    int pinned;        /* number of the pinned device + 1; 0: none is pinned */
    bool masked;       /* kolo_set_visible_devices() was called with a list */
    kolo_visible mask; /* that list, as numbers among the devices that CUDA_VISIBLE_DEVICES leaves */
    char warned[256];  /* the value of CUDA_VISIBLE_DEVICES in the last warning */
} devices;

/* ---------------------------------------------------------------- counts */

/* An environment variable that holds a count. */
typedef struct count_variable {
    const char *name;
    int most;
} count_variable;
static const count_variable threads_variable = {"KOLO_THREADS", 1024};
static const count_variable devices_variable = {"KOLO_CPU_DEVICES", KOLO_DEVICES_MAX};
static const count_variable gpus_variable = {"KOLO_GPU_DEVICES", KOLO_DEVICES_MAX};

/* Reads a whole number from 1 to variable->most; false if the text is not one. */
static bool read_count(const count_variable *variable, const char *text, int *count)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    bool fine = errno == 0 && end != text && *end == '\0' && value >= 1 && value <= variable->most;
    if (fine) *count = (int)value;
    return fine;
}

/* An invalid value gives the fallback, since the callers cannot fail; kolo_check_environment() reports it. */
static int environment_count(const count_variable *variable, int fallback)
{
    const char *text = getenv(variable->name);
    int count = fallback;
    if (text && *text) read_count(variable, text, &count);
    return count;
}

static kolo_status check_count(const count_variable *variable)
{
    const char *text = getenv(variable->name);
    int count;
    if (!text || !*text || read_count(variable, text, &count)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted a whole number from 1 to %d, got \"%s\"", variable->name, variable->most,
                     text);
}

int kolo_threads(void)
{
    return environment_count(&threads_variable, kolo_cores_usable());
}

/* ---------------------------------------------------------------- masks */

static bool holds(const kolo_visible *visible, int device)
{
    bool found = false;
    for (int i = 0; i < visible->count; i++) found = found || visible->device[i] == device;
    return found;
}

/* The device that an entry names, by its number or, for a GPU, a name of the driver's; -1: none. *end: the end of the
 * entry. */
static int named_device(const char *entry, const kolo_visible *visible, const char **end)
{
    char *rest;
    long number = strtol(entry, &rest, 10);
    *end = entry + strcspn(entry, ",");
    bool is_number = rest != entry && rest + strspn(rest, " \t") == *end;
    if (is_number) return number >= 0 && number < visible->there ? (int)number : -1;
    for (int gpu = 0; gpu < visible->gpus && gpu < visible->there; gpu++)
        if (kolo_gpu_information()->is_called(gpu, entry, (size_t)(*end - entry))) return gpu;
    return -1;
}

/* Reads a list such as "2,0" like CUDA: from the left, up to the first entry that names no device, or one that is in
 * the list already. Returns that entry; NULL: all were valid. */
static const char *read_mask(const char *text, kolo_visible *visible)
{
    visible->count = 0;
    while (*text) {
        const char *end;
        int device = named_device(text, visible, &end);
        if (device < 0 || holds(visible, device)) return text;
        visible->device[visible->count++] = device;
        text = end + (*end == ',');
    }
    return NULL;
}

static int devices_there(int gpus)
{
    if (gpus == 0) return environment_count(&devices_variable, DEFAULT_CPU_DEVICES);
    return environment_count(&gpus_variable, gpus < KOLO_DEVICES_MAX ? gpus : KOLO_DEVICES_MAX);
}

/* Reads which devices the environment makes visible. Returns the invalid entry that ended the list, or NULL. */
static const char *read_environment(kolo_visible *visible)
{
    const char *text = getenv(MASK);
    visible->gpus = kolo_gpus();
    visible->count = visible->there = devices_there(visible->gpus);
    if (text) return read_mask(text, visible);
    for (int i = 0; i < visible->there; i++) visible->device[i] = i;
    return NULL;
}

kolo_visible kolo_visible_now(void)
{
    kolo_visible all, visible;
    read_environment(&all);
    if (!devices.masked) return all;
    visible.gpus = all.gpus;
    visible.there = all.there;
    visible.count = 0;
    for (int i = 0; i < devices.mask.count; i++)
        if (devices.mask.device[i] < all.count) visible.device[visible.count++] = all.device[devices.mask.device[i]];
    return visible;
}

/* Warns about an invalid entry of CUDA_VISIBLE_DEVICES. An empty list and "-1" are the usual ways to say "none". */
static void warn_of_mask(void)
{
    kolo_visible visible;
    const char *text = getenv(MASK), *bad = read_environment(&visible);
    if (!text || !bad || strcmp(text, "-1") == 0 || strncmp(text, devices.warned, sizeof devices.warned - 1) == 0)
        return;
    snprintf(devices.warned, sizeof devices.warned, "%s", text);
    kolo_warn(MASK ": wanted numbers from 0 to %d, each once, got \"%.*s\" in \"%.80s\": as in CUDA, what stands "
                   "before it counts, which leaves %d device%s",
              visible.there - 1, (int)strcspn(bad, ","), bad, text, visible.count, visible.count == 1 ? "" : "s");
}

kolo_status kolo_check_environment(void)
{
    KOLO_TRY(check_count(&threads_variable));
    KOLO_TRY(check_count(&devices_variable));
    KOLO_TRY(check_count(&gpus_variable));
    KOLO_TRY(kolo_gpus_check_environment());
    KOLO_TRY(kolo_stall_check_environment());
    warn_of_mask();
    return KOLO_OK;
}

static kolo_status set_visible(const char *list)
{
    kolo_visible all, mask;
    read_environment(&all);
    mask = (kolo_visible){.there = all.count};
    const char *bad = list ? read_mask(list, &mask) : NULL;
    if (bad)
        return kolo_fail(KOLO_NOT_FOUND,
                         "wanted numbers of devices, from 0 to %d, each once, got \"%.*s\" in \"%.80s\"", all.count - 1,
                         (int)strcspn(bad, ","), bad, list);
    devices.masked = list != NULL;
    if (list) devices.mask = mask;
    devices.pinned = 0;
    return KOLO_OK;
}

kolo_status kolo_set_visible_devices_at(const char *list, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_set_visible_devices", here);
    return kolo_leave(scope, set_visible(list));
}

void kolo_devices_reset(void)
{
    devices.pinned = 0;
    devices.masked = false;
}

/* ---------------------------------------------------------------- devices */

int kolo_device_count(void)
{
    return kolo_visible_now().count;
}

int kolo_visible_devices(void)
{
    return devices.pinned ? 1 : kolo_device_count();
}

int kolo_hardware_count(void)
{
    kolo_visible visible = kolo_visible_now();
    if (visible.count == 0 || visible.gpus == 0) return kolo_threads();
    bool seen[KOLO_DEVICES_MAX] = {false};
    int count = 0;
    for (int i = 0; i < visible.count; i++) {
        int gpu = visible.device[i] % visible.gpus;
        if (!seen[gpu]) count++;
        seen[gpu] = true;
    }
    return count;
}

int kolo_replica_device(int index)
{
    kolo_visible visible = kolo_visible_now();
    if (visible.count == 0) return 0;
    int device = visible.device[(devices.pinned ? devices.pinned - 1 : index) % visible.count];
    return visible.gpus ? device % visible.gpus : device;
}

kolo_status kolo_pin_device_at(int index, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_pin_device", here);
    int count = kolo_device_count();
    if (index < 0)
        return kolo_leave(scope, kolo_fail(KOLO_INVALID, "wanted a device number of at least 0, got %d", index));
    devices.pinned = count ? index % count + 1 : 1; /* 0 devices: the host counts as one */
    return kolo_leave(scope, KOLO_OK);
}

const char *kolo_device_word(void)
{
    return kolo_gpus() > 0 ? "gpu" : "cpu";
}

const char *kolo_device_variable(void)
{
    return (kolo_gpus() > 0 ? gpus_variable : devices_variable).name;
}

/* "cpu:N" is also accepted for GPUs, so that programs that were written for CPU devices run on them. */
int kolo_device_parse(const char *name)
{
    bool known = strncmp(name, "cpu:", 4) == 0 || (strncmp(name, "gpu:", 4) == 0 && kolo_gpus() > 0);
    char *end;
    if (!known || !isdigit((unsigned char)name[4])) return -1;
    long number = strtol(name + 4, &end, 10);
    return *end == '\0' && number < INT_MAX ? (int)number : -1;
}

int kolo_device_number(const char *name)
{
    if (strcmp(name, "host") == 0) return KOLO_HOST;
    int number = kolo_device_parse(name);
    return number >= 0 && number < kolo_device_count() ? number : KOLO_NO_DEVICE;
}

/* ---------------------------------------------------------------- describing */

static void processor_name(char *name, size_t size)
{
    snprintf(name, size, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(name, size, "%s", colon + 2);
        break;
    }
    if (file) fclose(file);
}

static int64_t memory_bytes(void)
{
    struct sysinfo info;
    if (sysinfo(&info) != 0) return 0;
    int64_t there = (int64_t)info.totalram * info.mem_unit, limit = kolo_memory_limit();
    return limit && limit < there ? limit : there;
}

/* The memory that is available without swapping, but not more than this process may use. */
static int64_t free_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    static const char name[] = "MemAvailable:";
    int64_t available = 0, most = memory_bytes();
    while (file && !available && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) available = 1024 * strtoll(line + strlen(name), NULL, 10);
    if (file) fclose(file);
    return available < most ? available : most;
}

/* Describes a device that shares its hardware with sharers - 1 others: "virtual, 1 of 8 on NAME", or "virtual, number
 * 5 of 8 on NAME" if some devices are masked; just NAME if it does not share. */
static void describe_sharing(const kolo_visible *visible, int sharers, const char *hardware, kolo_device *device)
{
    char *text = device->description;
    size_t size = sizeof device->description;
    device->is_virtual = sharers > 1;
    if (!device->is_virtual) snprintf(text, size, "%s", hardware);
    else if (visible->count == visible->there) snprintf(text, size, "virtual, 1 of %d on %s", sharers, hardware);
    else
        snprintf(text, size, "virtual, number %d of %d on %s", visible->device[device->index], visible->there,
                 hardware);
}

static void describe_cpu(const kolo_visible *visible, kolo_device *device)
{
    char processor[48];
    processor_name(processor, sizeof processor);
    device->memory_bytes = memory_bytes() / visible->count;
    device->free_bytes = free_bytes() / visible->count;
    describe_sharing(visible, visible->there, processor, device);
}

/* If the driver does not answer, the device gets no name. */
static void describe_gpu(const kolo_visible *visible, kolo_device *device)
{
    int number = visible->device[device->index], gpu = number % visible->gpus;
    int sharers = (visible->there - gpu + visible->gpus - 1) / visible->gpus;
    char name[96] = "";
    if (kolo_gpu_information()->describe(gpu, name, &device->memory_bytes, &device->free_bytes) != KOLO_OK)
        kolo_failure_take();
    device->memory_bytes /= sharers;
    device->taken_bytes = kolo_gpu_information()->held(gpu);
    describe_sharing(visible, sharers, name, device);
}

static kolo_device describe(const kolo_visible *visible, int index)
{
    kolo_device device = {.index = index, .cores = (double)kolo_threads() / visible->count};
    snprintf(device.name, sizeof device.name, "%s:%d", visible->gpus ? "gpu" : "cpu", index);
    if (visible->gpus) describe_gpu(visible, &device);
    else describe_cpu(visible, &device);
    return device;
}

kolo_device kolo_device_get(int index)
{
    kolo_visible visible = kolo_visible_now();
    return index >= 0 && index < visible.count ? describe(&visible, index) : (kolo_device){.index = -1};
}

kolo_device_list kolo_devices_at(const kolo_devices_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_devices", here);
    kolo_status status = kolo_check_environment();
    if (status == KOLO_OK) status = kolo_backend_check_environment();
    kolo_visible visible = kolo_visible_now();
    kolo_device_list list = {.count = visible.count};
    if (args->most > 0 && args->most < list.count) list.count = args->most;
    for (int i = 0; i < list.count; i++) list.device[i] = describe(&visible, i);
    if (args->print && kolo_rank() == 0) kolo_devices_write(stdout, &list);
    kolo_leave(scope, status);
    return list;
}
