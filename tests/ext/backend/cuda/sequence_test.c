/* Tables of rows and of positions, and attention: the device's kernels against the reference's loops, of random shapes,
 * in every precision, with leaves that are not full. */
#include "../pair.h"

/* Both rigs read as many samples, and what is to be dropped follows from the same numbers. */
static void set_samples(pair *p, dice *d)
{
    int leaf = p->r[0]->plan.leaf, samples = roll_coin(d) ? leaf : roll_between(d, 0, leaf);
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
    pair_compare(&p, "the table's gradient", dtable, dtable, p.r[0]->plan.leaf);
    pair_free(&p);
}

static void positions(void **state)
{
    (void)state;
    dice d = {12};
    for (int number = 0; number < 60; number++) one_position(&d, number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tables), cmocka_unit_test(positions)};
    if (!pair_open()) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
