/* Updates on the device against what replica/update.c makes of the same numbers on the host: every optimizer, with
 * penalties, clips, decay, running means, odd arrays; recorded, and with gradients that are not finite. */
#include "device.h"

#include "optimizers/optimizer.h"

#include <malloc.h>

#define SPANS 6
#define STEPS 3

/* A model's arrays, on the host and on the device. */
typedef struct arrays {
    kolo_optimizer optimizer;
    kolo_span spans[SPANS];
    int64_t count;
    int slot_count;
    float *weights, *gradient, *slots[3], numbers[SPANS];
    kolo_update_job job; /* the device's */
    kolo_step_parameters *step_parameters;
    kolo_captured_graph *captured_graph; /* of an update */
    size_t shift; /* bytes that the device's arrays begin behind a place of 256 */
} arrays;

static kolo_optimizer optimizer_of(int number)
{
    const kolo_optimizer all[] = {
        kolo_sgd(),
        kolo_sgd(.momentum = 0.9, .clip_norm = 0.7),
        kolo_sgd(.momentum = 0.9, .nesterov = true, .weight_decay = 0.01),
        kolo_adagrad(.learning_rate = 0.1),
        kolo_adadelta(.learning_rate = 1, .clip_value = 0.05),
        kolo_rmsprop(.learning_rate = 0.01),
        kolo_rmsprop(.learning_rate = 0.01, .momentum = 0.5),
        kolo_rmsprop(.learning_rate = 0.01, .centered = true, .global_clip_norm = 0.3),
        kolo_rmsprop(.learning_rate = 0.01, .centered = true, .momentum = 0.8),
        kolo_adam(),
        kolo_adam(.amsgrad = true, .global_clip_norm = 0.4),
        kolo_adamw(.clip_norm = 0.5),
        kolo_adamax(.clip_value = 0.1),
        kolo_nadam(),
        kolo_lars(.weight_decay = 1e-3),
        kolo_lars(.scale_vectors = true, .clip_norm = 0.2),
        kolo_lamb(.weight_decay = 0.01),
        kolo_lamb(.weight_decay = 0.01, .exclude_vectors = true, .global_clip_norm = 0.3),
        kolo_novograd(.weight_decay = 1e-3),
        kolo_novograd(.clip_value = 0.1),
    };
    kolo_optimizer complete = {0};
    if (number < (int)(sizeof all / sizeof *all)) rig_ok(kolo_optimizer_complete(&all[number], &complete));
    return complete;
}

/* ---- the host's */

static double sum_of_squares(const arrays *a, const kolo_span *span, double scale)
{
    double sum = 0;
    for (int64_t i = span->offset; i < span->offset + span->count && !(span->momentum > 0); i++)
        sum += pow((double)kolo_mean_gradient(a->gradient[i], a->weights[i], (float)scale, span->l2), 2);
    return sum;
}

static void update_array(arrays *a, int number, double rate, int64_t step, double scale, double norm)
{
    const kolo_span *span = &a->spans[number];
    const kolo_common_args *options = &a->optimizer.common;
    const kolo_optimizer_kind *kind = a->optimizer.kind;
    float *w = a->weights + span->offset, *g = a->gradient + span->offset;
    double most = options->clip_norm > 0 ? options->clip_norm : options->global_clip_norm;
    float factor = most > 0 ? (float)kolo_clip_factor(norm, most) : 1;
    float ends = options->clip_value > 0 ? (float)options->clip_value : INFINITY;
    for (int64_t i = 0; i < span->count; i++) {
        g[i] = kolo_clipped_gradient(g[i], w[i], (float)scale, span->l2, factor, ends);
        if (!kind->decays) w[i] = kolo_shrunk(w[i], (float)(options->weight_decay * rate));
    }
    kolo_update update = {.optimizer = &a->optimizer,
                          .learning_rate = rate,
                          .step = step,
                          .weights = w,
                          .gradient = g,
                          .scale = 1,
                          .count = span->count,
                          .vector = span->vector,
                          .number = &a->numbers[number]};
    for (int s = 0; s < a->slot_count; s++) update.slots[s] = a->slots[s] + span->offset;
    if (kind->measure) kind->measure(&update);
    if (kind->settle) kind->settle(&update);
    kind->update(&update);
}

static void update_on_host(arrays *a, double rate, int64_t step, double scale, double share)
{
    double norms[SPANS], total = 0;
    for (int s = 0; s < SPANS; s++) total += norms[s] = sum_of_squares(a, &a->spans[s], scale);
    for (int s = 0; s < SPANS; s++) {
        const kolo_span *span = &a->spans[s];
        bool each = a->optimizer.common.clip_norm > 0;
        if (!(span->momentum > 0)) update_array(a, s, rate, step, scale, each ? norms[s] : total);
        for (int64_t i = span->offset; i < span->offset + span->count && span->momentum > 0; i++)
            a->weights[i] = kolo_moved(a->weights[i], a->gradient[i], span->momentum, share);
    }
}

/* ---- the device's */

static float *floats_there(const arrays *a, const float *values)
{
    return values ? device_array(values, (size_t)a->count * sizeof *values, a->shift) : NULL;
}

static void put_gradient(arrays *a)
{
    rig_ok(streams->copy(stream, a->job.gradient, a->gradient, (size_t)a->count * sizeof(float)));
}

static void tell(arrays *a, double rate, int64_t step, double scale, double share)
{
    kolo_step_parameters step_parameters = {.scale = scale, .per_sample = share};
    kolo_rule_numbers(&a->optimizer, rate, step, step_parameters.rule);
    rig_ok(streams->copy(stream, a->step_parameters, &step_parameters, sizeof step_parameters));
}

/* a: what the host has; relative to the largest. */
static void same(const arrays *a, const char *what, const float *wanted, const float *there, int64_t count)
{
    float *got = device_read(there, (size_t)count * sizeof *got);
    double largest = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)wanted[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)(got[i] - wanted[i])) <= 2e-6 * largest))
            fail_msg("%s: %s %d: wanted %.9g, got %.9g", a->optimizer.kind->name, what, (int)i, (double)wanted[i],
                     (double)got[i]);
    free(got);
}

static void all_same(const arrays *a)
{
    same(a, "weight", a->weights, a->job.weights, a->count);
    for (int s = 0; s < a->slot_count; s++) same(a, "slot's element", a->slots[s], a->job.slots[s], a->count);
    if (a->optimizer.kind->number) same(a, "number", a->numbers, a->job.numbers, SPANS);
}

/* ---- both */

static void draw_spans(arrays *a, dice *d, bool penalty)
{
    static const int sizes[] = {1, 3, 17, 33, 256, 1000, 2048, 2053, 4097};
    int mean = roll_between(d, 0, SPANS - 1);
    a->count = 0;
    for (int s = 0; s < SPANS; s++) {
        a->spans[s] = (kolo_span){.offset = a->count, .count = sizes[roll_between(d, 0, 8)], .vector = roll_coin(d)};
        if (penalty && roll_coin(d)) a->spans[s].l2 = 0.02f;
        if (s == mean) a->spans[s].momentum = 0.75;
        a->count += a->spans[s].count;
    }
}

static arrays open_arrays(dice *d, kolo_optimizer optimizer, bool scaled)
{
    const kolo_scaling start = {.loss_scale = 0x1p15, .sample_scale = 1};
    arrays a = {.optimizer = optimizer, .shift = roll_between(d, 0, 3) ? 0 : 4};
    const kolo_common_args *common = &optimizer.common;
    draw_spans(&a, d, roll_coin(d));
    a.slot_count = kolo_optimizer_slots(&optimizer);
    a.weights = numbers(d, a.count, 0);
    a.gradient = numbers(d, a.count, 0);
    for (int s = 0; s < a.slot_count; s++) {
        a.slots[s] = numbers(d, a.count, 0);
        for (int64_t i = 0; i < a.count; i++)
            a.slots[s][i] = optimizer.kind->slot_start ? optimizer.kind->slot_start(&optimizer, s) : 0;
    }
    a.step_parameters = device_array(NULL, sizeof *a.step_parameters, 0);
    a.job = (kolo_update_job){.optimizer = &optimizer,
                              .span_count = SPANS,
                              .count = a.count,
                              .weights = floats_there(&a, a.weights),
                              .gradient = floats_there(&a, a.gradient),
                              .numbers = device_array(a.numbers, sizeof a.numbers, 0),
                              .step_parameters = a.step_parameters,
                              .clip_value = common->clip_value,
                              .clip_norm = common->clip_norm,
                              .global_clip_norm = common->global_clip_norm,
                              .decay = optimizer.kind->decays ? 0 : common->weight_decay,
                              .scaling = scaled ? device_array(&start, sizeof start, 0) : NULL};
    for (int s = 0; s < 3; s++) a.job.slots[s] = floats_there(&a, a.slots[s]);
    return a;
}

static void close_arrays(arrays *a)
{
    if (a->captured_graph) streams->free_graph(stream, a->captured_graph);
    tested_backend()->updates->forget(stream, &a->job);
    free(a->weights), free(a->gradient);
    device_free(a->job.weights, a->shift), device_free(a->job.gradient, a->shift);
    for (int s = 0; s < 3; s++) free(a->slots[s]), device_free(a->job.slots[s], a->shift);
    device_free(a->job.numbers, 0), device_free(a->step_parameters, 0), device_free(a->job.scaling, 0);
}

/* A new gradient on both. */
static void draw_gradient(arrays *a, dice *d)
{
    float *drawn = numbers(d, a->count, 0);
    memcpy(a->gradient, drawn, (size_t)a->count * sizeof *drawn);
    free(drawn);
    put_gradient(a);
}

static void prepare(arrays *a)
{
    a->job.spans = a->spans;
    a->job.optimizer = &a->optimizer;
    rig_ok(tested_backend()->updates->expect(stream, &a->job));
}

static void arrives_where_the_host_does(void **state)
{
    (void)state;
    dice d = {31};
    for (int number = 0; optimizer_of(number).kind; number++) {
        arrays a = open_arrays(&d, optimizer_of(number), roll_coin(&d));
        assert_true(tested_backend()->updates->has_rule(&a.optimizer));
        prepare(&a);
        rig_ok(streams->begin_capture(stream));
        rig_ok(tested_backend()->updates->update(stream, &a.job));
        rig_ok(streams->end_capture(stream, &a.captured_graph));
        for (int step = 1; step <= STEPS; step++) {
            double rate = a.optimizer.common.learning_rate / step, share = 1.0 / (7 + step), scale = share / 16;
            draw_gradient(&a, &d);
            tell(&a, rate, step, scale, share);
            if (step == 2) rig_ok(tested_backend()->updates->update(stream, &a.job));
            else rig_ok(streams->launch(stream, a.captured_graph));
            update_on_host(&a, rate, step, scale, share);
            all_same(&a);
        }
        close_arrays(&a);
    }
}

static void a_gradient_that_is_not_finite_changes_nothing(void **state)
{
    (void)state;
    dice d = {32};
    const int some[] = {1, 9, 14, 17, 18};
    for (size_t c = 0; c < sizeof some / sizeof *some; c++) {
        arrays a = open_arrays(&d, optimizer_of(some[c]), true);
        prepare(&a);
        for (int step = 1; step <= 3; step++) {
            bool fine = step != 2;
            draw_gradient(&a, &d);
            int s = roll_between(&d, 0, SPANS - 1);
            while (a.spans[s].momentum > 0) s = (s + 1) % SPANS;
            int64_t at = a.spans[s].offset + roll_between(&d, 0, (int)a.spans[s].count - 1);
            if (!fine) a.gradient[at] = roll_coin(&d) ? INFINITY : NAN;
            put_gradient(&a);
            tell(&a, 0.01, fine ? step : 1, 0.1, 0.1);
            rig_ok(tested_backend()->updates->update(stream, &a.job));
            if (fine) update_on_host(&a, 0.01, step, 0.1, 0.1);
            kolo_scaling *scaling = device_read(a.job.scaling, sizeof *scaling);
            assert_true(scaling->tried == step && scaling->updates == step - (step >= 2));
            assert_true(scaling->loss_scale == (step >= 2 ? 0x1p14 : 0x1p15) && scaling->good == step % 2);
            free(scaling);
            all_same(&a);
        }
        close_arrays(&a);
    }
}

/* CUDA may read a pageable source after the call returned: the table's must live until then. Memory that is freed is
 * overwritten here. */
static void a_table_is_read_late(void **state)
{
    (void)state;
    dice d = {34};
    if (!device_is_simulated()) skip();
    arrays a = open_arrays(&d, optimizer_of(0), false);
    rig_ok(streams->synchronize(stream));
    mallopt(M_PERTURB, 0x5A);
    setenv("KOLO_SHIM_LATE_COPIES", "1", 1);
    prepare(&a);
    unsetenv("KOLO_SHIM_LATE_COPIES");
    rig_ok(streams->synchronize(stream));
    mallopt(M_PERTURB, 0);
    draw_gradient(&a, &d);
    tell(&a, 0.01, 1, 1, 1);
    rig_ok(tested_backend()->updates->update(stream, &a.job));
    update_on_host(&a, 0.01, 1, 1, 1);
    all_same(&a);
    close_arrays(&a);
}

/* More chunks than blocks that are at work at once, and more than parts: an array of one element, and one of the rest.
 */
static void the_largest_is_clipped_right(void **state)
{
    (void)state;
    dice d = {33};
    enum { count = 1 + 1100 * 2048 };
    kolo_optimizer optimizer = {0}, given = kolo_sgd(.learning_rate = 1, .clip_norm = 2);
    rig_ok(kolo_optimizer_complete(&given, &optimizer));
    arrays a = {.optimizer = optimizer, .count = count};
    a.weights = calloc(count, sizeof *a.weights);
    a.gradient = numbers(&d, count, 0);
    assert_non_null(a.weights);
    a.spans[0] = (kolo_span){.count = 1, .vector = true};
    a.spans[1] = (kolo_span){.offset = 1, .count = count - 1};
    a.step_parameters = device_array(NULL, sizeof *a.step_parameters, 0);
    a.job = (kolo_update_job){.span_count = 2,
                              .count = count,
                              .weights = floats_there(&a, a.weights),
                              .gradient = floats_there(&a, a.gradient),
                              .step_parameters = a.step_parameters,
                              .clip_norm = 2};
    prepare(&a);
    tell(&a, 1, 1, 1, 1);
    rig_ok(tested_backend()->updates->update(stream, &a.job));
    double sum = 0;
    for (int i = 1; i < count; i++) sum += pow((double)a.gradient[i], 2);
    for (int i = 0; i < count; i++) a.weights[i] = -a.gradient[i] * (i == 0 ? 1 : (float)kolo_clip_factor(sum, 2));
    same(&a, "weight", a.weights, a.job.weights, count);
    close_arrays(&a);
}

int main(void)
{
    if (!device_open()) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrives_where_the_host_does), cmocka_unit_test(a_gradient_that_is_not_finite_changes_nothing),
        cmocka_unit_test(a_table_is_read_late), cmocka_unit_test(the_largest_is_clipped_right)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    streams->close(&stream);
    return failed;
}
