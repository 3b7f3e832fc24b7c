/* Section 4 of kolo.h: layers and models. Included by kolo.h: read that first. */
#ifndef KOLO_LAYERS_H
#define KOLO_LAYERS_H

#include "kolo.h"

/* ------------------------------------------------------------------------------------- 4 layers and models */

/* Every layer has the options .name (1 to 47 bytes of printable UTF-8, unique in a model; default: the name of its
 * kind, numbered) and .device, the device that computes it: "cpu:1" or "host". The default, "host" and "cpu:0" all mean
 * the first device of the replica. Results do not depend on the device. Layers with a kernel have .l2: λ Σ w² of the
 * kernel is added to the loss, as by Keras's l2 regularizer. */

typedef enum kolo_activation {
    KOLO_LINEAR = 1, /* x: the default */
    KOLO_RELU,       /* max(0, x) */
    KOLO_SOFTMAX,    /* exp(x) / Σ exp(x) over the last axis */
    KOLO_SIGMOID,    /* σ(x) = 1 / (1 + exp(−x)) */
    KOLO_TANH,       /* (exp(x) − exp(−x)) / (exp(x) + exp(−x)) */
    KOLO_GELU,       /* x Φ(x), Φ the normal distribution: x (1 + erf(x / √2)) / 2 (Hendrycks and Gimpel 2016) */
    KOLO_GELU_TANH,  /* GELU's approximation x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, as in GPT-2 */
    KOLO_SILU,       /* x σ(x), also called swish (Ramachandran et al. 2017) */
    KOLO_LEAKY_RELU, /* x, or 0.2 x where x < 0 (Maas et al. 2013; Keras's slope) */
    KOLO_ELU         /* x, or exp(x) − 1 where x < 0 (Clevert et al. 2016) */
} kolo_activation;

typedef enum kolo_padding {
    KOLO_VALID = 1, /* no padding (the default) */
    KOLO_SAME       /* zeros around the image so that output = ⌈input / stride⌉, placed as in Keras and TensorFlow */
} kolo_padding;

/* The implementation of a layer: its options, shape rule, forward and backward pass. Defined in layers/layer.h. A
 * custom layer is a kolo_layer_kind, too. */
typedef struct kolo_layer_kind kolo_layer_kind;

/* The shape of one sample: kolo_input(28, 28, 1), kolo_input(30). */
typedef struct kolo_input_args {
    const char *_;
    int size_1, size_2, size_3, size_4;
    kolo_guard *guard;
} kolo_input_args;

/* 2-D convolution. Input {H, W, C}; output {H', W', filters}, H' = ⌊(H − dilation (kh − 1) − 1) / stride⌋ + 1, or
 * ⌈H / stride⌉ with KOLO_SAME; W' likewise. Weights: kernel {kh, kw, C / groups, filters} (Glorot-uniform), bias
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
    int groups; /* divides channels and filters into this many groups, which are convolved separately; default 1 */
    int dilation[2]; /* distance between the input elements of neighbouring kernel elements; default {1, 1} */
    const char *name;
    const char *device;
} kolo_conv2d_args;

/* A separate convolution of each channel. Input {H, W, C}; output {H', W', C · depth_multiplier}, with H' and W' as for
 * kolo_conv2d(). Input channel c gives the output channels c · depth_multiplier … (c + 1) · depth_multiplier − 1.
 * Weights: kernel {kh, kw, C, depth_multiplier} (Glorot-uniform), bias {C · depth_multiplier} (zero). Chollet 2017,
 * "Xception: deep learning with depthwise separable convolutions". */
typedef struct kolo_depthwise_conv2d_args {
    const char *_;
    int depth_multiplier; /* output channels for each input channel; default 1 */
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

/* Transposed convolution: the input gradient of a convolution, as a layer; it enlarges images. Input {H, W, C}; output
 * {H', W', filters}. Weights: kernel {kh, kw, filters, C} (Glorot-uniform), bias {filters} (zero). Without
 * .output_padding, H' = H stride + max(kh − stride, 0), or H stride with KOLO_SAME. With .output_padding p,
 * H' = (H − 1) stride + kh + p, minus 2 ⌊kh / 2⌋ with KOLO_SAME. W' likewise. Sizes and placement are those of Keras
 * and TensorFlow. Dumoulin and Visin 2016. */
typedef struct kolo_conv2d_transpose_args {
    const char *_;
    int filters; /* ≥ 1 */
    kolo_guard *guard;
    int kernel[2]; /* height, width; required */
    int stride[2]; /* default {1, 1} */
    kolo_padding padding; /* default KOLO_VALID */
    int output_padding[2]; /* less than the stride; KOLO_NONE means a padding of 0. Default: no .output_padding */
    kolo_activation activation;
    bool no_bias;
    double l2; /* default 0 */
    const char *name;
    const char *device;
} kolo_conv2d_transpose_args;

/* The maximum of each window. Input {H, W, C}. Windows lie inside the input unless padding is KOLO_SAME. */
typedef struct kolo_max_pool2d_args {
    const char *_;
    int height, width; /* of the window; width defaults to height */
    kolo_guard *guard;
    int stride[2]; /* default: the window's size */
    kolo_padding padding;
    const char *name;
    const char *device;
} kolo_max_pool2d_args;

/* The mean of each window; zeros of padding are not counted. Input {H, W, C}. */
typedef struct kolo_average_pool2d_args {
    const char *_;
    int height, width; /* of the window; width defaults to height */
    kolo_guard *guard;
    int stride[2]; /* default: the window's size */
    kolo_padding padding;
    const char *name;
    const char *device;
} kolo_average_pool2d_args;

/* The mean, or the maximum, of each channel over the whole image. Input {H, W, C}; output {C}. */
typedef struct kolo_global_pool2d_args {
    const char *_;
    kolo_guard *guard;
    bool keep_dims; /* the output is {1, 1, C} */
    const char *name;
    const char *device;
} kolo_global_pool2d_args;

/* Adds zeros around an image. Input {H, W, C}. kolo_zero_padding2d(1), kolo_zero_padding2d(.bottom = 1, .right = 1). */
typedef struct kolo_zero_padding2d_args {
    const char *_;
    int all; /* rows or columns on each side that has no option of its own; default 0 */
    kolo_guard *guard;
    int top, bottom, left, right; /* default: all */
    const char *name;
    const char *device;
} kolo_zero_padding2d_args;

/* Repeats each pixel height × width times (nearest neighbour). Input {H, W, C}; output {H · height, W · width, C}. */
typedef struct kolo_upsampling2d_args {
    const char *_;
    int height, width; /* height defaults to 2, width to height */
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_upsampling2d_args;

/* In training, each element becomes 0 with probability `rate` and is divided by 1 − rate otherwise. */
typedef struct kolo_dropout_args {
    const char *_;
    double rate; /* 0 ≤ rate < 1 */
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_dropout_args;

/* Makes one axis of all axes; elements keep their order: {H, W, C} becomes {H · W · C}. */
typedef struct kolo_flatten_args {
    const char *_;
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_flatten_args;

/* Gives the elements another shape; they keep their order: kolo_reshape(7, 7, 64), kolo_reshape(-1, 16). */
typedef struct kolo_reshape_args {
    const char *_;
    int size_1, size_2, size_3, size_4; /* one size may be -1: it is computed from the others */
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

/* An activation as a separate layer; the shape does not change. */
typedef struct kolo_activate_args {
    const char *_;
    kolo_activation activation;
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_activate_args;

/* The elementwise sum of two or more inputs of the same shape: kolo_apply(kolo_add(), x, y). */
typedef struct kolo_add_args {
    const char *_;
    kolo_guard *guard;
    kolo_activation activation;
    const char *name;
    const char *device;
} kolo_add_args;

/* A learned vector for each token. The input {length} (or more axes) must be the model's input and contain whole
 * numbers from 0 to vocabulary-1; another number makes the call fail. Output {length, size}. Weights: embeddings
 * {vocabulary, size} (uniform in ±0.05). */
typedef struct kolo_embedding_args {
    const char *_;
    int vocabulary, size; /* ≥ 1; vocabulary ≤ 2^24, because features are float32 */
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

/* y = gamma · (x − mean) / √(variance + epsilon) + beta, with mean and variance over the last axis (Ba et al. 2016).
 * Weights, each as long as the last axis: gamma (one) and beta (zero). */
typedef struct kolo_layer_norm_args {
    const char *_;
    kolo_guard *guard;
    double epsilon; /* > 0, default 1e-3 */
    bool no_scale, no_offset; /* without gamma; without beta */
    const char *name;
    const char *device;
} kolo_layer_norm_args;

/* Self-attention (Vaswani et al. 2017), as Keras's MultiHeadAttention(heads, key_dim)(x, x). Input and output
 * {length, size}. Each head computes softmax(q·kᵀ / √key_size)·v. Weights: qkv_kernel {size, 3 · heads · key_size},
 * with the columns of the queries of all heads, then of the keys, then of the values, and output_kernel
 * {heads · key_size, size} (Glorot-uniform, separately for each projection); qkv_bias and output_bias (zero). */
typedef struct kolo_multi_head_attention_args {
    const char *_;
    int heads; /* ≥ 1 */
    kolo_guard *guard;
    int key_size;   /* of one head; default: size / heads */
    bool causal;    /* a position attends only to itself and to earlier positions */
    double dropout; /* rate of dropout of the attention weights, 0 ≤ dropout < 1; default 0 */
    bool no_bias;
    double l2; /* default 0 */
    const char *name;
    const char *device;
} kolo_multi_head_attention_args;

/* Batch normalisation over the last axis: y = activation(gamma · (x − mean) / √(variance + epsilon) + beta). Training
 * uses the mean and the biased variance of the batch's samples on this replica; scores and outputs use the moving mean
 * and variance. Weights, each {channels}: gamma (one), beta (zero), and two that are not trained, moving_mean (zero)
 * and moving_variance (one). Each step updates these: moving ← momentum · moving + (1 − momentum) · value, where value
 * is the step's mean or variance, averaged over the samples of all replicas and ranks. Deterministic mode on more than
 * one replica or rank needs .synchronized or .ghost_batch. Ioffe and Szegedy 2015; ghost batches: Hoffer et al.
 * 2017. */
typedef struct kolo_batch_norm_args {
    const char *_;
    kolo_guard *guard;
    double momentum; /* 0 ≤ momentum < 1, default 0.99 */
    double epsilon;  /* default 1e-3 */
    bool no_scale;   /* without gamma */
    bool no_center;  /* without beta */
    kolo_activation activation;
    int ghost_batch; /* statistics over groups of this many neighbouring samples, at most 1024; equal in all layers */
    bool synchronized; /* statistics over the samples of all replicas, and of all ranks under kolo_distributed() */
    const char *name;
    const char *device;
} kolo_batch_norm_args;

/* The elementwise product of two inputs of the same shape, or of an image {H, W, C} and an input {1, 1, C} that scales
 * its channels (squeeze and excitation, Hu et al. 2018). */
typedef struct kolo_multiply_args {
    const char *_;
    kolo_guard *guard;
    const char *name;
    const char *device;
} kolo_multiply_args;

/* Joins two to eight inputs along an axis; all their other sizes must be equal. */
typedef struct kolo_concatenate_args {
    const char *_;
    kolo_guard *guard;
    int axis; /* 1 is a sample's first axis, as in Keras, where 0 is the batch; -1 is the last. Default: the last */
    const char *name;
    const char *device;
} kolo_concatenate_args;

/* The sampling layer between the encoder and the decoder of a variational autoencoder:
 * z = mean + exp(log variance / 2) · ε, from two inputs of the same shape,
 * kolo_apply(kolo_gaussian_sample(), mean, log_variance). ε is drawn from the standard normal distribution for every
 * sample and training step; in kolo_evaluate() and kolo_predict() it is 0. The layer adds kl_weight times the
 * Kullback-Leibler divergence from the standard normal distribution, −Σ (1 + log variance − mean² − variance) / 2, to
 * each sample's loss. Kingma and Welling 2014. */
typedef struct kolo_gaussian_sample_args {
    const char *_;
    kolo_guard *guard;
    double kl_weight; /* at least 0, default 1 */
    const char *name;
    const char *device;
} kolo_gaussian_sample_args;

/* A custom layer: a kind that the caller fills in (layers/layer.h), and values for it. */
typedef struct kolo_custom_args {
    const char *_;
    const kolo_layer_kind *kind; /* required */
    kolo_guard *guard;
    double number[4]; /* for the layer's use */
    const void *user; /* for the layer's use; must outlive the model */
    const char *name;
    const char *device;
} kolo_custom_args;

/* Kolo's own layers. An entry X(name) declares kolo_name_kind, which ext/layers/ defines, and lets saved models find it
 * by that name. */
#define KOLO_LAYERS(X)                                                                                                 \
    X(input) X(conv2d) X(depthwise_conv2d) X(conv2d_transpose) X(max_pool2d) X(dropout) X(flatten) X(dense)            \
    X(activate) X(add) X(average_pool2d) X(global_average_pool2d) X(global_max_pool2d) X(zero_padding2d)               \
    X(upsampling2d) X(reshape) X(multiply) X(concatenate) X(embedding) X(position_embedding) X(layer_norm)             \
    X(multi_head_attention) X(batch_norm) X(gaussian_sample)
#define KOLO_DECLARE_LAYER_(name) extern const kolo_layer_kind kolo_##name##_kind;
KOLO_LAYERS(KOLO_DECLARE_LAYER_)
#undef KOLO_DECLARE_LAYER_

/* A recipe for a layer, made by the macros below. */
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
extern const kolo_layer_kind kolo_no_kind_given; /* used by kolo_layer_of() without a kind: fails with a sentence */
static inline kolo_layer kolo_layer_custom(kolo_custom_args args)
{
    return (kolo_layer){.kind = args.kind ? args.kind : &kolo_no_kind_given, .custom = args};
}

typedef struct kolo_model kolo_model;

/* A model of consecutive layers, of which the first is kolo_input(). The call checks the shapes; its message names the
 * layer that does not fit. NULL on failure. */
#define kolo_sequential(...) kolo_sequential_at((const kolo_layer[]){__VA_ARGS__, {0}}, KOLO_HERE)
kolo_model *kolo_sequential_at(const kolo_layer *layers, kolo_here here); /* ended by a layer of all zeros */
void kolo_model_free(kolo_model **model);

/* A model with branches: begin with kolo_graph(), apply layers to earlier tensors, and end with kolo_graph_output().
 *
 *     kolo_model *model = kolo_graph();
 *     kolo_tensor x = kolo_graph_input(model, 32, 32, 3);
 *     kolo_tensor y = kolo_apply(kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME), x);
 *     x = kolo_apply(kolo_add(), x, kolo_apply(kolo_conv2d(3, .kernel = {1, 1}), y));
 *     kolo_graph_output(model, kolo_apply(kolo_dense(10), kolo_apply(kolo_flatten(), x)));
 *
 * The call with the first layer that does not fit fails. All later calls on the model do nothing until
 * kolo_clear_error() (every notebook cell begins with it); then the model continues without that layer. */
typedef struct kolo_tensor {
    kolo_model *model; /* NULL: the call failed */
    int node;
} kolo_tensor;
#define KOLO_APPLY_MAX 8 /* inputs of one layer */

#define kolo_graph() kolo_graph_at(KOLO_HERE)
kolo_model *kolo_graph_at(kolo_here here);
/* The input of the model: called once, before any other layer. */
#define kolo_graph_input(model, ...) kolo_graph_input_at(model, kolo_input(__VA_ARGS__), KOLO_HERE)
kolo_tensor kolo_graph_input_at(kolo_model *model, kolo_layer input, kolo_here here);
/* Adds a layer to the model: kolo_apply(layer, x) or kolo_apply(layer, x, y, …). Each call makes new weights. */
#define kolo_apply(layer, ...) kolo_apply_at(layer, (const kolo_tensor[KOLO_APPLY_MAX + 1]){__VA_ARGS__}, KOLO_HERE)
kolo_tensor kolo_apply_at(kolo_layer layer, const kolo_tensor *inputs, kolo_here here); /* ended by one of all zeros */
/* Sets the model's output, which the loss and kolo_predict() use. No layer can be added after it. A layer that does not
 * contribute to the output is an error. */
#define kolo_graph_output(model, output) kolo_graph_output_at(model, output, KOLO_HERE)
kolo_status kolo_graph_output_at(kolo_model *model, kolo_tensor output, kolo_here here);

/* Prints a table of layers, shapes and weights on stdout; for a model with branches also each layer's inputs. */
#define kolo_summary(model) kolo_summary_at(model, KOLO_HERE)
kolo_status kolo_summary_at(const kolo_model *model, kolo_here here);
/* Prints each layer's device, with the bytes of its weights and of one sample's activations. Device numbers are
 * relative to the first device of the replica: under kolo_mirrored() a model that is placed on two devices takes two
 * for each replica, and the second replica's "cpu:0" is cpu:2. */
#define kolo_placement(model) kolo_placement_at(model, KOLO_HERE)
kolo_status kolo_placement_at(const kolo_model *model, kolo_here here);
int64_t kolo_count_params(const kolo_model *model); /* elements of all arrays of weights; 0 for NULL */

/* One array of weights. */
typedef struct kolo_weight {
    const char *name; /* "conv2d.kernel" */
    int shape[4];
    int rank;
    int64_t count; /* elements */
    bool trained; /* by the optimizer; false: a moving mean or variance, as of batch norm */
    float *values; /* [count], owned by the model; drawn by the first kolo_compile(); may be written between calls */
} kolo_weight;
int kolo_weight_count(const kolo_model *model); /* arrays of weights */
kolo_weight kolo_weight_get(kolo_model *model, int index); /* all zeros if there is no such array */

#endif
