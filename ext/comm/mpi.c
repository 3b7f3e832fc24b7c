/* Communication between ranks by MPI: the plugin libkolo_mpi.so, the only part of Kolo that includes mpi.h.
 *
 * Most of this file handles three problems:
 *   - MPI counts in int, Kolo in 64 bits: larger data are sent in pieces.
 *   - MPI spins while it waits. If ranks and their threads outnumber the cores of a host ("crowded": eight ranks on a
 *     laptop), a spinning rank takes the core from the rank that it waits for. Crowded ranks sleep while they wait:
 *     ranks of one host use shared memory (shared.h), ranks of several hosts use nonblocking operations and sleep
 *     between two tests.
 *   - MPI can be started only once in a process, Kolo again and again (in a notebook), so MPI ends with the process.
 *
 * Read comm.h and shared.h first.
 */
#define _GNU_SOURCE /* sched_getaffinity, on_exit, memfd_create */
#include <fcntl.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "comm/shared.h"
#include "core/plugin.h"

/* The largest number of bytes of one MPI call, and whether crowded ranks share memory. Tests define other values. */
#ifndef KOLO_MPI_PIECE
#define KOLO_MPI_PIECE  (1 << 30)
#define KOLO_MPI_SHARED true
#endif

typedef struct mpi_comm {
    kolo_comm comm;
    MPI_Comm handle;
    bool crowded;
    bool shares; /* uses process.shared */
} mpi_comm;

/* The state of MPI, of which a process has only one. */
static struct {
    pid_t process;      /* the process that started MPI; a forked child cannot use it */
    int rank;           /* in MPI_COMM_WORLD */
    int open;           /* worlds that are opened and not closed */
    bool crowded;       /* the last world was crowded */
    kolo_shared shared; /* memory of all ranks, if they are crowded on one host; used by all worlds */
} process;

/* --- results and waiting --- */

static kolo_status check(const mpi_comm *me, int result, const char *name)
{
    if (result == MPI_SUCCESS) return KOLO_OK;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length;
    MPI_Error_string(result, text, &length);
    return kolo_fail(KOLO_COMM, "%s failed on rank %d: %s", name, me->comm.rank, text);
}

/* Gives the core to other threads for longer and longer times. Usually the other ranks are ready after a few turns, and
 * a sleep would only add latency; but if they are still computing, they need the core. */
static void yield_or_sleep(int turn)
{
    enum { YIELDS = 200, SHORTEST = 20000, DOUBLINGS = 4 }; /* turns; nanoseconds; up to 320 µs */
    if (turn < YIELDS) {
        sched_yield();
        return;
    }
    int doublings = turn - YIELDS < DOUBLINGS ? turn - YIELDS : DOUBLINGS;
    nanosleep(&(struct timespec){.tv_nsec = (long)SHORTEST << doublings}, NULL);
}

/* The error of the first request that failed; MPI_Waitall only returns that there is one. */
static int first_error(int result, const MPI_Status *statuses, int count)
{
    for (int i = 0; result == MPI_ERR_IN_STATUS && i < count; i++) {
        if (statuses[i].MPI_ERROR != MPI_SUCCESS && statuses[i].MPI_ERROR != MPI_ERR_PENDING)
            return statuses[i].MPI_ERROR;
    }
    return result;
}

static int wait_asleep(MPI_Request *requests, MPI_Status *statuses, int count)
{
    int result = MPI_SUCCESS, done = 0;
    for (int turn = 0; result == MPI_SUCCESS && !done; turn++) {
        if (turn > 0) yield_or_sleep(turn);
        result = MPI_Testall(count, requests, &done, statuses);
    }
    return result;
}

static kolo_status wait_all(const mpi_comm *me, MPI_Request *requests, MPI_Status *statuses, int count,
                            const char *name)
{
    int result = me->crowded ? wait_asleep(requests, statuses, count) : MPI_Waitall(count, requests, statuses);
    return check(me, first_error(result, statuses, count), name);
}

/* Waits for a nonblocking operation whose start returned `result`. */
static kolo_status wait_one(const mpi_comm *me, int result, MPI_Request *request, const char *name)
{
    MPI_Status status;
    KOLO_TRY(check(me, result, name));
    return wait_all(me, request, &status, 1, name);
}

/* Calls a collective: MPI_Xxx, or MPI_Ixxx in a crowded group. All ranks must make the same choice. Both give every
 * rank the same bits, as comm.h demands: each of Open MPI's all-reduces either computes an element on one rank and
 * copies it (linear, binomial, ring, Rabenseifner), or adds the same pairs on both sides (recursive doubling). */
#define COLLECTIVE(me, blocking, nonblocking, ...)                                                                     \
    ((me)->crowded ? wait_one(me, nonblocking(__VA_ARGS__, &request), &request, #blocking)                             \
                   : check(me, blocking(__VA_ARGS__), #blocking))

/* --- collectives --- */

static kolo_status mpi_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type)
{
    mpi_comm *me = (mpi_comm *)comm;
    MPI_Datatype datatype = type == KOLO_TYPE_DOUBLE ? MPI_DOUBLE : MPI_FLOAT;
    int64_t width = (int64_t)kolo_type_bytes(type), most = KOLO_MPI_PIECE / width;
    MPI_Request request;
    if (me->shares) kolo_shared_allreduce(&process.shared, values, count, type);
    for (int64_t at = 0; !me->shares && at < count; at += most) {
        int piece = (int)(count - at < most ? count - at : most);
        KOLO_TRY(COLLECTIVE(me, MPI_Allreduce, MPI_Iallreduce, MPI_IN_PLACE, (char *)values + at * width, piece,
                            datatype, MPI_SUM, me->handle));
    }
    return KOLO_OK;
}

static kolo_status mpi_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    mpi_comm *me = (mpi_comm *)comm;
    MPI_Request request;
    if (me->shares) kolo_shared_broadcast(&process.shared, data, bytes, root);
    for (size_t at = 0; !me->shares && at < bytes; at += KOLO_MPI_PIECE) {
        int piece = (int)(bytes - at < KOLO_MPI_PIECE ? bytes - at : KOLO_MPI_PIECE);
        KOLO_TRY(COLLECTIVE(me, MPI_Bcast, MPI_Ibcast, (char *)data + at, piece, MPI_BYTE, root, me->handle));
    }
    return KOLO_OK;
}

static kolo_status mpi_barrier(kolo_comm *comm)
{
    mpi_comm *me = (mpi_comm *)comm;
    MPI_Request request;
    if (!me->shares) return COLLECTIVE(me, MPI_Barrier, MPI_Ibarrier, me->handle);
    kolo_shared_barrier(&process.shared);
    return KOLO_OK;
}

/* --- exchanges: messages between pairs of ranks, because MPI_Allgatherv and MPI_Alltoallv have offsets in int --- */

typedef struct exchange {
    mpi_comm *me;
    MPI_Request *requests;
    MPI_Status *statuses;
    int count, room;
} exchange;

static int pieces_of(const size_t *bytes, int size)
{
    size_t pieces = 0;
    for (int i = 0; i < size; i++) pieces += (bytes[i] + KOLO_MPI_PIECE - 1) / KOLO_MPI_PIECE;
    return (int)pieces;
}

static kolo_status exchange_open(exchange *x, mpi_comm *me, int room)
{
    size_t bytes = ((size_t)room + 1) * (sizeof *x->requests + sizeof *x->statuses);
    *x = (exchange){.me = me, .room = room};
    x->requests = malloc(((size_t)room + 1) * sizeof *x->requests);
    x->statuses = malloc(((size_t)room + 1) * sizeof *x->statuses);
    return x->requests && x->statuses ? KOLO_OK : kolo_fail_memory(bytes, "messages between ranks");
}

static void exchange_close(exchange *x)
{
    free(x->requests);
    free(x->statuses);
}

/* MPI keeps the order of messages between two ranks, so all pieces have the tag 0. */
static kolo_status send_part(exchange *x, const char *data, size_t bytes, int to)
{
    for (size_t at = 0; at < bytes; at += KOLO_MPI_PIECE) {
        int piece = (int)(bytes - at < KOLO_MPI_PIECE ? bytes - at : KOLO_MPI_PIECE);
        KOLO_TRY(check(x->me, MPI_Isend(data + at, piece, MPI_BYTE, to, 0, x->me->handle, &x->requests[x->count++]),
                       "MPI_Isend"));
    }
    return KOLO_OK;
}

static kolo_status receive_part(exchange *x, char *data, size_t bytes, int from)
{
    for (size_t at = 0; at < bytes; at += KOLO_MPI_PIECE) {
        int piece = (int)(bytes - at < KOLO_MPI_PIECE ? bytes - at : KOLO_MPI_PIECE);
        KOLO_TRY(check(x->me, MPI_Irecv(data + at, piece, MPI_BYTE, from, 0, x->me->handle, &x->requests[x->count++]),
                       "MPI_Irecv"));
    }
    return KOLO_OK;
}

static kolo_status mpi_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                 const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                 const size_t *receive_offsets)
{
    mpi_comm *me = (mpi_comm *)comm;
    int size = comm->size, rank = comm->rank;
    exchange x;
    kolo_status status;
    KOLO_GO(done, exchange_open(&x, me, pieces_of(send_bytes, size) + pieces_of(receive_bytes, size)));
    kolo_copy_bytes((char *)receive + receive_offsets[rank], (const char *)send + send_offsets[rank], send_bytes[rank]);
    for (int i = 1; i < size; i++) { /* each begins with its neighbour, so that not all begin with the same rank */
        int to = (rank + i) % size, from = (rank - i + size) % size;
        KOLO_GO(done, receive_part(&x, (char *)receive + receive_offsets[from], receive_bytes[from], from));
        KOLO_GO(done, send_part(&x, (const char *)send + send_offsets[to], send_bytes[to], to));
    }
    status = wait_all(me, x.requests, x.statuses, x.count, "MPI_Waitall");
done:
    exchange_close(&x);
    return status;
}

/* Sends the same part to all. */
static kolo_status mpi_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                  const size_t *offsets)
{
    size_t size = (size_t)comm->size, *send_bytes = calloc(2 * size, sizeof *send_bytes);
    if (!send_bytes) return kolo_fail_memory(2 * size * sizeof *send_bytes, "messages between ranks");
    for (size_t i = 0; i < size; i++) send_bytes[i] = bytes[comm->rank];
    kolo_status status = mpi_alltoallv(comm, data, send_bytes, send_bytes + size, all, bytes, offsets);
    free(send_bytes);
    return status;
}

/* Uses MPI_Allgather, which is faster for many ranks with few bytes, unless the bytes of all ranks exceed
 * KOLO_MPI_PIECE. */
static kolo_status mpi_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    mpi_comm *me = (mpi_comm *)comm;
    size_t size = (size_t)comm->size;
    MPI_Request request;
    if (bytes <= KOLO_MPI_PIECE / size) {
        kolo_copy_bytes((char *)all + (size_t)comm->rank * bytes, data, bytes);
        return COLLECTIVE(me, MPI_Allgather, MPI_Iallgather, MPI_IN_PLACE, 0, MPI_BYTE, all, (int)bytes, MPI_BYTE,
                          me->handle);
    }
    size_t *parts = malloc(2 * size * sizeof *parts), *offsets = parts + size;
    if (!parts) return kolo_fail_memory(2 * size * sizeof *parts, "messages between ranks");
    for (size_t i = 0; i < size; i++) {
        parts[i] = bytes;
        offsets[i] = i * bytes;
    }
    kolo_status status = mpi_allgatherv(comm, data, all, parts, offsets);
    free(parts);
    return status;
}

/* --- the ranks --- */

/* Ends the processes of all ranks and does not return. Prints this thread's failure first, which would be lost
 * otherwise. */
static void end_job(kolo_comm *comm, int code)
{
    kolo_failure failure = kolo_failure_take();
    if (failure.code != KOLO_OK) fprintf(stderr, "rank %d: %s\n", comm->rank, failure.text);
    fflush(stdout);
    fflush(stderr);
    MPI_Abort(((mpi_comm *)comm)->handle, code);
}

static void mpi_abort(kolo_comm *comm)
{
    end_job(comm, 1);
}

static void mpi_close(kolo_comm *comm)
{
    mpi_comm *me = (mpi_comm *)comm;
    MPI_Comm_free(&me->handle);
    free(me);
    process.open--;
}

static const kolo_comm_kind mpi_kind = {
    .name = "mpi",
    .allreduce = mpi_allreduce,
    .broadcast = mpi_broadcast,
    .allgather = mpi_allgather,
    .allgatherv = mpi_allgatherv,
    .alltoallv = mpi_alltoallv,
    .barrier = mpi_barrier,
    .abort = mpi_abort,
    .close = mpi_close,
};

/* --- starting and ending MPI --- */

/* MPI_Finalize spins until all ranks call it. A crowded rank sleeps in a barrier before, so that it does not disturb
 * ranks that are still working. */
static void finalize(void)
{
    MPI_Request request;
    MPI_Status status;
    if (process.crowded && MPI_Ibarrier(MPI_COMM_WORLD, &request) == MPI_SUCCESS) wait_asleep(&request, &status, 1);
    kolo_shared_close(&process.shared);
    MPI_Finalize();
}

/* Called when the process exits. MPI_Finalize waits for all ranks, so it is only called if this rank has left the job
 * in order. Without MPI_Finalize the launcher takes the rank as failed and ends the other ranks. */
static void end_with_process(int exit_code, void *unused)
{
    (void)unused;
    int finalized = 0;
    if (getpid() != process.process) return;
    MPI_Finalized(&finalized);
    if (finalized) return;
    if (process.open == 0) finalize();
    else if (exit_code == 0)
        fprintf(stderr, "rank %d ended without kolo_finish(), so the launcher takes the job as failed\n", process.rank);
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

/* Starts MPI if nobody has. Any thread may communicate (for instance a replica's), but only one at a time. */
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
    if (MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        return kolo_fail(KOLO_COMM, "MPI_Init_thread failed: see the launcher's messages above");
    process.process = getpid();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return on_exit(end_with_process, NULL) == 0 ? KOLO_OK : kolo_fail_memory(0, "the end of MPI");
}

/* Finds this rank's number on its host, and the number of the host. */
static kolo_status find_hosts(mpi_comm *me, MPI_Comm host, kolo_world *world)
{
    MPI_Comm leaders = MPI_COMM_NULL;
    int numbers[2] = {0, 1}; /* the number of this host, and the number of hosts */
    KOLO_TRY(check(me, MPI_Comm_rank(host, &world->local_rank), "MPI_Comm_rank"));
    KOLO_TRY(check(me, MPI_Comm_size(host, &world->local_size), "MPI_Comm_size"));
    int leads = world->local_rank == 0 ? 0 : MPI_UNDEFINED;
    KOLO_TRY(check(me, MPI_Comm_split(me->handle, leads, me->comm.rank, &leaders), "MPI_Comm_split"));
    if (leaders != MPI_COMM_NULL) {
        MPI_Comm_rank(leaders, &numbers[0]);
        MPI_Comm_size(leaders, &numbers[1]);
        MPI_Comm_free(&leaders);
    }
    KOLO_TRY(check(me, MPI_Bcast(numbers, 2, MPI_INT, 0, host), "MPI_Bcast"));
    world->cross_rank = numbers[0];
    world->cross_size = numbers[1];
    return KOLO_OK;
}

/* Finds out whether any host has fewer cores than its ranks have threads. All ranks get the same answer, which
 * COLLECTIVE needs. */
static kolo_status find_crowded(mpi_comm *me, MPI_Comm host)
{
    cpu_set_t cores;
    int threads = kolo_threads(), crowded;
    allowed_cores(&cores);
    KOLO_TRY(check(me, MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, host), "MPI_Allreduce"));
    KOLO_TRY(check(me, MPI_Allreduce(MPI_IN_PLACE, &threads, 1, MPI_INT, MPI_SUM, host), "MPI_Allreduce"));
    crowded = threads > CPU_COUNT(&cores);
    KOLO_TRY(check(me, MPI_Allreduce(MPI_IN_PLACE, &crowded, 1, MPI_INT, MPI_MAX, me->handle), "MPI_Allreduce"));
    me->crowded = process.crowded = crowded != 0;
    return KOLO_OK;
}

/* Identifies rank 0's shared memory: a file without a name, which other processes open through rank 0's
 * /proc/PID/fd. */
typedef struct memory_file {
    pid_t process;
    int number; /* the file descriptor in that process */
    ino_t inode;
} memory_file;

static int make_memory(size_t bytes, memory_file *file)
{
    struct stat info;
    int number = memfd_create("kolo", MFD_CLOEXEC);
    if (number >= 0 && posix_fallocate(number, 0, (off_t)bytes) == 0 && fstat(number, &info) == 0) {
        *file = (memory_file){getpid(), number, info.st_ino};
        return number;
    }
    if (number >= 0) close(number);
    return -1;
}

/* Checks the inode, because in another container this PID may be another process. */
static int find_memory(const memory_file *file)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)file->process, file->number);
    int number = file->process > 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (number >= 0 && fstat(number, &info) == 0 && info.st_ino == file->inode) return number;
    if (number >= 0) close(number);
    return -1;
}

/* Makes memory that all ranks of this host share. It is kept until the process ends, because kolo_init() may be called
 * again. If one rank cannot map the memory, no rank uses it. The memory is not in /dev/shm, which Docker makes small:
 * there MPI_Win_allocate_shared hangs, or returns memory that cannot be used. */
static kolo_status share_memory(mpi_comm *me, MPI_Comm host)
{
    size_t bytes = kolo_shared_bytes(me->comm.size);
    memory_file file = {0};
    int number = me->comm.rank == 0 ? make_memory(bytes, &file) : -1;
    KOLO_TRY(check(me, MPI_Bcast(&file, sizeof file, MPI_BYTE, 0, host), "MPI_Bcast"));
    if (me->comm.rank != 0) number = find_memory(&file);
    void *memory = number >= 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0) : MAP_FAILED;
    int failed = memory == MAP_FAILED;
    KOLO_TRY(check(me, MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, host), "MPI_Allreduce"));
    if (number >= 0) close(number);
    if (!failed) return kolo_shared_open(&process.shared, memory, me->comm.rank, me->comm.size);
    if (memory != MAP_FAILED) munmap(memory, bytes);
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

static kolo_status find_layout(mpi_comm *me, kolo_world *world)
{
    MPI_Comm host;
    KOLO_TRY(check(me, MPI_Comm_set_errhandler(me->handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    KOLO_TRY(check(me, MPI_Comm_rank(me->handle, &me->comm.rank), "MPI_Comm_rank"));
    KOLO_TRY(check(me, MPI_Comm_size(me->handle, &me->comm.size), "MPI_Comm_size"));
    KOLO_TRY(check_size(me->comm.size));
    KOLO_TRY(check(me, MPI_Comm_split_type(me->handle, MPI_COMM_TYPE_SHARED, me->comm.rank, MPI_INFO_NULL, &host),
                   "MPI_Comm_split_type"));
    process.rank = me->comm.rank;
    kolo_status status = find_hosts(me, host, world);
    if (status == KOLO_OK) status = find_crowded(me, host);
    bool may_share = KOLO_MPI_SHARED && me->crowded && me->comm.size > 1 && world->cross_size == 1;
    if (status == KOLO_OK && may_share && process.shared.size == 0) status = share_memory(me, host);
    me->shares = may_share && process.shared.size > 0;
    MPI_Comm_free(&host);
    return status;
}

/* Duplicates MPI_COMM_WORLD, so that messages of Kolo and of the program cannot be mixed up. */
static kolo_status mpi_world_open(int *argc, char ***argv, kolo_world *world)
{
    KOLO_TRY(start(argc, argv));
    mpi_comm *me = calloc(1, sizeof *me);
    if (!me) return kolo_fail_memory(sizeof *me, "the ranks");
    me->comm.kind = &mpi_kind;
    kolo_status status = check(me, MPI_Comm_dup(MPI_COMM_WORLD, &me->handle), "MPI_Comm_dup");
    if (status != KOLO_OK) {
        free(me);
        return status;
    }
    process.open++;
    KOLO_GO(failed, find_layout(me, world));
    world->comm = &me->comm;
    return KOLO_OK;
failed:
    mpi_close(&me->comm);
    return status;
}

static void mpi_world_close(kolo_world *world, int code)
{
    if (code) end_job(world->comm, code);
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
