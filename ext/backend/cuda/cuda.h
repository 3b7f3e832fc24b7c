/* Inside the CUDA backend: its streams, and the kernel of an operation.
 *
 * Values have the canonical order, microbatch × shape with the last axis fastest (NHWC); only WEIGHTS and GRADIENT
 * values may have another layout (weights.c). Activations, and weights with more than one axis, have the precision's
 * element. Weights with one axis, parameters' gradients and canonical values are float32; stays_inside() in kernel.c is
 * the exception. An operation gets its activations in one element, job->element: kernel.c converts those that have
 * another one, before or after the operation. To add an operation, declare its maker or its run() here and enter it in
 * the table of kernel.c, write its kernels in a .cu file, and declare their launchers in kernels.h.
 */
#ifndef KOLO_CUDA_H
#define KOLO_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/kernels.h"

#include <sys/types.h>

/* failures.c. KOLO_CUDA(cudaMemsetAsync(…), "clearing memory") returns a failure with a sentence if the call fails. */
#define KOLO_CUDA(call, doing)                                                                                         \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) return kolo_cuda_fail(error_, doing);                                               \
    } while (0)
kolo_status kolo_cuda_fail(cudaError_t error, const char *doing);
#define KOLO_CUDA_ADVICE                                                                                               \
    ": lower the .batch_size or the .micro_batch, free models that are done, or end what else uses the device"

typedef struct kolo_nccl_group kolo_nccl_group; /* nccl.c: a group with streams of other replicas */

struct kolo_stream {
    int device;
    int capability; /* compute capability: 10 · major + minor */
    int shared;     /* the most bytes of shared memory of a block */
    pid_t process; /* the process that opened the stream */
    uint64_t reached; /* bit d: peer access to device d was asked for */
    cudaStream_t handle;
    cudaError_t failed; /* kolo_cuda_add_gradient()'s first failure that is not reported yet, which
                           kolo_cuda_take_failure() reports */
    unsigned *tickets; /* [KOLO_TICKETS] on the device: counters of its kernels, which are zero between kernels */
    struct cublasLtContext *blas;   /* NULL before its first use (matmul.c) */
    struct cudnnContext *dnn;       /* likewise (conv_graph.c) */
    struct kolo_conv_graph *graphs; /* a linked list */
    kolo_nccl_group *group;         /* the group whose sums run on the stream, or NULL */
};

typedef struct kolo_cuda_kernel kolo_cuda_kernel;
#define KOLO_RANGE_ROOM 64

/* One run of an operation's kernel, on one microbatch. */
typedef struct kolo_cuda_job {
    const kolo_cuda_kernel *kernel;
    const kolo_plan *plan;
    const kolo_op *op;
    const kolo_call *call;
    cudaStream_t stream;
    kolo_element element; /* of activations, and of weights with more than one axis */
    void *in[KOLO_OP_INS], *out[KOLO_OP_OUTS]; /* as in the table of plan/plan.h; NULL for -1 */
    void *scratch; /* kernel->scratch bytes, 256-byte aligned */
} kolo_cuda_job;

struct kolo_cuda_kernel {
    const kolo_plan *plan;
    int op;
    kolo_element element;
    kolo_status (*run)(const kolo_cuda_job *job);
    size_t scratch; /* bytes that run() needs; its maker sets it */
    void *state;    /* the maker's private data, and the function that frees it */
    void (*free_state)(void *state);
    bool any_in[KOLO_OP_INS], any_out[KOLO_OP_OUTS]; /* operands that run() takes in any element */
    char range[KOLO_RANGE_ROOM]; /* its name for a profiler */
    ptrdiff_t copy_in[KOLO_OP_INS], copy_out[KOLO_OP_OUTS]; /* scratch offsets of converted copies; -1: no copy */
};

/* An operand's shape for one sample, the size of a shape's last axis, and a value's elements in the whole microbatch
 * (or parameter). */
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
/* The element of a value in memory, and the element that a precision computes with. */
kolo_element kolo_cuda_element(const kolo_plan *plan, int value);
kolo_element kolo_cuda_element_of(kolo_precision precision);
/* For makers: reserves scratch memory, and returns its offset. */
static inline ptrdiff_t kolo_cuda_reserve(size_t *scratch, size_t bytes)
{
    size_t at = *scratch;
    *scratch += kolo_align(bytes, KOLO_GPU_ALIGNMENT);
    return (ptrdiff_t)at;
}

/* For makers: kernel->state becomes a copy of `made`, which is freed with the kernel. `what` names it in the sentence
 * of a failure. */
kolo_status kolo_cuda_keep(kolo_cuda_kernel *kernel, const void *made, size_t bytes, const char *what);

/* kernel.c: the backend's has, prepare, run, release. */
bool kolo_cuda_has(kolo_op_kind kind);
kolo_status kolo_cuda_prepare(kolo_plan *plan, int op, void **made);
kolo_status kolo_cuda_run(void *prepared, const kolo_call *call);
void kolo_cuda_release(void *kernel);

/* weights.c: a layout of WEIGHTS or a GRADIENT that a maker chooses. Without one the value has the canonical order, and
 * the element of kolo_cuda_element(). */
typedef struct kolo_cuda_layout {
    kolo_element element;
    bool transposed; /* the last axis is the slowest: the matrix {product of the other axes, last axis} is transposed */
    bool aligned; /* WEIGHTS of floats get a packed copy; in the canonical weights they may begin at any address */
    int parts; /* the GRADIENT is the sum of this many arrays, stored one after the other; 0 or 1: it is one array */
} kolo_cuda_layout;
/* Packed WEIGHTS of the operation share the memory of earlier ones that have the same parameter and layout. */
void kolo_cuda_share_copies(kolo_plan *plan, const kolo_op *op);
kolo_cuda_layout kolo_cuda_layout_of(const kolo_plan *plan, int value);
/* A GRADIENT that a kernel computes as the sum of several arrays, its parts. They stay in the value, and are summed
 * when all gradients are unpacked. If the gradients of several microbatches are added up, they go to scratch memory,
 * and are summed at once. */
typedef struct kolo_cuda_parts {
    int out, count; /* the index of the output in op->out, where -1 means that there is none; the number of parts */
    bool left; /* the kernel writes to the value itself: the parts, or the gradient if count is 1 */
    ptrdiff_t scratch; /* the parts' offset in the scratch memory, unless left */
} kolo_cuda_parts;
/* The first is for makers, once for each such output. The others are for run(): the address where the kernel writes the
 * parts, or NULL without an output; and the sum, if it is due at once. */
kolo_status kolo_cuda_expect_parts(kolo_cuda_kernel *kernel, kolo_plan *plan, int out, int count,
                                   kolo_cuda_parts *made);
float *kolo_cuda_parts_at(const kolo_cuda_job *job, const kolo_cuda_parts *made);
kolo_status kolo_cuda_sum_parts(const kolo_cuda_job *job, const kolo_cuda_parts *made);
kolo_status kolo_cuda_choose_layout(kolo_plan *plan, int value, kolo_cuda_layout layout);
kolo_status kolo_cuda_pack(const kolo_plan *plan, int value, const float *canonical, void *packed);
kolo_status kolo_cuda_unpack(const kolo_plan *plan, int value, const void *packed, float *canonical);
kolo_status kolo_cuda_convert(const kolo_plan *plan, const kolo_conversion *list, int count);
/* For libraries that want 16-byte aligned biases: *bias becomes the job's operand 2, or a copy of it in the given room,
 * since a bias that is read in place from the canonical weights may begin anywhere. */
kolo_status kolo_cuda_align_bias(const kolo_cuda_job *job, void **bias);
void kolo_cuda_add_gradient(const kolo_plan *plan, int value, void *to, const void *from);
void kolo_cuda_forget(kolo_plan *plan);

/* stream.c */
extern const kolo_stream_kind kolo_cuda_streams;
extern const kolo_update_kind kolo_cuda_updates;
/* Makes the stream's device the calling thread's current one. Fails in a child of fork(). */
kolo_status kolo_cuda_enter(const kolo_stream *stream);
/* Reports stream->failed once. Called by functions that wait for the stream's work. */
kolo_status kolo_cuda_take_failure(kolo_stream *stream);
/* False: the process that opened the stream is one that this process was forked from. */
bool kolo_cuda_opened_here(const kolo_stream *stream);

/* ranges.c: an operation's name on a profiler's time line; "" unless KOLO_NVTX=1. In a captured graph an operation
 * shows only once, when it is captured. */
void kolo_cuda_name_range(const kolo_plan *plan, int op, char text[KOLO_RANGE_ROOM]);
void kolo_cuda_begin_range(const char *text);
void kolo_cuda_end_range(const char *text);

/* devices.c: functions of kolo_device_information, and kolo_backend's microbatch_bytes(). */
extern const kolo_device_information kolo_cuda_information;
int64_t kolo_cuda_microbatch_bytes(int device);
int kolo_cuda_devices(void);

/* memory.c: cudaMalloc() on the thread's current device, cudaFree(), which takes NULL, and kolo_device_information's
 * held(), which counts them. */
cudaError_t kolo_cuda_allocate(void **memory, size_t bytes);
void kolo_cuda_free(void *memory);
int64_t kolo_cuda_held(int device);

/* topology.c: functions of kolo_device_information. */
void kolo_cuda_locate(int device, kolo_spot *spot);
void kolo_cuda_connect(int device, int other, kolo_connection *connection);

/* peers.c: the meter of kolo_device_information. */
extern const kolo_meter kolo_cuda_meter;

/* optimizers.c: functions of kolo_update_kind. */
bool kolo_cuda_has_rule(const kolo_optimizer *optimizer);
kolo_status kolo_cuda_expect_updates(kolo_stream *stream, kolo_update_job *job);
void kolo_cuda_forget_updates(kolo_stream *stream, kolo_update_job *job);
kolo_status kolo_cuda_update_weights(kolo_stream *stream, const kolo_update_job *job);
kolo_status kolo_cuda_penalty(kolo_stream *stream, const kolo_update_job *job, double *to);

/* aliasing.c. The first fills in aliases[span_count], which the caller has zeroed. The others run before and after an
 * update: they unpack the gradients that it does not read through an alias (whole: all gradients), and pack the copies
 * that it does not write through one. */
void kolo_cuda_find_aliases(const kolo_update_job *job, kolo_alias *aliases);
kolo_status kolo_cuda_unpack_left(const kolo_update_job *job, bool whole);
kolo_status kolo_cuda_pack_rest(const kolo_update_job *job);

/* nccl.c: kolo_stream_kind's open_comm() and open_comm_beside(); and a check that fails if the group (NULL: none) has
 * lost a member, which makes its sums invalid. */
kolo_status kolo_nccl_open(kolo_stream *stream, kolo_comm *members, kolo_comm **comm);
kolo_status kolo_nccl_open_beside(kolo_stream *stream, kolo_comm *comm, kolo_comm **beside);
kolo_status kolo_nccl_check(kolo_nccl_group *group);

/* fusion.c: kolo_backend's fuses; and the operation whose work op's kernel does, too, or NULL (plan/fusion.h). */
kolo_fuses kolo_cuda_fuses;
const kolo_op *kolo_cuda_fused(const kolo_plan *plan, const kolo_op *op);
int kolo_cuda_other(const kolo_plan *plan, const kolo_op *add, int value); /* the other operand of `add` */

/* pool.c: describes a pooling. x and y are the values of the larger and the smaller image. */
kolo_pooling kolo_cuda_pooling_of(const kolo_plan *plan, const kolo_op *op, int x, int y);

/* pointwise.c: describes the dropout `drop`, for the job's kernel, which may be that of another operation. */
kolo_dropout_job kolo_cuda_dropout_of(const kolo_cuda_job *job, const kolo_op *drop);

/* loss.c. describe: fills in *job from the plan's loss and metrics; false: one of them is custom, that is, a function
 * of the host. has: the same question alone. aim: fills in the members that depend on the call. */
bool kolo_cuda_describe_loss(const kolo_plan *plan, kolo_loss_job *job);
bool kolo_cuda_has_loss(const kolo_plan *plan);
void kolo_cuda_aim_loss(const kolo_call *call, kolo_loss_job *loss);

/* Functions that run a kernel (kolo_cuda_kernel.run); and makers, which set that and the members that it needs, and the
 * bytes of the operation's workspaces. An operation that needs nothing but a run has no maker. */
typedef kolo_status kolo_cuda_runner(const kolo_cuda_job *job);
typedef kolo_status kolo_cuda_maker(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op);
kolo_cuda_runner kolo_cuda_run_input, kolo_cuda_run_activation, kolo_cuda_run_activation_backward, kolo_cuda_run_add,
    kolo_cuda_run_dropout_backward; /* pointwise.c */
kolo_cuda_maker kolo_cuda_make_dropout, kolo_cuda_make_activation; /* pointwise.c */
kolo_cuda_maker kolo_cuda_make_conv2d, kolo_cuda_make_conv2d_backward, kolo_cuda_make_conv2d_transpose,
    kolo_cuda_make_conv2d_transpose_backward; /* conv2d.c */
kolo_cuda_maker kolo_cuda_make_loss; /* loss.c */
kolo_cuda_maker kolo_cuda_make_dense_loss; /* dense_loss.c */
kolo_cuda_maker kolo_cuda_make_custom; /* custom.c */
kolo_cuda_maker kolo_cuda_make_dense, kolo_cuda_make_dense_backward; /* dense.c */
void kolo_cuda_close_blas(kolo_stream *stream);
kolo_cuda_maker kolo_cuda_make_max_pool2d, kolo_cuda_make_max_pool2d_backward; /* pool.c */
kolo_cuda_runner kolo_cuda_run_average_pool2d, kolo_cuda_run_average_pool2d_backward, kolo_cuda_run_upsample2d,
    kolo_cuda_run_upsample2d_backward; /* pool.c */
kolo_cuda_runner kolo_cuda_run_pad2d, kolo_cuda_run_crop2d, kolo_cuda_run_concatenate, kolo_cuda_run_slice,
    kolo_cuda_run_multiply, kolo_cuda_run_multiply_sum; /* images.c */
kolo_cuda_maker kolo_cuda_make_batch_norm_moments, kolo_cuda_make_batch_norm_sums; /* batch_norm.c */
kolo_cuda_runner kolo_cuda_run_batch_norm, kolo_cuda_run_batch_norm_backward; /* batch_norm.c */
kolo_cuda_runner kolo_cuda_run_layer_norm; /* layer_norm.c */
kolo_cuda_maker kolo_cuda_make_layer_norm_backward; /* layer_norm.c */
kolo_cuda_runner kolo_cuda_run_embedding, kolo_cuda_run_position, kolo_cuda_run_position_backward; /* sequence.c */
kolo_cuda_maker kolo_cuda_make_embedding_backward, kolo_cuda_make_attention,
    kolo_cuda_make_attention_backward; /* sequence.c */
void kolo_cuda_close_dnn(kolo_stream *stream);

#endif
