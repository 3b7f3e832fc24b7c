/* Tables of rows and of positions, and attention: the device's kernels against the reference's loops, of random shapes,
 * in every precision, with microbatches that are not full. */
/* test: long: it compares attention of many shapes. */
#include "../pair.h"

/* Both rigs read as many samples, and what is to be dropped follows from the same numbers. */
static void set_samples(pair *p, dice *d)
{
    int microbatch = p->r[0]->plan.microbatch, samples = roll_coin(d) ? microbatch : roll_between(d, 0, microbatch);
    for (int i = 0; i < 2; i++) p->r[i]->call.samples = samples;
}

/* ---- rows of a table ---- */

static void one_table(dice *d, int number)
{
    static const int row_counts[] = {1, 2, 3, 17, 130, 300}, sizes[] = {1, 3, 4, 8, 12, 33, 64, 136};
    pair p = pair_new(d, "embedding", number);
    int rows = row_counts[roll_between(d, 0, 5)], size = sizes[roll_between(d, 0, 7)];
    int length = roll_between(d, 0, 3) ? roll_between(d, 1, 20) : roll_between(d, 100, 250);
    kolo_shape table_shape = {2, {rows, size}}, x_shape = {1, {length}}, y_shape = {2, {length, size}};
    int x = 0, table = 0, dy = 0, dtable = 0, y[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, x_shape);
        dy = rig_input(r, y_shape);
        table = kolo_plan_weights(&r->plan, 0, table_shape);
        dtable = kolo_plan_gradient(&r->plan, 0, table_shape);
        y[i] = rig_value(r, KOLO_VALUE_ACTIVATION, y_shape);
        rig_op(r, (kolo_op){.kind = KOLO_OP_EMBEDDING, .in = {x - 1, table}, .out = {y[i]}});
        rig_op(r, (kolo_op){.kind = KOLO_OP_EMBEDDING_BACKWARD, .in = {dy, x - 1}, .out = {dtable}});
        y[i] = rig_probe(r, y[i]);
        rig_prepare(r);
    }
    set_samples(&p, d);
    int64_t positions = rig_count(p.r[0], x);
    float *tokens = calloc((size_t)positions, sizeof *tokens);
    bool few = roll_coin(d); /* one row is taken more often than the others */
    for (int64_t i = 0; i < positions; i++) tokens[i] = (float)roll_between(d, 0, few ? 1 : rows - 1);
    for (int64_t i = 0; i < positions; i++) tokens[i] = tokens[i] >= (float)rows ? 0 : tokens[i];
    for (int i = 0; i < 2; i++) rig_write(p.r[i], x, tokens);
    pair_write(&p, d, table);
    pair_write(&p, d, dy); /* padding, too, has slopes, which must not count */
    pair_run(&p);
    pair_compare(&p, "y", BOTH(y), 1);
    pair_compare(&p, "the table's gradient", dtable, dtable, (double)positions);
    free(tokens);
    pair_free(&p);
}

static void tables(void **state)
{
    (void)state;
    dice d = {11};
    for (int number = 0; number < 60; number++) one_table(&d, number);
}

/* ---- positions ---- */

static void one_position(dice *d, int number)
{
    pair p = pair_new(d, "position", number);
    kolo_shape shape = {
        2, {roll_between(d, 1, 9), roll_between(d, 0, 1) ? 8 * roll_between(d, 1, 9) : roll_between(d, 1, 70)}};
    int x = 0, table = 0, dy = 0, dtable = 0, y[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i];
        x = rig_input(r, shape);
        dy = rig_input(r, shape);
        table = kolo_plan_weights(&r->plan, 0, shape);
        dtable = kolo_plan_gradient(&r->plan, 0, shape);
        y[i] = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
        rig_op(r, (kolo_op){.kind = KOLO_OP_POSITION, .in = {x, table}, .out = {y[i]}});
        rig_op(r, (kolo_op){.kind = KOLO_OP_POSITION_BACKWARD, .in = {dy}, .out = {dtable}});
        y[i] = rig_probe(r, y[i]);
        rig_prepare(r);
    }
    set_samples(&p, d);
    pair_write(&p, d, x);
    pair_write(&p, d, table);
    pair_write(&p, d, dy); /* padding, too, has slopes, which must not count */
    pair_run(&p);
    pair_compare(&p, "y", BOTH(y), 1);
    pair_compare(&p, "the table's gradient", dtable, dtable, p.r[0]->plan.microbatch);
    pair_free(&p);
}

static void positions(void **state)
{
    (void)state;
    dice d = {12};
    for (int number = 0; number < 60; number++) one_position(&d, number);
}

/* ---- attention ---- */

typedef struct attention_case {
    kolo_precision precision;
    int microbatch, length, heads, size;
    bool causal, training;
    double rate;
} attention_case;

/* Samples behind those that count: nothing comes back for them. */
static void write_slopes(pair *p, dice *d, int value)
{
    int64_t count = rig_count(p->r[0], value), microbatch = p->r[0]->plan.microbatch,
            real = count / microbatch * p->r[0]->call.samples;
    float *dy = numbers(d, count, 0);
    for (int64_t i = real; i < count; i++) dy[i] = 0;
    for (int i = 0; i < 2; i++) rig_write(p->r[i], value, dy);
    free(dy);
}

/* The larger the scores, the fewer keys matter. */
static void write_scaled(pair *p, dice *d, int value, float scale)
{
    int64_t count = rig_count(p->r[0], value);
    float *x = numbers(d, count, 0);
    for (int64_t i = 0; i < count; i++) x[i] *= scale;
    for (int i = 0; i < 2; i++) rig_write(p->r[i], value, x);
    free(x);
}

/* What tensor cores multiply is rounded to the element: weights, too, which the reference does not round. */
static void compare_attention(pair *p, const char *what, const int value[2])
{
    static const double bounds[] = {
        [KOLO_FLOAT32] = 1e-5, [KOLO_MIXED_BF16] = 0x1p-7, [KOLO_MIXED_FP16] = 0x1p-10, [KOLO_TF32] = 0x1p-9};
    double *wanted = rig_read(p->r[0], value[0]), *got = rig_read(p->r[1], value[1]);
    double distance = rig_distance(got, wanted, rig_count(p->r[0], value[0]));
    if (!(distance <= bounds[p->precision]))
        fail_msg("attention %d (precision %d): %s differs by %g", p->number, (int)p->precision, what, distance);
    free(wanted);
    free(got);
}

static void one_attention(dice *d, const attention_case *c, int number)
{
    pair p = {.what = "attention", .number = number, .precision = c->precision};
    kolo_shape shape = {2, {c->length, 3 * c->heads * c->size}}, y_shape = {2, {c->length, c->heads * c->size}};
    kolo_shape sums_shape = {2, {c->heads, c->length}};
    int x = 0, dy = 0, y[2], dx[2] = {-1, -1};
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i] = rig_new(i == 0 ? &kolo_reference_backend : tested, c->precision, c->microbatch);
        x = rig_input(r, shape);
        dy = rig_input(r, y_shape);
        y[i] = rig_value(r, KOLO_VALUE_ACTIVATION, y_shape);
        int sums = c->training ? rig_value(r, KOLO_VALUE_WORKSPACE, sums_shape) : -1;
        kolo_op op = {.kind = KOLO_OP_ATTENTION,
                      .in = {x},
                      .out = {y[i], sums},
                      .layer = 5,
                      .heads = c->heads,
                      .causal = c->causal,
                      .rate = c->rate};
        rig_op(r, op);
        if (c->training) {
            dx[i] = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
            op = (kolo_op){.kind = KOLO_OP_ATTENTION_BACKWARD,
                           .in = {dy, x, y[i], sums},
                           .out = {dx[i]},
                           .layer = 5,
                           .heads = c->heads,
                           .causal = c->causal,
                           .rate = c->rate};
            rig_op(r, op);
            dx[i] = rig_probe(r, dx[i]);
        }
        y[i] = rig_probe(r, y[i]);
        rig_prepare(r);
    }
    set_samples(&p, d);
    write_scaled(&p, d, x, (float)roll_between(d, 1, 3));
    write_slopes(&p, d, dy);
    pair_run(&p);
    compare_attention(&p, "y", y);
    if (c->training) compare_attention(&p, "the gradient", dx);
    pair_free(&p);
}

static void attentions(void **state)
{
    (void)state;
    static const int lengths[] = {1, 2, 5, 16, 17, 33, 40}, sizes[] = {1, 3, 4, 6, 8, 16, 20, 33, 64};
    static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_MIXED_FP16, KOLO_TF32};
    dice d = {13};
    for (int number = 0; number < 44; number++) {
        attention_case c = {.precision = precisions[number % 4],
                            .microbatch = roll_between(&d, 1, 2),
                            .length = lengths[roll_between(&d, 0, 6)],
                            .heads = roll_between(&d, 1, 3),
                            .size = sizes[roll_between(&d, number % 4 ? 2 : 0, 8)],
                            .causal = roll_coin(&d),
                            .training = roll_between(&d, 0, 3) > 0,
                            .rate = roll_coin(&d) ? 0.3 : 0};
        one_attention(&d, &c, number);
    }
}

/* Several tiles of queries and keys, and each size that a head is rounded up to. */
static void large_attentions(void **state)
{
    (void)state;
    const attention_case cases[] = {
        {KOLO_MIXED_BF16, 1, 131, 1, 24, true, true, 0.2},  {KOLO_FLOAT32, 1, 67, 2, 40, true, true, 0.2},
        {KOLO_MIXED_FP16, 1, 70, 1, 100, false, true, 0.2}, {KOLO_FLOAT32, 1, 70, 1, 72, false, true, 0},
        {KOLO_MIXED_BF16, 1, 66, 1, 256, true, true, 0.2},  {KOLO_FLOAT32, 1, 34, 1, 200, true, true, 0}};
    dice d = {14};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) one_attention(&d, &cases[i], (int)i);
}

/* Of floats a sum over many keys is as exact as floats are, though what multiplies cuts off what it has no bits for. */
static void many_keys(void **state)
{
    (void)state;
    const int length = 768, size = 32;
    const kolo_shape shape = {2, {length, 3 * size}}, y_shape = {2, {length, size}};
    pair p = {.what = "attention", .precision = KOLO_FLOAT32};
    dice d = {15};
    int x = 0, y[2];
    for (int i = 0; i < 2; i++) {
        rig *r = p.r[i] = rig_new(i == 0 ? &kolo_reference_backend : tested, p.precision, 1);
        x = rig_input(r, shape);
        y[i] = rig_value(r, KOLO_VALUE_ACTIVATION, y_shape);
        rig_op(r, (kolo_op){.kind = KOLO_OP_ATTENTION, .in = {x}, .out = {y[i], -1}, .heads = 1});
        y[i] = rig_probe(r, y[i]);
        rig_prepare(r);
    }
    int64_t count = rig_count(p.r[0], x);
    float *qkv = numbers(&d, count, 0);
    for (int64_t i = 0; i < count; i++) qkv[i] = fabsf(qkv[i]);
    for (int i = 0; i < 2; i++) rig_write(p.r[i], x, qkv);
    free(qkv);
    pair_run(&p);
    double *wanted = rig_read(p.r[0], y[0]), *got = rig_read(p.r[1], y[1]);
    double distance = rig_distance(got, wanted, rig_count(p.r[0], y[0]));
    if (!(distance <= 1e-6)) fail_msg("attention over %d keys differs by %g", length, distance);
    free(wanted);
    free(got);
    pair_free(&p);
}

/* What a block of an older device has no memory for is refused when a plan is prepared. */
static void refuse_heads(int size)
{
    const int length = 18;
    rig *r = rig_new(tested, KOLO_FLOAT32, 1);
    int qkv = rig_value(r, KOLO_VALUE_ACTIVATION, (kolo_shape){2, {length, 3 * size}});
    int dqkv = rig_value(r, KOLO_VALUE_ACTIVATION, (kolo_shape){2, {length, 3 * size}});
    int y = rig_value(r, KOLO_VALUE_ACTIVATION, (kolo_shape){2, {length, size}});
    int sums = rig_value(r, KOLO_VALUE_WORKSPACE, (kolo_shape){2, {1, length}});
    rig_op(r, (kolo_op){.kind = KOLO_OP_ATTENTION_BACKWARD, .in = {y, qkv, y, sums}, .out = {dqkv}, .heads = 1});
    void *kernel = NULL;
    assert_int_equal(tested->prepare(&r->plan, 0, &kernel), KOLO_UNSUPPORTED);
    assert_non_null(strstr(kolo_failure_take().text, "of a block's shared memory, and this GPU has"));
    tested->streams->close(&r->stream);
    kolo_plan_free(&r->plan);
    free(r);
}

static void large_heads_on_older_devices(void **state)
{
    (void)state;
    static const struct {
        const char *capability;
        int fits, not;
    } cases[] = {{"70", 128, 256}, {"75", 64, 128}, {"86", 256, 0}};
    if (!rig_is_simulated(tested)) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("KOLO_SHIM_CAPABILITY", cases[i].capability, 1);
        dice d = {16};
        one_attention(&d, &(attention_case){KOLO_FLOAT32, 1, 18, 1, cases[i].fits, false, true, 0.2}, (int)i);
        if (cases[i].not) refuse_heads(cases[i].not);
    }
    unsetenv("KOLO_SHIM_CAPABILITY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables),     cmocka_unit_test(positions),
                                       cmocka_unit_test(attentions), cmocka_unit_test(large_attentions),
                                       cmocka_unit_test(many_keys),  cmocka_unit_test(large_heads_on_older_devices)};
    if (!pair_open()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
