/* Sections 9 to 12 of kolo.h: saving, collectives, display, options of a program. Included by kolo.h: read that first.
 */
#ifndef KOLO_TOOLS_H
#define KOLO_TOOLS_H

#include "kolo.h"

/* ----------------------------------------------------------------------------------------------- 9 saving */

/* An entry of a file's metadata, in UTF-8. */
typedef struct kolo_metadata {
    const char *key, *value;
} kolo_metadata;
#define KOLO_METADATA_MAX 16

typedef struct kolo_save_args {
    int _;
    const kolo_model *model;
    const char *path;
    kolo_guard *guard;
    kolo_metadata metadata[KOLO_METADATA_MAX]; /* the caller's entries: .metadata = {{"author", "Ada"}} */
} kolo_save_args;

/* Writes the weights to a safetensors file, which PyTorch's and Hugging Face's tools can open, too. If the process is
 * killed, the old file or the complete new one remains. The file contains no time, rank or device. In a callback the
 * current weights are saved. */
#define kolo_save(...) kolo_save_at(&(const kolo_save_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_save_at(const kolo_save_args *args, kolo_here here);

typedef struct kolo_load_args {
    int _;
    kolo_model *model;
    const char *path;
    kolo_guard *guard;
    bool by_name;       /* load only the arrays that both file and model have; the others do not change */
    bool skip_mismatch; /* leave out arrays with another shape; they do not change */
} kolo_load_args;

/* Loads the weights from a safetensors file with the same names and shapes: one that kolo_save(), kolo_model_save() or
 * kolo_checkpoint_save() wrote, or another program's. Arrays are float32, or float16, bfloat16 or float64, which are
 * converted. One sentence on stderr lists the arrays that .by_name and .skip_mismatch leave out; if they leave out all,
 * the call fails. On failure nothing has changed. */
#define kolo_load(...) kolo_load_at(&(const kolo_load_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_load_at(const kolo_load_args *args, kolo_here here);

/* The model's layers as JSON: kinds, given options, and each layer's inputs, but no weights. The text is allocated with
 * malloc() and the caller frees it. NULL on failure. A custom layer is written with its kind's name and its .number; a
 * custom layer with .user is an error. */
#define kolo_model_to_json(model) kolo_model_to_json_at(model, KOLO_HERE)
char *kolo_model_to_json_at(const kolo_model *model, kolo_here here);
/* Makes the model from such a text, with the checks of kolo_apply(); kolo_compile() draws its weights. NULL on failure:
 * an unknown kind or option, a value of another type, a layer whose input is not an earlier layer. */
#define kolo_model_from_json(text) kolo_model_from_json_at(text, KOLO_HERE)
kolo_model *kolo_model_from_json_at(const char *text, kolo_here here);
/* Registers the kind of a custom layer, for loading models, under its .name, which must not be the name of one of
 * Kolo's kinds. A kind that was registered under the same name is replaced. Kolo keeps the pointer, so the kind must
 * remain valid. For the whole process; any thread. */
#define kolo_register_layer(kind) kolo_register_layer_at(kind, KOLO_HERE)
kolo_status kolo_register_layer_at(const kolo_layer_kind *kind, kolo_here here);

/* Writes layers and weights to one safetensors file: kolo_save() with the model's JSON in the metadata. */
#define kolo_model_save(model, path) kolo_model_save_at(model, path, KOLO_HERE)
kolo_status kolo_model_save_at(const kolo_model *model, const char *path, kolo_here here);
/* Reads a model with its weights from such a file. It is not compiled yet. NULL on failure. */
#define kolo_load_model(path) kolo_load_model_at(path, KOLO_HERE)
kolo_model *kolo_load_model_at(const char *path, kolo_here here);

/* Writes the state of a training to a file: weights, layers, the optimizer's state, learning rate, seed, and the number
 * of completed epochs and steps. It may be called between fits, or in a callback for the current state. kolo_load() and
 * kolo_load_model() can read the file, too. If several ranks train together, rank 0 writes, and the other ranks' calls
 * do nothing. The file contains no rank or device, and no time except, within an epoch, the seconds that its steps
 * took. With .accumulate_steps, it contains the gradients of an incomplete group in deterministic mode, or if one
 * device of one rank trains; otherwise the incomplete group is lost, and a resumed training begins a new one. */
#define kolo_checkpoint_save(model, path) kolo_checkpoint_save_at(model, path, KOLO_HERE)
kolo_status kolo_checkpoint_save_at(kolo_model *model, const char *path, kolo_here here);
/* Loads this state into a model with the same layers that was compiled with the same optimizer, on any number of
 * devices; kolo_fit(.resume = true) then continues the training. Every rank must call it and be able to read the file.
 * On failure nothing has changed. */
#define kolo_checkpoint_load(model, path) kolo_checkpoint_load_at(model, path, KOLO_HERE)
kolo_status kolo_checkpoint_load_at(kolo_model *model, const char *path, kolo_here here);

/* The value of a key in a safetensors file's metadata, allocated with malloc(); the caller frees it. NULL if there is
 * no such key, or on failure. */
#define kolo_read_metadata(path, key) kolo_read_metadata_at(path, key, KOLO_HERE)
char *kolo_read_metadata_at(const char *path, const char *key, kolo_here here);

/* Writes the history as JSON, in the format of the programs' --history. */
#define kolo_history_save(history, path) kolo_history_save_at(history, path, KOLO_HERE)
kolo_status kolo_history_save_at(const kolo_history *history, const char *path, kolo_here here);
/* Reads a history from such a file. The caller frees it with kolo_history_free(). NULL on failure. */
#define kolo_history_load(path) kolo_history_load_at(path, KOLO_HERE)
kolo_history *kolo_history_load_at(const char *path, kolo_here here);

/* ------------------------------------------------------------------------------------------ 10 collectives */

/* Collectives between the ranks, with MPI's and Horovod's names. Every rank must make the same calls in the same order,
 * each with the same operation, type, count and root; they need not be on the same line. The ranks compare their calls
 * before they move anything. If calls differ, the job ends, and one sentence names two ranks and their calls: "cnn.c:31:
 * kolo_allreduce: all ranks must make the same call: rank 0 called allreduce of 500 floats (cnn.c:31), rank 2 broadcast of
 * 96 bytes from rank 0 (cnn.c:40)". kolo_finish() counts as a call. In a notebook the call fails on all ranks instead, and
 * the ranks live on.
 *
 * A rank that does not come is named, too: if no further rank has come for KOLO_STALL_LIMIT seconds (an environment
 * variable; default 60; 0: no limit), the waiting ranks end the job: "rank 3 has not come for 60 s (KOLO_STALL_LIMIT):
 * ranks 0, 1, 2 wait in allreduce of 500 floats (cnn.c:31)". The time begins when a rank begins to wait. It begins anew
 * with each further rank that comes, and with each microbatch, read, download or message of a rank that has not come: a
 * rank that trains, evaluates or reads data is never ended. The limit must be larger than the time that a rank may spend in
 * the program's own code, or in writing a file, while others wait. A rank that is stopped by Ctrl-Z or held by a debugger does
 * not come, either: set the limit to 0 then. In a notebook, whose cells can be interrupted, the default is no limit.
 * The limit holds for kolo_receive() and kolo_send(), too (see there).
 *
 * With KOLO_HIERARCHICAL_ALLREDUCE=1 in the environment of all ranks, an all-reduce over several hosts goes host by host:
 * the ranks of a host reduce in memory that they share, then the first ranks of the hosts by MPI, and the others read the
 * result. Default: MPI's own algorithm. The ranks have the same bits either way, which differ from each other in rounding.
 *
 * The type of the elements is that of the first argument, which must therefore be a pointer to float, double, int32_t,
 * int64_t, or char (bytes, which can be moved but not reduced). An argument that is invalid on one rank fails on that rank
 * alone; arrays may be NULL if they have no elements. After a failure the contents of the results are undefined. */
typedef enum kolo_type {
    KOLO_TYPE_FLOAT,
    KOLO_TYPE_DOUBLE,
    KOLO_TYPE_INT32,
    KOLO_TYPE_INT64,
    KOLO_TYPE_BYTE
} kolo_type;

/* The kolo_type of a pointer's target. NULL counts as a pointer to float. */
#define KOLO_TYPE_OF(pointer)                                                                                          \
    _Generic((pointer),                                                                                                \
        float *: KOLO_TYPE_FLOAT,                                                                                      \
        const float *: KOLO_TYPE_FLOAT,                                                                                \
        void *: KOLO_TYPE_FLOAT,                                                                                       \
        double *: KOLO_TYPE_DOUBLE,                                                                                    \
        const double *: KOLO_TYPE_DOUBLE,                                                                              \
        int *: KOLO_TYPE_INT32,                                                                                        \
        const int *: KOLO_TYPE_INT32,                                                                                  \
        long *: KOLO_TYPE_INT64,                                                                                       \
        const long *: KOLO_TYPE_INT64,                                                                                 \
        long long *: KOLO_TYPE_INT64,                                                                                  \
        const long long *: KOLO_TYPE_INT64,                                                                            \
        char *: KOLO_TYPE_BYTE,                                                                                        \
        const char *: KOLO_TYPE_BYTE,                                                                                  \
        unsigned char *: KOLO_TYPE_BYTE,                                                                               \
        const unsigned char *: KOLO_TYPE_BYTE)
#define KOLO_FIRST_(first, ...) first
/* The type of the elements of a call whose arguments begin with an array. */
#define KOLO_TYPE_OF_FIRST_(...) KOLO_TYPE_OF(KOLO_FIRST_(__VA_ARGS__, 0))

/* Some of the ranks, as Horovod's process sets. Collectives with .process_set are between its members alone: sizes and
 * orders in their comments are then those of the set, while .root stays a rank of the job. Only the members call them; on
 * any other rank such a call fails. Members compare their calls and wait for one another as all ranks do, and sentences
 * give the members' ranks in the job. Ranks that are in several sets must call them in the same order, which nothing
 * compares: each rank then waits in another set, until KOLO_STALL_LIMIT ends the job with a sentence that names the sets by
 * the order of their kolo_add_process_set(), from 1: "process set 2 (ranks 0, 1)". */
typedef struct kolo_process_set kolo_process_set;
/* Makes a set of ranks[count], in any order; within the set they are numbered in the order of their ranks. All ranks of
 * the job must call it with the same ranks, also those that are not in the set. NULL on failure: a rank that does not
 * exist or comes twice, other ranks than on rank 0, or ranks that TF_CONFIG names: sets, and kolo_join(), want MPI's. */
#define kolo_add_process_set(ranks, count) kolo_add_process_set_at(ranks, count, KOLO_HERE)
kolo_process_set *kolo_add_process_set_at(const int *ranks, int count, kolo_here here);
/* Frees a set. All its members must call it, before kolo_finish(), which frees those that are left. It first waits for the
 * asynchronous calls between the members. Calls with a set that was freed fail; freeing it again does nothing. */
void kolo_process_set_free(kolo_process_set **set);
/* This rank's number in the set, from 0, or -1 if it is no member; the number of members. NULL: all ranks. Of a set that
 * was freed: -1 and 0. */
int kolo_process_set_rank(const kolo_process_set *set);
int kolo_process_set_size(const kolo_process_set *set);

typedef struct kolo_allreduce_args {
    int _;
    void *values; /* [count] */
    int64_t count;
    kolo_guard *guard;
    kolo_reduce_op op; /* default KOLO_REDUCE_SUM */
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_allreduce_args;

/* values[count] becomes the sum over all ranks, or another reduction by .op, with the same bits on every rank. After
 * another rank's kolo_join() KOLO_REDUCE_ADASUM fails. */
#define kolo_allreduce(...)                                                                                            \
    kolo_allreduce_at(&(const kolo_allreduce_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_allreduce_at(const kolo_allreduce_args *args, kolo_type type, kolo_here here);

typedef struct kolo_grouped_allreduce_args {
    int _;
    float *const *arrays;  /* [number], with counts[i] elements each */
    const int64_t *counts; /* [number] */
    int number;            /* of arrays, at least 0 */
    kolo_guard *guard;
    kolo_reduce_op op; /* default KOLO_REDUCE_SUM */
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_grouped_allreduce_args;

/* An all-reduce of several arrays of floats, which are moved together: faster than a call for each if they are small. */
#define kolo_grouped_allreduce(...)                                                                                    \
    kolo_grouped_allreduce_at(&(const kolo_grouped_allreduce_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_grouped_allreduce_at(const kolo_grouped_allreduce_args *args, kolo_here here);

typedef struct kolo_broadcast_args {
    int _;
    void *values; /* [count] */
    int64_t count;
    int root; /* 0 … size-1; default 0 */
    kolo_guard *guard;
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_broadcast_args;

/* values[count] becomes that of rank `root`. */
#define kolo_broadcast(...)                                                                                            \
    kolo_broadcast_at(&(const kolo_broadcast_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_broadcast_at(const kolo_broadcast_args *args, kolo_type type, kolo_here here);

typedef struct kolo_allgather_args {
    int _;
    const void *values; /* [count] */
    int64_t count;
    void *all; /* [size][count], of the same type */
    kolo_guard *guard;
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_allgather_args;

/* all[size][count] becomes the values of all ranks, in the order of the ranks. */
#define kolo_allgather(...)                                                                                            \
    kolo_allgather_at(&(const kolo_allgather_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_allgather_at(const kolo_allgather_args *args, kolo_type type, kolo_here here);

typedef struct kolo_allgatherv_args {
    int _;
    const void *values; /* [count] */
    int64_t count;      /* may differ between the ranks */
    void *all;          /* [room], of the same type */
    int64_t room;       /* elements */
    kolo_guard *guard;
    int64_t *counts; /* [size] becomes the counts of all ranks; NULL: not wanted */
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_allgatherv_args;

/* all[] becomes the values of all ranks one after the other, in the order of the ranks. If a rank has less room than the
 * sum of the counts, the call fails on every rank. */
#define kolo_allgatherv(...)                                                                                           \
    kolo_allgatherv_at(&(const kolo_allgatherv_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_allgatherv_at(const kolo_allgatherv_args *args, kolo_type type, kolo_here here);

typedef struct kolo_reduce_scatter_args {
    int _;
    const void *values; /* [size][count] */
    int64_t count;
    void *mine; /* [count], of the same type */
    kolo_guard *guard;
    kolo_reduce_op op; /* default KOLO_REDUCE_SUM */
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_reduce_scatter_args;

/* mine[count] becomes the sum over all ranks of their values[rank], with this rank's number, or another reduction by
 * .op. It is an all-reduce of which each rank keeps its own part. */
#define kolo_reduce_scatter(...)                                                                                       \
    kolo_reduce_scatter_at(&(const kolo_reduce_scatter_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__),    \
                           KOLO_HERE)
kolo_status kolo_reduce_scatter_at(const kolo_reduce_scatter_args *args, kolo_type type, kolo_here here);

typedef struct kolo_alltoall_args {
    int _;
    const void *values; /* [size][count] */
    int64_t count;
    void *received; /* [size][count], of the same type; not the same memory */
    kolo_guard *guard;
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_alltoall_args;

/* Sends values[i] to rank i; received[i] becomes the data that rank i has sent to this rank. */
#define kolo_alltoall(...)                                                                                             \
    kolo_alltoall_at(&(const kolo_alltoall_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_alltoall_at(const kolo_alltoall_args *args, kolo_type type, kolo_here here);

typedef struct kolo_alltoallv_args {
    int _;
    const void *values;    /* the elements for rank 0, then those for rank 1, and so on */
    const int64_t *counts; /* [size] the number of elements for each rank */
    void *received;        /* [room], of the same type; not the same memory */
    int64_t room;          /* elements */
    kolo_guard *guard;
    int64_t *received_counts; /* [size] becomes the number of elements from each rank; NULL: not wanted */
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_alltoallv_args;

/* The same with any number of elements for each pair of ranks: received[] becomes the elements from rank 0, then
 * those from rank 1, and so on. If a rank has less room than it receives, the call fails on every rank. */
#define kolo_alltoallv(...)                                                                                            \
    kolo_alltoallv_at(&(const kolo_alltoallv_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_alltoallv_at(const kolo_alltoallv_args *args, kolo_type type, kolo_here here);

typedef struct kolo_barrier_args {
    int _;
    kolo_guard *guard;
    const kolo_process_set *process_set; /* default: all ranks */
} kolo_barrier_args;

/* Waits until all ranks have called it. */
#define kolo_barrier(...) kolo_barrier_at(&(const kolo_barrier_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_barrier_at(const kolo_barrier_args *args, kolo_here here);

/* For ranks that run out of data at different times, as Horovod's join: a rank that has nothing more to do calls it, and
 * returns when all ranks have. Until then it takes part in the calls of the others:
 *   kolo_allreduce, kolo_grouped_allreduce: with zeros, which means nothing: a sum, a minimum, a maximum or a product is
 *     that over the other ranks. A mean is their sum divided by the number of all ranks. KOLO_REDUCE_ADASUM fails.
 *   kolo_allgatherv: with 0 elements, and its count is 0.
 *   kolo_barrier.
 * Any other collective of all ranks fails while a rank has joined, and so do kolo_fit() and kolo_train_on_batch() under
 * kolo_distributed(). A member that has joined does not come to the collectives of a process set. Returns the rank that
 * joined last, the highest one of several that made equally many calls before; -1 on failure. Its weights have seen every
 * update: kolo_broadcast(weights, count, kolo_join()). */
#define kolo_join() kolo_join_at(KOLO_HERE)
int kolo_join_at(kolo_here here);

/* Asynchronous collectives, as in Horovod. They have the arguments of the calls without _async, return at once, and run
 * in a thread of the library, one after the other. A rank's collectives run in the order in which it has called them,
 * so a call without _async first waits for the asynchronous calls before it. All ranks start the same asynchronous calls
 * in the same order; a call with _async and one without are not the same. Until kolo_synchronize() has returned, the
 * arrays must stay where they are, no thread may change them, and the results are undefined. Each handle needs one
 * kolo_synchronize(); kolo_finish() completes the calls whose handles are still open. Messages do not wait for them.
 *
 * With one rank they have run when they return. A handle is a number above 0; 0 means that the call failed, and nothing
 * was started. At most KOLO_HANDLES_MAX handles may be open. */
typedef int64_t kolo_handle;
#define KOLO_HANDLES_MAX (1 << 20)

#define kolo_allreduce_async(...)                                                                                      \
    kolo_allreduce_async_at(&(const kolo_allreduce_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__),        \
                            KOLO_HERE)
kolo_handle kolo_allreduce_async_at(const kolo_allreduce_args *args, kolo_type type, kolo_here here);
/* The lists .arrays and .counts may be freed at once, the arrays may not. */
#define kolo_grouped_allreduce_async(...)                                                                              \
    kolo_grouped_allreduce_async_at(&(const kolo_grouped_allreduce_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_handle kolo_grouped_allreduce_async_at(const kolo_grouped_allreduce_args *args, kolo_here here);
#define kolo_broadcast_async(...)                                                                                      \
    kolo_broadcast_async_at(&(const kolo_broadcast_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__),        \
                            KOLO_HERE)
kolo_handle kolo_broadcast_async_at(const kolo_broadcast_args *args, kolo_type type, kolo_here here);
#define kolo_allgather_async(...)                                                                                      \
    kolo_allgather_async_at(&(const kolo_allgather_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__),        \
                            KOLO_HERE)
kolo_handle kolo_allgather_async_at(const kolo_allgather_args *args, kolo_type type, kolo_here here);
#define kolo_reduce_scatter_async(...)                                                                                 \
    kolo_reduce_scatter_async_at(&(const kolo_reduce_scatter_args){._ = 0, __VA_ARGS__},                               \
                                 KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_handle kolo_reduce_scatter_async_at(const kolo_reduce_scatter_args *args, kolo_type type, kolo_here here);
#define kolo_alltoall_async(...)                                                                                       \
    kolo_alltoall_async_at(&(const kolo_alltoall_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__),          \
                           KOLO_HERE)
kolo_handle kolo_alltoall_async_at(const kolo_alltoall_args *args, kolo_type type, kolo_here here);

/* Whether the call has run, well or not. Does not wait. false for a handle that is not open. */
#define kolo_poll(handle) kolo_poll_at(handle, KOLO_HERE)
bool kolo_poll_at(kolo_handle handle, kolo_here here);
/* Waits until the call has run, frees the handle, and returns what the call without _async would have returned. */
#define kolo_synchronize(handle) kolo_synchronize_at(handle, KOLO_HERE)
kolo_status kolo_synchronize_at(kolo_handle handle, kolo_here here);

/* Messages from one rank to another. They are no collectives: only the two ranks call. Messages of one rank with one tag
 * are received in the order in which they were sent. A message has at most 2³⁰ bytes. It carries the type of its elements:
 * it is received as that type, or as char, and bytes are received as any type.
 *
 * A call that waits for KOLO_STALL_LIMIT seconds ends the job with a sentence that names both ranks: two ranks that send
 * each other a large message first wait for ever, for instance. The time begins anew with each microbatch, read, download
 * or message of any other rank. In a notebook, where the default is no limit, the call fails instead. A message to or from a
 * rank that has called kolo_finish() fails at once. */
typedef struct kolo_message {
    int from; /* rank */
    int tag;
    int64_t bytes;
} kolo_message;
#define KOLO_ANY_RANK (-1)
#define KOLO_ANY_TAG  (-1)
#define KOLO_TAG_MOST 32767

typedef struct kolo_send_args {
    int _;
    const void *values; /* [count] */
    int64_t count;
    int to; /* another rank, 0 … size-1 */
    kolo_guard *guard;
    int tag; /* 0 … KOLO_TAG_MOST, default 0 */
} kolo_send_args;

/* Sends a message. Returns when the values may be changed, which for a large message is when it is received. */
#define kolo_send(...)                                                                                                 \
    kolo_send_at(&(const kolo_send_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_send_at(const kolo_send_args *args, kolo_type type, kolo_here here);

typedef struct kolo_receive_args {
    int _;
    void *values;  /* [count] */
    int64_t count; /* the most elements that the message may have */
    int from;      /* another rank, or KOLO_ANY_RANK */
    kolo_guard *guard;
    int tag;               /* 0 … KOLO_TAG_MOST, or KOLO_ANY_TAG; default 0 */
    kolo_message *message; /* becomes the message's sender, tag and size; NULL: not wanted */
} kolo_receive_args;

/* Waits for a message. A message with more elements, or of another type, stays where it is, and the call fails with
 * KOLO_INVALID. */
#define kolo_receive(...)                                                                                              \
    kolo_receive_at(&(const kolo_receive_args){._ = 0, __VA_ARGS__}, KOLO_TYPE_OF_FIRST_(__VA_ARGS__), KOLO_HERE)
kolo_status kolo_receive_at(const kolo_receive_args *args, kolo_type type, kolo_here here);

typedef struct kolo_probe_args {
    int _;
    int from; /* another rank, or KOLO_ANY_RANK */
    kolo_guard *guard;
    int tag;               /* 0 … KOLO_TAG_MOST, or KOLO_ANY_TAG; default 0 */
    kolo_message *message; /* becomes the message's sender, tag and size, if there is one; NULL: not wanted */
} kolo_probe_args;

/* Whether there is a message that kolo_receive() would not wait for. False on failure, too. */
#define kolo_probe(...) kolo_probe_at(&(const kolo_probe_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
bool kolo_probe_at(const kolo_probe_args *args, kolo_here here);

/* An all-reduce of your own, between ranks, written with kolo_send() and kolo_receive():
 *
 *     kolo_status naive(float *values, int64_t count, void *user); // rank 0 adds all up and sends the sum back
 *     kolo_own_comm mine = {.name = "naive", .allreduce = naive};
 *     kolo_check_comm(&mine);
 *     kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(), .comm = &mine), …);
 *
 * Training then calls it for each sum of gradients, on every rank, in the thread that called kolo_fit(). Everything else
 * goes the built-in way: other collectives, the comparison of the ranks' counts before each call, and under a strategy of
 * several devices the sums within a rank. Kolo keeps the pointer: the struct must remain valid as long as the model.
 *
 * While it runs, kolo_send() and kolo_receive() fail once they have waited for KOLO_STALL_LIMIT seconds (default 60, in a
 * notebook, too), and at once when .allreduce has returned a failure on another rank, and with them the whole call.
 * It must receive all messages that it sends. */
struct kolo_own_comm {
    const char *name; /* "ring", for sentences */
    /* values[count] becomes the sum over all ranks, with the same bits on every rank. The count is the same on all ranks,
     * and may be 0. If it returns another status than KOLO_OK on one rank, the training fails on all, with a
     * sentence that names that rank and the status. */
    kolo_status (*allreduce)(float *values, int64_t count, void *user);
    void *user; /* yours */
    bool in_rank_order; /* each sum is ((x₀ + x₁) + x₂) + …, where xᵣ is rank r's value: kolo_check_comm() then demands
                           these bits */
};

/* Bytes a second; NaN if the check fails. The bus bandwidth of an all-reduce is bytes of the array / seconds of the
 * slowest rank × 2(n−1)/n for n ranks, as in NCCL's tests: the speed of a rank's link if the algorithm is optimal. */
typedef struct kolo_comm_scores {
    double bus_bandwidth; /* of the all-reduce that was checked */
    double built_in;      /* of kolo_allreduce() in the same run */
    double share;         /* bus_bandwidth / built_in */
} kolo_comm_scores;

typedef struct kolo_check_comm_args {
    int _;
    const kolo_own_comm *comm;
    kolo_guard *guard;
    int64_t count;  /* of the floats in the array that is timed; default 2²⁰ */
    double seconds; /* that one kolo_send() or kolo_receive() may wait; default 10 */
    bool quiet;     /* prints nothing; default: rank 0 prints a line */
} kolo_check_comm_args;

/* Checks an all-reduce of your own against the sum over the ranks, and measures it. All ranks must call it, at least two.
 * It sums arrays of 0, 1, n−1, n+1 (n ranks), 1009, 1000 n, 1000 n + 1 and 262147 elements, and one of .count, each twice:
 *   small whole numbers, whose sums are exact, so every order of additions must give the same bits;
 *   numbers between −1 and 1: each sum may differ from that in the order of the ranks, computed without messages, by no
 *   more than (n−1) · 2⁻²³ · Σ|xᵣ|, a bound for any order of additions; with .in_rank_order by nothing.
 * All ranks must have the same bits, nothing may be written outside of values[count], and no message may be left over.
 * The first difference fails the call on all ranks with one sentence: "comm ring: wanted 14 in element 3 of 7 on rank 1,
 * got 10". So do a function that fails, and one whose messages wait too long. Then the messages that are left are dropped,
 * and the ranks can go on. Last, it takes the best of five runs of each all-reduce, in turn. */
#define kolo_check_comm(...) kolo_check_comm_at(&(const kolo_check_comm_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_comm_scores kolo_check_comm_at(const kolo_check_comm_args *args, kolo_here here);

/* ----------------------------------------------------------------------------------------- 10b faults */

typedef struct kolo_fault_args {
    int _;
    int rank; /* where it happens, from 0; in a program of one rank, the number of the device or worker */
    int64_t step; /* when: the number of this rank's own step, from 0, since kolo_compile() */
    /* "kill", "segv", "exit" (the process ends with code 0), "hang" (a device or worker of one process hangs until the
     * others have given it up, or the training is interrupted); "slow:5x": this step and all later ones take five
     * times as long; "flip": one bit of a weight changes after the step. Between ranks: "skip": the rank leaves out the
     * step's first collective; "drop": the rank's next message is lost, and it waits for the answer; "cut": its link is
     * cut, and no message arrives any more. Of a worker, a message is its request to the centre */
    const char *what;
    kolo_guard *guard;
} kolo_fault_args;

/* Asks for a fault in training, to see which rank notices it, how soon, and with which sentence. All ranks may make the
 * same call. The variable KOLO_FAULT does the same for a program that is not changed: "rank=3,step=10,what=kill",
 * several with ; between them. Up to 32 faults. A wrong option is KOLO_INVALID, and no fault; a wrong variable fails
 * kolo_init(). */
#define kolo_fault(...) kolo_fault_at(&(const kolo_fault_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_fault_at(const kolo_fault_args *args, kolo_here here);
/* Forgets all faults, those of KOLO_FAULT, too. */
void kolo_clear_faults(void);

/* --------------------------------------------------------------------------------------- 10c the timeline */

/* Begins to record where the time of a training goes, on every rank and in every thread, for one trace of all ranks at
 * `path`. All ranks must call it. It is Horovod's start_timeline(). KOLO_TIMELINE=FILE, which kolorun --timeline FILE
 * sets, records from kolo_init() to kolo_finish() without a change of the program.
 *
 * The trace is JSON in Chrome's Trace Event Format. https://ui.perfetto.dev and chrome://tracing open it;
 * kolo_show_timeline() draws it. Its processes are the ranks. Its threads are "main", the devices ("device 0", and
 * "device 0, thread 1" where a device computes with several threads), the workers of asynchronous strategies,
 * "evaluation", "communication" and "input 0". Times are those of rank 0's clock; on other hosts the offset of the clock is measured at
 * the beginning and at the end, to half of a round trip. An event has a name, a duration, and one of these categories:
 *   step: a training step of a replica; the others of a device are within it, and may be within each other
 *   input: samples are gathered or waited for; forward, backward: a layer computes one microbatch
 *   wait: for other ranks, replicas or threads
 *   pack: gradients are copied from the kernels' layout to the array that is summed; reduce: sums over ranks or replicas
 *   update: the optimizer; unpack: the new weights are copied to the kernels' layout
 *   exchange: of a worker with the centre; collective: a broadcast or another collective; validation; save
 *   enqueue: work is handed to a GPU, which computes it later. What the GPU does, a profiler shows: with KOLO_NVTX=1
 *   it also names the layers.
 * Its arguments are the number of the step, of the microbatch or of the bucket of gradients, and the bytes that were
 * moved; of a step the samples that the replica trained on, and of a layer's backward event the bytes of the layer's
 * gradient, which is complete behind the last of them. A rank also says how many cores it may use, and its threads.
 *
 * Results are the same bits as without a timeline. Each thread keeps its newest 65535 events; kolo_stop_timeline() says
 * how many are left out. While it records, each rank has a file beside the trace, `path`.rank0.part and so on, with 5 MiB
 * for each thread. A rank whose host does not have that folder uses one in $TMPDIR.
 *
 * Fails if the file cannot be written, if a timeline is being recorded, or if it fails on another rank. */
#define kolo_start_timeline(path) kolo_start_timeline_at(path, KOLO_HERE)
kolo_status kolo_start_timeline_at(const char *path, kolo_here here);
/* Ends the recording; rank 0 writes the trace. All ranks must call it, or kolo_finish(), which calls it. The file
 * appears completely or not at all. If a rank fails or is killed, kolorun makes the trace of what all ranks on hosts with
 * that folder have recorded until then; without kolorun a rank that fails does so in kolo_finish(). */
#define kolo_stop_timeline() kolo_stop_timeline_at(KOLO_HERE)
kolo_status kolo_stop_timeline_at(kolo_here here);

typedef struct kolo_show_timeline_args {
    const char *_;
    const char *path; /* of a trace that kolo_stop_timeline() or kolorun wrote */
    kolo_guard *guard;
    int step;  /* number of the first step that is shown, from 0; default: a step in the middle of the recording */
    int steps; /* that are shown; default 1 */
    int width; /* pixels, default 740; the height is that of the rows */
    const char *file; /* the chart is also written to this file: .svg or .png */
} kolo_show_timeline_args;

/* Draws steps of a timeline, with a row for each thread of each rank and a colour for each category: a picture in a
 * notebook, letters in a terminal. Where an event is within another one, the inner one is drawn. A column shows the
 * category that takes most of its time. Shows the whole recording if it has no steps, and at most 256 rows. */
#define kolo_show_timeline(...) \
    kolo_show_timeline_at(&(const kolo_show_timeline_args){._ = #__VA_ARGS__, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_show_timeline_at(const kolo_show_timeline_args *args, kolo_here here);

/* --------------------------------------------------------------------------------------------- 11 display */

/* Shows text of a MIME type ("text/plain", "text/html", "image/svg+xml", …) under the notebook cell, also from a
 * launched program. In a terminal it prints text/plain and ignores other types. */
kolo_status kolo_display(const char *mime, const char *text);
/* The same for bytes: "image/png". */
kolo_status kolo_display_bytes(const char *mime, const void *data, size_t size);
/* Shows an output with this id; a later call with the same id replaces it. */
kolo_status kolo_update_display(const char *id, const char *mime, const char *text);
/* Clears the cell's output: at once, or if `wait` when the next output is shown. */
kolo_status kolo_clear_output(bool wait);

typedef struct kolo_series {
    const char *name;
    const double *x; /* NULL: 1, 2, 3, … */
    const double *y; /* a value that is not finite, or not above 0 on a logarithmic axis, is a gap */
    int count;       /* of points */
} kolo_series;
#define KOLO_SERIES_MAX 12

typedef struct kolo_plot_args {
    int _;
    const char *title;
    kolo_guard *guard;
    const char *x_label, *y_label;
    kolo_series series[KOLO_SERIES_MAX];
    const char *const *labels; /* draws bars, with one label for each value of the series; NULL: draws lines */
    bool log_x, log_y;
    bool y_from_zero;
    int width, height; /* pixels, default 640 × 360 */
    const char *file; /* the chart is also written to this file: .svg or .png */
} kolo_plot_args;

/* Draws a chart of lines with points, or of bars: a picture in a notebook, characters in a terminal. */
#define kolo_plot(...) kolo_plot_at(&(const kolo_plot_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_plot_at(const kolo_plot_args *args, kolo_here here);

typedef struct kolo_plot_history_args {
    int _;
    const kolo_history *history;
    kolo_guard *guard;
    const char *metrics[KOLO_METRICS_MAX]; /* names; default: the loss and every metric */
    int width, height; /* pixels of one chart, default 370 × 300 */
    const char *file; /* the charts are also written to this file: .svg or .png */
} kolo_plot_history_args;

/* Draws a chart over the epochs for the loss and for each metric, with the curves of training and validation. */
#define kolo_plot_history(...) kolo_plot_history_at(&(const kolo_plot_history_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_plot_history_at(const kolo_plot_history_args *args, kolo_here here);

typedef struct kolo_plot_samples_args {
    int _;
    const kolo_data *data;
    kolo_guard *guard;
    int64_t first;    /* number of the first sample shown, from 0 */
    int count;        /* samples, at most 1000; default 20 */
    int columns;      /* at most 100; default 10 */
    const char *file; /* the picture is also written to this file: .png */
} kolo_plot_samples_args;

/* Shows samples of a data set, augmented as in training. Samples that are images ({height, width}, or with 1 or 3
 * channels) are shown as pictures, each under its label; white is the largest value shown, at least 1, and black the
 * smallest, at most 0. Of other samples the first numbers are shown. A terminal shows text only. */
#define kolo_plot_samples(...) kolo_plot_samples_at(&(const kolo_plot_samples_args){._ = 0, __VA_ARGS__}, KOLO_HERE)
kolo_status kolo_plot_samples_at(const kolo_plot_samples_args *args, kolo_here here);

/* --------------------------------------------------------------------------------- 12 options of a program */

/* An additional option of one program. Exactly one of flag, count, number, choice and text is set: the value is stored
 * there. */
typedef struct kolo_program_option {
    const char *name;    /* "warmup-epochs" */
    const char *value;   /* the value in the text of --help: "N"; for a choice its words: "adam|sgd|lamb" */
    const char *help;    /* the meaning; --help adds the default, which is the stored value before parsing */
    bool *flag;          /* becomes true; the option has no value */
    int *count;          /* a whole number of at least 1 */
    double *number;      /* a number above 0 */
    const char **choice; /* one of the words of .value; points into the command line */
    const char **text;   /* any text that is not empty; points into the command line */
    bool or_zero;        /* the count or number may also be 0 */
    bool written;        /* the text is a file to write; if it cannot be written, parsing ends as for --save */
    const char *ending;  /* ".png": the text must end with it */
    bool device;         /* the text must name a device: "host", "cpu:0" */
} kolo_program_option;
#define KOLO_OWN_OPTIONS_MAX 32

/* The options that every program of the lessons has. Fill in the program's defaults, then let the command line change
 * them. */
typedef struct kolo_options {
    const char *data; /* --data NAME|FOLDER|synthetic */
    const char *data_help; /* the explanation of --data in --help; default: made from .data */
    int batch_size;
    int epochs;
    bool drop_remainder;
    double learning_rate;
    kolo_precision precision; /* --precision fp32|bf16|fp16|tf32 */
    uint64_t seed; /* for .seed of kolo_compile(); kolo_parse_options() makes KOLO_NEW_SEED of 0 before it reads --seed */
    bool deterministic;
    int devices; /* --devices N, the number of devices, with a replica on each; 0: not given */
    const char *strategy; /* --strategy NAME, one of KOLO_STRATEGIES; NULL: not given */
    int workers, window, servers; /* --workers N, --window N, --servers N, of a strategy of workers; 0: not given */
    const char *record, *replay; /* --record FILE, --replay FILE, likewise; NULL: not given */
    const char *save; /* --save FILE.safetensors */
    const char *history; /* --history FILE, JSON */
    int steps_per_epoch;
    bool no_validation;
    bool trains_nothing; /* the program has only --devices, --help and its additional options */
    int most_devices; /* the most that --devices may be, in a program that models devices; default: the real ones */
    const kolo_program_option *own; /* additional options with unique names, ended by one of all zeros; NULL: none */
} kolo_options;

/* Reads the command line. Call it after kolo_init(); if kolo_init() failed, the program ends here with the exit code of
 * kolo_finish(). --help ends the program with exit code 0. On an unknown option, an impossible value, or more --devices
 * than exist, rank 0 prints one sentence on stderr and every rank exits with code 2; on a --save or --history file that
 * cannot be written, with code 1. */
void kolo_parse_options(int argc, char **argv, kolo_options *options, const char *what_the_program_does);
/* The strategy that the options select. */
kolo_strategy kolo_options_strategy(const kolo_options *options);

#endif
