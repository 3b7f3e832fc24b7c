/* adasum.c, against the formula written out in one thread, and what the paper says of it. */
#include "threads.h"

#include "comm/adasum.h"

enum { COUNT = 1000, PARTS = 4 };

static const kolo_adasum_part parts[PARTS] = {{300, false}, {301, false}, {640, true}, {COUNT, false}};

typedef struct trial {
    float values[MEMBERS_MAX][COUNT]; /* before and, of each member, after */
} trial;

static bool combine_member(kolo_comm *comm, void *argument)
{
    trial *t = argument;
    EXPECT(kolo_adasum(comm, t->values[comm->rank], parts, PARTS) == KOLO_OK, "failed");
    return true;
}

static void run_trial(trial *t, int size)
{
    kolo_comm *members[MEMBERS_MAX];
    assert_int_equal(kolo_comm_local_open(size, members), KOLO_OK);
    run_members(size, members, combine_member, t);
    for (int m = 0; m < size; m++) members[m]->kind->close(members[m]);
    for (int m = 1; m < size; m++) assert_memory_equal(t->values[m], t->values[0], sizeof t->values[0]);
}

/* a·b over one part, added up slice by slice, as adasum.h says. */
static double product(const float *a, const float *b, int begin, int end, int size)
{
    double sum = 0;
    for (int m = 0; m < size; m++) {
        double slice = 0;
        int first = COUNT * m / size, last = COUNT * (m + 1) / size;
        for (int i = first > begin ? first : begin; i < last && i < end; i++) slice += (double)a[i] * (double)b[i];
        sum += slice;
    }
    return sum;
}

static void combine_two(const float *a, const float *b, float *to, int size)
{
    float result[COUNT];
    for (int p = 0, begin = 0; p < PARTS; begin = (int)parts[p++].end) {
        int end = (int)parts[p].end;
        double ab = product(a, b, begin, end, size), aa = product(a, a, begin, end, size),
               bb = product(b, b, begin, end, size);
        double of_a = parts[p].plain || aa == 0 ? 1 : 1 - ab / (2 * aa);
        double of_b = parts[p].plain || bb == 0 ? 1 : 1 - ab / (2 * bb);
        for (int i = begin; i < end; i++) result[i] = (float)(of_a * (double)a[i] + of_b * (double)b[i]);
    }
    memcpy(to, result, sizeof result);
}

static void has_the_bits_of_the_formula(void **state)
{
    (void)state;
    static trial t, want;
    for (int size = 1; size <= 7; size++) {
        for (int m = 0; m < size; m++)
            for (int i = 0; i < COUNT; i++) want.values[m][i] = (float)(value((uint64_t)size, m, i) + value(9, 0, i));
        t = want;
        run_trial(&t, size);
        float(*g)[COUNT] = want.values;
        if (size == 2) combine_two(g[0], g[1], g[0], size);
        if (size >= 3 && size <= 4) combine_two(g[0], g[1], g[0], size);
        if (size == 4) combine_two(g[2], g[3], g[2], size);
        if (size >= 3 && size <= 4) combine_two(g[0], g[2], g[0], size);
        if (size >= 5) { /* ((0 1)(2 3)) 4, ((0 1)(2 3))(4 5), ((0 1)(2 3))((4 5) 6) */
            for (int m = 0; m + 1 < size; m += 2) combine_two(g[m], g[m + 1], g[m], size);
            combine_two(g[0], g[2], g[0], size);
            if (size == 7) combine_two(g[4], g[6], g[4], size);
            combine_two(g[0], g[4], g[0], size);
        }
        assert_memory_equal(t.values[0], g[0], sizeof g[0]);
    }
}

static void orthogonal_gradients_add_and_equal_ones_average(void **state)
{
    (void)state;
    static trial t;
    memset(&t, 0, sizeof t);
    for (int i = 0; i < 300; i++) {
        if (i < 290) t.values[i % 4][i] = (float)(i + 1); /* orthogonal */
        for (int m = 0; m < 4; m++) t.values[m][640 + i] = (float)(i - 100); /* equal */
    }
    for (int m = 0; m < 4; m++) t.values[m][300] = m < 2 ? 3 : -3;
    run_trial(&t, 4);
    for (int i = 0; i < 300; i++) {
        assert_true(t.values[0][i] == (i < 290 ? (float)(i + 1) : 0));
        assert_true(t.values[0][640 + i] == (float)(i - 100));
    }
    assert_true(t.values[0][300] == 0); /* opposite: (1 + 1/2) 3 − (1 + 1/2) 3 */
}

static void zeros_leave_the_other_as_it_is(void **state)
{
    (void)state;
    static trial t;
    for (int who = 0; who < 3; who++) {
        memset(&t, 0, sizeof t);
        for (int i = 0; i < COUNT; i++) t.values[who][i] = (float)(i - 500);
        run_trial(&t, 3);
        for (int i = 0; i < COUNT; i++) assert_true(t.values[0][i] == (float)(i - 500));
    }
    memset(&t, 0, sizeof t);
    run_trial(&t, 3);
    for (int i = 0; i < COUNT; i++) assert_true(t.values[0][i] == 0);
}

/* An overflow of one rank must reach all, which then skip the update (KOLO_MIXED_FP16). */
static void what_is_no_number_stays_so(void **state)
{
    (void)state;
    static trial t;
    const float bad[] = {NAN, INFINITY};
    for (int k = 0; k < 2; k++) {
        memset(&t, 0, sizeof t);
        for (int i = 0; i < COUNT; i++) t.values[0][i] = t.values[1][i] = 1;
        t.values[1][17] = bad[k];
        run_trial(&t, 2);
        assert_true(!isfinite(t.values[0][17]));
        assert_true(t.values[0][999] == 1); /* another part */
    }
}

static bool other_counts(kolo_comm *comm, void *argument)
{
    float values[2] = {1, 2};
    (void)argument;
    kolo_adasum_part part = {.end = 1 + comm->rank};
    EXPECT(kolo_adasum(comm, values, &part, 1) == KOLO_COMM, "other counts");
    kolo_failure failure = kolo_failure_take();
    EXPECT(strstr(failure.text,
                  "replica 0 called allreduce of 1 float, Adasum, replica 1 allreduce of 2 floats, Adasum"),
           "%s", failure.text);
    return true;
}

static void members_must_agree(void **state)
{
    (void)state;
    kolo_comm *members[2];
    assert_int_equal(kolo_comm_local_open(2, members), KOLO_OK);
    run_members(2, members, other_counts, NULL);
    for (int m = 0; m < 2; m++) members[m]->kind->close(members[m]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bits_of_the_formula),
        cmocka_unit_test(orthogonal_gradients_add_and_equal_ones_average),
        cmocka_unit_test(zeros_leave_the_other_as_it_is),
        cmocka_unit_test(what_is_no_number_stays_so),
        cmocka_unit_test(members_must_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
