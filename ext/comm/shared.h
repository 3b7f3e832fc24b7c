/* All-reduce, broadcast and barrier through memory that several processes of one host share, and the comparison of
 * their calls.
 *
 * An all-reduce with messages needs a logarithmic number of rounds, and in each of them a rank must get a core to
 * answer another rank. Here there are only two barriers, and one for few values, if the values of all members lie in
 * memory that all members can map (shareable.h). Other values are copied in chunks, with two barriers for each chunk.
 * Ranks that have a core each spin before they sleep (barrier.h). The caller provides the memory (mpi_memory.c).
 */
#ifndef KOLO_COMM_SHARED_H
#define KOLO_COMM_SHARED_H

#include "comm/barrier.h"
#include "comm/call.h"
#include "comm/comm.h"
#include "comm/mappings.h"

struct kolo_shared_head;
struct kolo_shared_record;
struct kolo_shared_life;

/* One process's access to the memory. Every process must make the same calls in the same order. */
typedef struct kolo_shared kolo_shared;
struct kolo_shared {
    struct kolo_shared_head *head;
    struct kolo_shared_record *records[2]; /* [2][size] in the shared memory, the members' calls */
    struct kolo_shared_life *lives; /* [size] in the shared memory; not used in a part */
    const kolo_shared *whole; /* of a part of a group: the group, whose memory has the members' signs of life */
    const int *numbers; /* [size] of a part: the members' numbers in that group, which sentences give; else NULL */
    const char *group; /* of a part: its name in sentences */
    void **slots[2]; /* [2][size] places in the shared memory, each for one chunk of a member */
    void **sources;  /* [size] what the current chunk is reduced from */
    bool *joined;    /* [size] the members that answer the current call (kolo_join()) */
    kolo_mappings *mappings; /* of the members' values */
    kolo_shareable_place place; /* of this member's values in the next record; serial 0: nowhere */
    int joined_count; /* 0: joined[] is not set */
    kolo_collective made; /* with joined_count > 0: the call that they answer */
    unsigned turn;   /* number of chunks so far; they use records[0] and slots[0], or [1], in turn */
    int rank, size;
    int spins; /* looks at the barrier before yielding, for members that have a core each */
    kolo_yielding yielding;
    double stall_limit; /* seconds; 0: none */
    void (*idle)(void); /* called from time to time while this member waits for others; NULL: nothing */
    bool speaks; /* after a failed call: whether this is the member that tells of it */
    bool interruptible; /* in a notebook, an interrupt may end a call in the middle, and the process lives on */
    bool waits; /* in a call for the others; still true in the next call if an interrupt ended that one */
};

/* Bytes of shared memory for a group. The memory must be all zeros before the first member opens it. */
size_t kolo_shared_bytes(int size);
kolo_status kolo_shared_open(kolo_shared *shared, void *memory, int rank, int size);
/* The same for some members of a group, which stays open longer. numbers[size]: theirs in the group; name: the part's
 * in sentences; the caller keeps both. */
kolo_status kolo_shared_open_part(kolo_shared *shared, const kolo_shared *whole, const int *numbers, const char *name,
                                  void *memory, int rank, int size);
void kolo_shared_close(kolo_shared *shared); /* does not free the shared memory */

/* As in kolo_comm_kind. They fail if the members' calls differ, on all members, or if a member does not come within the
 * limit; then the memory cannot be used any more, and all later calls fail. If a member dies, the others wait until
 * they are ended. */
kolo_status kolo_shared_allreduce(kolo_shared *shared, void *values, int64_t count, kolo_type type,
                                  kolo_reduce_op reduction);
kolo_status kolo_shared_broadcast(kolo_shared *shared, void *data, size_t bytes, int root);
kolo_status kolo_shared_meet(kolo_shared *shared, const kolo_collective *call);
/* For a member that has joined, after a kolo_shared_meet() whose shared->made is an all-reduce that the others make by
 * kolo_shared_allreduce(): does its part of the work. */
void kolo_shared_answer_allreduce(kolo_shared *shared);
/* Tells the others that this member makes no more calls; does not wait for them. */
void kolo_shared_leave(kolo_shared *shared);

/* --- of the whole group: what members that wait in no collective know of each other --- */

/* Takes kolo_shared_leave() back: this member begins anew, before the others do. */
void kolo_shared_return(kolo_shared *shared);
bool kolo_shared_has_left(const kolo_shared *shared, int member);
/* The number of signs of life of all other members. */
uint64_t kolo_shared_life_of_others(const kolo_shared *shared);
/* Shows the others in which call this member waits, for their sentences. Returns false if it shows another one already.
 * kolo_shared_hide_wait() ends it. */
bool kolo_shared_show_wait(const kolo_shared *shared, const kolo_collective *call);
void kolo_shared_hide_wait(const kolo_shared *shared);
/* "; rank 1 waits in barrier (cnn.c:12)" for a member that shows where it waits; else "". */
const char *kolo_shared_wait_text(const kolo_shared *shared, int member);

#endif
