/* The record of a member's call. Members compare their records to find out that they do not make the same call, or that
 * one of them does not come.
 *
 * Every collective of every comm begins alike: each member hands its record to the others, waits until all members
 * have, and compares. So a member that calls something else meets the others in that exchange, and all of them fail
 * with the same sentence.
 */
#ifndef KOLO_COMM_CALL_H
#define KOLO_COMM_CALL_H

#include <stdatomic.h>
#include <time.h>

#include "comm/comm.h"

typedef enum kolo_operation {
    KOLO_CALL_NONE, /* no call yet */
    KOLO_CALL_ALLREDUCE,
    KOLO_CALL_BROADCAST,
    KOLO_CALL_ALLGATHER,
    KOLO_CALL_ALLGATHERV,
    KOLO_CALL_ALLTOALLV,
    KOLO_CALL_REDUCE_SCATTER, /* made of an alltoallv */
    KOLO_CALL_BARRIER,
    KOLO_CALL_OWN, /* an all-reduce of a learner's own (own.h) */
    KOLO_CALL_JOIN, /* kolo_join(): the member answers the others' calls */
    KOLO_CALL_FINISH, /* kolo_finish(): the member will make no more calls */
    KOLO_CALL_SEND, /* kolo_send(), kolo_receive() from member `root`: no collectives, but a member may wait in them */
    KOLO_CALL_RECEIVE,
} kolo_operation;

/* Contains no pointers, because other processes read it. The members before `line` must be the same on all members of
 * a group; the rest says where the call is. */
struct kolo_collective {
    int32_t operation; /* kolo_operation */
    int32_t type, reduction;
    int32_t root;
    int64_t count; /* elements of an allreduce, bytes of other operations; of a join: the calls answered since */
    uint64_t sizes; /* allgatherv: a hash of the sizes of all parts */
    int64_t part; /* elements of each part of an alltoall or a reduce-scatter, plus 1; 0: parts of any size */
    int32_t element; /* the type of the elements, as kolo_call_describe() said: kolo_type + 1; 0: unknown */
    int32_t part_of; /* the kolo_operation that this one is a part of; 0: none */
    int32_t asynchronous; /* 1: the member computes meanwhile (queue.h) */
    int32_t line; /* 0: unknown */
    char file[40]; /* the end of its path, if the path is longer */
    char function[32]; /* the public call that is running, "" if there is none */
};

/* Sets the place to that of the public call that runs in this thread. */
kolo_collective kolo_call_make(kolo_operation operation, int64_t count);
kolo_collective kolo_call_allreduce(int64_t count, kolo_type type, kolo_reduce_op reduction);
/* An all-reduce of `count` floats by a learner's function. */
kolo_collective kolo_call_own(int64_t count);
kolo_collective kolo_call_broadcast(size_t bytes, int root);
kolo_collective kolo_call_allgatherv(const size_t *bytes, int size);

/* Describes this thread's next collectives, whose own arguments are only bytes: the type of their elements, and the
 * operation of which they are a part (KOLO_CALL_NONE: none). kolo_call_plain() ends it. */
void kolo_call_describe(kolo_type element, kolo_operation part_of);
/* The same of a reduce-scatter or an alltoall, with `count` elements for each member. */
void kolo_call_describe_parts(kolo_type element, kolo_operation part_of, int64_t count, kolo_reduce_op reduction);
void kolo_call_plain(void);

/* Marks this thread's collectives as asynchronous: the thread belongs to a queue (queue.h), and shares its core with a
 * member that computes. So a wait in it sleeps and never spins. */
void kolo_call_in_background(bool background);
bool kolo_call_is_in_background(void);

bool kolo_calls_equal(const kolo_collective *one, const kolo_collective *other);

/* The records of a group: member i's is at first + i × stride bytes. `who` is "rank" or "replica". */
typedef struct kolo_calls {
    const void *first;
    size_t stride;
    int size;
    const char *who;
    const int *numbers; /* [size] of the members in sentences; NULL: their numbers in the group */
    const char *group; /* "process set 2 (ranks 0, 1)"; NULL: all members */
    const char *elsewhere; /* for kolo_calls_stalled(): where members that have not come wait; NULL: not known */
} kolo_calls;
const char *kolo_type_name(kolo_type type); /* "floats" */
/* "allreduce of 500 floats (cnn.c:31)" */
const char *kolo_call_text(const kolo_calls *calls, const kolo_collective *call);
const kolo_collective *kolo_calls_at(const kolo_calls *calls, int member);

/* Fails unless all members made the same call, or have joined and can answer it. The sentence is the same on each
 * member: it names the first member that differs from the first one. */
kolo_status kolo_calls_compare(const kolo_calls *calls);
/* After that: returns the number of members that have joined, and marks them in joined[size]. *made becomes the call of
 * the others; if all have joined, one with the operation KOLO_CALL_JOIN, whose root is the member that joined last. */
int kolo_calls_joined(const kolo_calls *calls, bool *joined, kolo_collective *made);

/* Fails with the sentence of a group that has waited `seconds` for the members whose came[] is false. The records of
 * the others say where they wait. */
kolo_status kolo_calls_stalled(const kolo_calls *calls, const bool *came, double seconds);

/* --- how long members wait for one another --- */

/* The value of KOLO_STALL_LIMIT in seconds, 0 for no limit. The default is 60, or 0 in a notebook, where a cell can be
 * interrupted. An invalid value gives the default; kolo_stall_check_environment() reports it. */
double kolo_stall_limit(void);
/* The same for messages of a learner's own all-reduce, with the default of 60 in a notebook, too. */
double kolo_message_limit(void);
kolo_status kolo_stall_check_environment(void);

/* Whether the process is one of a notebook's, which a failure must not end. */
bool kolo_in_notebook(void);

/* A wait that is looked at from time to time. The time is counted from the arrival of the last member that has come, or
 * from the last sign of life of one that has not. So members that come one after the other, each within the limit, are
 * never ended, nor is a member that is still training or evaluating. */
typedef struct kolo_stall {
    double limit; /* seconds; 0: none */
    double since; /* when a member came or gave a sign of life; 0: not looked at yet */
    int came; /* the number of members that had come then */
    uint64_t life; /* the number of signs of life then */
} kolo_stall;
/* Whether the limit has passed with `came` members in the call, and `life` signs of life of the others. */
bool kolo_stall_passed(kolo_stall *stall, int came, uint64_t life);
/* The time between two looks: a twentieth of the limit, at most a second; 0 if there is no limit. */
struct timespec kolo_stall_turn(const kolo_stall *stall);

/* Gives a sign of life of this process: it is not waiting for other members, but at work. Any thread, often. */
void kolo_show_life(void);
/* The number of this process's signs of life so far. */
uint64_t kolo_life_shown(void);
/* Counts this process's signs of life at `where`, which other processes see; NULL: in this process. */
void kolo_life_count_at(_Atomic uint64_t *where);
/* From now on each sign of life of the calling thread also calls `tell`; NULL: it calls nothing. */
void kolo_life_tell(void (*tell)(void));

#endif
