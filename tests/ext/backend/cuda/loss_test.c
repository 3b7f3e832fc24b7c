/* Every loss and metric of Kolo's, and a learner's own, of random rows: the device's kernels against the host's.
 * Outputs are eighths, so that equal ones occur; microbatches are short, weighted, and of several rows a sample. */
#include "../pair.h"

/* ---- a learner's own ---- */

static double fourth_power(const kolo_row *row, float *gradient)
{
    double sum = 0;
    for (int64_t i = 0; i < row->count; i++) {
        double e = (double)row->outputs[i] - (double)row->targets[i];
        sum += e * e * e * e;
        if (gradient) gradient[i] = (float)(4 * e * e * e);
    }
    return sum;
}

static void count_positive(const kolo_row *row, double weight, double *sums)
{
    for (int64_t i = 0; i < row->count; i++) sums[row->outputs[i] > 0] += weight;
}
static int two(int64_t outputs, double number)
{
    (void)outputs, (void)number;
    return 2;
}

static const kolo_loss_kind own_loss = {.name = "fourth_power", .wants = KOLO_WANTS_TARGETS, .row = fourth_power};
static const kolo_metric_kind own_metric = {.name = "positive", .row = count_positive, .sums = two};
/* A copy of one of Kolo's with another row is no longer Kolo's. */
static kolo_loss_kind changed_mse;

/* ---- cases ---- */

typedef struct loss_case {
    kolo_loss loss;
    kolo_metric metrics[KOLO_METRICS_MAX];
    kolo_shape shape;
    int microbatch, samples;
    bool weighted, training;
    double scale;
} loss_case;

static const kolo_shape shapes[] = {{1, {1}},   {1, {2}},    {1, {3}},     {1, {10}},     {1, {17}},
                                    {1, {33}},  {2, {3, 5}}, {2, {5, 64}}, {1, {100}},    {1, {512}},
                                    {1, {515}}, {1, {700}},  {2, {2, 10}}, {3, {2, 2, 3}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static kolo_loss any_loss(dice *d)
{
    const kolo_loss losses[] = {KOLO_SPARSE_CROSSENTROPY,
                                KOLO_SPARSE_CROSSENTROPY,
                                KOLO_CATEGORICAL_CROSSENTROPY,
                                KOLO_BINARY_CROSSENTROPY,
                                KOLO_LABEL_SMOOTHING(KOLO_SPARSE_CROSSENTROPY, 0.1),
                                KOLO_LABEL_SMOOTHING(KOLO_CATEGORICAL_CROSSENTROPY, 0.2),
                                KOLO_LABEL_SMOOTHING(KOLO_BINARY_CROSSENTROPY, 0.3),
                                KOLO_KL_DIVERGENCE,
                                KOLO_MSE,
                                KOLO_MAE,
                                KOLO_LOG_COSH,
                                KOLO_HUBER(0),
                                KOLO_HUBER(0.25),
                                {.kind = &own_loss},
                                {.kind = &changed_mse}};
    return losses[roll_between(d, 0, sizeof losses / sizeof *losses - 1)];
}

/* Some, each at most once; those that count classes only where there is room for their sums. */
static void any_metrics(dice *d, loss_case *c)
{
    int width = c->shape.dim[c->shape.rank - 1], count = 0, k = width < 3 ? 1 : 3;
    bool few = width < 40;
    const kolo_metric metrics[] = {KOLO_ACCURACY,
                                   KOLO_BINARY_ACCURACY,
                                   KOLO_CATEGORICAL_ACCURACY,
                                   KOLO_TOP_K(k),
                                   KOLO_METRIC_MSE,
                                   KOLO_METRIC_MAE,
                                   KOLO_MEAN,
                                   KOLO_AUC,
                                   KOLO_PRECISION(KOLO_MACRO),
                                   KOLO_F1(KOLO_WEIGHTED),
                                   {&own_metric, 0}};
    bool plain = roll_coin(d);
    if (plain) c->metrics[count++] = KOLO_ACCURACY;
    for (size_t i = 1; !plain && i < sizeof metrics / sizeof *metrics && count < 5; i++) {
        bool of_classes = metrics[i].kind == &kolo_precision_kind || metrics[i].kind == &kolo_f1_kind;
        bool rare = metrics[i].kind == &own_metric && roll_between(d, 0, 3) > 0;
        if (roll_between(d, 0, 2) > 0 || (of_classes && !few) || rare) continue;
        c->metrics[count++] = metrics[i];
    }
}

static rig *rig_of(const kolo_backend *backend, kolo_precision precision, const loss_case *c)
{
    rig *r = rig_new(backend, precision, c->microbatch);
    kolo_plan *plan = &r->plan;
    kolo_metric_list list;
    rig_ok(kolo_metric_list_make(&c->loss, c->metrics, c->shape.dim[c->shape.rank - 1], &list));
    plan->loss = c->loss;
    for (int m = 0; m < list.count; m++) {
        plan->metrics[m] = list.metric[m];
        plan->metric_offset[m] = list.offset[m];
    }
    plan->metric_sums = list.sums;
    plan->probabilities = list.probabilities;
    plan->labels = list.labels;
    plan->targets = list.targets;
    plan->output = rig_input(r, c->shape);
    plan->loss_gradient = c->training ? rig_value(r, KOLO_VALUE_ACTIVATION, c->shape) : -1;
    plan->values[plan->output].canonical = true;
    if (c->training) plan->values[plan->loss_gradient].canonical = true;
    rig_op(r, (kolo_op){.kind = KOLO_OP_LOSS, .in = {plan->output}, .out = {plan->loss_gradient}});
    r->call.samples = c->samples;
    r->call.loss_scale = c->scale;
    return r;
}

static loss_case any_case(dice *d)
{
    static const int microbatches[] = {1, 2, 5, 9};
    loss_case c = {.shape = shapes[roll_between(d, 0, SHAPES - 1)],
                   .microbatch = microbatches[roll_between(d, 0, 3)],
                   .weighted = roll_coin(d),
                   .training = roll_between(d, 0, 3) > 0,
                   .scale = roll_coin(d) ? 1024 : 0};
    do c.loss = any_loss(d);
    while (c.loss.kind->left_out == KOLO_SOFTMAX && c.shape.dim[c.shape.rank - 1] == 1);
    c.samples = roll_between(d, 0, 4) == 0 ? roll_between(d, 0, c.microbatch) : c.microbatch;
    any_metrics(d, &c);
    return c;
}

/* Between 0 and 1, of each row together 1 now and then. */
static float *any_targets(dice *d, int64_t count, int64_t width)
{
    bool hot = roll_coin(d);
    float *t = calloc((size_t)count, sizeof *t);
    assert_non_null(t);
    for (int64_t i = 0; !hot && i < count; i++) t[i] = (float)roll_between(d, 0, 8) / 8;
    for (int64_t i = 0; hot && i < count; i += width) t[i + roll_between(d, 0, (int)width - 1)] = 1;
    return t;
}

static void near(const char *what, int number, double got, double wanted, double bound)
{
    if (fabs(got - wanted) <= bound * fmax(1, fabs(wanted))) return;
    fail_msg("case %d: %s: wanted %.17g, got %.17g", number, what, wanted, got);
}

static void same_totals(const rig *wanted, const rig *got, int number)
{
    char text[32];
    assert_true(got->totals.samples == wanted->totals.samples);
    near("the loss", number, got->totals.loss, wanted->totals.loss, 1e-6);
    for (int k = 0; k < wanted->plan.metric_sums; k++) {
        snprintf(text, sizeof text, "sum %d", k);
        near(text, number, got->totals.sums[k], wanted->totals.sums[k], 1e-6);
    }
    assert_true(got->totals.sums[wanted->plan.metric_sums] == 0.25); /* untouched */
}

static void same_gradient(rig *const r[2], const loss_case *c, int number)
{
    int dz = r[0]->plan.loss_gradient;
    double *wanted = rig_read(r[0], dz), *got = rig_read(r[1], dz), largest = 0;
    int64_t count = rig_count(r[0], dz), real = count / c->microbatch * c->samples;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(wanted[i]));
    for (int64_t i = 0; i < real; i++)
        if (!(fabs(got[i] - wanted[i]) <= 2e-6 * largest))
            fail_msg("case %d (%s, width %d): gradient %d: wanted %.9g, got %.9g", number, c->loss.kind->name,
                     c->shape.dim[c->shape.rank - 1], (int)i, wanted[i], got[i]);
    for (int64_t i = real; i < count; i++) assert_true(got[i] == 0);
    free(wanted);
    free(got);
}

static void one_case(dice *d, int number)
{
    loss_case c = any_case(d);
    int64_t count = c.microbatch * kolo_shape_count(c.shape), width = c.shape.dim[c.shape.rank - 1];
    kolo_precision precision = roll_coin(d) ? KOLO_MIXED_BF16 : KOLO_FLOAT32; /* eighths are exact in both */
    float *targets = any_targets(d, count, width), weights[9],
          *z = numbers(d, count, precision == KOLO_FLOAT32 ? 0 : 8);
    for (int i = 0; i < 9; i++) weights[i] = (float)roll_between(d, 0, 6) / 4;
    for (int64_t i = 0; i < count; i++) z[i] *= 6;
    rig *r[2] = {rig_of(&kolo_reference_backend, precision, &c), rig_of(tested, precision, &c)};
    kolo_totals before = {.samples = 3, .loss = 1.5};
    for (int k = 0; k < KOLO_METRIC_SUMS_MAX; k++) before.sums[k] = 0.25;
    for (int64_t i = 0; i < count / width; i++) r[0]->labels[i] = roll_between(d, 0, (int)width - 1);
    memcpy(r[1]->labels, r[0]->labels, sizeof r[1]->labels);
    for (int i = 0; i < 2; i++) {
        bool has_targets = r[i]->plan.targets;
        r[i]->targets = has_targets ? targets : NULL;
        r[i]->weights = c.weighted ? weights : NULL;
        rig_prepare(r[i]);
        if (has_targets && !r[i]->plan.labels) memset(r[i]->labels, 0xFF, sizeof r[i]->labels);
        rig_write(r[i], r[i]->plan.output, z);
        r[i]->totals = before;
        rig_run(r[i]);
    }
    same_totals(r[0], r[1], number);
    kolo_totals first = r[1]->totals;
    r[1]->totals = before;
    rig_run(r[1]);
    assert_memory_equal(&r[1]->totals, &first, sizeof first); /* the same bits again */
    if (c.training) same_gradient(r, &c, number);
    for (int i = 0; i < 2; i++) rig_free(r[i]);
    free(targets);
    free(z);
}

static void losses_and_metrics_are_the_host_s(void **state)
{
    (void)state;
    changed_mse = kolo_mse_kind;
    changed_mse.row = fourth_power;
    dice d = {20261122};
    for (int number = 0; number < 200; number++) one_case(&d, number);
}

/* More rows than are taken at once. */
static void many_rows(void **state)
{
    (void)state;
    loss_case c = {.loss = KOLO_CATEGORICAL_CROSSENTROPY,
                   .metrics = {KOLO_ACCURACY, KOLO_METRIC_MSE},
                   .shape = {2, {700, 33}},
                   .microbatch = 7,
                   .samples = 6,
                   .training = true};
    int64_t count = c.microbatch * kolo_shape_count(c.shape);
    dice d = {9};
    float *targets = any_targets(&d, count, 33), *z = numbers(&d, count, 0);
    rig *r[2] = {rig_of(&kolo_reference_backend, KOLO_FLOAT32, &c), rig_of(tested, KOLO_FLOAT32, &c)};
    for (int i = 0; i < 2; i++) {
        r[i]->targets = targets;
        rig_prepare(r[i]);
        r[i]->call.labels = NULL;
        rig_write(r[i], r[i]->plan.output, z);
        r[i]->totals.sums[2] = 0.25;
        rig_run(r[i]);
    }
    same_totals(r[0], r[1], 0);
    same_gradient(r, &c, 0);
    for (int i = 0; i < 2; i++) rig_free(r[i]);
    free(targets);
    free(z);
}

/* As wide as the shared memory of an older device, which has more to hold than the row. */
static void rows_as_wide_as_shared_memory(void **state)
{
    (void)state;
    static const int widths[] = {16200, 24500}, capabilities[] = {75, 70};
    for (int i = 0; rig_is_simulated(tested) && i < 2; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", capabilities[i]);
        setenv("KOLO_SHIM_CAPABILITY", text, 1);
        loss_case c = {.loss = KOLO_SPARSE_CROSSENTROPY, .shape = {1, {widths[i]}}, .microbatch = 1, .samples = 1};
        dice d = {21};
        float *z = numbers(&d, widths[i], 0);
        rig *r[2] = {rig_of(&kolo_reference_backend, KOLO_FLOAT32, &c), rig_of(tested, KOLO_FLOAT32, &c)};
        for (int k = 0; k < 2; k++) {
            rig_prepare(r[k]);
            rig_write(r[k], r[k]->plan.output, z);
            r[k]->totals.sums[0] = 0.25;
            rig_run(r[k]);
        }
        same_totals(r[0], r[1], i);
        for (int k = 0; k < 2; k++) rig_free(r[k]);
        free(z);
    }
    unsetenv("KOLO_SHIM_CAPABILITY");
}

/* What a captured graph tells the host's functions is of the step that is replayed. */
static void a_learner_s_own_is_recorded(void **state)
{
    (void)state;
    if (!tested->devices) skip();
    loss_case c = {.loss = {.kind = &own_loss}, .shape = {1, {4}}, .microbatch = 3, .samples = 3, .training = true};
    float targets[12] = {0}, ones[12], threes[12];
    for (int i = 0; i < 12; i++) threes[i] = 3 * (ones[i] = 1);
    rig *r = rig_of(tested, KOLO_FLOAT32, &c);
    r->targets = targets;
    rig_prepare(r);
    kolo_captured_graph *captured_graph;
    rig_ok(tested->streams->begin_capture(r->stream));
    for (int op = 0; op < r->plan.op_count; op++)
        if (r->kernels[op]) rig_ok(tested->run(r->kernels[op], &r->call));
    rig_ok(tested->streams->end_capture(r->stream, &captured_graph));
    for (int samples = 3; samples > 1; samples--) {
        r->call.samples = samples;
        rig_write(r, r->plan.output, samples == 3 ? ones : threes);
        r->totals = (kolo_totals){.loss = 0.5};
        rig_tell(r);
        rig_ok(tested->streams->launch(r->stream, captured_graph));
        rig_copy(r, &r->totals, r->device_totals, sizeof r->totals);
        double *gradient = rig_read(r, r->plan.loss_gradient), of_one = samples == 3 ? 4 : 4 * 27;
        assert_true(r->totals.samples == samples);
        assert_true(r->totals.loss == 0.5 + samples * 4 * (samples == 3 ? 1 : 81));
        for (int i = 0; i < 12; i++) assert_true(gradient[i] == (i < 4 * samples ? of_one : 0));
        free(gradient);
    }
    tested->streams->free_graph(r->stream, captured_graph);
    rig_free(r);
}

/* ---- a layer of one's own: y = x · scale, an element each, and its loss the sum of them ---- */

static void scale_forward(const kolo_custom_call *call)
{
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int64_t i = 0; i < call->samples * count; i++) {
        call->out[0][i] = call->in[0][i] * call->in[1][i % count];
        *call->loss += (double)call->out[0][i] * (call->weights ? (double)call->weights[i / count] : 1);
    }
}

static void scale_backward(const kolo_custom_call *call)
{
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int64_t i = 0; i < call->samples * count; i++) {
        call->out[0][i % count] += call->in[0][i] * call->in[1][i];
        call->out[1][i] = call->in[0][i] * call->in[2][i % count] + (float)(call->seed + call->step);
    }
}

typedef struct own_rig {
    rig *r;
    int x, dy, scale, again, y, dscale, dx;
} own_rig;

static own_rig own_rig_of(const kolo_backend *backend, kolo_precision precision, kolo_shape shape)
{
    own_rig o = {.r = rig_new(backend, precision, 4)};
    rig *r = o.r;
    kolo_layer_node node = {.number = 1};
    kolo_layer_flow flow = {.node = &node};
    o.x = rig_input(r, shape);
    o.dy = rig_input(r, shape);
    o.scale = kolo_plan_weights(&r->plan, 0, shape);
    o.again = kolo_plan_weights(&r->plan, 0, shape);
    const int forward[] = {o.x, o.scale}, backward[] = {o.dy, o.x, o.again};
    int outs[] = {kolo_plan_gradient(&r->plan, 0, shape), -1};
    const kolo_shape shapes_out[] = {shape, shape};
    o.y = -1;
    rig_ok(kolo_plan_custom(&r->plan, &flow, scale_forward, 2, forward, 1, &o.y, &shape));
    rig_ok(kolo_plan_custom(&r->plan, &flow, scale_backward, 3, backward, 2, outs, shapes_out));
    o.dscale = outs[0];
    o.dx = outs[1];
    return o;
}

static void a_layer_of_one_s_own_is_the_host_s(void **state)
{
    (void)state;
    dice d = {77};
    for (int number = 0; number < 12; number++) {
        kolo_shape shape = number % 2 ? (kolo_shape){1, {roll_between(&d, 1, 9)}} : (kolo_shape){2, {3, 5}};
        kolo_precision precision = number % 3 ? KOLO_FLOAT32 : KOLO_MIXED_BF16;
        own_rig o[2] = {own_rig_of(&kolo_reference_backend, precision, shape), own_rig_of(tested, precision, shape)};
        int samples = roll_between(&d, 0, 4), count = (int)kolo_shape_count(shape);
        float *x = numbers(&d, 4 * count, 8), *dy = numbers(&d, 4 * count, 8), *scale = numbers(&d, count, 8);
        float weights[4] = {1, 0.5f, 0, 2};
        for (int i = 0; i < 2; i++) {
            rig *r = o[i].r;
            r->plan.output = o[i].y;
            r->weights = number % 4 ? weights : NULL;
            rig_prepare(r);
            r->call.samples = samples;
            rig_write(r, o[i].x, x);
            rig_write(r, o[i].dy, dy);
            rig_write(r, o[i].scale, scale);
            rig_write(r, o[i].again, scale);
            rig_run(r);
        }
        const int values[] = {o[0].y, o[0].dscale, o[0].dx};
        for (int v = 0; v < 3; v++) {
            double *wanted = rig_read(o[0].r, values[v]), *got = rig_read(o[1].r, values[v]);
            assert_memory_equal(got, wanted, (size_t)rig_count(o[0].r, values[v]) * sizeof *got);
            free(wanted);
            free(got);
        }
        assert_true(o[1].r->totals.loss == o[0].r->totals.loss);
        for (int i = 0; i < 2; i++) rig_free(o[i].r);
        free(x);
        free(dy);
        free(scale);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(losses_and_metrics_are_the_host_s), cmocka_unit_test(many_rows),
                                       cmocka_unit_test(rows_as_wide_as_shared_memory),
                                       cmocka_unit_test(a_learner_s_own_is_recorded),
                                       cmocka_unit_test(a_layer_of_one_s_own_is_the_host_s)};
    if (!pair_open()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
