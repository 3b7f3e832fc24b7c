/* Devices: which there are, which may be used, on which of them this process computes. See runtime.h.
 *
 * Everything is asked of the environment when it is needed, so that a notebook's cell may set a variable at any time: a
 * model that is compiled afterwards goes by it. */
#include "core/runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "core/cores.h"

#define DEFAULT_CPU_DEVICES 8
#define MASK                "CUDA_VISIBLE_DEVICES"

static struct {
    int pinned;       /* device + 1; 0: not pinned */
    bool masked;      /* by kolo_set_visible_devices(), to these: */
    kolo_visible mask;
    char warned[256]; /* of this value of CUDA_VISIBLE_DEVICES */
} devices;

/* ---------------------------------------------------------------- counts */

/* Counts that the environment may set. */
typedef struct count_variable {
    const char *name;
    int most;
} count_variable;
static const count_variable threads_variable = {"KOLO_THREADS", 1024};
static const count_variable devices_variable = {"KOLO_CPU_DEVICES", KOLO_DEVICES_MAX};

/* Whether text is a whole number from 1 to the most. */
static bool read_count(const count_variable *variable, const char *text, int *count)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    bool fine = errno == 0 && end != text && *end == '\0' && value >= 1 && value <= variable->most;
    if (fine) *count = (int)value;
    return fine;
}

/* Questions that cannot fail go on with the fallback; kolo_check_environment() is where a wrong value is said. */
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

/* "2,0" as CUDA reads it: from the left, up to the first entry that names no device, or one that is there already.
 * Returns that entry, or NULL when all were good. */
static const char *read_mask(const char *text, int devices_there, kolo_visible *visible)
{
    visible->count = 0;
    while (*text) {
        char *end;
        long device = strtol(text, &end, 10);
        size_t blank = strspn(end, " \t");
        bool number = end != text && (end[blank] == ',' || !end[blank]);
        if (!number || device < 0 || device >= devices_there || holds(visible, (int)device)) return text;
        visible->device[visible->count++] = (int)device;
        text = end + blank + (end[blank] == ',');
    }
    return NULL;
}

/* Those that the environment leaves; the entry that ended its list, if any. */
static const char *read_environment(kolo_visible *visible)
{
    int count = environment_count(&devices_variable, DEFAULT_CPU_DEVICES);
    const char *text = getenv(MASK);
    visible->there = count;
    if (text) return read_mask(text, count, visible);
    visible->count = count;
    for (int i = 0; i < count; i++) visible->device[i] = i;
    return NULL;
}

kolo_visible kolo_visible_now(void)
{
    kolo_visible all, visible;
    read_environment(&all);
    if (!devices.masked) return all;
    visible.there = all.there;
    visible.count = 0;
    for (int i = 0; i < devices.mask.count; i++)
        if (devices.mask.device[i] < all.count) visible.device[visible.count++] = all.device[devices.mask.device[i]];
    return visible;
}

/* The usual ways to say "none": an empty list, and -1. */
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
    warn_of_mask();
    return KOLO_OK;
}

static kolo_status set_visible(const char *list)
{
    kolo_visible all, mask;
    read_environment(&all);
    const char *bad = list ? read_mask(list, all.count, &mask) : NULL;
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

int kolo_replica_device(int index)
{
    kolo_visible visible = kolo_visible_now();
    if (visible.count == 0) return 0;
    return visible.device[(devices.pinned ? devices.pinned - 1 : index) % visible.count];
}

kolo_status kolo_pin_device_at(int index, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_pin_device", here);
    int count = kolo_device_count();
    if (index < 0)
        return kolo_leave(scope, kolo_fail(KOLO_INVALID, "wanted a device number of at least 0, got %d", index));
    devices.pinned = count ? index % count + 1 : 1; /* none: the host itself, which is one */
    return kolo_leave(scope, KOLO_OK);
}

int kolo_device_number(const char *name)
{
    static const char cpu[] = "cpu:";
    if (strcmp(name, "host") == 0) return KOLO_HOST;
    if (strncmp(name, cpu, strlen(cpu)) != 0) return KOLO_NO_DEVICE;
    const char *digits = name + strlen(cpu);
    char *end;
    long number = strtol(digits, &end, 10);
    return end > digits && !*end && number >= 0 && number < kolo_device_count() ? (int)number : KOLO_NO_DEVICE;
}

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

static kolo_device describe(const kolo_visible *visible, int index)
{
    kolo_device device = {.index = index, .is_virtual = visible->there > 1};
    char processor[48];
    processor_name(processor, sizeof processor);
    device.cores = (double)kolo_threads() / visible->count;
    device.memory_bytes = memory_bytes() / visible->count;
    snprintf(device.name, sizeof device.name, "cpu:%d", index);
    if (!device.is_virtual) snprintf(device.description, sizeof device.description, "%s", processor);
    else if (visible->count == visible->there)
        snprintf(device.description, sizeof device.description, "virtual, 1 of %d on %s", visible->there, processor);
    else
        snprintf(device.description, sizeof device.description, "virtual, number %d of %d on %s",
                 visible->device[index], visible->there, processor);
    return device;
}

kolo_device kolo_device_get(int index)
{
    kolo_visible visible = kolo_visible_now();
    return index >= 0 && index < visible.count ? describe(&visible, index) : (kolo_device){.index = -1};
}

static void print_devices(const kolo_device_list *list)
{
    printf("%-8s %6s %9s  %s\n", "device", "cores", "memory", "description");
    for (int i = 0; i < list->count; i++) {
        const kolo_device *device = &list->device[i];
        printf("%-8s %6.4g %6.2f GB  %s\n", device->name, device->cores, (double)device->memory_bytes / 1e9,
               device->description);
    }
    printf("Number of devices: %d%s\n", list->count, list->count ? "" : " (the host computes)");
}

kolo_device_list kolo_devices_at(const kolo_devices_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_devices", here);
    kolo_status status = kolo_check_environment();
    kolo_visible visible = kolo_visible_now();
    kolo_device_list list = {.count = visible.count};
    if (args->most > 0 && args->most < list.count) list.count = args->most;
    for (int i = 0; i < list.count; i++) list.device[i] = describe(&visible, i);
    if (args->print && kolo_rank() == 0) print_devices(&list);
    kolo_leave(scope, status);
    return list;
}
