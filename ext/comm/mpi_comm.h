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

typedef struct mpi_late_message mpi_late_message; /* mpi_messages.c */

/* Memory that ranks of one host share. */
typedef struct mpi_memory {
    void *address; /* NULL: there is none */
    size_t bytes;
} mpi_memory;

/* What another rank has noted (kolo_mpi_take_notes()). */
typedef struct mpi_partner {
    uint64_t life; /* signs of life */
    bool left;     /* it makes no more calls */
} mpi_partner;

enum { MPI_WHY = 240 }; /* bytes of a reason that a rank notes */

typedef struct mpi_comm mpi_comm;
struct mpi_comm {
    kolo_comm comm;
    MPI_Comm handle;    /* of collectives */
    MPI_Comm points;    /* of messages between two ranks */
    bool crowded;       /* ranks and their threads outnumber the cores of a host */
    kolo_shared *shared; /* memory of all members, if they are on one host; NULL: none */
    bool by_hosts;      /* all-reduces host by host, through kolo_mpi_process.host: KOLO_HIERARCHICAL_ALLREDUCE */
    MPI_Comm leaders;   /* by_hosts: the first ranks of all hosts; MPI_COMM_NULL on the others */
    double stall_limit; /* seconds; 0: none */
    kolo_collective *calls;   /* rank 0: [size] the calls of all ranks; NULL if the ranks meet in shared memory */
    bool *joined;             /* [size] without shared memory: the ranks that answer the current call (kolo_join()) */
    int joined_count;         /* 0: joined[] is not set */
    kolo_collective made;     /* with joined_count > 0: the call that they answer */
    double met;               /* when its ranks met for the last time, if they meet by messages */
    mpi_partner *partners;    /* [size] without shared memory: what the other ranks have noted */
    int given_up; /* the number of the last learner's all-reduce that another rank has given up; 0: none */
    char why[MPI_WHY]; /* given_up: the reason */
    mpi_comm *next; /* in kolo_mpi_process.messaging */
    int *numbers; /* [size] of a part of the world (mpi_split.c): its ranks there; else NULL */
    int parts; /* of the world: how often it was split */
    char name[80]; /* of a part: "process set 2 (ranks 0, 1)" */
    mpi_memory memory; /* of a part, behind `shared` */
    mpi_late_message *late; /* messages whose send() gave up waiting */
};

/* The state of MPI, of which a process has only one. */
typedef struct mpi_process {
    pid_t process; /* the process that started MPI; a forked child cannot use it */
    pthread_mutex_t lock; /* held during every call of MPI between opening and closing a world: MPI serves one thread at
                             a time, and a rank's collectives may run in another thread than its messages (queue.h) */
    int rank; /* in MPI_COMM_WORLD */
    int open; /* worlds that are opened and not closed */
    bool crowded; /* the last world was crowded */
    bool lost; /* a rank is gone, and this one goes on without MPI */
    mpi_comm *messaging; /* the open comms whose ranks meet by messages */
    kolo_shared shared; /* memory of all ranks, if they are on one host; used by all worlds */
    kolo_shared host; /* memory of the ranks of this host, if there are several hosts and by_hosts; used likewise */
} mpi_process;
extern mpi_process kolo_mpi_process;
extern const kolo_comm_kind kolo_mpi_kind;

/* --- mpi_start.c --- */

/* Before MPI_Init: for ranks that srun has started on several nodes, restricts Open MPI to the subnet of the node from
 * which srun was started (SLURM_LAUNCH_NODE_IPADDR), unless the user has named networks. Without it Open MPI tries
 * every interface that is up, and waits for ever on a bridge that has the same address on each node. */
void kolo_mpi_choose_network(void);
/* MPI_Init_thread for calls that do not overlap. When other ranks have not called it within the stall limit, but at
 * least 10 seconds, it ends the process with a sentence. */
int kolo_mpi_init(int *argc, char ***argv, int *provided);

/* --- mpi.c --- */

/* Prepares the comparison of calls, in me->shared unless that is NULL. */
kolo_status kolo_mpi_prepare_meetings(mpi_comm *me);

/* --- mpi_split.c: parts of the world --- */

kolo_status kolo_mpi_split(kolo_comm *comm, int color, kolo_comm **part);
/* Frees what a part has beyond a world. */
void kolo_mpi_close_part(mpi_comm *me);

/* --- mpi_join.c: ranks that have joined --- */

kolo_status kolo_mpi_join(kolo_comm *comm, int *last);

/* --- mpi_collectives.c --- */

/* The parts of an all-reduce and an all-gather that follow the comparison of calls. */
kolo_status kolo_mpi_reduce_all(mpi_comm *me, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction);
kolo_status kolo_mpi_gather_all(mpi_comm *me, const void *data, size_t bytes, void *all);

/* --- mpi_wait.c: results and waiting --- */

kolo_status kolo_mpi_check(const mpi_comm *me, int result, const char *name);
/* Takes MPI for this thread, and gives it back. */
void kolo_mpi_lock(void);
void kolo_mpi_unlock(void);
/* Whether this thread must not spin: its core is needed by a rank that it waits for, or by its own rank's computation.
 */
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
/* Receives what the other ranks have noted: signs of life, that they leave, that they have given up. */
kolo_status kolo_mpi_take_notes(mpi_comm *me);
/* Whether that rank, or every other one for KOLO_ANY_RANK, makes no more calls. */
bool kolo_mpi_has_left(const mpi_comm *me, int rank);
/* The number of signs of life of all other ranks. */
uint64_t kolo_mpi_life_of_others(const mpi_comm *me);
void kolo_mpi_give_up(kolo_comm *comm, int call, const char *why);
/* Ends the job after a failure, or just fails in a notebook. */
kolo_status kolo_mpi_end_after(mpi_comm *me, kolo_status status);
/* Ends the meetings of a comm that is closed. */
void kolo_mpi_close_meetings(mpi_comm *me);
/* Tells the other ranks that this one makes no more calls. */
void kolo_mpi_leave(mpi_comm *me);
/* Ends the processes of all ranks and does not return. Prints this thread's failure first, which would be lost
 * otherwise. */
void kolo_mpi_end_job(kolo_comm *comm, int code);

/* --- mpi_memory.c: memory that processes share --- */

/* Makes memory for ranks of one host, of which this is number `rank` of `size`. If one rank cannot map it, all get the
 * address NULL. */
kolo_status kolo_mpi_share_memory(mpi_comm *me, MPI_Comm host, int rank, int size, mpi_memory *memory);
void kolo_mpi_unmap(mpi_memory *memory);
/* The same for *shared, unless it is open: it stays open. If one rank cannot map the memory, it stays closed on all. */
kolo_status kolo_mpi_share_for_good(mpi_comm *me, MPI_Comm host, int rank, int size, kolo_shared *shared);

/* --- mpi_messages.c: messages between two ranks --- */

kolo_status kolo_mpi_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag);
kolo_status kolo_mpi_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message);
kolo_status kolo_mpi_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message);
/* Frees those messages of me->late that were received after all. */
void kolo_mpi_free_late_messages(mpi_comm *me);

#endif
