/* The last dense layer and the loss as one operation, against the reference's three: rows that a warp takes, that a
 * block keeps, and that are too long for it; of odd sizes, in every precision, of microbatches that are not full. */
#include "../pair.h"

typedef struct sizes {
    int positions, inputs, outputs; /* of a sample */
} sizes;

typedef struct values {
    int x, kernel, bias, again, dx, dkernel, dbias, probe;
} values;

static void describe(rig *r, kolo_loss loss, int outputs)
{
    const kolo_metric ranked[KOLO_METRICS_MAX] = {KOLO_ACCURACY, KOLO_TOP_K(3)}, none[KOLO_METRICS_MAX] = {0};
    kolo_metric_list list;
    rig_ok(kolo_metric_list_make(&loss, loss.kind == &kolo_mse_kind ? none : ranked, outputs, &list));
    r->plan.loss = loss;
    for (int m = 0; m < list.count; m++) {
        r->plan.metrics[m] = list.metric[m];
        r->plan.metric_offset[m] = list.offset[m];
    }
    r->plan.metric_sums = list.sums;
    r->plan.labels = list.labels;
    r->plan.targets = list.targets;
}

/* The reference's dense, loss and dense backward; the other's one operation. */
static values build(rig *r, const sizes *s, bool bias, bool wants_dx)
{
    kolo_shape in = {2, {s->positions, s->inputs}}, out = {2, {s->positions, s->outputs}};
    kolo_shape kernel = {2, {s->inputs, s->outputs}}, of_bias = {1, {s->outputs}};
    values v = {.bias = -1, .dbias = -1, .dx = -1, .probe = -1};
    v.x = rig_input(r, in);
    r->plan.output = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    r->plan.loss_gradient = rig_value(r, KOLO_VALUE_ACTIVATION, out);
    r->plan.values[r->plan.output].canonical = r->plan.values[r->plan.loss_gradient].canonical = true;
    v.kernel = kolo_plan_weights(&r->plan, 0, kernel);
    v.again = kolo_plan_weights(&r->plan, 0, kernel);
    v.dkernel = kolo_plan_gradient(&r->plan, 0, kernel);
    if (bias) v.bias = kolo_plan_weights(&r->plan, 1, of_bias);
    if (bias) v.dbias = kolo_plan_gradient(&r->plan, 1, of_bias);
    if (wants_dx) v.dx = rig_value(r, KOLO_VALUE_ACTIVATION, in);
    if (r->backend->devices) {
        r->plan.loss_gradient = -1;
        rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE_LOSS,
                            .in = {v.x, v.kernel, v.bias, wants_dx ? v.again : -1},
                            .out = {v.dx, v.dkernel, v.dbias}});
    } else {
        int z = r->plan.output, dz = r->plan.loss_gradient;
        rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE, .in = {v.x, v.kernel, v.bias}, .out = {z}});
        rig_op(r, (kolo_op){.kind = KOLO_OP_LOSS, .in = {z}, .out = {dz}});
        rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE_BACKWARD,
                            .in = {dz, -1, v.x, wants_dx ? v.again : -1},
                            .out = {v.dx, v.dkernel, v.dbias}});
    }
    if (wants_dx) v.probe = rig_probe(r, v.dx);
    return v;
}

static void near(const char *what, int number, double got, double wanted, double bound)
{
    if (fabs(got - wanted) <= bound * fmax(1, fabs(wanted))) return;
    fail_msg("case %d: %s: wanted %.9g, got %.9g", number, what, wanted, got);
}

static void same(rig *const r[2], const char *what, int number, int reference, int other, double bound)
{
    double *wanted = rig_read(r[0], reference), *got = rig_read(r[1], other);
    near(what, number, rig_distance(got, wanted, rig_count(r[0], reference)), 0, bound);
    free(wanted);
    free(got);
}

/* Logits are rounded to the element, which the reference does not; the gradient of a row is of about one. */
static void compare(rig *const r[2], const values v[2], kolo_precision precision, int number)
{
    bool narrow = precision == KOLO_MIXED_BF16 || precision == KOLO_MIXED_FP16;
    double bound = precision == KOLO_FLOAT32 ? 1e-5 : precision == KOLO_MIXED_BF16 ? 0x1p-6 : 0x1p-9;
    if (precision == KOLO_TF32 && !rig_is_simulated(r[1]->backend)) bound = 0x1p-8; /* pair.h has why */
    assert_true(r[1]->totals.samples == r[0]->totals.samples);
    near("the loss", number, r[1]->totals.loss, r[0]->totals.loss, bound);
    for (int k = 0; k < r[0]->plan.metric_sums && !narrow; k++)
        near("a metric", number, r[1]->totals.sums[k], r[0]->totals.sums[k], bound);
    same(r, "dkernel", number, v[0].dkernel, v[1].dkernel, bound);
    if (v[0].dbias >= 0) same(r, "dbias", number, v[0].dbias, v[1].dbias, bound);
    if (v[0].dx >= 0) same(r, "dx", number, v[0].probe, v[1].probe, bound);
}

static void write_same(rig *const r[2], dice *d, const values v[2], bool rounds)
{
    const kolo_plan *plan = &r[0]->plan;
    float *x = numbers(d, rig_count(r[0], v[0].x), 0), *kernel = numbers(d, rig_count(r[0], v[0].kernel), 0);
    float *bias = numbers(d, plan->values[v[0].kernel].shape.dim[1], rounds ? 8 : 0);
    for (int i = 0; i < 2; i++) {
        rig_write(r[i], v[i].x, x);
        rig_write(r[i], v[i].kernel, kernel);
        if (v[i].dx >= 0) rig_write(r[i], v[i].again, kernel);
        if (v[i].bias >= 0) rig_write(r[i], v[i].bias, bias);
    }
    free(x);
    free(kernel);
    free(bias);
}

static void one_case(dice *d, const sizes *s, int number)
{
    static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_TF32, KOLO_MIXED_FP16};
    kolo_precision precision = precisions[number % 4];
    int microbatch = roll_between(d, 1, 4),
        samples = roll_between(d, 0, 3) ? microbatch : roll_between(d, 1, microbatch);
    bool bias = roll_coin(d), wants_dx = roll_between(d, 0, 3) > 0;
    const kolo_loss losses[] = {KOLO_SPARSE_CROSSENTROPY, KOLO_LABEL_SMOOTHING(KOLO_SPARSE_CROSSENTROPY, 0.1),
                                KOLO_MSE};
    kolo_loss loss = losses[roll_between(d, 0, 2)];
    int64_t count = (int64_t)microbatch * s->positions * s->outputs;
    float *targets = numbers(d, count, 8);
    rig *r[2] = {rig_new(&kolo_reference_backend, precision, microbatch), rig_new(tested, precision, microbatch)};
    values v[2];
    for (int i = 0; i < 2; i++) {
        describe(r[i], loss, s->outputs);
        v[i] = build(r[i], s, bias, wants_dx);
        if (r[i]->plan.targets) r[i]->targets = targets;
        r[i]->call.samples = samples;
        rig_prepare(r[i]);
    }
    for (int i = 0; i < microbatch * s->positions; i++)
        r[0]->labels[i] = r[1]->labels[i] = roll_between(d, 0, s->outputs - 1);
    write_same(r, d, v, precision != KOLO_FLOAT32);
    for (int i = 0; i < 2; i++) rig_run(r[i]);
    compare(r, v, precision, number);
    kolo_totals first = r[1]->totals;
    r[1]->totals = (kolo_totals){0};
    rig_run(r[1]);
    assert_memory_equal(&first, &r[1]->totals, sizeof first); /* the same bits again */
    for (int i = 0; i < 2; i++) rig_free(r[i]);
    free(targets);
}

static void against_the_reference(void **state)
{
    (void)state;
    static const sizes all[] = {{1, 5, 3},    {7, 16, 33},   {3, 9, 512},  {5, 8, 516},
                                {2, 17, 601}, {4, 24, 2000}, {1, 4, 25001}};
    dice d = {91};
    for (int number = 0; number < 56; number++) one_case(&d, &all[number % 7], number);
}

/* What a model's plan has, and when. */
static void of_large_outputs(void **state)
{
    (void)state;
    if (!tested->fuses) skip();
    const kolo_fusion fusion = {.kind = KOLO_FUSE_DENSE_LOSS};
    kolo_plan plan = {.loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}};
    assert_true(tested->fuses(&plan, &fusion));
    kolo_loss_kind own = kolo_mse_kind;
    own.name = "one's own";
    own.row = NULL;
    plan.loss = (kolo_loss){.kind = &own};
    assert_false(tested->fuses(&plan, &fusion));
}

int main(void)
{
    if (!pair_open()) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(against_the_reference), cmocka_unit_test(of_large_outputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
