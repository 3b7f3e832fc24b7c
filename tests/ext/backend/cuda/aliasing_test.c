/* An update that takes the gradient as a microbatch's operations left it (in parts, as a transpose, where it belongs)
 * and packs the weights, against one of the canonical gradient, and the packing of it: the same bits. */
#include "../rig.h"
#include "../tested.h"

#include "optimizers/optimizer.h"

#define BASE ((char *)256) /* what offsets are counted from: any address will do */

enum { CONV, CONV_BIAS, DENSE, DENSE_BIAS, SPANS };

static const kolo_backend *tested;

/* A convolution and a dense layer, forward and back. */
typedef struct net {
    rig *r;
    int x, dy, kernel[4]; /* as WEIGHTS: the convolution's, the dense layer's, each for both ways */
    int bias[2];
    kolo_shape shapes[SPANS];
    kolo_span *spans;
    int64_t count;
    float *weights, *gradient, *slots[2];
    kolo_step_parameters *step_parameters;
    kolo_update_job job;
} net;

static void add_convolution(net *n, kolo_shape in, int filters, int *y, int *dx_of)
{
    rig *r = n->r;
    kolo_shape out;
    kolo_window window = rig_window(in, 3, 3, 1, 1, true, &out, filters);
    n->shapes[CONV] = (kolo_shape){4, {3, 3, in.dim[2], filters}};
    n->shapes[CONV_BIAS] = (kolo_shape){1, {filters}};
    n->x = rig_input(r, in);
    *y = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    *dx_of = rig_input(r, out);
    for (int i = 0; i < 2; i++) n->kernel[i] = kolo_plan_weights(&r->plan, CONV, n->shapes[CONV]);
    n->bias[0] = kolo_plan_weights(&r->plan, CONV_BIAS, n->shapes[CONV_BIAS]);
    int dk = kolo_plan_gradient(&r->plan, CONV, n->shapes[CONV]), dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
    int db = kolo_plan_gradient(&r->plan, CONV_BIAS, n->shapes[CONV_BIAS]);
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D, .in = {n->x, n->kernel[0], n->bias[0]}, .out = {*y}, .window = window});
    rig_op(r, (kolo_op){.kind = KOLO_OP_CONV2D_BACKWARD,
                        .in = {*dx_of, -1, n->x, n->kernel[1]},
                        .out = {dx, dk, db},
                        .window = window});
}

static void add_dense(net *n, int y, int units)
{
    rig *r = n->r;
    kolo_shape out = {1, {units}}, flat = {1, {(int)kolo_shape_count(r->plan.values[y].shape)}};
    int x = kolo_plan_view(&r->plan, y, flat), z = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    n->shapes[DENSE] = (kolo_shape){2, {flat.dim[0], units}};
    n->shapes[DENSE_BIAS] = out;
    n->dy = rig_input(r, out);
    for (int i = 2; i < 4; i++) n->kernel[i] = kolo_plan_weights(&r->plan, DENSE, n->shapes[DENSE]);
    n->bias[1] = kolo_plan_weights(&r->plan, DENSE_BIAS, out);
    int dk = kolo_plan_gradient(&r->plan, DENSE, n->shapes[DENSE]), dx = rig_value(r, KOLO_VALUE_ACTIVATION, flat);
    int db = kolo_plan_gradient(&r->plan, DENSE_BIAS, out);
    rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE, .in = {x, n->kernel[2], n->bias[1]}, .out = {z}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD, .in = {n->dy, -1, x, n->kernel[3]}, .out = {dx, dk, db}});
}

static float *floats(net *n, const float *from)
{
    size_t bytes = (size_t)n->count * sizeof(float);
    float *there = rig_allocate(n->r, bytes);
    rig_copy(n->r, there, from, bytes);
    return there;
}

/* The arrays of all weights, and where in them each is. */
static void open_arrays(net *n, dice *d, const kolo_optimizer *optimizer, int before)
{
    n->spans = calloc(SPANS, sizeof *n->spans);
    assert_non_null(n->spans);
    n->count = before;
    for (int s = 0; s < SPANS; s++) {
        n->spans[s] = (kolo_span){.offset = n->count, .count = kolo_shape_count(n->shapes[s])};
        n->count += n->spans[s].count;
    }
    float *drawn = numbers(d, n->count, 0), *zeros = calloc((size_t)n->count, sizeof *zeros);
    assert_non_null(zeros);
    n->weights = floats(n, drawn);
    n->gradient = floats(n, zeros);
    for (int s = 0; s < 2; s++) n->slots[s] = floats(n, zeros);
    kolo_step_parameters step_parameters = {.scale = 0.25, .per_sample = 0.25};
    kolo_rule_numbers(optimizer, 0.125, 1, step_parameters.rule);
    n->step_parameters = rig_allocate(n->r, sizeof step_parameters);
    rig_copy(n->r, n->step_parameters, &step_parameters, sizeof step_parameters);
    n->job = (kolo_update_job){.optimizer = optimizer,
                               .spans = n->spans,
                               .span_count = SPANS,
                               .count = n->count,
                               .weights = n->weights,
                               .gradient = n->gradient,
                               .slots = {n->slots[0], n->slots[1]},
                               .step_parameters = n->step_parameters,
                               .clip_norm = optimizer->common.clip_norm};
    free(drawn);
    free(zeros);
}

static net open_net(dice *d, kolo_precision precision, const kolo_optimizer *optimizer, int number)
{
    static const int channels[] = {1, 3, 8, 16}, filters[] = {8, 16, 5, 24};
    net n = {.r = rig_new(tested, precision, roll_between(d, 1, 5))};
    kolo_shape in = {3, {roll_between(d, 9, 17), roll_between(d, 9, 17), channels[number % 4]}};
    int y, dy;
    add_convolution(&n, in, filters[roll_between(d, 0, 3)], &y, &dy);
    add_dense(&n, y, roll_between(d, 0, 1) ? 8 : 5);
    rig_prepare(n.r);
    const int fed[] = {n.x, dy, n.dy};
    for (int i = 0; i < 3; i++) {
        float *drawn = numbers(d, rig_count(n.r, fed[i]), 0);
        rig_write(n.r, fed[i], drawn);
        free(drawn);
    }
    const int weights[] = {n.kernel[0], n.kernel[1], n.kernel[2], n.kernel[3], n.bias[0], n.bias[1]};
    for (int i = 0; i < 6; i++) {
        float *drawn = numbers(d, rig_count(n.r, weights[i]), 0);
        rig_write(n.r, weights[i], drawn);
        free(drawn);
    }
    rig_run(n.r);
    for (int v = 0; v < n.r->plan.value_count; v++)
        n.r->plan.values[v].offset = (size_t)((char *)n.r->memory[v] - BASE);
    open_arrays(&n, d, optimizer, number % 3 == 0 ? 3 : 4 * (number % 2));
    return n;
}

static void close_net(net *n)
{
    float *const all[] = {n->weights, n->gradient, n->slots[0], n->slots[1]};
    for (int i = 0; i < 4; i++) rig_deallocate(n->r, all[i]);
    rig_deallocate(n->r, n->step_parameters);
    tested->updates->forget(n->r->stream, &n->job);
    rig_free(n->r);
    free(n->spans);
}

static void unpack_all(net *n)
{
    const kolo_plan *plan = &n->r->plan;
    for (int v = 0; v < plan->value_count; v++)
        if (plan->values[v].kind == KOLO_VALUE_GRADIENT)
            rig_ok(tested->unpack(plan, v, n->r->memory[v], n->gradient + n->spans[plan->values[v].parameter].offset));
}

static void same_bytes(net *n, const void *a, const void *b, size_t bytes, const char *what, int number)
{
    char *left = malloc(bytes), *right = malloc(bytes);
    assert_true(left && right);
    rig_copy(n->r, left, a, bytes);
    rig_copy(n->r, right, b, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (left[i] != right[i]) fail_msg("case %d: %s differ at byte %zu of %zu", number, what, i, bytes);
    free(left);
    free(right);
}

/* What pack() makes of the weights is what lies there. */
static void packed_as_they_should(net *n, int number)
{
    const kolo_plan *plan = &n->r->plan;
    int copies = 0;
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        if (value->kind != KOLO_VALUE_WEIGHTS || value->in_place || !kolo_value_has_memory(value)) continue;
        void *wanted = rig_allocate_poisoned(n->r, value->bytes);
        rig_ok(tested->pack(plan, v, n->weights + n->spans[value->parameter].offset, wanted));
        same_bytes(n, wanted, n->r->memory[v], value->bytes, "packed weights", number);
        rig_deallocate(n->r, wanted);
        copies++;
    }
    if (plan->precision == KOLO_MIXED_BF16) assert_true(copies > 0);
}

static void one_case(dice *d, int number)
{
    static const kolo_precision precisions[] = {KOLO_MIXED_BF16, KOLO_FLOAT32, KOLO_MIXED_FP16, KOLO_TF32};
    kolo_optimizer optimizer = {0}, given = number % 5 == 4   ? kolo_adam(.clip_norm = 0.5)
                                            : number % 5 == 3 ? kolo_lamb(.weight_decay = 0.01)
                                                              : kolo_adam();
    rig_ok(kolo_optimizer_complete(&given, &optimizer));
    dice again = *d;
    net straight = open_net(&again, precisions[number % 4], &optimizer, number),
        n = open_net(d, precisions[number % 4], &optimizer, number);
    unpack_all(&straight);
    n.job.plan = &n.r->plan;
    n.job.packed_gradient = (const float *)(const void *)BASE;
    n.job.packed = BASE;
    const kolo_update_kind *updates = tested->updates;
    rig_ok(updates->expect(n.r->stream, &n.job));
    rig_ok(updates->expect(straight.r->stream, &straight.job));
    rig_ok(updates->update(n.r->stream, &n.job));
    rig_ok(updates->update(straight.r->stream, &straight.job));
    float *weights = malloc((size_t)n.count * sizeof *weights), *wanted = malloc((size_t)n.count * sizeof *wanted);
    assert_true(weights && wanted);
    rig_copy(n.r, weights, n.weights, (size_t)n.count * sizeof *weights);
    rig_copy(straight.r, wanted, straight.weights, (size_t)n.count * sizeof *wanted);
    for (int64_t i = 0; i < n.count; i++)
        if (memcmp(&weights[i], &wanted[i], sizeof *weights) != 0)
            fail_msg("case %d: weight %d: wanted %.9g, got %.9g", number, (int)i, (double)wanted[i],
                     (double)weights[i]);
    packed_as_they_should(&n, number);
    free(weights);
    free(wanted);
    close_net(&n);
    close_net(&straight);
}

static void as_of_the_canonical_gradient(void **state)
{
    (void)state;
    if (!tested->devices) skip();
    dice d = {61};
    for (int number = 0; number < 40; number++) one_case(&d, number);
}

int main(void)
{
    tested = tested_backend();
    if (!tested) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_of_the_canonical_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
