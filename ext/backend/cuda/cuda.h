/* Inside the CUDA backend: streams, and what an operation's kernel is.
 *
 * Values lie in the canonical order, microbatch × shape with the last axis fastest (NHWC), as float32 where they are
 * canonical or gradients, else as the precision's element: activations, and weights of more than one axis. An operation
 * sees its activations in one element, job->element: where a canonical value is another, kernel.c converts it before
 * or behind. To add an operation: its maker here and in the table of kernel.c, its kernels in a .cu file, their
 * launchers in kernels.h.
 */
#ifndef KOLO_CUDA_H
#define KOLO_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/kernels.h"

#include <sys/types.h>

/* failures.c. KOLO_CUDA(cudaMemsetAsync(…), "clearing memory"): fails with a sentence. */
#define KOLO_CUDA(call, doing)                                                                                         \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) return kolo_cuda_fail(error_, doing);                                               \
    } while (0)
kolo_status kolo_cuda_fail(cudaError_t error, const char *doing);
#define KOLO_CUDA_ADVICE                                                                                               \
    ": lower the .batch_size or the .micro_batch, free models that are done, or end what else uses the device"

typedef struct kolo_cuda_table kolo_cuda_table; /* optimizers.c: of arrays that are updated */
typedef struct kolo_nccl_group kolo_nccl_group; /* backend/cuda/nccl.c: with streams of other replicas */

struct kolo_stream {
    int device;
    int capability; /* compute capability: 10 · major + minor */
    int shared;     /* bytes of shared memory that a block may have */
    pid_t process; /* that opened it */
    cudaStream_t handle;
    cudaError_t failed; /* the first failure of a launch that nobody has been told of (kolo_cuda_tell) */
    unsigned *tickets; /* KOLO_TICKETS zeros on the device, which its kernels count with and leave as zeros */
    kolo_cuda_table *tables; /* a list */
    struct cublasLtContext *blas;   /* NULL before anything wanted it (matmul.c) */
    struct cudnnContext *dnn;       /* likewise (conv_graph.c) */
    struct kolo_conv_graph *graphs; /* a list */
    kolo_nccl_group *group;         /* that it is in, or NULL */
};

typedef struct kolo_cuda_kernel kolo_cuda_kernel;
#define KOLO_RANGE_ROOM 64

/* An operation at work on one microbatch. */
typedef struct kolo_cuda_job {
    const kolo_cuda_kernel *kernel;
    const kolo_plan *plan;
    const kolo_op *op;
    const kolo_call *call;
    cudaStream_t stream;
    kolo_element element; /* of activations and of weights of several axes */
    void *in[KOLO_OP_INS], *out[KOLO_OP_OUTS]; /* as in the table of plan/plan.h; NULL for -1 */
    void *scratch; /* kernel->scratch bytes, 256-byte aligned */
} kolo_cuda_job;

struct kolo_cuda_kernel {
    const kolo_plan *plan;
    int op;
    kolo_element element;
    kolo_status (*run)(const kolo_cuda_job *job);
    size_t scratch; /* that run() asks for; its maker sets it */
    void *own;      /* what its maker made, and how it is freed */
    void (*free_own)(void *own);
    bool any_in[KOLO_OP_INS], any_out[KOLO_OP_OUTS]; /* operands that run() takes in the element that they have */
    char range[KOLO_RANGE_ROOM]; /* its name for a profiler */
    ptrdiff_t copy_in[KOLO_OP_INS], copy_out[KOLO_OP_OUTS]; /* in the scratch memory, of converted operands; else -1 */
};

/* Shapes of the operands, of one sample; their last axis; their elements in the whole microbatch (or parameter). */
static inline kolo_shape kolo_cuda_in(const kolo_cuda_job *job, int i)
{
    return job->plan->values[job->op->in[i]].shape;
}
static inline kolo_shape kolo_cuda_out(const kolo_cuda_job *job, int i)
{
    return job->plan->values[job->op->out[i]].shape;
}
static inline int kolo_cuda_width(kolo_shape shape)
{
    return shape.dim[shape.rank - 1];
}
int64_t kolo_cuda_count(const kolo_plan *plan, int value);
/* What a value is made of in memory; what a precision computes with. */
kolo_element kolo_cuda_element(const kolo_plan *plan, int value);
kolo_element kolo_cuda_element_of(kolo_precision precision);
/* For makers: so many bytes more of scratch memory; where they begin in it. */
static inline ptrdiff_t kolo_cuda_reserve(size_t *scratch, size_t bytes)
{
    size_t at = *scratch;
    *scratch += (bytes + 255) / 256 * 256;
    return (ptrdiff_t)at;
}

/* For makers: kernel->own is a copy of what they found out, freed with the kernel; what: of a failure. */
kolo_status kolo_cuda_keep(kolo_cuda_kernel *kernel, const void *made, size_t bytes, const char *what);

/* kernel.c: the backend's has, prepare, run, release. */
bool kolo_cuda_has(kolo_op_kind kind);
kolo_status kolo_cuda_prepare(kolo_plan *plan, int op, void **made);
kolo_status kolo_cuda_run(void *prepared, const kolo_call *call);
void kolo_cuda_release(void *kernel);

/* weights.c: how WEIGHTS and a GRADIENT lie where it is not in the canonical order as kolo_cuda_element() says, for
 * makers to choose; pack(), unpack(), add(), forget(). */
typedef struct kolo_cuda_layout {
    kolo_element element;
    bool transposed; /* the last axis runs slowest: a matrix of {the others, the last} lies as its transpose */
    bool aligned; /* WEIGHTS of floats are no longer read among all others, where they begin anywhere */
    int parts; /* of a GRADIENT: so many arrays, one behind the other, whose sum it is; 0: it is there itself */
} kolo_cuda_layout;
/* An operation's packed WEIGHTS that lie as earlier ones of the same parameter do are these. */
void kolo_cuda_share_copies(kolo_plan *plan, const kolo_op *op);
kolo_cuda_layout kolo_cuda_layout_of(const kolo_plan *plan, int value);
/* A microbatch's GRADIENT that a kernel leaves in parts: they are summed when all gradients are unpacked; where several
 * microbatches' gradients are added up, at once instead. */
typedef struct kolo_cuda_parts {
    int out, count; /* which of the operation's outputs, that may be none; how many */
    bool left;
    ptrdiff_t scratch; /* where they are in the operation's, unless left */
} kolo_cuda_parts;
/* For makers, once an operation and output; where they are to go, or NULL; and what is to be done with them then. */
kolo_status kolo_cuda_expect_parts(kolo_cuda_kernel *kernel, kolo_plan *plan, int out, int count,
                                   kolo_cuda_parts *made);
float *kolo_cuda_parts_at(const kolo_cuda_job *job, const kolo_cuda_parts *made);
kolo_status kolo_cuda_sum_parts(const kolo_cuda_job *job, const kolo_cuda_parts *made);
kolo_status kolo_cuda_choose_layout(kolo_plan *plan, int value, kolo_cuda_layout layout);
kolo_status kolo_cuda_pack(const kolo_plan *plan, int value, const float *canonical, void *packed);
kolo_status kolo_cuda_unpack(const kolo_plan *plan, int value, const void *packed, float *canonical);
kolo_status kolo_cuda_convert(const kolo_plan *plan, const kolo_conversion *list, int count);
/* count floats that may lie anywhere to where they lie well. */
kolo_status kolo_cuda_copy_floats(cudaStream_t stream, const float *from, void *to, int64_t count);
void kolo_cuda_add_gradient(const kolo_plan *plan, int value, void *to, const void *from);
void kolo_cuda_forget(kolo_plan *plan);

/* stream.c */
extern const kolo_stream_kind kolo_cuda_streams;
extern const kolo_update_kind kolo_cuda_updates;
/* The calling thread's device is the stream's from here on. */
kolo_status kolo_cuda_enter(const kolo_stream *stream);
/* Fails once with what stream->failed keeps: for what waits for the stream's work, or ends a captured graph of it. */
kolo_status kolo_cuda_tell(kolo_stream *stream);
/* False: it is another process's, which this one was forked from. */
bool kolo_cuda_is_mine(const kolo_stream *stream);

/* ranges.c: an operation's name on a profiler's time line; "" unless KOLO_NVTX=1. What is recorded shows there once. */
void kolo_cuda_name_range(const kolo_plan *plan, int op, char text[KOLO_RANGE_ROOM]);
void kolo_cuda_begin_range(const char *text);
void kolo_cuda_end_range(const char *text);

/* devices.c: kolo_device_information's, and how large microbatches may be. */
extern const kolo_device_information kolo_cuda_information;
int64_t kolo_cuda_microbatch_bytes(int device);
int kolo_cuda_devices(void);
kolo_status kolo_cuda_describe(int device, char name[96], int64_t *memory_bytes, int64_t *free_bytes);
bool kolo_cuda_is_called(int device, const char *entry, size_t length);

/* memory.c. cudaMalloc() on the thread's device and its opposite, which takes NULL; kolo_device_information's held().
 */
cudaError_t kolo_cuda_allocate(void **memory, size_t bytes);
void kolo_cuda_free(void *memory);
int64_t kolo_cuda_held(int device);

/* topology.c: kolo_device_information's. */
void kolo_cuda_locate(int device, kolo_spot *spot);
void kolo_cuda_connect(int device, int other, kolo_connection *connection);

/* peers.c: kolo_device_information's. */
extern const kolo_meter kolo_cuda_meter;

/* optimizers.c: kolo_update_kind's. */
bool kolo_cuda_has_rule(const kolo_optimizer *optimizer);
kolo_status kolo_cuda_expect_updates(kolo_stream *stream, kolo_update_job *job);
void kolo_cuda_forget_updates(kolo_stream *stream, kolo_update_job *job);
kolo_status kolo_cuda_update_weights(kolo_stream *stream, const kolo_update_job *job);
kolo_status kolo_cuda_fill(kolo_stream *stream, kolo_step_parameters *step_parameters, kolo_scaling *scaling,
                           kolo_scaling *seen);
kolo_status kolo_cuda_penalty(kolo_stream *stream, const kolo_update_job *job, double *to);
void kolo_cuda_free_tables(kolo_cuda_table *tables); /* takes NULL */

/* aliasing.c: where else the arrays of an update are: flows, zeros, are filled in; what an update does not reach by
 * them is unpacked before it, or packed after it. whole: all of the gradient is unpacked. */
void kolo_cuda_find_aliases(const kolo_update_job *job, kolo_alias *aliases);
kolo_status kolo_cuda_unpack_left(const kolo_update_job *job, bool whole);
kolo_status kolo_cuda_pack_rest(const kolo_update_job *job);

/* nccl.c: a comm for memory of the stream, as kolo_stream_kind has it; and a failure where a member of the group (NULL:
 * none) was lost, so that what was summed is no sum. */
kolo_status kolo_nccl_open(kolo_stream *stream, kolo_comm *members, kolo_comm **comm);
kolo_status kolo_nccl_check(kolo_nccl_group *group);

/* fusion.c: kolo_backend's. And for an operation that shares op's kernel, or NULL: plan/fusion.h. */
kolo_fuses kolo_cuda_fuses;
const kolo_op *kolo_cuda_fused(const kolo_plan *plan, const kolo_op *op);
int kolo_cuda_other(const kolo_plan *plan, const kolo_op *add, int value); /* what is added to the value */

/* pool.c: of a pooling with a larger image x and a smaller one y, which are values. */
kolo_pooling kolo_cuda_pooling_of(const kolo_plan *plan, const kolo_op *op, int x, int y);

/* pointwise.c: a dropout, for a kernel that does it. */
kolo_dropout_job kolo_cuda_dropout_of(const kolo_cuda_job *job, const kolo_op *drop);

/* loss.c: the plan's loss and metrics, for rows of the outputs; false: one of them is a learner's own, which is a
 * function of the host's. And what the call says of them. */
bool kolo_cuda_describe_loss(const kolo_plan *plan, kolo_loss_job *job);
bool kolo_cuda_has_loss(const kolo_plan *plan);
void kolo_cuda_aim_loss(const kolo_call *call, kolo_loss_job *loss);

/* Makers: set kernel->run, and what else it needs; bytes of workspaces, which are theirs. */
typedef kolo_status kolo_cuda_maker(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_cuda_maker kolo_cuda_make_input, kolo_cuda_make_activation, kolo_cuda_make_activation_backward, kolo_cuda_make_add,
    kolo_cuda_make_dropout, kolo_cuda_make_dropout_backward; /* pointwise.c */
kolo_cuda_maker kolo_cuda_make_conv2d, kolo_cuda_make_conv2d_backward, kolo_cuda_make_conv2d_transpose,
    kolo_cuda_make_conv2d_transpose_backward; /* conv2d.c */
kolo_cuda_maker kolo_cuda_make_loss; /* loss.c */
kolo_cuda_maker kolo_cuda_make_dense_loss; /* dense_loss.c */
kolo_cuda_maker kolo_cuda_make_custom; /* own.c */
kolo_cuda_maker kolo_cuda_make_dense, kolo_cuda_make_dense_backward; /* dense.c */
void kolo_cuda_close_blas(kolo_stream *stream);
kolo_cuda_maker kolo_cuda_make_max_pool2d, kolo_cuda_make_max_pool2d_backward, kolo_cuda_make_average_pool2d,
    kolo_cuda_make_average_pool2d_backward, kolo_cuda_make_upsample2d, kolo_cuda_make_upsample2d_backward; /* pool.c */
kolo_cuda_maker kolo_cuda_make_pad2d, kolo_cuda_make_crop2d, kolo_cuda_make_concatenate, kolo_cuda_make_slice,
    kolo_cuda_make_multiply, kolo_cuda_make_multiply_sum; /* images.c */
kolo_cuda_maker kolo_cuda_make_batch_norm_moments, kolo_cuda_make_batch_norm, kolo_cuda_make_batch_norm_sums,
    kolo_cuda_make_batch_norm_backward; /* batch_norm.c */
kolo_cuda_maker kolo_cuda_make_layer_norm, kolo_cuda_make_layer_norm_backward; /* layer_norm.c */

kolo_cuda_maker kolo_cuda_make_embedding, kolo_cuda_make_embedding_backward, kolo_cuda_make_position,
    kolo_cuda_make_position_backward, kolo_cuda_make_attention, kolo_cuda_make_attention_backward; /* sequence.c */
void kolo_cuda_close_dnn(kolo_stream *stream);

#endif
