/* The plugin's custom kernels, as its C files call them. A function enqueues one or a few kernels on the stream and
 * returns. Pointers are device addresses, 16-byte aligned unless a comment says less. Counts are numbers of elements.
 * The .cu files have the kernels and their formulas. A kolo_step_parameters is read on the device, when the kernel
 * runs. */
#ifndef KOLO_CUDA_KERNELS_H
#define KOLO_CUDA_KERNELS_H

#include <cuda_runtime.h>
#include <stddef.h>

#include "backend/step_parameters.h"
#include "core/align.h"
#include "losses/rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of the elements of an array of activations or weights. Kernels compute in float, with long sums in double,
 * and round the results to it. Narrow elements are bfloat16 and half. */
typedef enum kolo_element { KOLO_ELEMENT_FLOAT, KOLO_ELEMENT_BFLOAT16, KOLO_ELEMENT_HALF } kolo_element;
static inline size_t kolo_element_bytes(kolo_element element)
{
    return element == KOLO_ELEMENT_FLOAT ? 4 : 2;
}

/* The functions of pointwise.cu, with the numbers of kolo_activation (cuda/pointwise.c asserts that they are equal). */
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

/* y = x, converted from one element to another and rounded to the nearest, ties to even. */
cudaError_t kolo_cuda_cast(cudaStream_t stream, kolo_element from, const void *x, kolo_element to, void *y,
                           int64_t count);
/* y = f(x). Softmax is computed over rows of `width` elements. */
cudaError_t kolo_cuda_activate(cudaStream_t stream, kolo_element element, kolo_function f, const void *x, void *y,
                               int64_t count, int width);
/* dx = dy · f'(x), computed from x, or from y if x is NULL. Softmax is always computed from y, and a linear function
 * needs neither. */
cudaError_t kolo_cuda_activate_backward(cudaStream_t stream, kolo_element element, kolo_function f, const void *dy,
                                        const void *y, const void *x, void *dx, int64_t count, int width);
/* y = x1 + x2, or relu of that. */
cudaError_t kolo_cuda_add(cudaStream_t stream, kolo_element element, const void *x1, const void *x2, void *y,
                          int64_t count, bool relu);
/* y = (x1 + x2) · [mask > 0], the sum rounded to the element first */
cudaError_t kolo_cuda_add_masked(cudaStream_t stream, kolo_element element, const void *x1, const void *x2,
                                 const void *mask, void *y, int64_t count);
/* y = x1 · x2 */
cudaError_t kolo_cuda_multiply(cudaStream_t stream, kolo_element element, const void *x1, const void *x2, void *y,
                               int64_t count);
/* y = x / (1 − rate) where x is kept, else 0. mask: one byte per element, 1 where x is kept. The microbatch has
 * `microbatch` samples of `elements` elements each. Its first sample is number `first` in the batch of the step
 * parameters. Random numbers: core/philox.h. */
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

/* Gathers samples first … first+microbatch-1 of the batch of the step parameters, by the rules of data/data.h's
 * kolo_gathered, with zeros behind the batch's last sample. Arrays may have any alignment; rows that allow it are
 * copied four elements at a time. The structs may be freed when the call returns. */
cudaError_t kolo_cuda_gather(cudaStream_t stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                             int64_t first, int microbatch, const kolo_gathered *to);

/* ---- ring.cu ---- */

/* take_step_parameters() and copy_to_ring() of a kolo_stream_kind. The rings are in the host's pinned memory, which has
 * one address on the host and on its devices. */
cudaError_t kolo_cuda_take_step_parameters(cudaStream_t stream, kolo_step_parameters *to,
                                           const kolo_step_parameters *ring, kolo_scaling *scaling, kolo_scaling *seen);
cudaError_t kolo_cuda_copy_to_ring(cudaStream_t stream, void *ring, size_t stride,
                                   const kolo_step_parameters *step_parameters, const void *from, size_t bytes);

/* ---- sums.cu ---- */

/* Fails if the plugin has no code for the calling thread's device. */
cudaError_t kolo_cuda_find_code(void);
/* to[i] += from[i]; any alignment. */
cudaError_t kolo_cuda_add_floats(cudaStream_t stream, float *to, const float *from, int64_t count);
/* sum[count] = the sum of `number` arrays of doubles that begin `stride` bytes apart at `parts`. They are added in that
 * order. */
cudaError_t kolo_cuda_sum_doubles(cudaStream_t stream, double *sum, const void *parts, size_t stride, int number,
                                  int64_t count);
/* Adds to *counter the number of threads that found an infinite value or a NaN. It is 0 if all values are finite. */
cudaError_t kolo_cuda_count_odd(cudaStream_t stream, const float *values, int64_t count, unsigned *counter);

/* ---- max_pool.cu, sum_pool.cu ---- */

/* Windows over the images of a microbatch. The larger image is x or dx, the smaller one y or dy. */
typedef struct kolo_pooling {
    int64_t samples;
    int in[2], out[2], channels; /* heights and widths of x and y; channels of both */
    int size[2], stride[2], before[2];
} kolo_pooling;
/* y: the maximum of each window. where, which may be NULL: the maximum's place in the window, as a number of
 * kolo_pooling_place_bytes() bytes. cut: x is a ReLU's output, and a maximum of zero gets no gradient. The ReLU's
 * backward then has nothing left to mask. */
size_t kolo_pooling_place_bytes(const kolo_pooling *pooling);
cudaError_t kolo_cuda_max_pool(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling, const void *x,
                               void *y, void *where, bool cut);
/* The same, with the dropout behind the pooling. A dropped maximum has no place in `where` either, so no mask is
 * needed. The pooling must be kolo_pooling_whole(): its channels fill whole units of sixteen bytes. */
bool kolo_pooling_whole(kolo_element element, const kolo_pooling *pooling);
cudaError_t kolo_cuda_max_pool_dropout(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling,
                                       const void *x, void *y, void *where, bool cut, const kolo_dropout_job *dropout,
                                       const kolo_step_parameters *step_parameters);
/* The gradient. rate: the rate of such a dropout, else 0. bias: NULL, or where to write the sums of dx's channels,
 * which are the gradient of a bias. The pooling must then be kolo_pooling_exact(): small windows that cover each pixel
 * once, and channels that fill whole units of sixteen bytes. */
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
/* y: the sum of each window's elements, or their mean. by: NULL, or factors of x, one per element. The gradient of a
 * sum gives all of dy to each pixel of the window; that of a mean gives dy / n to each of its n pixels. */
cudaError_t kolo_cuda_sum_pool(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling, const void *x,
                               const void *by, void *y, bool mean);
cudaError_t kolo_cuda_sum_pool_backward(cudaStream_t stream, kolo_element element, const kolo_pooling *pooling,
                                        const void *dy, void *dx, bool mean);

/* ---- images.cu ---- */

#define KOLO_PARTS_MAX 8

/* y[sample][h][at] = x[sample][h + down][at + along], or zero outside x. at, along, x_row and y_row are in bytes, and
 * even. */
typedef struct kolo_move {
    int64_t samples;
    int x_height, y_height, down;
    int64_t x_row, y_row, along;
} kolo_move;
cudaError_t kolo_cuda_move(cudaStream_t stream, const kolo_move *move, const void *x, void *y);
/* A row of y is one row of each part, one after the other. A row of part i has bytes[i] bytes, an even number. There
 * are up to KOLO_PARTS_MAX parts. */
cudaError_t kolo_cuda_join(cudaStream_t stream, int64_t rows, int parts, const void *const x[], const int64_t bytes[],
                           void *y);
/* y[n][pixel][c] = x1[n][pixel][c] · x2[n][c] */
cudaError_t kolo_cuda_multiply_channels(cudaStream_t stream, kolo_element element, const void *x1, const void *x2,
                                        void *y, int64_t samples, int64_t pixels, int channels);

/* ---- batch_norm.cu ---- */

/* A microbatch. Its first sample is number `first` of the batch, and step_parameters->samples says how many of its
 * samples count. */
typedef struct kolo_batch_norm_job {
    const kolo_step_parameters *step_parameters;
    int64_t first, rows; /* rows: rows of a sample, of `channels` elements each */
    int microbatch, channels;
    double epsilon;
    bool relu;
    const double *reduced; /* Σx [channels], Σx² [channels] and n of the batch; NULL: mean and variance are used */
    const float *mean, *variance; /* the running mean and variance, used if `reduced` is NULL */
    const float *gamma, *beta; /* each may be NULL */
} kolo_batch_norm_job;
/* Bytes of scratch memory for either of the two sums below. Their tickets are the stream's. */
size_t kolo_cuda_batch_norm_scratch(kolo_element element, const kolo_batch_norm_job *job);
/* sums: Σx [channels], Σx² [channels] and n, the number of rows that count. */
cudaError_t kolo_cuda_batch_norm_moments(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                         const void *x, double *sums, void *scratch, unsigned *tickets);
/* dmean, dvariance: NULL, or where to write the batch's moments times the microbatch's samples, as the running moments
 * take them. other: NULL, or what is added to y after y has been rounded; cut: a ReLU is applied to that sum. */
cudaError_t kolo_cuda_batch_norm(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                 const void *x, void *y, float *dmean, float *dvariance, const void *other, bool cut);
/* sums: Σdz [channels] and Σdz·x̂ [channels], where dz is dy, or 0 where the fused ReLU's output is 0. dgamma, dbeta:
 * each may be NULL. */
cudaError_t kolo_cuda_batch_norm_sums(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                      const void *dy, const void *x, double *sums, float *dgamma, float *dbeta,
                                      void *scratch, unsigned *tickets);
cudaError_t kolo_cuda_batch_norm_backward(cudaStream_t stream, kolo_element element, const kolo_batch_norm_job *job,
                                          const double *sums, const void *dy, const void *x, void *dx);

/* ---- layer_norm.cu ---- */

/* A microbatch of samples of `rows` rows, each of `width` elements. */
typedef struct kolo_layer_norm_job {
    const kolo_step_parameters *step_parameters;
    int64_t first, rows;
    int microbatch, width;
    double epsilon;
} kolo_layer_norm_job;
/* scale, offset, their gradients, dx and other may each be NULL. other is added to dx after dx has been rounded. */
cudaError_t kolo_cuda_layer_norm(cudaStream_t stream, kolo_element element, const kolo_layer_norm_job *job,
                                 const void *x, const float *scale, const float *offset, void *y);
size_t kolo_cuda_layer_norm_scratch(const kolo_layer_norm_job *job);
cudaError_t kolo_cuda_layer_norm_backward(cudaStream_t stream, kolo_element element, const kolo_layer_norm_job *job,
                                          const void *dy, const void *x, const float *scale, void *dx,
                                          const void *other, float *dscale, float *doffset, void *scratch);

/* ---- weights.cu ---- */

/* to = from, converted to `element`: a matrix of rows × columns, or its transpose. If parts > 1, `from` is so many
 * matrices, one after the other, and `to` is their sum, as floats. Any alignment. */
typedef struct kolo_packing {
    const float *from;
    void *to;
    int64_t rows, columns;
    kolo_element element;
    bool transposed;
    int parts;
} kolo_packing;
/* The list may be freed when the call returns. */
cudaError_t kolo_cuda_pack_arrays(cudaStream_t stream, const kolo_packing *moves, int count);

/* ---- bias.cu ---- */

/* Counters that tell the blocks of a launch which of them is the last (device.cuh). They are zeros between launches, so
 * one array is enough for a stream. */
#define KOLO_TICKETS 1024

/* The gradient of a bias and a ReLU: dz = dy · [y > 0] and dbias = Σ dz over the rows; each may be NULL. The matrices
 * are rows × width. dz and y are of `element`; dy is, too, or is of floats, which are rounded to `element` first. y
 * NULL: there is no ReLU. dbias is aligned as a float is. scratch has kolo_cuda_bias_scratch() bytes. */
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
/* y = y + bias, or relu of that, in place, for y of rows × width. bias is aligned as a float is; NULL: there is
 * none. */
cudaError_t kolo_cuda_bias_forward(cudaStream_t stream, kolo_element element, int64_t rows, int width,
                                   const float *bias, bool relu, void *y);

/* ---- conv.cu, conv_filter.cu, conv_direct.cu, conv_first.cu: convolutions of any shape ---- */

/* A convolution of x {microbatch, height, width, channels} to y {microbatch, out_height, out_width, filters} with a
 * kernel {kernel[0], kernel[1], channels / groups, filters}. The kernel is of elements, its gradient of floats. */
typedef struct kolo_conv {
    int microbatch, height, width, channels, out_height, out_width, filters, groups;
    int kernel[2], stride[2], dilation[2], before[2];
    int tensor_cores; /* whether the device has those of Ampere or later; they are used for narrow elements */
    int shared; /* bytes of shared memory that a block may have */
} kolo_conv;

/* y = x ∘ kernel + bias, or relu of that. bias NULL: there is none. */
cudaError_t kolo_cuda_conv(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                           const void *kernel, const float *bias, void *y, bool relu);
/* x = the gradient with respect to x, if y is the gradient with respect to y. With bias and relu it is the forward pass
 * of a transposed convolution. */
cudaError_t kolo_cuda_conv_data(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *y,
                                const void *kernel, const float *bias, void *x, bool relu);
/* The weight gradient is the sum of kolo_cuda_conv_filter_parts() arrays, which are written to `parts`, one after the
 * other. */
int kolo_cuda_conv_filter_parts(kolo_element element, const kolo_conv *conv);
/* Whether there is a fast kernel for this convolution, and for its weight gradient. */
bool kolo_cuda_is_depthwise(const kolo_conv *conv);
bool kolo_cuda_has_filter(kolo_element element, const kolo_conv *conv);
cudaError_t kolo_cuda_conv_filter(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                  const void *dy, float *parts);
/* The convolution of a first layer: a small window over few channels, whose dx is not needed. Its kernel is float32,
 * aligned as a float is. Backward: dy is set to 0 where y <= 0, unless y is NULL; dbias may be NULL. Each of the two
 * gradients is the sum of kolo_cuda_conv_first_parts() arrays, which are written one after the other. */
bool kolo_cuda_conv_first_fits(const kolo_conv *conv);
cudaError_t kolo_cuda_conv_first(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                 const float *kernel, const float *bias, void *y, bool relu);
int kolo_cuda_conv_first_parts(const kolo_conv *conv);
cudaError_t kolo_cuda_conv_first_backward(cudaStream_t stream, kolo_element element, const kolo_conv *conv,
                                          const void *x, const void *dy, const void *y, float *dkernel, float *dbias);

/* ---- conv_pooled.cu, conv_filter.cu: small convolutions with a max pooling behind them ---- */

/* Whether there is a kernel: for 3 × 3 windows over 16, 32 or 64 channels, with 16, 32 or 64 filters and strides of 1,
 * narrow elements, tensor cores, and an output that consists of whole 2 × 2 windows. */
bool kolo_cuda_conv_pooled_fits(kolo_element element, const kolo_conv *conv);
/* y: the maximum of each window of x ∘ kernel + bias (NULL: there is none), or of relu of that; then a dropout, unless
 * that is NULL. where: as in kolo_cuda_max_pool(), with `cut` if relu is set; it may be NULL. */
typedef struct kolo_pooled_y {
    void *y;
    uint8_t *where;
    bool relu;
    const kolo_dropout_job *dropout;
    const kolo_step_parameters *step_parameters;
} kolo_pooled_y;
cudaError_t kolo_cuda_conv_pooled(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                  const void *kernel, const float *bias, const kolo_pooled_y *to);
/* The gradients. rate: the rate of such a dropout, else 0. Those of kernel and bias (NULL: not wanted) are each the sum
 * of kolo_cuda_conv_pooled_parts() arrays, which are written one after the other. */
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

/* At most KOLO_CHUNK neighbouring elements of one span. Every chunk but a span's first begins at a multiple of
 * KOLO_CHUNK in the flat arrays. */
typedef struct kolo_chunk {
    int64_t first;
    int32_t count, span;
} kolo_chunk;
/* Neighbouring chunks of one span. */
typedef struct kolo_part {
    int32_t first, count, span;
} kolo_part;

#define KOLO_COPIES 3 /* the most packed copies of a parameter that an update writes */

/* A packed copy of a parameter. at: its offset in bytes in kolo_cuda_update.packed. */
typedef struct kolo_copy {
    int64_t at;
    kolo_element element;
    bool transposed;
} kolo_copy;

/* Where else a span's gradient and weights are. The span is a matrix of rows × columns. */
typedef struct kolo_alias {
    int64_t gradient; /* its offset in bytes in kolo_cuda_update.left; negative: it is in kolo_cuda_update.gradient */
    int32_t rows, columns;
    int copy_count;
    kolo_copy copies[KOLO_COPIES];
} kolo_alias;

/* A kolo_update_job and how its arrays are cut. All arrays are in the device's memory. */
typedef struct kolo_cuda_update {
    int rule; /* kolo_rule_kind */
    int chunk_count, part_count;
    bool wide; /* whether all flat arrays are 16-byte aligned; set by kolo_cuda_update_all() */
    const kolo_span *spans;
    const kolo_chunk *chunks; /* in the order of the spans, like parts */
    const kolo_part *parts;
    const int32_t *first_part; /* [spans + 1] */
    double *of_gradient, *of_rule; /* [parts][2]: scratch memory for sums */
    float *numbers_before; /* [spans]: scratch memory, a copy of `numbers` */
    float *weights, *gradient, *slots[3], *numbers;
    const kolo_step_parameters *step_parameters;
    double clip_value, clip_norm, global_clip_norm, decay;
    kolo_scaling *scaling;
    const kolo_alias *aliases; /* [spans]; NULL: the spans are in the flat arrays only */
    const char *left; /* kolo_update_job.packed_gradient; NULL: the whole gradient is in `gradient` */
    char *packed; /* where the packed weights are written; NULL: there are none */
} kolo_cuda_update;
/* Whether the update reads the gradient more than once, or overwrites it. All of it must then be in
 * update->gradient. */
bool kolo_cuda_update_measures(const kolo_cuda_update *update);
/* Whether there is a kernel for the sums that a kolo_rule_kind needs. */
bool kolo_cuda_measures_for(int rule);
cudaError_t kolo_cuda_update_all(cudaStream_t stream, const kolo_cuda_update *update);
/* *to = Σ over the spans of l2 / 2 · Σ w². */
cudaError_t kolo_cuda_penalty_of_all(cudaStream_t stream, const kolo_cuda_update *update, double *to);

/* ---- loss.cu ---- */

#define KOLO_LOSS_METRICS 8 /* the most metrics of a model */
typedef struct kolo_loss_metric {
    kolo_formula formula;
    int offset; /* index of its first sum in total_sums; it grows from metric to metric */
    double number;
} kolo_loss_metric;
/* The loss and the metrics of a microbatch. A sample has `rows` rows of `width` outputs each. */
typedef struct kolo_loss_job {
    int64_t first, rows, width;
    int microbatch;
    kolo_formula loss;
    double number;
    kolo_loss_metric metrics[KOLO_LOSS_METRICS];
    int metric_count, sums; /* sums: number of sums of all metrics */
    int shared; /* bytes of shared memory that a block may have */
    kolo_function probabilities; /* softmax or sigmoid, for metrics of probabilities; else linear */
    bool needs_softmax, needs_largest, needs_truth; /* of a row: Σ exp(z), places of largest z and target */
    const float *targets, *weights; /* NULL where there are none */
    const int32_t *labels; /* likewise */
    const void *outputs;
    void *gradient; /* NULL: not wanted; it may be the same array as outputs, which it then overwrites */
    kolo_element outputs_element, gradient_element;
    double *total_samples, *total_loss, *total_sums; /* the results are added to these */
    unsigned *tickets; /* the stream's KOLO_TICKETS */
} kolo_loss_job;
size_t kolo_cuda_loss_scratch(const kolo_loss_job *job);
/* Whether each row of outputs is read only once, at the start. Only then may the outputs be narrow and the gradient
 * overwrite them. */
bool kolo_cuda_loss_reads_once(const kolo_loss_job *job);
cudaError_t kolo_cuda_loss(cudaStream_t stream, const kolo_loss_job *job, const kolo_step_parameters *step_parameters,
                           void *scratch);

/* ---- embedding.cu: tables and their gradients are aligned as their elements are ---- */

/* y[p] = table[tokens[p]], for rows of `size` elements. */
cudaError_t kolo_cuda_embedding(cudaStream_t stream, kolo_element element, const float *tokens, const void *table,
                                void *y, int64_t positions, int size);
/* The gradient of a table of `rows` rows: row r is the sum of dy over the positions whose token is r. A sample has
 * `positions` positions. */
typedef struct kolo_embedding_job {
    int64_t first;
    int microbatch, positions, rows, size;
} kolo_embedding_job;
size_t kolo_cuda_embedding_scratch(const kolo_embedding_job *job);
cudaError_t kolo_cuda_embedding_backward(cudaStream_t stream, kolo_element element, const kolo_embedding_job *job,
                                         const kolo_step_parameters *step_parameters, const float *tokens,
                                         const void *dy, float *table, void *scratch);
/* y = x + table for each sample of the microbatch; the table has `elements` elements. Backward, table = the sum of dy
 * over the samples that count. */
cudaError_t kolo_cuda_position(cudaStream_t stream, kolo_element element, const void *x, const void *table, void *y,
                               int microbatch, int64_t elements);
cudaError_t kolo_cuda_position_backward(cudaStream_t stream, kolo_element element,
                                        const kolo_step_parameters *step_parameters, int64_t first, int microbatch,
                                        int64_t elements, const void *dy, float *table);

/* ---- attention.cu, attention_backward.cu: heads of a size up to KOLO_HEAD_MOST ---- */

#define KOLO_HEAD_MOST 256
/* Attention over a microbatch. A sample of qkv is {length, 3 · heads · size}: queries, keys, values. A sample of y is
 * {length, heads · size}. */
typedef struct kolo_attention_job {
    int64_t first;
    int microbatch, length, heads, size, layer;
    bool causal, tf32; /* tf32: factors that are floats are rounded to TF32 */
    float scale; /* log2(e) / √size: the kernels compute 2^x for exp(x) */
    float inverse_root; /* 1 / √size */
    uint32_t threshold; /* kolo_dropout_threshold(); 0: there is no dropout */
    float keep; /* 1 / (1 − rate) */
} kolo_attention_job;
/* Bytes of shared memory per block, forward and backward. */
size_t kolo_cuda_attention_shared(kolo_element element, const kolo_attention_job *job);
size_t kolo_cuda_attention_backward_shared(kolo_element element, const kolo_attention_job *job);
/* kept: kolo_cuda_attention_kept() bytes that the backward pass reads, or NULL. They begin with two floats per query of
 * each head. */
size_t kolo_cuda_attention_kept(kolo_element element, const kolo_attention_job *job);
cudaError_t kolo_cuda_attention(cudaStream_t stream, kolo_element element, const kolo_attention_job *job,
                                const kolo_step_parameters *step_parameters, const void *qkv, void *y, float *kept);
/* y before it was rounded: y itself if its elements are float, else an array in `kept`. */
const float *kolo_cuda_attention_exact(kolo_element element, const kolo_attention_job *job, const void *y,
                                       const float *kept);
typedef struct kolo_attention_gradients {
    const void *dy, *qkv;
    const float *y, *kept; /* y: kolo_cuda_attention_exact() */
    void *dqkv;
} kolo_attention_gradients;
size_t kolo_cuda_attention_scratch(const kolo_attention_job *job);
cudaError_t kolo_cuda_attention_backward(cudaStream_t stream, kolo_element element, const kolo_attention_job *job,
                                         const kolo_step_parameters *step_parameters,
                                         const kolo_attention_gradients *arrays, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
