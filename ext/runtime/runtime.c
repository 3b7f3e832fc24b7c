/* The process: its job, and requests to stop it. See runtime.h. */
#include "runtime/runtime.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "comm/call.h"
#include "comm/queue.h"
#include "comm/simulated.h"
#include "comm/tf_config.h"
#include "core/plugin.h"
#include "core/time_slice.h"
#include "runtime/fault.h"
#include "runtime/process_set.h"
#include "runtime/timeline.h"

static struct {
    const kolo_world_kind *world_kind; /* NULL: the process is not part of a job */
    kolo_world world;
    kolo_comm *simulated; /* world.comm, with the faults that were asked for, behind a clock (comm/simulated.h) */
    kolo_comm *ranks;     /* that, behind a queue (comm/queue.h) */
    bool wrong_use; /* kolo_init() found an invalid environment variable */
} runtime;
static atomic_bool stop_requested;

/* Whether a launcher started this process as a rank: those of Open MPI and PRRTE, PMIx (SLURM too), and PMI-1 and
 * PMI-2 set these variables. */
static bool launched(void)
{
    static const char *const signs[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *value = getenv(signs[i]);
        if (value && *value) return true;
    }
    return false;
}

/* srun without PMIx or PMI (MpiDefault=none) starts several tasks that cannot find each other, and each would take
 * itself for the whole job. A batch script and a rank of kolorun are no such tasks. */
static kolo_status check_srun(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (!tasks || !getenv("SLURM_PROCID") || getenv("SLURM_PTY_PORT") || strtol(tasks, NULL, 10) <= 1) return KOLO_OK;
    return kolo_fail(KOLO_COMM,
                     "srun started %s tasks and gave them no way to meet: wanted srun --mpi=pmix, or kolorun without "
                     "srun",
                     tasks);
}

/* Puts the comms in front of the launcher's that Kolo's own calls go through. */
static kolo_status open_ranks(void)
{
    KOLO_TRY(kolo_comm_simulated_open(kolo_lossy_comm(runtime.world.comm), &runtime.simulated));
    kolo_status status = kolo_comm_queue_open(runtime.simulated, &runtime.ranks);
    if (status != KOLO_OK) runtime.simulated->kind->close(runtime.simulated);
    return status;
}

/* `library`: what the plugin needs to reach the other ranks. */
static kolo_status join_world(int *argc, char ***argv, const char *name, const char *library)
{
    const char *why = NULL;
    const kolo_plugin *plugin = kolo_plugin_load(name, &why);
    if (!plugin || !plugin->world)
        return kolo_fail(KOLO_UNSUPPORTED,
                         "started as one of several ranks, but they cannot be reached: %s; wanted libkolo_%s.so beside "
                         "libkolo.so, and %s",
                         why ? why : "the plugin has no ranks in it", name, library);
    KOLO_TRY(plugin->world->open(argc, argv, &runtime.world));
    kolo_status status = open_ranks();
    if (status != KOLO_OK) {
        plugin->world->close(&runtime.world, 0);
        return status;
    }
    runtime.world_kind = plugin->world;
    if (runtime.world.crowded) kolo_take_long_turns();
    kolo_error_speak_as(runtime.world.comm->rank, runtime.world.comm->size);
    return KOLO_OK;
}

/* Joins the processes that TF_CONFIG names. */
static kolo_status join_cluster(int *argc, char ***argv, const char *text)
{
    kolo_cluster cluster;
    kolo_status status = kolo_tf_config_read(text, &cluster);
    runtime.wrong_use = status != KOLO_OK;
    if (status == KOLO_OK && cluster.size > 1) status = join_world(argc, argv, "zmq", "ZeroMQ (Debian: libzmq5)");
    kolo_cluster_free(&cluster);
    return status;
}

/* A launcher knows its ranks; only processes that none has started are those of TF_CONFIG. */
static kolo_status join(int *argc, char ***argv)
{
    const char *cluster = getenv("TF_CONFIG");
    if (launched()) return join_world(argc, argv, "mpi", "Open MPI (Debian: libopenmpi3)");
    return cluster && *cluster ? join_cluster(argc, argv, cluster) : check_srun();
}

/* A call that runs has begun with other ranks. A process that no launcher started gets none here. */
static kolo_status check_init(void)
{
    const char *around = kolo_call_around(), *cluster = getenv("TF_CONFIG");
    if (!around || (!launched() && !(cluster && *cluster))) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a call before %s(), got one in a callback of it or in another thread",
                     around);
}

kolo_status kolo_init_at(int *argc, char ***argv, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_init", here);
    kolo_status status = runtime.world_kind ? KOLO_OK : check_init();
    if (status == KOLO_OK && !runtime.world_kind) status = join(argc, argv);
    if (status == KOLO_OK) {
        status = kolo_check_environment();
        if (status == KOLO_OK) status = kolo_backend_check_environment();
        if (status == KOLO_OK) status = kolo_fault_check_environment();
        runtime.wrong_use = status != KOLO_OK;
        if (status == KOLO_OK) status = kolo_timeline_begin_by_environment();
    }
    return kolo_leave(scope, status);
}

/* Whether output could not be written (a full disk), which is a failure, too. A reader that closed the pipe is none.
 */
static bool output_lost(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return false;
    if (errno == EPIPE || errno == EBADF) return false;
    fprintf(stderr, "kolo_finish: the output cannot be written: %s\n",
            errno ? strerror(errno) : "a write failed before");
    return true;
}

/* A rank that has failed ends the job, or at least itself, so it does not wait for its open requests. */
static void leave_world(int code)
{
    if (!runtime.world_kind) return;
    if (code == 0) {
        runtime.ranks->kind->close(runtime.ranks);
        runtime.simulated->kind->close(runtime.simulated);
    }
    runtime.world_kind->close(&runtime.world, code);
    runtime.world_kind = NULL;
    runtime.ranks = NULL;
}

/* Whether the timeline could be written. If the ranks cannot meet any more, kolorun writes it: this is no failure. */
static bool timeline_written(bool failed)
{
    kolo_scope scope = kolo_enter("kolo_finish", (kolo_here){0});
    kolo_status status = kolo_timeline_finish(failed);
    if (status == KOLO_COMM) {
        kolo_failure_take();
        status = KOLO_OK;
    }
    return kolo_leave(scope, status) == KOLO_OK;
}

/* The ranks and the handles stay with the call that uses them, and with the process that has them. */
static kolo_status check_finish(void)
{
    const char *around = kolo_call_around();
    if (around)
        return kolo_fail(KOLO_INVALID, "wanted a call outside %s(), got one in a callback of it or in another thread",
                         around);
    return runtime.world_kind ? kolo_comm_queue_check(runtime.ranks) : KOLO_OK;
}

/* Also completes the asynchronous calls whose handles are still open. */
int kolo_finish(void)
{
    bool lost = output_lost();
    kolo_scope scope = kolo_enter("kolo_finish", (kolo_here){0});
    if (kolo_leave(scope, check_finish()) != KOLO_OK) return KOLO_EXIT_FAILED;
    if (!kolo_failed()) kolo_asynchronous_finish();
    bool failed = lost || kolo_failed();
    failed = !timeline_written(failed) || failed;
    int code = !failed ? 0 : runtime.wrong_use ? KOLO_EXIT_USE : KOLO_EXIT_FAILED;
    if (code == 0) kolo_faults_end();
    kolo_failure_take(); /* drops a failure of closing something after the last call, which no call will report */
    kolo_process_sets_close(code == 0);
    leave_world(code);
    kolo_error_speak_as(0, 1);
    kolo_devices_reset();
    return code;
}

bool kolo_ranks_share_cores(void)
{
    return runtime.world_kind && runtime.world.crowded && runtime.world.cross_size == 1;
}

kolo_comm *kolo_world_comm(void)
{
    return runtime.world_kind ? runtime.ranks : kolo_comm_self();
}

/* The number of ranks that the launcher says it has started. A rank's own launcher goes before the srun that has
 * started that launcher. */
static long launched_ranks(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *size = getenv(sizes[i]);
        if (size && *size) return strtol(size, NULL, 10);
    }
    return 1;
}

/* The number of ranks that this process has been started as one of, and by what. */
static kolo_status wanted_ranks(long *ranks, const char **by)
{
    if (launched()) {
        *ranks = launched_ranks();
        *by = "a launcher has started";
        return KOLO_OK;
    }
    kolo_cluster cluster;
    kolo_status status = kolo_tf_config_read(getenv("TF_CONFIG"), &cluster);
    *ranks = cluster.size;
    *by = "TF_CONFIG names";
    kolo_cluster_free(&cluster);
    return status;
}

kolo_status kolo_check_joined(void)
{
    long ranks;
    const char *by;
    if (runtime.world_kind) return KOLO_OK;
    KOLO_TRY(wanted_ranks(&ranks, &by));
    if (ranks <= 1) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "wanted a call between kolo_init() and kolo_finish(), since %s this process as one of %ld ranks, "
                     "got one by a process that is not with them",
                     by, ranks);
}

/* ---------------------------------------------------------------- simulated links */

kolo_status kolo_simulate_links_at(const kolo_simulate_links_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_simulate_links", here);
    return kolo_leave(scope, runtime.world_kind ? kolo_comm_simulate(runtime.simulated, args) : KOLO_OK);
}

kolo_modelled_clock kolo_modelled_clock_now(void)
{
    return runtime.world_kind ? kolo_comm_clock(runtime.simulated) : (kolo_modelled_clock){0};
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

void kolo_request_stop(void)
{
    atomic_store(&stop_requested, true);
}

/* Each microbatch, and each step of a reader or a download, calls this. So it is also the rank's sign of life. */
bool kolo_stop_is_set(void)
{
    return atomic_load_explicit(&stop_requested, memory_order_relaxed);
}

bool kolo_stop_requested(void)
{
    kolo_show_life();
    return kolo_stop_is_set();
}

void kolo_stop_obeyed(void)
{
    if (kolo_is_outermost()) atomic_store(&stop_requested, false);
}

kolo_status kolo_obey_stop(kolo_status status)
{
    if (status != KOLO_INTERRUPTED) return status;
    kolo_stop_obeyed();
    kolo_failure_take(); /* the sentence below replaces any other */
    return kolo_fail(KOLO_INTERRUPTED, "stopped before it was done, as kolo_request_stop() asked");
}

void kolo_clear_error(void)
{
    kolo_error_clear();
    runtime.wrong_use = false;
    atomic_store(&stop_requested, false);
}
