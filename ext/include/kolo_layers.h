/* Section 4 of kolo.h: layers and models. Included by kolo.h: read that first. */
#ifndef KOLO_LAYERS_H
#define KOLO_LAYERS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------- 4 layers and models */

/* Every layer takes .name (1 to 47 bytes of printable UTF-8, once in a model; default: its kind's, numbered) and
 * .device: where it computes, "cpu:1" or "host" (default: the first device of the replica, as "host" and "cpu:0").
 * Results do not depend on it. Layers that have weights take .l2: λ Σ w² of their kernel is added to the loss, as
 * Keras's l2 regularizer does. */

typedef enum kolo_activation {
    KOLO_LINEAR = 1, /* what leaving it out means, too */
    KOLO_RELU,       /* max(0, x) */
    KOLO_SOFTMAX,    /* exp(x) / Σ exp(x) over the last axis */
    KOLO_SIGMOID,    /* σ(x) = 1 / (1 + exp(−x)) */
    KOLO_TANH,       /* (exp(x) − exp(−x)) / (exp(x) + exp(−x)) */
    KOLO_GELU,       /* x Φ(x), Φ the normal distribution: x (1 + erf(x / √2)) / 2 (Hendrycks and Gimpel 2016) */
    KOLO_GELU_TANH,  /* its approximation x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, as in GPT-2 */
    KOLO_SILU,       /* x σ(x), also called swish (Ramachandran et al. 2017) */
    KOLO_LEAKY_RELU, /* x, or 0.2 x where x < 0 (Maas et al. 2013; Keras's slope) */
    KOLO_ELU         /* x, or exp(x) − 1 where x < 0 (Clevert et al. 2016) */
} kolo_activation;

typedef enum kolo_padding {
    KOLO_VALID = 1, /* no padding (the default) */
    KOLO_SAME       /* zeros around, so that output = ceil(input / stride), as Keras and TensorFlow place them */
} kolo_padding;

/* What a layer is: its options, its shape rule, forward and backward. Defined in layers/layer.h; a layer of one's own
 * is one. */
typedef struct kolo_layer_kind kolo_layer_kind;

/* The sizes of one sample, the outermost first: kolo_input(28, 28, 1), kolo_input(30). */
typedef struct kolo_input_args {
    const char *_;
    int size_1, size_2, size_3, size_4;
    kolo_guard *guard;
} kolo_input_args;

/* 2-D convolution. Input {H, W, C}; output {H', W', filters}, H' = (H − dilation (kh − 1) − 1) / stride + 1 rounded
 * down, or H / stride rounded up with KOLO_SAME. Weights: kernel {kh, kw, C / groups, filters} (Glorot-uniform), bias
 * {filters} (zero). Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning". */
typedef struct kolo_conv2d_args {
    const char *_;
    int filters; /* ≥ 1 */
    kolo_guard *guard;
    int kernel[2]; /* height, width; required */
    int stride[2]; /* default {1, 1} */
    kolo_padding padding; /* default KOLO_VALID */
    kolo_activation activation;
    bool no_bias;
    double l2; /* default 0 */
    int groups; /* of channels and of filters, each group apart; divides both; default 1 */
    int dilation[2]; /* from one element under the kernel to the next; default {1, 1} */
    const char *name;
    const char *device;
} kolo_conv2d_args;

/* A convolution of each channel by itself. Input {H, W, C}; output {H', W', C · depth_multiplier}, channel c giving
 * outputs c · depth_multiplier … Weights: kernel {kh, kw, C, depth_multiplier} (Glorot-uniform), bias
 * {C · depth_multiplier} (zero). Chollet 2017, "Xception: deep learning with depthwise separable convolutions". */
typedef struct kolo_depthwise_conv2d_args {
    const char *_;
    int depth_multiplier; /* outputs a channel; default 1 */
    kolo_guard *guard;
    int kernel[2]; /* height, width; required */
    int stride[2]; /* default {1, 1} */
    kolo_padding padding; /* default KOLO_VALID */
    kolo_activation activation;
    bool no_bias;
    double l2; /* default 0 */
    int dilation[2]; /* default {1, 1} */
    const char *name;
    const char *device;
} kolo_depthwise_conv2d_args;

/* Transposed convolution: a convolution's gradient by its input, as a layer; it makes images larger. Input {H, W, C};
 * output {H', W', filters}. Weights: kernel {kh, kw, filters, C} (Glorot-uniform), bias {filters} (zero).
 * H' = H stride + max(kh − stride, 0), or H stride with KOLO_SAME; with .output_padding p it is (H − 1) stride + kh +
 * p, with KOLO_SAME less 2 (kh / 2). Sizes and places are Keras's and TensorFlow's. Dumoulin and Visin 2016. */
typedef struct kolo_conv2d_transpose_args {
    const char *_;
    int filters; /* ≥ 1 */
    kolo_guard *guard;
    int kernel[2]; /* height, width; required */
    int stride[2]; /* default {1, 1} */
    kolo_padding padding; /* default KOLO_VALID */
    int output_padding[2]; /* < stride; KOLO_NONE for a padding of 0. Default: the sizes above without it */
    kolo_activation activation;
    bool no_bias;
    double l2; /* default 0 */
    const char *name;
    const char *device;
} kolo_conv2d_transpose_args;

/* The largest of each window. Input {H, W, C}; the window does not leave the input unless padding is KOLO_SAME. */
typedef struct kolo_max_pool2d_args {
    const char *_;
    int height, width; /* of the window; width defaults to height */
    kolo_guard *guard;
    int stride[2]; /* default: the window */
    kolo_padding padding;
    const char *name;
    const char *device;
} kolo_max_pool2d_args;

/* The mean of each window; zeros of padding are not counted. Input {H, W, C}. */
typedef struct kolo_average_pool2d_args {
    const char *_;
    int height, width; /* of the window; width defaults to height */
    kolo_guard *guard;
    int stride[2]; /* default: the window */
    kolo_padding padding;
    const char *name;
    const char *device;
} kolo_average_pool2d_args;

/* The mean, or the largest, of each channel of the whole image. Input {H, W, C}; output {C}. */
typedef struct kolo_global_pool2d_args {
    const char *_;
    kolo_guard *guard;
    bool keep_dims; /* output {1, 1, C} */
    const char *name;
    const char *device;
} kolo_global_pool2d_args;

/* Zeros around an image. Input {H, W, C}. kolo_zero_padding2d(1), kolo_zero_padding2d(.bottom = 1, .right = 1). */
typedef struct kolo_zero_padding2d_args {
    const char *_;
    int all; /* rows or columns on every side, where none is given for that side; default 0 */
    kolo_guard *guard;
    int top, bottom, left, right; /* default: all */
    const char *name;
    const char *device;
} kolo_zero_padding2d_args;

/* Each pixel height × width times: the nearest neighbour. Input {H, W, C}; output {H · height, W · width, C}. */
typedef struct kolo_upsampling2d_args {
    const char *_;
    int height, width; /* default 2; width defaults to height */
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_upsampling2d_args;

/* In training, each element becomes 0 with probability rate, else is divided by 1 - rate. */
typedef struct kolo_dropout_args {
    const char *_;
    double rate; /* 0 ≤ rate < 1 */
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_dropout_args;

/* All elements of a sample in one row, in their order: {H, W, C} becomes {H · W · C}. */
typedef struct kolo_flatten_args {
    const char *_;
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_flatten_args;

/* The same elements, in their order, under another shape: kolo_reshape(7, 7, 64), kolo_reshape(-1, 16). */
typedef struct kolo_reshape_args {
    const char *_;
    int size_1, size_2, size_3, size_4; /* one may be -1: what the others leave */
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_reshape_args;

/* y = activation(x·kernel + bias), over the last axis. Weights: kernel {inputs, units} (Glorot-uniform), bias {units}
 * (zero). */
typedef struct kolo_dense_args {
    const char *_;
    int units; /* ≥ 1 */
    kolo_guard *guard;
    kolo_activation activation;
    bool no_bias;
    double l2; /* default 0 */
    const char *name;
    const char *device;
} kolo_dense_args;

/* An activation by itself, element by element; the shape stays. */
typedef struct kolo_activate_args {
    const char *_;
    kolo_activation activation;
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_activate_args;

/* The sum, element by element, of two or more inputs of one shape: kolo_apply(kolo_add(), x, y). */
typedef struct kolo_add_args {
    const char *_;
    kolo_guard *guard;
    kolo_activation activation;
    const char *name;
    const char *device;
} kolo_add_args;

/* A learned vector for each token: input {length} (or more axes) of numbers 0 … vocabulary-1, the model's own input;
 * output {length, size}. Another number ends the call with a sentence. Weights: embeddings {vocabulary, size} (uniform
 * in ±0.05). */
typedef struct kolo_embedding_args {
    const char *_;
    int vocabulary, size; /* ≥ 1; vocabulary at most 2^24, since features are float32 */
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_embedding_args;

/* Adds a learned vector to each position: y = x + positions. Input {length, size}; weights: positions {length, size}
 * (uniform in ±0.05). */
typedef struct kolo_position_embedding_args {
    const char *_;
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_position_embedding_args;

/* y = scale · (x − mean) / √(variance + epsilon) + offset, mean and variance over the last axis (Ba et al. 2016).
 * Weights: gamma (one) and beta (zero), of the last axis. */
typedef struct kolo_layer_norm_args {
    const char *_;
    kolo_guard *guard;
    double epsilon; /* > 0, default 1e-3 */
    bool no_scale, no_offset;
    const char *name;
    const char *device;
} kolo_layer_norm_args;

/* Self-attention (Vaswani et al. 2017), as Keras's MultiHeadAttention(heads, key_dim)(x, x): input {length, size};
 * output the same. Each head attends with softmax(q·kᵀ / √key_size)·v. Weights: qkv_kernel {size, 3 · heads ·
 * key_size}, at first the queries of all heads, then the keys, then the values, and output_kernel {heads · key_size,
 * size} (Glorot-uniform, each projection by itself); qkv_bias and output_bias (zero). */
typedef struct kolo_multi_head_attention_args {
    const char *_;
    int heads; /* ≥ 1 */
    kolo_guard *guard;
    int key_size;   /* of one head; default: size / heads */
    bool causal;    /* a position sees none after it */
    double dropout; /* of the attention's weights, 0 ≤ dropout < 1; default 0 */
    bool no_bias;
    double l2; /* default 0 */
    const char *name;
    const char *device;
} kolo_multi_head_attention_args;

/* Batch normalisation over the last axis: y = activation(gamma · (x − mean) / √(variance + epsilon) + beta). In
 * training mean and (biased) variance are those of the batch's samples on this replica; in scores and outputs the
 * running ones. Weights, each {channels}: gamma (one), beta (zero), and, not trained, moving_mean (zero),
 * moving_variance (one), which take in every step's: moving ← momentum · moving + (1 − momentum) · the step's; that of
 * several replicas or ranks is the mean over all samples. Deterministic mode on more than one replica or rank needs
 * .synchronized or a .ghost_batch. Ioffe and Szegedy 2015; ghost batches: Hoffer et al. 2017. */
typedef struct kolo_batch_norm_args {
    const char *_;
    kolo_guard *guard;
    double momentum; /* 0 ≤ momentum < 1, default 0.99 */
    double epsilon;  /* default 1e-3 */
    bool no_scale;   /* without gamma */
    bool no_center;  /* without beta */
    kolo_activation activation;
    int ghost_batch; /* statistics over as many neighbouring samples, at most 1024; the same in all layers of a model */
    bool synchronized; /* statistics over the samples of all replicas, and of all ranks under kolo_distributed() */
    const char *name;
    const char *device;
} kolo_batch_norm_args;

/* The product, element by element, of two inputs of one shape; or of an image {H, W, C} and {1, 1, C}, which scales its
 * channels (squeeze and excitation, Hu et al. 2018). */
typedef struct kolo_multiply_args {
    const char *_;
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_multiply_args;

/* Two to eight inputs, one behind the other along an axis; their other sizes are the same. */
typedef struct kolo_concatenate_args {
    const char *_;
    kolo_guard *guard;
    int axis; /* 1 the first of a sample's, as in Keras, whose 0 is the batch; -1 the last. Default: the last */
    const char *name;
    const char *device;
} kolo_concatenate_args;

/* What a variational autoencoder has between its halves: z = mean + exp(log variance / 2) · ε from two inputs of one
 * shape, kolo_apply(kolo_gaussian_sample(), mean, log_variance). ε is drawn anew for every sample and step of
 * kolo_fit(), else 0: kolo_evaluate() and kolo_predict() see the mean. To each sample's loss it adds kl_weight times
 * the divergence of that distribution from the standard one, −Σ (1 + log variance − mean² − variance) / 2. Kingma and
 * Welling 2014. */
typedef struct kolo_gaussian_sample_args {
    const char *_;
    kolo_guard *guard;
    double kl_weight; /* at least 0, default 1 */
    const char *name;
    const char *device;
} kolo_gaussian_sample_args;

/* A layer of one's own: a kind that the caller fills in (layers/layer.h), and what it may want to know. */
typedef struct kolo_custom_args {
    const char *_;
    const kolo_layer_kind *kind; /* required */
    kolo_guard *guard;
    double number[4];
    const void *user; /* the layer's own; outlives the model */
    const char *name;
    const char *device;
} kolo_custom_args;

/* Each has its row in layers/kinds.c, too. */
extern const kolo_layer_kind kolo_input_kind, kolo_conv2d_kind, kolo_depthwise_conv2d_kind, kolo_conv2d_transpose_kind,
    kolo_max_pool2d_kind, kolo_dropout_kind, kolo_flatten_kind, kolo_dense_kind, kolo_activate_kind, kolo_add_kind;
extern const kolo_layer_kind kolo_average_pool2d_kind, kolo_global_average_pool2d_kind, kolo_global_max_pool2d_kind,
    kolo_zero_padding2d_kind, kolo_upsampling2d_kind, kolo_reshape_kind, kolo_multiply_kind, kolo_concatenate_kind;
extern const kolo_layer_kind kolo_embedding_kind, kolo_position_embedding_kind, kolo_layer_norm_kind,
    kolo_multi_head_attention_kind;
extern const kolo_layer_kind kolo_batch_norm_kind, kolo_gaussian_sample_kind;

/* A recipe for a layer: made by the macros below. */
typedef struct kolo_layer {
    const kolo_layer_kind *kind;
    union {
        kolo_input_args input;
        kolo_conv2d_args conv2d;
        kolo_depthwise_conv2d_args depthwise_conv2d;
        kolo_conv2d_transpose_args conv2d_transpose;
        kolo_max_pool2d_args max_pool2d;
        kolo_average_pool2d_args average_pool2d;
        kolo_global_pool2d_args global_pool2d;
        kolo_zero_padding2d_args zero_padding2d;
        kolo_upsampling2d_args upsampling2d;
        kolo_reshape_args reshape;
        kolo_multiply_args multiply;
        kolo_concatenate_args concatenate;
        kolo_gaussian_sample_args gaussian_sample;
        kolo_dropout_args dropout;
        kolo_flatten_args flatten;
        kolo_dense_args dense;
        kolo_activate_args activate;
        kolo_add_args add;
        kolo_embedding_args embedding;
        kolo_position_embedding_args position_embedding;
        kolo_layer_norm_args layer_norm;
        kolo_multi_head_attention_args multi_head_attention;
        kolo_batch_norm_args batch_norm;
        kolo_custom_args custom;
    };
} kolo_layer;

#define kolo_input(...)  ((kolo_layer){.kind = &kolo_input_kind, .input = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_conv2d(...) ((kolo_layer){.kind = &kolo_conv2d_kind, .conv2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_depthwise_conv2d(...)                                                                                     \
    ((kolo_layer){.kind = &kolo_depthwise_conv2d_kind, .depthwise_conv2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_conv2d_transpose(...)                                                                                     \
    ((kolo_layer){.kind = &kolo_conv2d_transpose_kind, .conv2d_transpose = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_max_pool2d(...) ((kolo_layer){.kind = &kolo_max_pool2d_kind, .max_pool2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_average_pool2d(...)                                                                                       \
    ((kolo_layer){.kind = &kolo_average_pool2d_kind, .average_pool2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_global_average_pool2d(...)                                                                                \
    ((kolo_layer){.kind = &kolo_global_average_pool2d_kind, .global_pool2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_global_max_pool2d(...)                                                                                    \
    ((kolo_layer){.kind = &kolo_global_max_pool2d_kind, .global_pool2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_zero_padding2d(...)                                                                                       \
    ((kolo_layer){.kind = &kolo_zero_padding2d_kind, .zero_padding2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_upsampling2d(...) ((kolo_layer){.kind = &kolo_upsampling2d_kind, .upsampling2d = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_reshape(...)      ((kolo_layer){.kind = &kolo_reshape_kind, .reshape = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_multiply(...)     ((kolo_layer){.kind = &kolo_multiply_kind, .multiply = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_concatenate(...)  ((kolo_layer){.kind = &kolo_concatenate_kind, .concatenate = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_gaussian_sample(...)                                                                                      \
    ((kolo_layer){.kind = &kolo_gaussian_sample_kind, .gaussian_sample = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_dropout(...)   ((kolo_layer){.kind = &kolo_dropout_kind, .dropout = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_flatten(...)   ((kolo_layer){.kind = &kolo_flatten_kind, .flatten = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_dense(...)     ((kolo_layer){.kind = &kolo_dense_kind, .dense = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_activate(...)  ((kolo_layer){.kind = &kolo_activate_kind, .activate = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_embedding(...) ((kolo_layer){.kind = &kolo_embedding_kind, .embedding = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_position_embedding(...)                                                                                   \
    ((kolo_layer){.kind = &kolo_position_embedding_kind, .position_embedding = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_layer_norm(...) ((kolo_layer){.kind = &kolo_layer_norm_kind, .layer_norm = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_multi_head_attention(...)                                                                                 \
    ((kolo_layer){.kind = &kolo_multi_head_attention_kind, .multi_head_attention = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_add(...)        ((kolo_layer){.kind = &kolo_add_kind, .add = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_batch_norm(...) ((kolo_layer){.kind = &kolo_batch_norm_kind, .batch_norm = {._ = #__VA_ARGS__, __VA_ARGS__}})
#define kolo_layer_of(...)   kolo_layer_custom((kolo_custom_args){._ = #__VA_ARGS__, __VA_ARGS__})
extern const kolo_layer_kind kolo_no_kind_given; /* of kolo_layer_of() without .kind: fails with a sentence */
static inline kolo_layer kolo_layer_custom(kolo_custom_args args)
{
    return (kolo_layer){.kind = args.kind ? args.kind : &kolo_no_kind_given, .custom = args};
}

typedef struct kolo_model kolo_model;

/* Layers in a row, the first of them kolo_input(). Shapes are checked here; a misfit names the layer. NULL on
 * failure. */
#define kolo_sequential(...) kolo_sequential_at((const kolo_layer[]){__VA_ARGS__, {0}}, KOLO_HERE)
kolo_model *kolo_sequential_at(const kolo_layer *layers, kolo_here here); /* ended by a layer of all zeros */
void kolo_model_free(kolo_model **model);

/* A model with branches: begin with kolo_graph(), apply layers to what came before, and end with kolo_graph_output().
 *
 *     kolo_model *model = kolo_graph();
 *     kolo_tensor x = kolo_graph_input(model, 32, 32, 3);
 *     kolo_tensor y = kolo_apply(kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME), x);
 *     x = kolo_apply(kolo_add(), x, kolo_apply(kolo_conv2d(3, .kernel = {1, 1}), y));
 *     kolo_graph_output(model, kolo_apply(kolo_dense(10), kolo_apply(kolo_flatten(), x)));
 *
 * A misfit is told where it happens; what follows from it does nothing until kolo_clear_error(), which every cell begins
 * with; then the model goes on as it was before that layer. */
typedef struct kolo_tensor {
    kolo_model *model; /* NULL: a failure */
    int node;
} kolo_tensor;
#define KOLO_APPLY_MAX 8 /* inputs of one layer */

#define kolo_graph() kolo_graph_at(KOLO_HERE)
kolo_model *kolo_graph_at(kolo_here here);
/* The sample: once in a model, before any other layer. */
#define kolo_graph_input(model, ...) kolo_graph_input_at(model, kolo_input(__VA_ARGS__), KOLO_HERE)
kolo_tensor kolo_graph_input_at(kolo_model *model, kolo_layer input, kolo_here here);
/* One use of a layer: its weights are its own. kolo_apply(layer, x) or kolo_apply(layer, x, y, …). */
#define kolo_apply(layer, ...) kolo_apply_at(layer, (const kolo_tensor[KOLO_APPLY_MAX + 1]){__VA_ARGS__}, KOLO_HERE)
kolo_tensor kolo_apply_at(kolo_layer layer, const kolo_tensor *inputs, kolo_here here); /* ended by one of all zeros */
/* What the loss and kolo_predict() see. After it nothing can be added. Layers that do not lead to it are an error. */
#define kolo_graph_output(model, output) kolo_graph_output_at(model, output, KOLO_HERE)
kolo_status kolo_graph_output_at(kolo_model *model, kolo_tensor output, kolo_here here);

/* Prints the table of layers, shapes and weights on stdout; of a model with branches what each layer takes, too. */
#define kolo_summary(model) kolo_summary_at(model, KOLO_HERE)
kolo_status kolo_summary_at(const kolo_model *model, kolo_here here);
/* Prints which layer is on which device, with the bytes of its weights and of one sample's activations. Devices count
 * from the first of the replica: under kolo_mirrored() a model that is placed on two devices takes two for each
 * replica, the second replica's "cpu:0" being cpu:2. */
#define kolo_placement(model) kolo_placement_at(model, KOLO_HERE)
kolo_status kolo_placement_at(const kolo_model *model, kolo_here here);
int64_t kolo_count_params(const kolo_model *model); /* weights in all; 0 for NULL */

/* One array of weights: name "conv2d.kernel", shape, and its values, which belong to the model. */
typedef struct kolo_weight {
    const char *name;
    int shape[4];
    int rank;
    int64_t count;
    bool trained; /* by the optimizer; false: a running mean of what a layer saw, as batch norm keeps */
    float *values; /* drawn by the first kolo_compile(); may be written between calls */
} kolo_weight;
int kolo_weight_count(const kolo_model *model);
kolo_weight kolo_weight_get(kolo_model *model, int index); /* all zero when there is no such weight */

#endif
