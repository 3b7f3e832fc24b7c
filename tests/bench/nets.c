/* The lesson's CNN, ResNet-20, a transformer of one block and the HIGGS perceptron: see nets.h. */
#include "nets.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 20000, LENGTH = 80, SIZE = 256, HEADS = 2 };

/* ---- Noise ---- */

/* The numbers `from`, from + 1, … mixed as MurmurHash3 ends: a loop that the compiler vectorises. The ranks of a bench
 * make all the samples, each by itself, and what is measured up to their first step shall be the launcher. */
static uint32_t mixed(uint32_t number)
{
    number = (number ^ number >> 16) * 0x85ebca6bu;
    number = (number ^ number >> 13) * 0xc2b2ae35u;
    return number ^ number >> 16;
}

enum { LABELS = 1 << 30 }; /* where the labels' numbers begin */

/* Between 0 and 1. */
__attribute__((optimize("O3"))) static void draw(float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) values[i] = (float)(mixed((uint32_t)i) >> 8) * 0x1p-24f;
}

/* Below `end`. */
__attribute__((optimize("O3"))) static void draw_below(int end, int32_t *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = (int32_t)((uint64_t)mixed((uint32_t)(LABELS + i)) * (uint32_t)end >> 32);
}

static kolo_data *images(int64_t samples, int side, int channels, int classes)
{
    int64_t count = samples * side * side * channels;
    float *pixels = malloc((size_t)count * sizeof *pixels);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    kolo_data *data = NULL;
    if (pixels) draw(pixels, count);
    if (labels) draw_below(classes, labels, samples);
    if (pixels && labels)
        data = kolo_data_from_arrays(pixels, labels, .samples = samples, .shape = {side, side, channels},
                                     .classes = classes);
    free(pixels);
    free(labels);
    return data;
}

static kolo_data *digits(int64_t samples)
{
    return images(samples, 28, 1, 10);
}

static kolo_data *pictures(int64_t samples)
{
    return images(samples, 32, 3, 10);
}

static kolo_data *text(int64_t samples)
{
    int64_t count = samples * LENGTH;
    int32_t *tokens = malloc((size_t)(count + 1) * sizeof *tokens);
    kolo_data *data = NULL;
    if (tokens) draw_below(WORDS, tokens, count + 1);
    if (tokens)
        data = kolo_data_from_arrays(NULL, tokens + 1, .tokens = tokens, .samples = samples, .shape = {LENGTH},
                                     .label_count = LENGTH, .classes = WORDS);
    free(tokens);
    return data;
}

static kolo_data *collisions(int64_t samples)
{
    float *features = malloc((size_t)samples * 28 * sizeof *features);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    kolo_data *data = NULL;
    if (features) draw(features, samples * 28);
    if (labels) draw_below(2, labels, samples);
    if (features && labels)
        data = kolo_data_from_arrays(features, labels, .samples = samples, .shape = {28}, .classes = 2);
    free(features);
    free(labels);
    return data;
}

/* ---- Networks ---- */

static kolo_model *make_cnn(void)
{
    return kolo_sequential(kolo_input(28, 28, 1), kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
                           kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                           kolo_dropout(0.25), kolo_flatten(), kolo_dense(128, .activation = KOLO_RELU),
                           kolo_dropout(0.5), kolo_dense(10));
}

static kolo_tensor convolve(kolo_tensor x, int filters, int side, int stride, kolo_activation activation)
{
    x = kolo_apply(kolo_conv2d(filters, .kernel = {side, side}, .stride = {stride, stride}, .padding = KOLO_SAME,
                               .no_bias = true),
                   x);
    return kolo_apply(kolo_batch_norm(.activation = activation), x);
}

static kolo_tensor residual(kolo_tensor x, int filters, int stride)
{
    kolo_tensor y = convolve(x, filters, 3, stride, KOLO_RELU);
    y = convolve(y, filters, 3, 1, KOLO_LINEAR);
    if (stride > 1) x = convolve(x, filters, 1, stride, KOLO_LINEAR);
    return kolo_apply(kolo_add(.activation = KOLO_RELU), x, y);
}

static kolo_model *make_resnet20(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = convolve(kolo_graph_input(model, 32, 32, 3), 16, 3, 1, KOLO_RELU);
    for (int stage = 0; stage < 3; stage++)
        for (int block = 0; block < 3; block++) x = residual(x, 16 << stage, stage > 0 && block == 0 ? 2 : 1);
    kolo_graph_output(model, kolo_apply(kolo_dense(10), kolo_apply(kolo_global_average_pool2d(), x)));
    return model;
}

static kolo_tensor add_and_norm(kolo_tensor x, kolo_tensor y)
{
    return kolo_apply(kolo_layer_norm(), kolo_apply(kolo_add(), x, kolo_apply(kolo_dropout(0.1), y)));
}

static kolo_model *make_gpt(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_apply(kolo_embedding(WORDS, SIZE), kolo_graph_input(model, LENGTH));
    x = kolo_apply(kolo_position_embedding(), x);
    x = add_and_norm(x, kolo_apply(kolo_multi_head_attention(HEADS, .causal = true), x));
    x = add_and_norm(x, kolo_apply(kolo_dense(SIZE), kolo_apply(kolo_dense(256, .activation = KOLO_RELU), x)));
    kolo_graph_output(model, kolo_apply(kolo_dense(WORDS), x));
    return model;
}

static kolo_model *make_higgs(void)
{
    return kolo_sequential(kolo_input(28), kolo_dense(600, .activation = KOLO_RELU), kolo_dropout(0.2),
                           kolo_dense(600, .activation = KOLO_RELU), kolo_dense(2));
}

/* ---- Optimizers ---- */

static kolo_optimizer adam(void)
{
    return kolo_adam(.learning_rate = 1e-3);
}

static kolo_optimizer momentum(void)
{
    return kolo_sgd(.learning_rate = 0.1, .momentum = 0.9);
}

static kolo_optimizer adagrad(void)
{
    return kolo_adagrad(.learning_rate = 0.01);
}

static const net nets[] = {{"cnn", make_cnn, digits, adam},
                           {"resnet20", make_resnet20, pictures, momentum},
                           {"gpt", make_gpt, text, adam},
                           {"higgs", make_higgs, collisions, adagrad}};

const net *find_net(const char *name)
{
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        if (strcmp(nets[i].name, name) == 0) return &nets[i];
    return NULL;
}
