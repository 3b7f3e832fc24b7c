/* Our own kernels, as the plugin's C calls them: each of these gives one or a few to a stream and returns. Pointers are
 * the device's, 16-byte aligned unless a comment says less; counts are elements. The .cu files have the kernels and
 * their formulas; what takes a kolo_step_parameters reads it on the device, when it runs. */
#ifndef KOLO_CUDA_KERNELS_H
#define KOLO_CUDA_KERNELS_H

#include <cuda_runtime.h>
#include <stddef.h>

#include "backend/step_parameters.h"
#include "losses/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an array of activations or weights is made of. All arithmetic is float. */
typedef enum kolo_element { KOLO_ELEMENT_FLOAT, KOLO_ELEMENT_BFLOAT16, KOLO_ELEMENT_HALF } kolo_element;
static inline size_t kolo_element_bytes(kolo_element element)
{
    return element == KOLO_ELEMENT_FLOAT ? 4 : 2;
}

/* The functions of activation.cu: those of kolo_activation, by the same numbers (cuda/pointwise.c holds them equal). */
typedef enum kolo_function {
    KOLO_FUNCTION_LINEAR = 1,
    KOLO_FUNCTION_RELU,
    KOLO_FUNCTION_SOFTMAX,
    KOLO_FUNCTION_SIGMOID,
    KOLO_FUNCTION_TANH,
    KOLO_FUNCTION_GELU,
    KOLO_FUNCTION_GELU_TANH,
    KOLO_FUNCTION_SILU,
    KOLO_FUNCTION_LEAKY_RELU,
    KOLO_FUNCTION_ELU
} kolo_function;

/* ---- pointwise.cu ---- */

/* y = x, from one element to another, to the nearest (of two as near the even one). */
cudaError_t kolo_cuda_cast(cudaStream_t stream, kolo_element from, const void *x, kolo_element to, void *y,
                           int64_t count);
/* y = f(x); softmax over rows of `width`. */
cudaError_t kolo_cuda_activate(cudaStream_t stream, kolo_element element, kolo_function f, const void *x, void *y,
                               int64_t count, int width);
/* dx = dy · f'(x), from y where it suffices (x NULL), else from x. */
cudaError_t kolo_cuda_activate_backward(cudaStream_t stream, kolo_element element, kolo_function f, const void *dy,
                                        const void *y, const void *x, void *dx, int64_t count, int width);
/* y = x1 + x2, and relu of that. */
cudaError_t kolo_cuda_add(cudaStream_t stream, kolo_element element, const void *x1, const void *x2, void *y,
                          int64_t count, bool relu);
/* y = (x1 + x2) · [mask > 0], the sum rounded to the element first */
cudaError_t kolo_cuda_add_masked(cudaStream_t stream, kolo_element element, const void *x1, const void *x2,
                                 const void *mask, void *y, int64_t count);
/* y = x1 · x2 */
cudaError_t kolo_cuda_multiply(cudaStream_t stream, kolo_element element, const void *x1, const void *x2, void *y,
                               int64_t count);
/* y = x · scale where kept, else 0; mask: a byte an element, 1 where kept. Of a microbatch of `microbatch` samples of
 * `elements`, which begins with sample `first` of the moment's batch; key: core/random.h. */
typedef struct kolo_dropout_job {
    int64_t first, elements;
    int microbatch, layer;
    double rate;
} kolo_dropout_job;
cudaError_t kolo_cuda_dropout(cudaStream_t stream, kolo_element element, const kolo_dropout_job *job,
                              const kolo_step_parameters *step_parameters, const void *x, void *y, uint8_t *mask);
cudaError_t kolo_cuda_dropout_backward(cudaStream_t stream, kolo_element element, const kolo_dropout_job *job,
                                       const void *dy, const uint8_t *mask, void *dx);

/* ---- gather.cu ---- */

/* Samples first … first+microbatch-1 of the moment's batch, by the rules of data/data.h's kolo_gathered; zeros behind
 * the last that counts. Any alignment; sixteen bytes at a time where rows allow it. The structs may go when it returns.
 */
cudaError_t kolo_cuda_gather(cudaStream_t stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                             int64_t first, int microbatch, const kolo_microbatch_arrays *to);

/* ---- sums.cu ---- */

/* Whether the kernels were built for the thread's device. */
cudaError_t kolo_cuda_find_code(void);
/* to[i] += from[i]; any alignment. */
cudaError_t kolo_cuda_add_floats(cudaStream_t stream, float *to, const float *from, int64_t count);
/* sum[count] = parts 0 … number-1, `stride` bytes apart, added in that order. */
cudaError_t kolo_cuda_sum_doubles(cudaStream_t stream, double *sum, const void *parts, size_t stride, int number,
                                  int64_t count);
/* *counter becomes larger by as many threads as have found a value that is infinite or not a number. */
cudaError_t kolo_cuda_count_odd(cudaStream_t stream, const float *values, int64_t count, unsigned *counter);

/* ---- max_pool.cu, sum_pool.cu ---- */

/* Windows over a microbatch's images; the larger image is x, and in gradients dx. */
typedef struct kolo_pooling {
    int64_t samples;
    int in[2], out[2], channels; /* heights and widths of x and y */
    int size[2], stride[2], before[2];
} kolo_pooling;
/* y: the largest of each window; where, which may be NULL: its place in the window, of so many bytes. cut: x is what a
 * relu made, and where it is zero no gradient shall come: relu's own backward then finds only zeros to cut. */
size_t kolo_pooling_place_bytes(const kolo_pooling *pooling);
cudaError_t kolo_cuda_max_pool(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling, const void *x,
                               void *y, void *where, bool cut);
/* The same and the dropout behind it: what is dropped is nowhere, too, so that no mask is needed. Of a pooling whose
 * channels come in whole sixteen bytes. */
bool kolo_pooling_whole(kolo_element element, const kolo_pooling *pooling);
cudaError_t kolo_cuda_max_pool_dropout(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling,
                                       const void *x, void *y, void *where, bool cut, const kolo_dropout_job *dropout,
                                       const kolo_step_parameters *step_parameters);
/* And back. rate: of such a dropout, else 0. bias, which may be NULL: where the sums of dx's channels are wanted, of a
 * pooling with small windows that cover each pixel once, in whole sixteen bytes. */
typedef struct kolo_pooled_bias {
    float *dbias;
    void *scratch;
    unsigned *tickets; /* the stream's */
} kolo_pooled_bias;
bool kolo_pooling_exact(kolo_element element, const kolo_pooling *pooling);
size_t kolo_cuda_pooled_bias_scratch(kolo_element element, const kolo_pooling *pooling);
cudaError_t kolo_cuda_max_pool_backward(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling,
                                        const void *dy, const void *where, void *dx, double rate,
                                        const kolo_pooled_bias *bias);
/* y: the sum of each window's elements, or their mean; by, which may be NULL: factors of x, as many. And what dx such a
 * y has: of sums all of dy in each pixel. */
cudaError_t kolo_cuda_sum_pool(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling, const void *x,
                               const void *by, void *y, bool mean);
cudaError_t kolo_cuda_sum_pool_backward(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling,
                                        const void *dy, void *dx, bool mean);

/* ---- images.cu ---- */

#define KOLO_PARTS_MAX 8

/* y[sample][h][at] = x[sample][h + down][at + along], or zeros where x ends. Rows are bytes, an even number of them. */
typedef struct kolo_move {
    int64_t samples;
    int x_height, y_height, down;
    int64_t x_row, y_row, along;
} kolo_move;
cudaError_t kolo_cuda_move(cudaStream_t stream, const kolo_move *move, const void *x, void *y);
/* Each of y's rows is a row of each part, bytes[i] long, one behind the other. */
cudaError_t kolo_cuda_join(cudaStream_t stream, int64_t rows, int parts, const void *const x[], const int64_t bytes[],
                           void *y);
/* y[n][pixel][c] = x1[n][pixel][c] · x2[n][c] */
cudaError_t kolo_cuda_multiply_channels(cudaStream_t stream, kolo_element element, const void *x1, const void *x2,
                                        void *y, int64_t samples, int64_t pixels, int channels);

/* ---- batch_norm.cu ---- */

/* A microbatch of which `step_parameters` says how many samples count, the first being number `first` of the batch. */
typedef struct kolo_batch_norm_job {
    const kolo_step_parameters *step_parameters;
    int64_t first, rows; /* rows: of a sample, each of `channels` */
    int microbatch, channels;
    double epsilon;
    bool relu;
    const double *reduced; /* the moments that met, or NULL: */
    const float *mean, *variance; /* then these */
    const float *gamma, *beta; /* each or NULL */
} kolo_batch_norm_job;
/* What the sums need beside; tickets: the stream's. */
size_t kolo_cuda_batch_norm_scratch(kolo_element element, const kolo_batch_norm_job *job);
/* sums: Σx, Σx² [channels] and one n */
cudaError_t kolo_cuda_batch_norm_moments(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                         const void *x, double *sums, void *scratch, unsigned *tickets);
/* dmean, dvariance: each or NULL; the same for other, which is added to y when that has been rounded, cut: and then
 * goes through a relu. */
cudaError_t kolo_cuda_batch_norm(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                 const void *x, void *y, float *dmean, float *dvariance, const void *other, bool cut);
/* sums: Σdy, Σdy·x̂ [channels]; dgamma, dbeta: each or NULL. */
cudaError_t kolo_cuda_batch_norm_sums(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                      const void *dy, const void *x, double *sums, float *dgamma, float *dbeta,
                                      void *scratch, unsigned *tickets);
cudaError_t kolo_cuda_batch_norm_backward(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                          const double *sums, const void *dy, const void *x, void *dx);

/* ---- layer_norm.cu ---- */

/* Rows of `width`, `rows` of them a sample. */
typedef struct kolo_layer_norm_job {
    const kolo_step_parameters *step_parameters;
    int64_t first, rows;
    int microbatch, width;
    double epsilon;
} kolo_layer_norm_job;
/* scale, offset: each or NULL; the same for the gradients, and for other, which is added to dx when that has been
 * rounded. */
cudaError_t kolo_cuda_layer_norm(cudaStream_t stream, kolo_element element, const kolo_layer_norm_job *job,
                                 const void *x, const float *scale, const float *offset, void *y);
size_t kolo_cuda_layer_norm_scratch(kolo_element element, const kolo_layer_norm_job *job);
cudaError_t kolo_cuda_layer_norm_backward(cudaStream_t stream, kolo_element element, const kolo_layer_norm_job *job,
                                          const void *dy, const void *x, const float *scale, void *dx,
                                          const void *other, float *dscale, float *doffset, void *scratch);

/* ---- weights.cu ---- */

/* to = from, as elements: a matrix of rows × columns, or its transpose; or the sum of several, one behind the other,
 * as floats. Any alignment. */
typedef struct kolo_packing {
    const float *from;
    void *to;
    int64_t rows, columns;
    kolo_element element;
    bool transposed;
    int parts;
} kolo_packing;
/* The structs may go when it returns. */
cudaError_t kolo_cuda_pack_arrays(cudaStream_t stream, const kolo_packing *moves, int count);

/* ---- bias.cu ---- */

/* Where blocks of one launch meet (device.cuh): zeros between launches, so one array does for a whole stream. */
#define KOLO_TICKETS 1024

/* Back through relu and a bias: dz = dy · [y > 0], dbias = Σ dz over the rows, each wanted or NULL. Matrices of rows ×
 * width; dz and y of `element`, dy too or of floats, which are rounded to it first. y NULL: no relu. dbias is aligned
 * as a float is. scratch: kolo_cuda_bias_scratch() bytes. */
typedef struct kolo_bias_job {
    int64_t rows;
    int width;
    kolo_element element, dy_element;
    const void *dy, *y;
    void *dz;
    float *dbias;
    void *scratch;
    unsigned *tickets;
} kolo_bias_job;
size_t kolo_cuda_bias_scratch(int64_t rows, int width);
cudaError_t kolo_cuda_bias_backward(cudaStream_t stream, const kolo_bias_job *job);
/* y = y + bias, and relu of that, in its place, of rows × width; bias NULL: none, aligned as a float is. */
cudaError_t kolo_cuda_bias_forward(cudaStream_t stream, kolo_element element, int64_t rows, int width,
                                   const float *bias, bool relu, void *y);

/* ---- conv.cu, conv_tensor.cu, conv_filter.cu, conv_direct.cu, conv_first.cu: convolutions, whatever their shape ----
 */

/* From x, microbatch × height × width × channels, to y, microbatch × out_height × out_width × filters; kernels
 * {kernel[0], kernel[1], channels / groups, filters}, as elements, their gradients as floats. */
typedef struct kolo_conv {
    int microbatch, height, width, channels, out_height, out_width, filters, groups;
    int kernel[2], stride[2], dilation[2], before[2];
    int tensor_cores; /* those of Ampere and later are there, for narrow elements */
    int shared; /* bytes that a block may have */
} kolo_conv;

/* y = x ∘ kernel + bias, and relu of that; bias NULL: none. */
cudaError_t kolo_cuda_conv(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                           const void *kernel, const float *bias, void *y, bool relu);
/* x = the gradient by x where y is that by y; as an operation of its own, too, a transposed convolution's. */
cudaError_t kolo_cuda_conv_data(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *y,
                                const void *kernel, const float *bias, void *x, bool relu);
/* The gradient by the kernel, in so many parts, one behind the other; and their sum. */
int kolo_cuda_conv_filter_parts(kolo_element element, const kolo_conv *conv);
/* Whether there is a kernel of our own for depthwise convolutions like it, or for their gradients by the kernel. */
bool kolo_cuda_is_depthwise(const kolo_conv *conv, bool by_kernel);
cudaError_t kolo_cuda_conv_filter(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                  const void *dy, float *parts);
/* The first layer's: a small window over few channels, of which nobody wants dx. Its kernel is float32, aligned as a
 * float is. Back: dy is masked where y, unless NULL, is not positive; dbias NULL: not wanted. */
bool kolo_cuda_conv_first_fits(const kolo_conv *conv);
cudaError_t kolo_cuda_conv_first(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                 const float *kernel, const float *bias, void *y, bool relu);
int kolo_cuda_conv_first_parts(const kolo_conv *conv); /* of both, as above */
cudaError_t kolo_cuda_conv_first_backward(cudaStream_t stream, kolo_element element, const kolo_conv *conv,
                                          const void *x, const void *dy, const void *y, float *dkernel, float *dbias);

/* ---- conv_pooled.cu, conv_filter.cu: small convolutions with a max pooling behind them ---- */

/* Of 3 × 3 windows over 16, 32 or 64 channels to as many filters, of narrow elements, with whole windows of 2 × 2. */
bool kolo_cuda_conv_pooled_fits(kolo_element element, const kolo_conv *conv);
/* y: the largest of each window of x ∘ kernel + bias (NULL: none), or relu of that; dropout of it, unless NULL. where,
 * which may be NULL: as kolo_cuda_max_pool() has it, of what a relu made if there is one. */
typedef struct kolo_pooled_y {
    void *y;
    uint8_t *where;
    bool relu;
    const kolo_dropout_job *dropout;
    const kolo_step_parameters *step_parameters;
} kolo_pooled_y;
cudaError_t kolo_cuda_conv_pooled(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                  const void *kernel, const float *bias, const kolo_pooled_y *to);
/* And back. rate: of such a dropout, else 0. The gradients by kernel and bias (NULL: not wanted) are left in parts. */
typedef struct kolo_pooled_dy {
    const void *dy;
    const uint8_t *where;
    double rate;
} kolo_pooled_dy;
int kolo_cuda_conv_pooled_parts(const kolo_conv *conv);
cudaError_t kolo_cuda_conv_pooled_filter(cudaStream_t stream, kolo_element element, const kolo_conv *conv,
                                         const void *x, const kolo_pooled_dy *dy, float *dkernel, float *dbias);
cudaError_t kolo_cuda_conv_pooled_data(cudaStream_t stream, kolo_element element, const kolo_conv *conv,
                                       const kolo_pooled_dy *dy, const void *kernel, void *dx);

/* ---- optimizers.cu ---- */

#define KOLO_CHUNK 2048 /* elements */

/* Neighbours of one span, at most KOLO_CHUNK, of which only a span's first does not begin at a multiple of that. */
typedef struct kolo_chunk {
    int64_t first;
    int32_t count, span;
} kolo_chunk;
/* Neighbouring chunks of one span. */
typedef struct kolo_part {
    int32_t first, count, span;
} kolo_part;

#define KOLO_COPIES 3 /* of an array that updates write, besides itself: the most */

/* Packed weights: where they begin, in bytes. */
typedef struct kolo_copy {
    int64_t at;
    kolo_element element;
    bool transposed;
} kolo_copy;

/* Where a span is besides, as a matrix of rows × columns. */
typedef struct kolo_alias {
    int64_t gradient; /* bytes behind where microbatches left theirs; negative: it is with the others */
    int32_t rows, columns;
    int copy_count;
    kolo_copy copies[KOLO_COPIES];
} kolo_alias;

/* A kolo_update_job, and how its arrays are cut; all arrays are the device's. */
typedef struct kolo_cuda_update {
    int rule; /* kolo_rule_kind */
    int chunk_count, part_count;
    bool wide; /* set by kolo_cuda_update_all(): arrays begin on sixteen bytes */
    const kolo_span *spans;
    const kolo_chunk *chunks; /* span by span, as parts are */
    const kolo_part *parts;
    const int32_t *first_part; /* [spans + 1] */
    double *of_gradient, *of_rule; /* [parts][2]: room for sums */
    float *numbers_before; /* [spans]: likewise */
    float *weights, *gradient, *slots[3], *numbers;
    const kolo_step_parameters *step_parameters;
    double clip_value, clip_norm, global_clip_norm, decay;
    kolo_scaling *scaling;
    const kolo_alias *aliases; /* [spans]; NULL: spans are nowhere else */
    const char *left; /* NULL: the gradient is all in its place */
    char *packed; /* NULL: nothing is packed */
} kolo_cuda_update;
/* Whether the gradient is read more than once, or written over: it must be in its place. */
bool kolo_cuda_update_measures(const kolo_cuda_update *update);
cudaError_t kolo_cuda_update_all(cudaStream_t stream, const kolo_cuda_update *update);
cudaError_t kolo_cuda_fill_step_parameters(cudaStream_t stream, kolo_step_parameters *step_parameters,
                                           kolo_scaling *scaling, kolo_scaling *seen);
/* *to = Σ over the spans of l2 / 2 · Σ w². */
cudaError_t kolo_cuda_penalty_of_all(cudaStream_t stream, const kolo_cuda_update *update, double *to);
/* ---- loss.cu ---- */

#define KOLO_LOSS_METRICS 8 /* the most that a model has */
typedef struct kolo_loss_metric {
    kolo_formula formula;
    int offset; /* of its first sum among all; they grow */
    double number;
} kolo_loss_metric;
/* A microbatch's loss: that of its rows, `rows` a sample and each of `width` outputs, and the metrics of them. */
typedef struct kolo_loss_job {
    int64_t first, rows, width;
    int microbatch;
    kolo_formula loss;
    double number;
    kolo_loss_metric metrics[KOLO_LOSS_METRICS];
    int metric_count, sums; /* sums of all of them */
    int shared; /* bytes that a block may have */
    kolo_function probabilities; /* softmax or sigmoid, for metrics that want it first; else linear */
    bool needs_softmax, needs_largest, needs_truth; /* of a row: Σ exp z; the place of the largest z, or target */
    const float *targets, *weights; /* NULL where there are none */
    const int32_t *labels; /* likewise */
    const void *outputs;
    void *gradient; /* NULL: none is wanted; where the outputs are: takes their place */
    kolo_element outputs_element, gradient_element;
    double *total_samples, *total_loss, *total_sums; /* are added to */
    unsigned *tickets; /* the stream's KOLO_TICKETS */
} kolo_loss_job;
size_t kolo_cuda_loss_scratch(const kolo_loss_job *job);
/* Whether it reads each row of such outputs once, at the start: only then they may be narrow, and the gradient may take
 * their place. */
bool kolo_cuda_loss_reads_once(const kolo_loss_job *job);
cudaError_t kolo_cuda_loss(cudaStream_t stream, const kolo_loss_job *job, const kolo_step_parameters *step_parameters,
                           void *scratch);

/* ---- embedding.cu: tables and their gradients are aligned as their elements are ---- */

/* y[p] = table[tokens[p]], rows of `size`. */
cudaError_t kolo_cuda_embedding(cudaStream_t stream, kolo_element element, const float *tokens, const void *table,
                                void *y, int64_t positions, int size);
/* The gradient of a table of `rows` rows: each the sum of dy where the token is its number. `positions` a sample. */
typedef struct kolo_embedding_job {
    int64_t first;
    int microbatch, positions, rows, size;
} kolo_embedding_job;
size_t kolo_cuda_embedding_scratch(const kolo_embedding_job *job);
cudaError_t kolo_cuda_embedding_backward(cudaStream_t stream, kolo_element element, const kolo_embedding_job *job,
                                         const kolo_step_parameters *step_parameters, const float *tokens,
                                         const void *dy, float *table, void *scratch);
/* y = x + table of so many elements, for each of the microbatch's samples; and table = the sum of dy over them. */
cudaError_t kolo_cuda_position(cudaStream_t stream, kolo_element element, const void *x, const void *table, void *y,
                               int microbatch, int64_t elements);
cudaError_t kolo_cuda_position_backward(cudaStream_t stream, kolo_element element,
                                        const kolo_step_parameters *step_parameters, int64_t first, int microbatch,
                                        int64_t elements, const void *dy, float *table);

/* ---- attention.cu, attention_backward.cu: heads of a size up to KOLO_HEAD_MOST ---- */

#define KOLO_HEAD_MOST 256
/* A microbatch's attention: from {length, 3 · heads · size} a sample to {length, heads · size}. */
typedef struct kolo_attention_job {
    int64_t first;
    int microbatch, length, heads, size, layer;
    bool causal, tf32; /* tf32: products of floats are of TF32s */
    float scale; /* log2(e) / √size: scores are exponents of 2 */
    float inverse_root; /* 1 / √size */
    uint32_t threshold; /* of dropout; 0: none */
    float keep; /* 1 / (1 − rate) */
} kolo_attention_job;
/* Bytes of shared memory that a block wants; and on the way back. */
size_t kolo_cuda_attention_shared(kolo_element element, const kolo_attention_job *job);
size_t kolo_cuda_attention_backward_shared(kolo_element element, const kolo_attention_job *job);
/* kept: so many bytes for the way back, or NULL. They begin with two floats a query of a head. */
size_t kolo_cuda_attention_kept(kolo_element element, const kolo_attention_job *job);
cudaError_t kolo_cuda_attention(cudaStream_t stream, kolo_element element, const kolo_attention_job *job,
                                const kolo_step_parameters *step_parameters, const void *qkv, void *y, float *kept);
/* y as it was before it was rounded: y itself, or among what was kept. */
const float *kolo_cuda_attention_exact(kolo_element element, const kolo_attention_job *job, const void *y,
                                       const float *kept);
typedef struct kolo_attention_slopes {
    const void *dy, *qkv;
    const float *y, *kept; /* y: exact */
    void *dqkv;
} kolo_attention_slopes;
size_t kolo_cuda_attention_scratch(const kolo_attention_job *job);
cudaError_t kolo_cuda_attention_backward(cudaStream_t stream, kolo_element element, const kolo_attention_job *job,
                                         const kolo_step_parameters *step_parameters,
                                         const kolo_attention_slopes *slopes, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
