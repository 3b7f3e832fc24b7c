/* Ranks: the plugin libkolo_mpi.so, the only part of Kolo that includes mpi.h. This file starts and ends MPI and finds
 * out how the ranks are placed; the other files mpi_*.c communicate.
 *
 * Most of these files handle four problems:
 *   - MPI counts in int, Kolo in 64 bits: larger data are sent in pieces.
 *   - MPI spins while it waits. If ranks and their threads outnumber the cores of a host ("crowded": eight ranks on a
 *     laptop), a spinning rank takes the core from the rank that it waits for. Crowded ranks sleep while they wait:
 *     ranks of several hosts use nonblocking operations and sleep between two tests, or share memory within a host
 *     (go_by_hosts()). Ranks of one host always use shared memory (shared.h), which is also faster.
 *   - MPI neither notices that ranks make different calls nor that a rank does not come: it mixes their numbers up, or
 *     waits for ever. So the ranks compare their calls first (mpi_meet.c).
 *   - MPI can be started only once in a process, Kolo again and again (in a notebook), so MPI ends with the process.
 *
 * Read comm.h, call.h and shared.h first.
 */
#define _GNU_SOURCE /* sched_getaffinity, on_exit */
#include "comm/mpi_comm.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/plugin.h"

mpi_process kolo_mpi_process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- starting and ending MPI --- */

/* MPI_Finalize spins until all ranks call it. A crowded rank sleeps in a barrier before, so that it does not disturb
 * ranks that are still working. */
static void finalize(void)
{
    MPI_Request request;
    MPI_Status status;
    kolo_mpi_lock();
    if (kolo_mpi_process.crowded && MPI_Ibarrier(MPI_COMM_WORLD, &request) == MPI_SUCCESS)
        kolo_mpi_wait_asleep(&request, &status, 1);
    kolo_shared_close(&kolo_mpi_process.shared);
    kolo_shared_close(&kolo_mpi_process.host);
    MPI_Finalize();
    kolo_mpi_unlock();
}

/* Called when the process exits. MPI_Finalize waits for all ranks, so it is only called if this rank has left the job
 * in order. Without MPI_Finalize the launcher takes the rank as failed and ends the other ranks. */
static void end_with_process(int exit_code, void *unused)
{
    (void)unused;
    int finalized = 0;
    if (getpid() != kolo_mpi_process.process || kolo_mpi_process.lost) return;
    MPI_Finalized(&finalized);
    if (finalized) return;
    if (kolo_mpi_process.open == 0) finalize();
    else if (exit_code == 0)
        fprintf(stderr, "rank %d ended without kolo_finish(), so the launcher takes the job as failed\n",
                kolo_mpi_process.rank);
}

static int allowed_cores(cpu_set_t *set)
{
    CPU_ZERO(set);
    return sched_getaffinity(0, sizeof *set, set) == 0 ? CPU_COUNT(set) : 1;
}

/* Open MPI reads this variable when it starts, so the number of ranks on this host is taken from the launcher's
 * variable. A value that the user set is kept. */
static void yield_when_crowded(void)
{
    cpu_set_t set;
    const char *ranks = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (ranks && strtol(ranks, NULL, 10) > allowed_cores(&set)) setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* Starts MPI if nobody has. Any thread may communicate (for instance a replica's), but only one at a time:
 * kolo_mpi_process.lock. */
static kolo_status start(int *argc, char ***argv)
{
    int running = 0, finalized = 0, provided;
    MPI_Finalized(&finalized);
    if (finalized)
        return kolo_fail(KOLO_COMM, "this program has called MPI_Finalize, and MPI cannot be started again: call "
                                    "kolo_finish() before it");
    MPI_Initialized(&running);
    if (running) return KOLO_OK;
    yield_when_crowded();
    kolo_mpi_choose_network();
    if (kolo_mpi_init(argc, argv, &provided) != MPI_SUCCESS)
        return kolo_fail(KOLO_COMM, "MPI_Init_thread failed: see the launcher's messages above");
    kolo_mpi_process.process = getpid();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return on_exit(end_with_process, NULL) == 0 ? KOLO_OK : kolo_fail_memory(0, "the end of MPI");
}

/* Finds this rank's number on its host, and the number of the host. */
static kolo_status find_hosts(mpi_comm *me, MPI_Comm host, kolo_world *world)
{
    MPI_Comm leaders = MPI_COMM_NULL;
    int numbers[2] = {0, 1}; /* the number of this host, and the number of hosts */
    KOLO_TRY(kolo_mpi_check(me, MPI_Comm_rank(host, &world->local_rank), "MPI_Comm_rank"));
    KOLO_TRY(kolo_mpi_check(me, MPI_Comm_size(host, &world->local_size), "MPI_Comm_size"));
    int leads = world->local_rank == 0 ? 0 : MPI_UNDEFINED;
    KOLO_TRY(kolo_mpi_check(me, MPI_Comm_split(me->handle, leads, me->comm.rank, &leaders), "MPI_Comm_split"));
    if (leaders != MPI_COMM_NULL) {
        MPI_Comm_rank(leaders, &numbers[0]);
        MPI_Comm_size(leaders, &numbers[1]);
        MPI_Comm_free(&leaders);
    }
    KOLO_TRY(kolo_mpi_check(me, MPI_Bcast(numbers, 2, MPI_INT, 0, host), "MPI_Bcast"));
    world->cross_rank = numbers[0];
    world->cross_size = numbers[1];
    return KOLO_OK;
}

/* Finds out whether any host has fewer cores than its ranks have threads. All ranks get the same answer, which
 * COLLECTIVE needs. */
static kolo_status find_crowded(mpi_comm *me, MPI_Comm host, kolo_world *world)
{
    cpu_set_t cores;
    int threads = kolo_threads(), crowded;
    allowed_cores(&cores);
    KOLO_TRY(kolo_mpi_check(me, MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, host),
                            "MPI_Allreduce"));
    KOLO_TRY(kolo_mpi_check(me, MPI_Allreduce(MPI_IN_PLACE, &threads, 1, MPI_INT, MPI_SUM, host), "MPI_Allreduce"));
    crowded = threads > CPU_COUNT(&cores);
    KOLO_TRY(kolo_mpi_check(me, MPI_Allreduce(MPI_IN_PLACE, &crowded, 1, MPI_INT, MPI_MAX, me->handle),
                            "MPI_Allreduce"));
    me->crowded = kolo_mpi_process.crowded = world->crowded = crowded != 0;
    return KOLO_OK;
}

/* Fails if another MPI's launcher started the ranks: they do not find each other, so each would be rank 0 of 1, and all
 * would save the same file. */
static kolo_status check_size(int size)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *started = getenv(names[i]);
        if (started && strtol(started, NULL, 10) != size)
            return kolo_fail(KOLO_COMM,
                             "the launcher started %s ranks (%s), but MPI sees %d: wanted Open MPI's own "
                             "launcher, mpirun or kolorun",
                             started, names[i], size);
    }
    return KOLO_OK;
}

/* A rank that sleeps in shared memory may still have to send the rest of an earlier message. If MPI is taken, another
 * thread makes it go on. */
static void make_progress(void)
{
    int there;
    if (pthread_mutex_trylock(&kolo_mpi_process.lock) != 0) return;
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    kolo_mpi_unlock();
}

/* How ranks wait for each other in shared memory. limit: seconds; 0: none. */
static void watch_memory(const mpi_comm *me, kolo_shared *shared, double limit)
{
    enum { SPINS = 20000 }; /* about a millisecond */
    shared->stall_limit = limit;
    shared->spins = me->crowded ? 0 : SPINS;
    shared->idle = make_progress;
}

/* Ranks of several hosts meet by messages, whose receiver is rank 0. */
static kolo_status prepare_messages(mpi_comm *me)
{
    size_t size = (size_t)me->comm.size;
    me->next = kolo_mpi_process.messaging;
    kolo_mpi_process.messaging = me;
    me->met = kolo_now();
    kolo_life_tell(kolo_mpi_show_life);
    me->joined = calloc(size, sizeof *me->joined);
    if (me->comm.rank == 0) me->calls = calloc(size, sizeof *me->calls);
    me->partners = calloc(size, sizeof *me->partners);
    bool fine = me->joined && me->partners && (me->calls || me->comm.rank != 0);
    return fine ? KOLO_OK : kolo_fail_memory(size * sizeof *me->calls, "the ranks' calls");
}

kolo_status kolo_mpi_prepare_meetings(mpi_comm *me)
{
    me->stall_limit = kolo_stall_limit();
    if (!me->shared) return me->comm.size > 1 ? prepare_messages(me) : KOLO_OK;
    watch_memory(me, me->shared, me->stall_limit);
    if (!me->numbers) kolo_shared_return(me->shared);
    return KOLO_OK;
}

/* The value of KOLO_HIERARCHICAL_ALLREDUCE, which is named like Horovod's variable. */
static kolo_status read_hierarchy(bool *wanted)
{
    const char *text = getenv("KOLO_HIERARCHICAL_ALLREDUCE");
    *wanted = text && strcmp(text, "1") == 0;
    if (!text || !*text || *wanted || strcmp(text, "0") == 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "KOLO_HIERARCHICAL_ALLREDUCE: wanted 0 or 1, got \"%.40s\"", text);
}

/* The least of a number on all ranks. */
static kolo_status find_least(mpi_comm *me, int *number)
{
    return kolo_mpi_check(me, MPI_Allreduce(MPI_IN_PLACE, number, 1, MPI_INT, MPI_MIN, me->handle), "MPI_Allreduce");
}

/* Prepares all-reduces host by host, if all ranks want them, all hosts can share memory, and one of them has several
 * ranks. The ranks have met when they reduce, so none waits here for one that does not come. */
static kolo_status go_by_hosts(mpi_comm *me, MPI_Comm host, const kolo_world *world, bool wanted)
{
    kolo_shared *shared = &kolo_mpi_process.host;
    int alone = world->local_size == 1, able = wanted;
    KOLO_TRY(find_least(me, &able));
    KOLO_TRY(find_least(me, &alone));
    if (!able || alone) return KOLO_OK;
    KOLO_TRY(kolo_mpi_share_for_good(me, host, world->local_rank, world->local_size, shared));
    able = shared->size > 0;
    KOLO_TRY(find_least(me, &able));
    if (!able) return KOLO_OK;
    me->by_hosts = true;
    watch_memory(me, shared, 0);
    int leads = world->local_rank == 0 ? 0 : MPI_UNDEFINED;
    return kolo_mpi_check(me, MPI_Comm_split(me->handle, leads, me->comm.rank, &me->leaders), "MPI_Comm_split");
}

static kolo_status find_layout(mpi_comm *me, kolo_world *world)
{
    MPI_Comm host;
    bool wanted;
    KOLO_TRY(read_hierarchy(&wanted));
    KOLO_TRY(kolo_mpi_check(me, MPI_Comm_set_errhandler(me->handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    KOLO_TRY(kolo_mpi_check(me, MPI_Comm_rank(me->handle, &me->comm.rank), "MPI_Comm_rank"));
    KOLO_TRY(kolo_mpi_check(me, MPI_Comm_size(me->handle, &me->comm.size), "MPI_Comm_size"));
    KOLO_TRY(check_size(me->comm.size));
    KOLO_TRY(kolo_mpi_check(me,
                            MPI_Comm_split_type(me->handle, MPI_COMM_TYPE_SHARED, me->comm.rank, MPI_INFO_NULL, &host),
                            "MPI_Comm_split_type"));
    kolo_mpi_process.rank = me->comm.rank;
    kolo_status status = find_hosts(me, host, world);
    if (status == KOLO_OK) status = find_crowded(me, host, world);
    bool may_share = KOLO_MPI_SHARED && me->comm.size > 1 && world->cross_size == 1;
    kolo_shared *shared = &kolo_mpi_process.shared;
    if (status == KOLO_OK && may_share)
        status = kolo_mpi_share_for_good(me, host, me->comm.rank, me->comm.size, shared);
    if (may_share && shared->size > 0) me->shared = shared;
    if (status == KOLO_OK && KOLO_MPI_SHARED && world->cross_size > 1) status = go_by_hosts(me, host, world, wanted);
    if (status == KOLO_OK) status = kolo_mpi_prepare_meetings(me);
    me->comm.reads_in_place = me->shared || me->by_hosts;
    MPI_Comm_free(&host);
    return status;
}

/* Duplicates MPI_COMM_WORLD, so that messages of Kolo and of the program cannot be mixed up. */
static kolo_status mpi_world_open(int *argc, char ***argv, kolo_world *world)
{
    KOLO_TRY(start(argc, argv));
    mpi_comm *me = calloc(1, sizeof *me);
    if (!me) return kolo_fail_memory(sizeof *me, "the ranks");
    me->comm.kind = &kolo_mpi_kind;
    me->points = me->leaders = MPI_COMM_NULL;
    kolo_status status = kolo_mpi_check(me, MPI_Comm_dup(MPI_COMM_WORLD, &me->handle), "MPI_Comm_dup");
    if (status != KOLO_OK) {
        free(me);
        return status;
    }
    kolo_mpi_process.open++;
    KOLO_GO(failed, find_layout(me, world));
    KOLO_GO(failed, kolo_mpi_check(me, MPI_Comm_dup(me->handle, &me->points), "MPI_Comm_dup"));
    world->comm = &me->comm;
    return KOLO_OK;
failed:
    me->comm.kind->close(&me->comm);
    return status;
}

/* Under kolorun --keep-going a rank that has failed ends alone. */
static void mpi_world_close(kolo_world *world, int code)
{
    if (code && getenv("KOLO_KEEP_GOING")) kolo_mpi_process.lost = true;
    else if (code) kolo_mpi_end_job(world->comm, code);
    kolo_mpi_leave((mpi_comm *)world->comm);
    world->comm->kind->close(world->comm);
    world->comm = NULL;
}

static const kolo_world_kind mpi_world = {
    .version = KOLO_PLUGIN_VERSION,
    .name = "mpi",
    .open = mpi_world_open,
    .close = mpi_world_close,
};

extern const kolo_plugin kolo_plugin_entry;
const kolo_plugin kolo_plugin_entry = {.version = KOLO_PLUGIN_VERSION, .world = &mpi_world};
