/* The interface for communication between the members of a group.
 *
 * A member is a thread (local.c), a rank (mpi.c), or a thread of a rank (nested.c: local within the rank, another comm
 * between ranks). All members call the same collectives in the same order with the same counts; a collective first
 * compares its members' calls (call.h), and fails on all members if they differ. A call returns when its member has the
 * result. A member that fails calls abort(); the calls of the other members then fail with KOLO_COMM
 * instead of waiting for ever. To write a new comm, fill in a kolo_comm_kind; tests/ext/comm/ compares any comm with
 * self and local.
 */
#ifndef KOLO_COMM_H
#define KOLO_COMM_H

#include <string.h>

#include "core/error.h"

typedef struct kolo_comm kolo_comm;

typedef struct kolo_collective kolo_collective; /* call.h */

/* Bytes of one element. */
static inline size_t kolo_type_bytes(kolo_type type)
{
    static const size_t bytes[] = {[KOLO_TYPE_FLOAT] = sizeof(float),
                                   [KOLO_TYPE_DOUBLE] = sizeof(double),
                                   [KOLO_TYPE_INT32] = sizeof(int32_t),
                                   [KOLO_TYPE_INT64] = sizeof(int64_t),
                                   [KOLO_TYPE_BYTE] = 1};
    return bytes[type];
}

/* Copies data that may be empty, or in its place already. */
static inline void kolo_copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes > 0 && to != from) memcpy(to, from, bytes);
}

typedef struct kolo_comm_kind {
    const char *name;
    /* values[count] becomes the sum over all members, or another `reduction`, with the same bits on each member.
     * KOLO_REDUCE_MEAN only gives the sum, which the caller divides. */
    kolo_status (*allreduce)(kolo_comm *comm, void *values, int64_t count, kolo_type type, kolo_reduce_op reduction);
    kolo_status (*broadcast)(kolo_comm *comm, void *data, size_t bytes, int root);
    /* all[size × bytes] becomes the data of all members, in the order of their ranks. data may be this member's part of
     * `all`, but must not overlap `all` in any other way. */
    kolo_status (*allgather)(kolo_comm *comm, const void *data, size_t bytes, void *all);
    /* The same with a different size for each member: bytes[size]; offsets[size] are the places in `all`. */
    kolo_status (*allgatherv)(kolo_comm *comm, const void *data, void *all, const size_t *bytes, const size_t *offsets);
    /* Sends send_bytes[i] bytes at send_offsets[i] of `send` to member i, and receives receive_bytes[i] bytes from
     * member i at receive_offsets[i] of `receive`. */
    kolo_status (*alltoallv)(kolo_comm *comm, const void *send, const size_t *send_bytes, const size_t *send_offsets,
                             void *receive, const size_t *receive_bytes, const size_t *receive_offsets);
    kolo_status (*barrier)(kolo_comm *comm);
    /* A barrier that compares `call` between the members: for a comm that moves its bytes by other means (NCCL). */
    kolo_status (*meet)(kolo_comm *comm, const kolo_collective *call);
    /* Messages between two members, which are no collectives. send() returns when `data` may be changed; a message with
     * a few bytes is sent even if no member receives it yet. Messages of one sender with one tag are received in the
     * order of their sending. Tags are kolo_tag_of()'s. */
    kolo_status (*send)(kolo_comm *comm, const void *data, size_t bytes, int to, int tag);
    /* Waits for a message from `from` (or KOLO_ANY_RANK) with `tag` (or any) and copies it to data[room]. *message says
     * whose it is, its tag without the type, and its size. A message of more than `room` bytes or of another type stays
     * where it is, and the call fails with KOLO_INVALID. */
    kolo_status (*receive)(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message);
    /* Looks for such a message, of any type: *there says whether there is one, and then *message which. Does not wait.
     */
    kolo_status (*probe)(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message);
    /* Makes a group of the members that give the same color, numbered in their order here; a member with a color below
     * 0 is in none, and its *part becomes NULL. A collective, although its members' calls are not compared. The caller
     * closes the part before this group. NULL: the group cannot be split. */
    kolo_status (*split)(kolo_comm *comm, int color, kolo_comm **part);
    /* Answers the other members' calls until all members have joined, as kolo_join() says. *last becomes the member
     * that joined last. NULL: members cannot join. */
    kolo_status (*join)(kolo_comm *comm, int *last);
    /* barrier() only for the members that are threads of this process. NULL: there are none. */
    kolo_status (*wait_for_threads)(kolo_comm *comm);
    /* Tells the other members that this one's part of the learner's all-reduce with that number (own.h) has failed, and
     * why: their messages in it fail. NULL: members do not need it. */
    void (*give_up)(kolo_comm *comm, int call, const char *why);
    void (*abort)(kolo_comm *comm);
    /* abort() only for the members that are threads of this process. Any thread may call it. NULL: there are none. */
    void (*abort_threads)(kolo_comm *comm);
    /* Whether a member has called abort(). Any thread may call it, at any time. NULL: an abort ends the process. */
    bool (*aborted)(const kolo_comm *comm);
    /* A member of the group is gone, and the others go on without it: they call no more collectives, and closing does
     * not wait for it. NULL: members cannot go. */
    void (*lose)(kolo_comm *comm);
    void (*close)(kolo_comm *comm); /* each member closes its comm; the last one frees what they share */
} kolo_comm_kind;

/* The sentence of a member whose call failed because another member aborted. The other member reports the reason. */
#define KOLO_COMM_CALLED_OFF "another replica failed"

/* A message's tag carries the type of its elements beside its tag of KOLO_TAG_BITS: a comm needs no place for it. The
 * tag of a receive says which type it wants. A plain tag is one of floats. Programs have the tags 0 … KOLO_TAG_MOST;
 * the others are the library's own: the timeline's (runtime/timeline.h), and from KOLO_TAG_NOTICE on those of the
 * notices of kolo_fit() (training/fit_presence.c). */
enum {
    KOLO_TAG_BITS = 16,
    KOLO_TAG_TYPES = KOLO_TYPE_BYTE + 1,
    KOLO_TAG_TIMELINE = KOLO_TAG_MOST + 1,
    KOLO_TAG_NOTICE,
    KOLO_TAG_NOTICES = 4096
};
static inline int kolo_tag_of(int tag, kolo_type type)
{
    return tag == KOLO_ANY_TAG ? KOLO_ANY_TAG - (int)type : tag | (int)type << KOLO_TAG_BITS;
}
static inline bool kolo_tag_is_any(int tag)
{
    return tag < 0;
}
static inline kolo_type kolo_tag_type(int tag)
{
    return (kolo_type)(tag < 0 ? KOLO_ANY_TAG - tag : tag >> KOLO_TAG_BITS);
}
/* Without the type. */
static inline int kolo_tag_plain(int tag)
{
    return tag < 0 ? KOLO_ANY_TAG : tag & ((1 << KOLO_TAG_BITS) - 1);
}

/* How messages are watched while a learner's own all-reduce uses them (own.h). */
typedef struct kolo_message_watch {
    double limit; /* seconds after which a send() or receive() that waits fails; 0: none */
    bool copies; /* send() copies the data, so that the caller may free them after a failure */
    int call; /* the number of the all-reduce, from 1 */
    bool told; /* another member has given up this all-reduce */
    bool failed; /* a send() or receive() has failed; the later ones fail at once */
    char why[600]; /* the sentence of that failure */
} kolo_message_watch;

struct kolo_comm {
    const kolo_comm_kind *kind;
    int rank, size;
    bool reads_in_place; /* allreduce() copies nothing if all members' values are in shareable memory (shareable.h) */
    double patience; /* a factor of the limit of a wait for other members (call.h); 0 counts as 1 */
    int own_calls; /* learners' all-reduces so far */
    kolo_message_watch *watch; /* NULL: messages are not watched. Threads' and a single member's never wait long */
};

/* A group of one (self.c); never closed. */
kolo_comm *kolo_comm_self(void);

/* A group of `size` threads of this process (local.c): members[size], one for each thread, which closes it. When a
 * collective returns on one member, the results of all members are complete, which updates of shared weights rely on.
 */
kolo_status kolo_comm_local_open(int size, kolo_comm **members);

/* Threads of several ranks as one group (nested.c). threads[outer->size] are the numbers of threads of the ranks, the
 * same on all ranks; threads[outer->rank] is inner->size. Members are numbered rank by rank. Only inner member 0 calls
 * outer. The caller closes inner and outer itself. */
kolo_status kolo_comm_nested_open(kolo_comm *inner, kolo_comm *outer, const int *threads, kolo_comm **comm);

/* The group of the ranks that a launcher started, made by the plugin libkolo_mpi.so. */
typedef struct kolo_world {
    kolo_comm *comm;
    int local_rank, local_size, cross_rank, cross_size;
    bool crowded; /* ranks and their threads outnumber the cores of a host; the same on all ranks */
} kolo_world;
typedef struct kolo_world_kind {
    unsigned version;
    const char *name;
    kolo_status (*open)(int *argc, char ***argv, kolo_world *world);
    /* code: this rank's exit code. A code other than 0 ends the whole job with it at once. */
    void (*close)(kolo_world *world, int code);
} kolo_world_kind;

#endif
