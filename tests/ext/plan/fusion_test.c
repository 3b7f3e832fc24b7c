/* Fusion: each pattern in a model that a learner writes, what keeps it from being fused, and that plans of random
 * graphs stay right whichever kernels a backend has. That fused kernels compute the same is in ext/backend. */
#include "ext/backend/random_networks.h"

#include "model/lower.h"
#include "model/model.h"

#define KINDS (KOLO_FUSE_RELU_BACKWARD + 1)

/* ---- a backend that has kernels for some fusions */

static unsigned has; /* a bit for each kolo_fusion_kind */
static int asked[KINDS];

static bool fuses(const kolo_plan *plan, const kolo_fusion *fusion)
{
    assert_non_null(plan);
    assert_non_null(fusion->op[0]);
    asked[fusion->kind]++;
    return has >> fusion->kind & 1;
}

/* ---- plans */

/* Frees the model; a plan needs it only for its layers' names. */
static kolo_plan lowered(kolo_model *model, kolo_purpose purpose, int microbatch)
{
    kolo_plan plan;
    rig_ok(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1));
    rig_ok(kolo_lower(model, purpose, microbatch, &plan));
    plan.layers = NULL;
    kolo_model_free(&model);
    return plan;
}

static kolo_plan fused(kolo_model *model, kolo_purpose purpose, int microbatch, unsigned kinds)
{
    kolo_plan plan = lowered(model, purpose, microbatch);
    has = kinds;
    memset(asked, 0, sizeof asked);
    kolo_fuse(&plan, fuses);
    return plan;
}

/* The first of that kind. */
static const kolo_op *op_of(const kolo_plan *plan, kolo_op_kind kind)
{
    for (int op = 0; op < plan->op_count; op++)
        if (plan->ops[op].kind == kind) return &plan->ops[op];
    return NULL;
}

static bool share_a_kernel(const kolo_plan *plan, const kolo_op *op, const kolo_op *with)
{
    bool says = op->also_computes == with - plan->ops, said = with->computed_by == op - plan->ops;
    assert_int_equal(says, said);
    return says;
}

/* Convolution, ReLU, max pooling of 2 × 2, dropout, dense. */
static kolo_model *cnn(int side)
{
    return kolo_sequential(kolo_input(side, side, 3),
                           kolo_conv2d(8, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU),
                           kolo_max_pool2d(2), kolo_dropout(0.5), kolo_flatten(), kolo_dense(10));
}

/* relu(norm(conv(x)) + x), whose output goes two ways. */
static kolo_model *residual(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 8, 8, 4);
    x = kolo_apply(kolo_conv2d(4, .kernel = {1, 1}), x);
    kolo_tensor y = kolo_apply(kolo_batch_norm(), kolo_apply(kolo_conv2d(4, .kernel = {1, 1}), x));
    y = kolo_apply(kolo_activate(KOLO_RELU), kolo_apply(kolo_add(), y, x));
    kolo_tensor z = kolo_apply(kolo_add(), kolo_apply(kolo_conv2d(4, .kernel = {1, 1}), y), y);
    rig_ok(kolo_graph_output(model, kolo_apply(kolo_dense(10), kolo_apply(kolo_flatten(), z))));
    return model;
}

/* ---- each pattern */

static void a_pooling_masks_the_relu(void **state)
{
    (void)state;
    kolo_plan plan = fused(cnn(8), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_RELU_MASK);
    const kolo_op *back = op_of(&plan, KOLO_OP_CONV2D_BACKWARD);
    assert_int_equal(op_of(&plan, KOLO_OP_CONV2D)->activation, KOLO_RELU);
    assert_int_equal(op_of(&plan, KOLO_OP_MAX_POOL2D)->activation, KOLO_RELU);
    assert_int_equal(back->activation, KOLO_LINEAR);
    assert_int_equal(back->in[1], -1);
    kolo_plan_free(&plan);
}

static void a_pooling_applies_the_relu(void **state)
{
    (void)state;
    kolo_plan plan = fused(cnn(8), KOLO_FOR_OUTPUTS, 4, 1u << KOLO_FUSE_RELU);
    assert_int_equal(op_of(&plan, KOLO_OP_CONV2D)->activation, KOLO_LINEAR);
    assert_int_equal(op_of(&plan, KOLO_OP_MAX_POOL2D)->activation, KOLO_RELU);
    kolo_plan_free(&plan);
    /* The convolution's backward reads y for its mask. */
    plan = fused(cnn(8), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_RELU);
    assert_int_equal(op_of(&plan, KOLO_OP_CONV2D)->activation, KOLO_RELU);
    kolo_plan_free(&plan);
    plan = fused(cnn(8), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_RELU | 1u << KOLO_FUSE_RELU_MASK);
    assert_int_equal(op_of(&plan, KOLO_OP_CONV2D)->activation, KOLO_LINEAR);
    kolo_plan_free(&plan);
}

static void a_pooling_sums_the_gradient_of_the_bias(void **state)
{
    (void)state;
    kolo_plan plain = lowered(cnn(8), KOLO_FOR_TRAINING, 4);
    int gradient = op_of(&plain, KOLO_OP_CONV2D_BACKWARD)->out[2];
    kolo_plan_free(&plain);
    kolo_plan plan = fused(cnn(8), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_BIAS_GRADIENT | 1u << KOLO_FUSE_RELU_MASK);
    assert_int_equal(op_of(&plan, KOLO_OP_MAX_POOL2D_BACKWARD)->out[1], gradient);
    assert_int_equal(op_of(&plan, KOLO_OP_CONV2D_BACKWARD)->out[2], -1);
    kolo_plan_free(&plan);
}

static void a_convolution_pools(void **state)
{
    (void)state;
    kolo_plan plan = fused(cnn(8), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_POOL);
    const kolo_op *conv = op_of(&plan, KOLO_OP_CONV2D), *pool = op_of(&plan, KOLO_OP_MAX_POOL2D);
    const kolo_op *back = op_of(&plan, KOLO_OP_CONV2D_BACKWARD);
    assert_true(share_a_kernel(&plan, conv, pool));
    assert_true(share_a_kernel(&plan, back, op_of(&plan, KOLO_OP_MAX_POOL2D_BACKWARD)));
    assert_int_equal(kolo_plan_base(&plan, conv->out[0]), pool->out[0]);
    assert_int_equal(conv->out[1], pool->out[1]);
    assert_int_equal(back->in[4], pool->out[1]);
    kolo_plan_free(&plan);
    plan = fused(cnn(9), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_POOL); /* the last row is in no window */
    assert_int_equal(asked[KOLO_FUSE_POOL], 0);
    assert_int_equal(op_of(&plan, KOLO_OP_CONV2D)->also_computes, -1);
    kolo_plan_free(&plan);
}

static void a_pooling_drops(void **state)
{
    (void)state;
    kolo_plan plan = fused(cnn(9), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_DROPOUT);
    const kolo_op *pool = op_of(&plan, KOLO_OP_MAX_POOL2D), *drop = op_of(&plan, KOLO_OP_DROPOUT);
    const kolo_op *drop_back = op_of(&plan, KOLO_OP_DROPOUT_BACKWARD);
    assert_true(share_a_kernel(&plan, pool, drop));
    assert_true(share_a_kernel(&plan, op_of(&plan, KOLO_OP_MAX_POOL2D_BACKWARD), drop_back));
    assert_int_equal(kolo_plan_base(&plan, drop->out[0]), pool->out[0]);
    kolo_plan_free(&plan);
}

static void sums_take_their_neighbours(void **state)
{
    (void)state;
    kolo_plan plan = fused(residual(), KOLO_FOR_TRAINING, 4, 1u << KOLO_FUSE_ADD | 1u << KOLO_FUSE_RELU_BACKWARD);
    const kolo_op *norm = op_of(&plan, KOLO_OP_BATCH_NORM), *relu = op_of(&plan, KOLO_OP_ACTIVATION_BACKWARD);
    assert_true(share_a_kernel(&plan, norm, op_of(&plan, KOLO_OP_ADD)));
    assert_true(relu->computed_by >= plan.forward_count && plan.ops[relu->computed_by].kind == KOLO_OP_ADD);
    assert_true(share_a_kernel(&plan, &plan.ops[relu->computed_by], relu));
    kolo_plan_free(&plan);
}

/* A microbatch of 32 has outputs of 4 MiB with 32,768 classes; less is not fused. */
static void a_dense_layer_computes_the_loss(void **state)
{
    (void)state;
    for (int outputs = 32767; outputs <= 32768; outputs++) {
        for (int training = 0; training < 2; training++) {
            kolo_model *model = kolo_sequential(kolo_input(4), kolo_dense(3), kolo_dense(outputs));
            kolo_plan plan =
                fused(model, training ? KOLO_FOR_TRAINING : KOLO_FOR_SCORES, 32, 1u << KOLO_FUSE_DENSE_LOSS);
            const kolo_op *op = op_of(&plan, KOLO_OP_DENSE_LOSS);
            assert_int_equal(op != NULL, outputs == 32768);
            assert_int_equal(op_of(&plan, KOLO_OP_LOSS) == NULL, op != NULL);
            if (op) assert_int_equal(op->out[1] >= 0, training); /* dkernel */
            if (op) assert_int_equal(plan.loss_gradient, -1);
            assert_int_equal(plan.forward_count, op ? 3 : 4);
            assert_int_equal(plan.op_count, plan.forward_count + (!training ? 0 : op ? 1 : 2));
            kolo_plan_free(&plan);
        }
    }
}

/* Outputs and their gradient, 8 MiB a sample, are not kept where the loss is fused. */
static void a_fused_loss_leaves_room_for_larger_microbatches(void **state)
{
    (void)state;
    for (int fused_loss = 0; fused_loss < 2; fused_loss++) {
        kolo_model *model = kolo_sequential(kolo_input(4), kolo_dense(3), kolo_dense(1 << 20));
        rig_ok(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY,
                            .backend = fused_loss ? "onednn" : "reference"));
        assert_int_equal(kolo_largest_microbatch(model, KOLO_FOR_TRAINING), fused_loss ? 512 : 23);
        kolo_model_free(&model);
    }
}

/* ---- what is not fused */

static void same_plan(const kolo_plan *a, const kolo_plan *b)
{
    assert_int_equal(a->op_count, b->op_count);
    assert_memory_equal(a->ops, b->ops, (size_t)a->op_count * sizeof *a->ops);
    assert_int_equal(a->value_count, b->value_count);
    for (int v = 0; v < a->value_count; v++) assert_int_equal(a->values[v].view_of, b->values[v].view_of);
}

static void nothing_changes_without_kernels(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        kolo_plan plain = lowered(which ? residual() : cnn(8), KOLO_FOR_TRAINING, 4);
        kolo_plan none = lowered(which ? residual() : cnn(8), KOLO_FOR_TRAINING, 4);
        kolo_plan refused = fused(which ? residual() : cnn(8), KOLO_FOR_TRAINING, 4, 0);
        kolo_fuse(&none, NULL);
        same_plan(&plain, &none);
        same_plan(&plain, &refused);
        kolo_plan_free(&plain);
        kolo_plan_free(&none);
        kolo_plan_free(&refused);
    }
}

/* The image of a convolution that a second layer reads has to be there. */
static void a_value_that_others_read_stays(void **state)
{
    (void)state;
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, 8, 8, 3);
    kolo_tensor y = kolo_apply(kolo_conv2d(8, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU), x);
    kolo_tensor pooled = kolo_apply(kolo_flatten(), kolo_apply(kolo_max_pool2d(2), y));
    kolo_tensor whole = kolo_apply(kolo_global_average_pool2d(), y);
    y = kolo_apply(kolo_concatenate(), pooled, whole);
    rig_ok(kolo_graph_output(model, kolo_apply(kolo_dense(10), y)));
    kolo_plan plan = fused(model, KOLO_FOR_TRAINING, 4, ~0u);
    const kolo_op *conv = op_of(&plan, KOLO_OP_CONV2D), *back = op_of(&plan, KOLO_OP_CONV2D_BACKWARD);
    assert_int_equal(conv->activation, KOLO_RELU);
    assert_int_equal(conv->also_computes, -1);
    assert_int_equal(back->activation, KOLO_RELU);
    assert_true(kolo_plan_same(&plan, back->in[1], conv->out[0]));
    kolo_plan_free(&plan);
}

static void devices_share_no_kernel(void **state)
{
    (void)state;
    kolo_model *model = kolo_sequential(kolo_input(8, 8, 3),
                                        kolo_conv2d(8, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU,
                                                    .device = "cpu:0"),
                                        kolo_max_pool2d(2, .device = "cpu:1"), kolo_dropout(0.5, .device = "cpu:0"),
                                        kolo_flatten(), kolo_dense(10));
    kolo_plan plan = lowered(model, KOLO_FOR_TRAINING, 4);
    has = ~0u;
    kolo_fuse(&plan, fuses);
    for (int op = 0; op < plan.op_count; op++)
        if (plan.ops[op].also_computes >= 0)
            assert_int_equal(plan.ops[op].device, plan.ops[plan.ops[op].also_computes].device);
    kolo_plan_free(&plan);
}

/* ---- any graph */

/* When an operation's work is done: the number of the operation whose kernel does it. */
static int time_of(const kolo_plan *plan, int op)
{
    while (plan->ops[op].computed_by >= 0) op = plan->ops[op].computed_by;
    return op;
}

static int writer_of(const kolo_plan *plan, int value)
{
    for (int op = 0; op < plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            if (plan->ops[op].out[i] >= 0 && kolo_plan_same(plan, plan->ops[op].out[i], value)) return op;
    return -1;
}

/* Whether the memory behind a value holds that value when an operation reads it: nobody wrote there after its writer.
 */
static void assert_it_is_there(const kolo_plan *plan, int reader, int value)
{
    int writer = writer_of(plan, value), now = time_of(plan, reader);
    if (writer < 0) return; /* features or weights */
    int written = time_of(plan, writer);
    if (written > now) fail_msg("operation %d reads value %d before operation %d writes it", reader, value, writer);
    for (int op = 0; op < plan->op_count; op++) {
        int time = time_of(plan, op);
        if (time <= written || time >= now) continue;
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            if (plan->ops[op].out[i] >= 0 && kolo_plan_base(plan, plan->ops[op].out[i]) == kolo_plan_base(plan, value))
                fail_msg("operation %d writes over value %d before operation %d reads it", op, value, reader);
    }
}

static int writes_of(const kolo_plan *plan, int value)
{
    int writes = 0;
    for (int op = 0; op < plan->op_count; op++)
        for (int i = 0; i < KOLO_OP_OUTS; i++) writes += plan->ops[op].out[i] == value;
    return writes;
}

static void assert_sound(const kolo_plan *plain, const kolo_plan *plan)
{
    for (int op = 0; op < plan->op_count; op++) {
        const kolo_op *o = &plan->ops[op];
        if (o->also_computes >= 0) assert_true(share_a_kernel(plan, o, &plan->ops[o->also_computes]));
        if (o->computed_by >= 0) assert_true(share_a_kernel(plan, &plan->ops[o->computed_by], o));
        assert_int_equal(o->computed_by < plan->forward_count, op < plan->forward_count || o->computed_by < 0);
        for (int i = 0; i < KOLO_OP_INS; i++)
            if (o->in[i] >= 0) assert_it_is_there(plan, op, o->in[i]);
    }
    for (int v = 0; v < plain->value_count; v++)
        if (plain->values[v].kind == KOLO_VALUE_GRADIENT) assert_int_equal(writes_of(plan, v), writes_of(plain, v));
}

static void random_graphs_stay_right(void **state)
{
    (void)state;
    int total[KINDS] = {0};
    for (unsigned n = 0; n < 2000; n++) {
        kolo_shape shape;
        bool tokens;
        dice d = {n * 0x9E3779B97F4A7C15u + 7};
        unsigned kinds = n % 3 == 0 ? ~0u : roll(&d);
        kolo_purpose purpose = roll_between(&d, 0, 2) > 0 ? KOLO_FOR_TRAINING : KOLO_FOR_OUTPUTS;
        kolo_plan plain = lowered(draw(n, &shape, &tokens), purpose, 4);
        kolo_plan plan = fused(draw(n, &shape, &tokens), purpose, 4, kinds);
        assert_sound(&plain, &plan);
        for (int k = 0; k < KINDS; k++) total[k] += asked[k];
        kolo_plan_free(&plain);
        kolo_plan_free(&plan);
    }
    for (int k = 0; k < KINDS; k++)
        if (k != KOLO_FUSE_DENSE_LOSS) assert_true(total[k] > 0); /* its outputs would be large */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pooling_masks_the_relu),
        cmocka_unit_test(a_pooling_applies_the_relu),
        cmocka_unit_test(a_pooling_sums_the_gradient_of_the_bias),
        cmocka_unit_test(a_convolution_pools),
        cmocka_unit_test(a_pooling_drops),
        cmocka_unit_test(sums_take_their_neighbours),
        cmocka_unit_test(a_dense_layer_computes_the_loss),
        cmocka_unit_test(a_fused_loss_leaves_room_for_larger_microbatches),
        cmocka_unit_test(nothing_changes_without_kernels),
        cmocka_unit_test(a_value_that_others_read_stays),
        cmocka_unit_test(devices_share_no_kernel),
        cmocka_unit_test(random_graphs_stay_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
