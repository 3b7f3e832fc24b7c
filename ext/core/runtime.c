/* The process: see runtime.h. The only mutable globals of the library live here and in error.c. */
#include "core/runtime.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cores.h"
#include "core/plugin.h"

#define DEFAULT_CPU_DEVICES 8

static struct {
    const kolo_world_kind *world_kind; /* NULL: alone */
    kolo_world world;
    int pinned; /* device + 1; 0: not pinned */
} runtime;
static atomic_bool stop_requested;

/* Variables that launchers set in the ranks they start: Open MPI's and PRRTE's, PMIx (SLURM too), PMI-1 and PMI-2. */
static bool launched(void)
{
    static const char *const signs[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *value = getenv(signs[i]);
        if (value && *value) return true;
    }
    return false;
}

static kolo_status join_world(int *argc, char ***argv)
{
    const char *why = NULL;
    const kolo_plugin *plugin = kolo_plugin_load("mpi", &why);
    if (!plugin || !plugin->world)
        return kolo_fail(KOLO_UNSUPPORTED,
                         "started as one of several ranks, but MPI cannot be used: %s; wanted libkolo_mpi.so beside "
                         "libkolo.so, and Open MPI (Debian: libopenmpi3)",
                         why ? why : "libkolo_mpi.so has no MPI in it");
    KOLO_TRY(plugin->world->open(argc, argv, &runtime.world));
    runtime.world_kind = plugin->world;
    return KOLO_OK;
}

kolo_status kolo_init_at(int *argc, char ***argv, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_init", here);
    bool join = !runtime.world_kind && launched();
    kolo_status status = join ? join_world(argc, argv) : KOLO_OK;
    return kolo_leave(scope, status == KOLO_OK ? kolo_check_environment() : status);
}

/* What was printed and could not be written (a full disk) is a failure, too; a reader that left is none. */
static bool output_lost(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return false;
    if (errno == EPIPE || errno == EBADF) return false;
    fprintf(stderr, "kolo_finish: the output cannot be written: %s\n",
            errno ? strerror(errno) : "a write failed before");
    return true;
}

int kolo_finish(void)
{
    bool failed = output_lost() || kolo_failed();
    if (runtime.world_kind) runtime.world_kind->close(&runtime.world, failed);
    runtime.world_kind = NULL;
    runtime.pinned = 0;
    return failed ? 1 : 0;
}

kolo_comm *kolo_world_comm(void)
{
    return runtime.world_kind ? runtime.world.comm : kolo_comm_self();
}

int kolo_rank(void)
{
    return runtime.world_kind ? runtime.world.comm->rank : 0;
}
int kolo_size(void)
{
    return runtime.world_kind ? runtime.world.comm->size : 1;
}
int kolo_local_rank(void)
{
    return runtime.world_kind ? runtime.world.local_rank : 0;
}
int kolo_local_size(void)
{
    return runtime.world_kind ? runtime.world.local_size : 1;
}
int kolo_cross_rank(void)
{
    return runtime.world_kind ? runtime.world.cross_rank : 0;
}
int kolo_cross_size(void)
{
    return runtime.world_kind ? runtime.world.cross_size : 1;
}

/* Counts that the environment may set. */
typedef struct count_variable {
    const char *name;
    int most;
} count_variable;
static const count_variable threads_variable = {"KOLO_THREADS", 1024};
static const count_variable devices_variable = {"KOLO_CPU_DEVICES", 256};

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

kolo_status kolo_check_environment(void)
{
    KOLO_TRY(check_count(&threads_variable));
    return check_count(&devices_variable);
}

int kolo_threads(void)
{
    return environment_count(&threads_variable, kolo_cores_usable());
}

int kolo_device_count(void)
{
    return environment_count(&devices_variable, DEFAULT_CPU_DEVICES);
}

int kolo_visible_devices(void)
{
    return runtime.pinned ? 1 : kolo_device_count();
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

kolo_device kolo_device_get(int index)
{
    int count = kolo_device_count();
    kolo_device device = {.index = index};
    if (index < 0 || index >= count) return (kolo_device){.index = -1};
    char processor[64];
    processor_name(processor, sizeof processor);
    device.cores = (double)kolo_threads() / count;
    snprintf(device.name, sizeof device.name, "cpu:%d", index);
    if (count == 1) snprintf(device.description, sizeof device.description, "%s", processor);
    else snprintf(device.description, sizeof device.description, "virtual, 1 of %d on %s", count, processor);
    return device;
}

kolo_status kolo_pin_device_at(int index, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_pin_device", here);
    if (index < 0)
        return kolo_leave(scope, kolo_fail(KOLO_INVALID, "wanted a device number of at least 0, got %d", index));
    runtime.pinned = index % kolo_device_count() + 1;
    return kolo_leave(scope, KOLO_OK);
}

void kolo_request_stop(void)
{
    atomic_store(&stop_requested, true);
}

bool kolo_stop_requested(void)
{
    return atomic_load_explicit(&stop_requested, memory_order_relaxed);
}

void kolo_stop_clear(void)
{
    atomic_store(&stop_requested, false);
}

void kolo_clear_error(void)
{
    kolo_error_clear();
    kolo_stop_clear();
}
