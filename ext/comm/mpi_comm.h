/* What the parts of libkolo_mpi.so share. Only they include mpi.h. Read mpi.c first. */
#ifndef KOLO_COMM_MPI_COMM_H
#define KOLO_COMM_MPI_COMM_H

#include <mpi.h>
#include <sys/types.h>

#include "comm/shared.h"

/* The largest number of bytes of one MPI call, and whether ranks of one host may share memory. Tests define other
 * values. */
#ifndef KOLO_MPI_PIECE
#define KOLO_MPI_PIECE  (1 << 30)
#define KOLO_MPI_SHARED true
#endif

typedef struct mpi_late_message mpi_late_message; /* mpi_messages.c */

typedef struct mpi_comm mpi_comm;
struct mpi_comm {
    kolo_comm comm;
    MPI_Comm handle;    /* of collectives */
    MPI_Comm points;    /* of messages between two ranks */
    bool crowded;       /* ranks and their threads outnumber the cores of a host */
    kolo_shared *shared; /* memory of all members, if they are on one host; NULL: none */
    bool shares;        /* all-reduces and broadcasts through it; without, it only compares calls there */
    double stall_limit; /* seconds; 0: none */
    kolo_collective *calls;   /* rank 0: [size] the calls of all ranks; NULL if the ranks meet in shared memory */
    bool *joined;             /* [size] without shared memory: the ranks that answer the current call (kolo_join()) */
    int joined_count;         /* 0: joined[] is not set */
    kolo_collective made;     /* with joined_count > 0: the call that they answer */
    double met;               /* when its ranks met for the last time, if they meet by messages */
    mpi_comm *next;           /* in kolo_mpi_process.messaging */
    int *numbers;             /* [size] of a part of the world (mpi_split.c): its ranks there; else NULL */
    void *memory;             /* of a part: the shared memory, of so many bytes; else NULL */
    size_t memory_bytes;
    mpi_late_message *late;   /* messages whose send() gave up waiting */
};

/* The state of MPI, of which a process has only one. */
typedef struct mpi_process {
    pid_t process;      /* the process that started MPI; a forked child cannot use it */
    int rank;           /* in MPI_COMM_WORLD */
    int open;           /* worlds that are opened and not closed */
    bool crowded;       /* the last world was crowded */
    bool lost;          /* a rank is gone, and this one goes on without MPI */
    mpi_comm *messaging; /* the open comms whose ranks meet by messages */
    kolo_shared shared; /* memory of all ranks, if they are on one host; used by all worlds */
} mpi_process;
extern mpi_process kolo_mpi_process;
extern const kolo_comm_kind kolo_mpi_kind;

/* --- mpi_start.c --- */

/* MPI_Init_thread for calls that do not overlap. When other ranks have not called it within the stall limit, it ends
 * the process with a sentence. */
int kolo_mpi_init(int *argc, char ***argv, int *provided);

/* --- mpi.c --- */

/* Makes memory that all members of a comm of one host share; *memory is NULL if that is not possible. */
kolo_status kolo_mpi_share_memory(mpi_comm *me, void **memory, size_t *bytes);
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
/* Gives the core to other threads for longer and longer times. Usually the other ranks are ready after a few turns, and
 * a sleep would only add latency; but if they are still computing, they need the core. */
void kolo_mpi_yield(int turn);
/* Waits like MPI_Waitall, but sleeps. */
int kolo_mpi_wait_asleep(MPI_Request *requests, MPI_Status *statuses, int count);
kolo_status kolo_mpi_wait_all(const mpi_comm *me, MPI_Request *requests, MPI_Status *statuses, int count,
                              const char *name);
/* Waits for a nonblocking operation whose start returned `result`. */
kolo_status kolo_mpi_wait_one(const mpi_comm *me, int result, MPI_Request *request, const char *name);

/* --- mpi_meet.c: the comparison of the ranks' calls --- */

kolo_status kolo_mpi_meet(kolo_comm *comm, const kolo_collective *call);
/* Goes on from a collective of me->shared: ends the job if it has failed, except in a notebook. */
kolo_status kolo_mpi_shared_result(mpi_comm *me, kolo_status status);
/* A sign of life to the ranks that may wait for this one, if it has not met them for a long time. */
void kolo_mpi_show_life(void);
/* Ends the meetings of a comm that is closed. */
void kolo_mpi_close_meetings(mpi_comm *me);
/* Tells the other ranks that this one makes no more calls. */
void kolo_mpi_leave(mpi_comm *me);
/* Ends the processes of all ranks and does not return. Prints this thread's failure first, which would be lost
 * otherwise. */
void kolo_mpi_end_job(kolo_comm *comm, int code);

/* --- mpi_messages.c: messages between two ranks --- */

kolo_status kolo_mpi_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag);
kolo_status kolo_mpi_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message);
kolo_status kolo_mpi_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message);
/* Frees those messages of me->late that were received after all. */
void kolo_mpi_free_late_messages(mpi_comm *me);

#endif
