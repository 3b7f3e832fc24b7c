/* Graphs of all kinds of layers, drawn at random, over samples of one to four sizes. Any layer may follow any other,
 * also through a view (flatten, reshape, a global pooling).
 */
#ifndef KOLO_TESTS_RANDOM_NETWORKS_H
#define KOLO_TESTS_RANDOM_NETWORKS_H

#include "rig.h"

#include "model/model.h"

enum { tensors_max = 16, elements_max = 600, classes = 3, vocabulary = 7 };

typedef struct drawing {
    dice d;
    kolo_tensor tensor[tensors_max];
    bool used[tensors_max];
    int count;
    bool tokens; /* the features are numbers of tokens */
} drawing;

static inline kolo_shape shape_of(kolo_tensor tensor)
{
    return tensor.model->layers[tensor.node].out;
}

static inline int roll_channels(dice *d)
{
    static const int wide[] = {4, 8, 16, 17, 24};
    return roll_coin(d) ? wide[roll_between(d, 0, 4)] : roll_between(d, 1, 9);
}

static inline kolo_activation roll_activation(dice *d)
{
    if (roll_coin(d)) return KOLO_LINEAR;
    return roll_coin(d) ? KOLO_RELU : (kolo_activation)roll_between(d, KOLO_RELU, KOLO_ELU);
}

/* One that divides the number. */
static inline int roll_divisor(dice *d, int number)
{
    int divisor = roll_between(d, 1, number);
    while (number % divisor != 0) divisor--;
    return divisor;
}

/* ---- layers of one input */

static inline kolo_layer roll_view(dice *d, kolo_shape in)
{
    int count = (int)kolo_shape_count(in), a = roll_divisor(d, count), b = roll_divisor(d, count / a);
    int last = in.dim[in.rank - 1];
    switch (roll_between(d, 0, 5)) {
    case 0: return kolo_reshape(a, b, -1);
    case 1: return kolo_reshape(-1, a);
    case 2: return kolo_reshape(a, 1, -1, b);
    case 3: return kolo_reshape(-1, 1, last);
    case 4: return kolo_reshape(-1, last);
    default: return kolo_flatten();
    }
}

static inline kolo_layer roll_any_layer(dice *d, kolo_shape in)
{
    bool attends = in.rank == 2 && in.dim[0] <= 40;
    switch (roll_between(d, 0, 8)) {
    case 0: return kolo_dense(roll_channels(d), .activation = roll_activation(d), .no_bias = roll_coin(d));
    case 1: return kolo_activate((kolo_activation)roll_between(d, KOLO_RELU, KOLO_ELU));
    case 2: return kolo_layer_norm(.epsilon = 0.5, .no_scale = roll_coin(d), .no_offset = roll_coin(d));
    case 3: return kolo_dropout(0.3);
    case 4: return kolo_position_embedding();
    case 5:
        if (attends) return kolo_multi_head_attention(roll_between(d, 1, 3), .key_size = 4, .causal = roll_coin(d));
        return roll_view(d, in);
    case 6: return roll_view(d, in);
    default:
        return kolo_batch_norm(.epsilon = 0.5, .activation = roll_activation(d), .no_scale = roll_coin(d),
                               .no_center = roll_coin(d), .momentum = 0.5);
    }
}

static inline kolo_layer roll_pool(dice *d, int k, int s)
{
    switch (roll_between(d, 0, 3)) {
    case 0: return kolo_max_pool2d(k, roll_between(d, 1, 3), .stride = {s, 1}, .padding = KOLO_SAME);
    case 1: return kolo_average_pool2d(k, roll_between(d, 1, 3), .stride = {s, 1}, .padding = KOLO_SAME);
    case 2: return kolo_global_average_pool2d(.keep_dims = roll_coin(d));
    default: return kolo_global_max_pool2d(.keep_dims = roll_coin(d));
    }
}

static inline kolo_layer roll_image_layer(dice *d, kolo_shape in)
{
    int k = roll_between(d, 1, 3), s = roll_between(d, 1, 4);
    bool small = in.dim[0] * in.dim[1] <= 25 && in.dim[2] <= 12;
    kolo_activation activation = roll_activation(d);
    switch (roll_between(d, 0, 6)) {
    case 0: return roll_pool(d, k, s);
    case 1:
        return kolo_depthwise_conv2d(roll_between(d, 1, 2), .kernel = {k, 2}, .stride = {1, s}, .padding = KOLO_SAME,
                                     .activation = activation);
    case 2:
        if (!small) break;
        return kolo_conv2d_transpose(roll_channels(d), .kernel = {k, 2}, .stride = {roll_between(d, 1, 2), 1},
                                     .activation = activation, .no_bias = roll_coin(d),
                                     .padding = roll_coin(d) ? KOLO_SAME : KOLO_VALID);
    case 3: return kolo_conv2d(2 * in.dim[2], .kernel = {2, k}, .groups = in.dim[2], .padding = KOLO_SAME);
    case 4:
        if (!small) break;
        return roll_coin(d)
                   ? kolo_upsampling2d(1, 2)
                   : kolo_zero_padding2d(.top = roll_between(d, 0, 1), .left = 1, .right = roll_between(d, 0, 2));
    default: break;
    }
    return kolo_conv2d(roll_channels(d), .kernel = {k, roll_between(d, 1, 2)}, .stride = {s, roll_between(d, 1, 4)},
                       .padding = KOLO_SAME, .dilation = {1, roll_between(d, 1, 2)}, .activation = activation,
                       .no_bias = roll_coin(d));
}

/* ---- graphs */

static inline void keep(drawing *g, kolo_tensor made)
{
    if (!made.model) print_error("%s\n", kolo_last_error().text);
    assert_non_null(made.model);
    g->used[g->count] = false;
    g->tensor[g->count++] = made;
}

/* The last tensor, as a rule, so that chains become long. */
static inline int roll_tensor(drawing *g)
{
    return roll_between(&g->d, 0, 2) > 0 ? g->count - 1 : roll_between(&g->d, 0, g->count - 1);
}

static inline void add_one(drawing *g)
{
    int from = roll_tensor(g);
    kolo_shape in = shape_of(g->tensor[from]);
    bool image = in.rank == 3 && roll_between(&g->d, 0, 2) > 0;
    kolo_layer layer = image ? roll_image_layer(&g->d, in) : roll_any_layer(&g->d, in);
    if (kolo_shape_count(in) > elements_max && !image) layer = kolo_dense(1);
    if (kolo_shape_count(in) > elements_max && image) layer = kolo_max_pool2d(2, .padding = KOLO_SAME);
    keep(g, kolo_apply(layer, g->tensor[from]));
    g->used[from] = true;
}

static inline kolo_tensor concatenated(drawing *g, kolo_tensor a, kolo_tensor b)
{
    kolo_shape x = shape_of(a), y = shape_of(b);
    int axis = -1, others = 0;
    if (x.rank != y.rank) return (kolo_tensor){0};
    for (int i = 0; i < x.rank; i++) {
        if (x.dim[i] != y.dim[i]) axis = i;
        others += x.dim[i] != y.dim[i];
    }
    if (others > 1) return (kolo_tensor){0};
    return kolo_apply(kolo_concatenate(.axis = 1 + (others == 0 ? roll_between(&g->d, 0, x.rank - 1) : axis)), a, b);
}

/* Of {H, W, C} and of a pixel of as many channels. */
static inline kolo_tensor scaled(drawing *g, kolo_tensor a)
{
    if (shape_of(a).rank != 3) return (kolo_tensor){0};
    kolo_tensor pixel = kolo_apply(kolo_global_average_pool2d(.keep_dims = roll_coin(&g->d)), a);
    if (shape_of(pixel).rank == 1) pixel = kolo_apply(kolo_reshape(1, 1, -1), pixel);
    return kolo_apply(kolo_multiply(), a, pixel);
}

/* Two tensors that fit, joined, one of them maybe by way of a view; else nothing. */
static inline void add_joined(drawing *g)
{
    int from[] = {roll_tensor(g), roll_between(&g->d, 0, g->count - 1)};
    kolo_tensor a = g->tensor[from[0]], b = g->tensor[from[1]], made = {0};
    kolo_shape x = shape_of(a), y = shape_of(b);
    int kind = roll_between(&g->d, 0, 5);
    bool viewed = kind != 4 && !kolo_shape_equal(x, y) && kolo_shape_count(x) == kolo_shape_count(y);
    if (viewed) b = kolo_apply(kolo_reshape(x.dim[0], x.dim[1], x.dim[2], x.dim[3]), b);
    bool equal = viewed || kolo_shape_equal(x, y);
    if (equal && kind == 0) made = kolo_apply(kolo_multiply(), a, b);
    else if (equal && kind == 1)
        made = kolo_apply(kolo_gaussian_sample(.kl_weight = 0.1), kolo_apply(kolo_activate(KOLO_TANH), a),
                          kolo_apply(kolo_activate(KOLO_TANH), b));
    else if (equal && kind <= 3) made = kolo_apply(kolo_add(.activation = roll_activation(&g->d)), a, b);
    else if (kind == 4) made = scaled(g, a);
    else made = concatenated(g, a, b);
    if (!made.model) return;
    g->used[from[0]] = true;
    g->used[from[1]] = g->used[from[1]] || kind != 4;
    keep(g, made);
}

/* All that nobody has used yet, side by side. */
static inline kolo_tensor gather(drawing *g)
{
    kolo_tensor row = {0};
    for (int t = 0; t < g->count; t++) {
        if (g->used[t]) continue;
        kolo_tensor flat = kolo_apply(kolo_flatten(), g->tensor[t]);
        row = row.model ? kolo_apply(kolo_concatenate(), row, flat) : flat;
    }
    return row;
}

static inline void begin(drawing *g, kolo_model *model, kolo_shape *shape)
{
    dice *d = &g->d;
    int height = roll_between(d, 1, 8), width = roll_between(d, 1, 8), channels = roll_channels(d);
    *shape = (kolo_shape){3, {height, width, channels}};
    if (roll_between(d, 0, 4) == 0) *shape = (kolo_shape){2, {height, channels}};
    if (roll_between(d, 0, 9) == 0) *shape = (kolo_shape){1, {channels * width}};
    g->tokens = roll_between(d, 0, 5) == 0;
    if (g->tokens) *shape = roll_coin(d) ? (kolo_shape){1, {width}} : (kolo_shape){2, {height, width}};
    kolo_tensor input = kolo_graph_input(model, shape->dim[0], shape->dim[1], shape->dim[2]);
    keep(g, g->tokens ? kolo_apply(kolo_embedding(vocabulary, channels), input) : input);
}

static inline kolo_model *draw(uint64_t seed, kolo_shape *shape, bool *tokens)
{
    drawing g = {.d = {seed * 2654435761u + 1}};
    for (int i = 0; i < 4; i++) roll(&g.d);
    kolo_model *model = kolo_graph();
    begin(&g, model, shape);
    for (int n = roll_between(&g.d, 1, 10); n > 0; n--) {
        if (g.count > 1 && roll_between(&g.d, 0, 3) == 0) add_joined(&g);
        else add_one(&g);
    }
    rig_ok(kolo_graph_output(model, kolo_apply(kolo_dense(classes), gather(&g))));
    *tokens = g.tokens;
    return model;
}

/* Samples with labels for a network that draw() has made. */
static inline kolo_data *draw_data(uint64_t seed, int samples, kolo_shape shape, bool tokens)
{
    dice d = {seed};
    int64_t elements = kolo_shape_count(shape);
    float *features = malloc((size_t)(samples * elements) * sizeof *features);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    for (int64_t i = 0; i < samples * elements; i++)
        features[i] = tokens ? (float)roll_between(&d, 0, vocabulary - 1) : (float)roll(&d) * 0x1p-30f - 1;
    for (int i = 0; i < samples; i++) labels[i] = roll_between(&d, 0, classes - 1);
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .classes = classes,
                                            .shape = {shape.dim[0], shape.dim[1], shape.dim[2]});
    free(features);
    free(labels);
    return data;
}

#endif
