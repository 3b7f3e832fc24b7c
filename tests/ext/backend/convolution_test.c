/* Convolutions in all their forms, the oneDNN backend against the reference backend: groups, dilation, depthwise,
 * transposed; channels that fill no block, one channel, outputs of one pixel, strides larger than kernels. Bounds:
 * pair.h. */
#include "pair.h"

#include "model/model.h"

/* What a case draws: an operation y = relu(x ∘ kernel + bias) and what is wanted of its backward one. */
typedef struct drawn {
    kolo_op_kind kind, backward;
    kolo_shape in, out, kernel;
    kolo_window window;
    bool bias, relu, wants_dx;
    double terms_y, terms_dx; /* of the sums behind an element */
} drawn;

typedef struct values {
    int x, dy, y_in, k, k_back, b, y, dx, dk, db;
} values;

/* The plan; y_in: relu's mask, fed where numbers are not exact, so that no sign hangs on rounding. */
static values plan_of(rig *r, const drawn *w, bool fed)
{
    values v = {.y_in = -1, .b = -1, .k_back = -1, .dx = -1, .db = -1};
    kolo_shape biases = {1, {w->out.dim[2]}};
    kolo_activation activation = w->relu ? KOLO_RELU : KOLO_LINEAR;
    v.x = rig_input(r, w->in);
    v.dy = rig_input(r, w->out);
    if (fed) v.y_in = rig_input(r, w->out);
    v.k = kolo_plan_weights(&r->plan, 0, w->kernel);
    if (w->bias) v.b = kolo_plan_weights(&r->plan, 1, biases);
    if (w->wants_dx) v.k_back = kolo_plan_weights(&r->plan, 0, w->kernel);
    v.y = rig_value(r, KOLO_VALUE_ACTIVATION, w->out);
    if (w->wants_dx) v.dx = rig_value(r, KOLO_VALUE_ACTIVATION, w->in);
    v.dk = kolo_plan_gradient(&r->plan, 0, w->kernel);
    if (w->bias) v.db = kolo_plan_gradient(&r->plan, 1, biases);
    rig_op(r, (kolo_op){
                  .kind = w->kind, .in = {v.x, v.k, v.b}, .out = {v.y}, .window = w->window, .activation = activation});
    rig_op(r, (kolo_op){.kind = w->backward,
                        .in = {v.dy, w->relu ? (fed ? v.y_in : v.y) : -1, v.x, v.k_back},
                        .out = {v.dx, v.dk, v.db},
                        .window = w->window,
                        .activation = activation});
    return v;
}

static void compare(pair *p, dice *d, const drawn *w)
{
    values v = {0};
    bool fed = w->relu && !p->exact;
    p->rounds = is_rounded(p);
    int y_p[2], dx_p[2] = {0};
    for (int i = 0; i < 2; i++) {
        v = plan_of(p->r[i], w, fed);
        y_p[i] = rig_probe(p->r[i], v.y);
        if (w->wants_dx) dx_p[i] = rig_probe(p->r[i], v.dx);
        rig_prepare(p->r[i]);
    }
    pair_write(p, d, v.x);
    pair_write(p, d, v.dy);
    if (fed) pair_write(p, d, v.y_in);
    if (w->wants_dx) pair_write_same(p, d, v.k, v.k_back);
    if (!w->wants_dx) pair_write(p, d, v.k);
    if (w->bias) pair_write(p, d, v.b);
    pair_run(p);
    double pixels = p->r[0]->plan.microbatch * fmax(w->out.dim[0] * w->out.dim[1], w->in.dim[0] * w->in.dim[1]);
    p->twice = p->rounds && w->bias && w->kind == KOLO_OP_CONV2D_TRANSPOSE;
    pair_compare(p, "y", BOTH(y_p), w->terms_y);
    p->twice = false;
    if (w->wants_dx) pair_compare(p, "dx", BOTH(dx_p), w->terms_dx);
    pair_compare(p, "dkernel", v.dk, v.dk, pixels);
    if (w->bias) pair_compare(p, "dbias", v.db, v.db, pixels);
    pair_free(p);
}

/* A model of one layer does the arithmetic of shapes: the layer's own rules are in tests/ext/layers. */
static bool draw_layer(dice *d, kolo_layer layer, kolo_shape in, drawn *w)
{
    kolo_model *model = kolo_sequential(kolo_input(in.dim[0], in.dim[1], in.dim[2]), layer);
    if (!model) {
        kolo_clear_error();
        return false;
    }
    kolo_plan plan = {.microbatch = 1, .precision = KOLO_FLOAT32, .training = true};
    const kolo_layer_node *node = &model->layers[1];
    kolo_layer_flow flow = {.node = node, .x = kolo_plan_value(&plan, KOLO_VALUE_ACTIVATION, in)};
    rig_ok(node->recipe.kind->forward(&plan, &flow));
    const kolo_op *op = &plan.ops[0];
    *w = (drawn){.kind = op->kind, .in = in, .out = node->out, .window = op->window, .bias = op->in[2] >= 0};
    w->kernel = plan.values[op->in[1]].shape;
    w->backward = op->kind == KOLO_OP_CONV2D ? KOLO_OP_CONV2D_BACKWARD : KOLO_OP_CONV2D_TRANSPOSE_BACKWARD;
    w->relu = roll_coin(d);
    w->wants_dx = roll_between(d, 0, 3) > 0;
    double area = w->kernel.dim[0] * w->kernel.dim[1];
    w->terms_y = w->terms_dx = area * fmax(w->kernel.dim[2], w->kernel.dim[3]);
    kolo_plan_free(&plan);
    kolo_model_free(&model);
    return true;
}

static kolo_padding roll_padding(dice *d)
{
    return roll_coin(d) ? KOLO_SAME : KOLO_VALID;
}

static kolo_shape roll_image(dice *d, int channels)
{
    int most = roll_between(d, 0, 4) == 0 ? 1 : 12;
    return (kolo_shape){3, {roll_between(d, 1, most), roll_between(d, 1, most), channels}};
}

/* Draws until the layer fits its input. */
static void grouped_case(dice *d, int number)
{
    static const int sizes[] = {1, 2, 3, 5, 8, 16, 17, 24, 32};
    pair p = pair_new(d, "grouped", number);
    drawn w;
    for (bool fits = false; !fits;) {
        int groups = roll_between(d, 1, 6), dilation = roll_between(d, 0, 2) ? 1 : roll_between(d, 2, 3);
        kolo_shape in = roll_image(d, groups * sizes[roll_between(d, 0, 8)]);
        fits = draw_layer(d,
                          kolo_conv2d(groups * sizes[roll_between(d, 0, 8)],
                                      .kernel = {roll_between(d, 1, 4), roll_between(d, 1, 4)},
                                      .stride = {roll_between(d, 1, 4), roll_between(d, 1, 4)}, .groups = groups,
                                      .dilation = {dilation, roll_between(d, 1, 2)}, .padding = roll_padding(d),
                                      .no_bias = roll_coin(d)),
                          in, &w);
    }
    compare(&p, d, &w);
}

static void depthwise_case(dice *d, int number)
{
    pair p = pair_new(d, "depthwise", number);
    drawn w;
    for (bool fits = false; !fits;)
        fits = draw_layer(d,
                          kolo_depthwise_conv2d(roll_between(d, 0, 3),
                                                .kernel = {roll_between(d, 1, 4), roll_between(d, 1, 4)},
                                                .stride = {roll_between(d, 1, 3), roll_between(d, 1, 3)},
                                                .padding = roll_padding(d), .no_bias = roll_coin(d),
                                                .dilation = {roll_between(d, 1, 2), 1}),
                          roll_image(d, roll_between(d, 1, 40)), &w);
    compare(&p, d, &w);
}

static void transposed_case(dice *d, int number)
{
    pair p = pair_new(d, "transposed", number);
    drawn w;
    for (bool fits = false; !fits;) {
        int stride = roll_between(d, 1, 3), extra = roll_between(d, 0, stride - 1);
        fits = draw_layer(d,
                          kolo_conv2d_transpose(roll_between(d, 1, 36),
                                                .kernel = {roll_between(d, 1, 5), roll_between(d, 1, 5)},
                                                .stride = {stride, roll_between(d, 1, 4)}, .padding = roll_padding(d),
                                                .output_padding = {extra, roll_coin(d) ? KOLO_NONE : 0},
                                                .no_bias = roll_coin(d)),
                          roll_image(d, roll_between(d, 1, 36)), &w);
    }
    compare(&p, d, &w);
}

/* Kernels that skip pixels between two outputs: residual networks have such shortcuts. */
static void long_stride_case(dice *d, int number)
{
    static const int channels[] = {3, 16, 32, 64};
    pair p = pair_new(d, "long stride", number);
    drawn w;
    for (bool fits = false; !fits;) {
        int height = roll_between(d, 1, 2), width = roll_between(d, 1, 3);
        kolo_window window = {.kernel = {height, width},
                              .stride = {height + roll_between(d, 1, 2), roll_between(d, 1, 4)}};
        kolo_shape in = {3, {roll_between(d, 4, 17), roll_between(d, 4, 17), channels[roll_between(d, 0, 3)]}};
        kolo_layer layer =
            roll_between(d, 0, 3) > 0
                ? kolo_conv2d(channels[roll_between(d, 1, 3)], .kernel = {height, width},
                              .stride = {window.stride[0], window.stride[1]}, .padding = roll_padding(d),
                              .no_bias = roll_coin(d))
                : kolo_conv2d_transpose(channels[roll_between(d, 1, 3)], .kernel = {height, width},
                                        .stride = {window.stride[0], window.stride[1]}, .no_bias = roll_coin(d));
        fits = draw_layer(d, layer, in, &w);
    }
    compare(&p, d, &w);
}

static void test_grouped(void **state)
{
    (void)state;
    check(grouped_case, 41);
}
static void test_depthwise(void **state)
{
    (void)state;
    check(depthwise_case, 42);
}
static void test_transposed(void **state)
{
    (void)state;
    check(transposed_case, 43);
}
static void test_long_strides(void **state)
{
    (void)state;
    check(long_stride_case, 44);
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_depthwise),
        cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_long_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
