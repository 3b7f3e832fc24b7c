/* What the parts of libkolo_mpi.so share. Only they include mpi.h. Read mpi.c first. */
#ifndef KOLO_COMM_MPI_COMM_H
#define KOLO_COMM_MPI_COMM_H

#include <mpi.h>
#include <pthread.h>
#include <sys/types.h>

#include "comm/shared.h"

/* The largest number of bytes of one MPI call, and whether ranks of one host may share memory. Tests define other
 * values. */
#ifndef KOLO_MPI_PIECE
#define KOLO_MPI_PIECE  (1 << 30)
#define KOLO_MPI_SHARED true
#endif

typedef struct mpi_comm {
    kolo_comm comm;
    MPI_Comm handle;    /* of collectives */
    MPI_Comm points;    /* of messages between two ranks */
    bool crowded;       /* ranks and their threads outnumber the cores of a host */
    bool meets;         /* compares calls through kolo_mpi_process.shared */
    bool shares;        /* all-reduces and broadcasts through it, too */
    bool by_hosts;      /* all-reduces host by host, through kolo_mpi_process.host: KOLO_HIERARCHICAL_ALLREDUCE */
    MPI_Comm leaders;   /* by_hosts: the first ranks of all hosts; MPI_COMM_NULL on the others */
    double stall_limit; /* seconds; 0: none */
    kolo_collective *calls;   /* rank 0: [size] the calls of all ranks; NULL if `meets` */
} mpi_comm;

/* The state of MPI, of which a process has only one. */
typedef struct mpi_process {
    pid_t process;      /* the process that started MPI; a forked child cannot use it */
    pthread_mutex_t lock; /* held during every call of MPI between opening and closing a world: MPI serves one thread at
                             a time, and a rank's collectives may run in another thread than its messages (queue.h) */
    int rank;           /* in MPI_COMM_WORLD */
    int open;           /* worlds that are opened and not closed */
    bool crowded;       /* the last world was crowded */
    bool lost;          /* a rank is gone, and this one goes on without MPI */
    mpi_comm *world;    /* the world whose ranks meet by messages; NULL: none */
    double met;         /* when its ranks met for the last time */
    kolo_shared shared; /* memory of all ranks, if they are on one host; used by all worlds */
    kolo_shared host;   /* memory of the ranks of this host, if there are several hosts and by_hosts; used likewise */
} mpi_process;
extern mpi_process kolo_mpi_process;
extern const kolo_comm_kind kolo_mpi_kind;

/* --- mpi_start.c --- */

/* MPI_Init_thread for calls that do not overlap. When other ranks have not called it within the stall limit, it ends
 * the process with a sentence. */
int kolo_mpi_init(int *argc, char ***argv, int *provided);

/* --- mpi_wait.c: results and waiting --- */

kolo_status kolo_mpi_check(const mpi_comm *me, int result, const char *name);
/* Takes MPI for this thread, and gives it back. */
void kolo_mpi_lock(void);
void kolo_mpi_unlock(void);
/* Whether this thread must not spin: its core is needed by a rank that it waits for, or by its own rank's computation. */
bool kolo_mpi_sleeps(const mpi_comm *me);
/* Between two looks of a wait: gives MPI to another thread of this rank for a moment. If this thread sleeps, it also
 * gives its core away for longer and longer times. Usually the other ranks are ready after a few turns, and a sleep
 * would only add latency; but if they are still computing, they need the core. */
void kolo_mpi_pause(const mpi_comm *me, int turn);
/* The functions that wait are called with MPI taken, and return so. The first waits like MPI_Waitall, but sleeps. */
int kolo_mpi_wait_asleep(MPI_Request *requests, MPI_Status *statuses, int count);
kolo_status kolo_mpi_wait_all(const mpi_comm *me, MPI_Request *requests, MPI_Status *statuses, int count,
                              const char *name);
/* Waits for a nonblocking operation whose start returned `result`. */
kolo_status kolo_mpi_wait_one(const mpi_comm *me, int result, MPI_Request *request, const char *name);

/* --- mpi_meet.c: the comparison of the ranks' calls --- */

kolo_status kolo_mpi_meet(kolo_comm *comm, const kolo_collective *call);
/* Goes on from a collective in shared memory: ends the job if it has failed, except in a notebook. */
kolo_status kolo_mpi_shared_result(mpi_comm *me, const kolo_shared *shared, kolo_status status);
/* A sign of life to the ranks that may wait for this one, if it has not met them for a long time. */
void kolo_mpi_show_life(void);
/* Tells the other ranks that this one makes no more calls. */
void kolo_mpi_leave(mpi_comm *me);
/* Ends the processes of all ranks and does not return. Prints this thread's failure first, which would be lost
 * otherwise. */
void kolo_mpi_end_job(kolo_comm *comm, int code);

/* --- mpi_memory.c: memory that processes share --- */

/* Makes memory for the ranks of one host, of which this is number `rank` of `size`. If one rank cannot map it, *shared
 * stays as it is on all ranks of the host. */
kolo_status kolo_mpi_share_memory(mpi_comm *me, MPI_Comm host, int rank, int size, kolo_shared *shared);

/* --- mpi_messages.c: messages between two ranks --- */

kolo_status kolo_mpi_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag);
kolo_status kolo_mpi_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message);
kolo_status kolo_mpi_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message);

#endif
