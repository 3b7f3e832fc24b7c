/* compressed.c, against the same sums written out in one thread with roundings that search for the nearest number. */
#include "threads.h"

#include <float.h>
#include <math.h>

#include "comm/compressed.h"

enum { COUNT_MAX = 1000 };

/* The number with so many bits behind the point that is nearest, ties to even: in steps of 2^(exponent - bits). */
static float nearest(float value, int bits, int least_exponent)
{
    int exponent;
    frexp((double)value, &exponent);
    exponent--; /* value is in [2^exponent, 2^(exponent+1)) */
    if (exponent < least_exponent) exponent = least_exponent;
    double step = ldexp(1, exponent - bits), steps = (double)value / step, below = floor(steps), rest = steps - below;
    bool up = rest > 0.5 || (rest == 0.5 && fmod(below, 2) != 0);
    return (float)((below + up) * step);
}

static float rounded(float value, kolo_compression compression)
{
    return compression == KOLO_COMPRESSION_BF16 ? nearest(value, 7, -126) : nearest(value, 10, -14);
}

typedef struct trial {
    kolo_compression compression;
    int exponent;
    int64_t count;
    float values[MEMBERS_MAX][COUNT_MAX]; /* before and, of each member, after */
} trial;

static bool reduce_member(kolo_comm *comm, void *argument)
{
    trial *t = argument;
    EXPECT(kolo_compressed_allreduce(comm, t->values[comm->rank], t->count, t->compression, t->exponent) == KOLO_OK,
           "failed");
    return true;
}

static void run_trial(trial *t, int size)
{
    kolo_comm *members[MEMBERS_MAX];
    assert_int_equal(kolo_comm_local_open(size, members), KOLO_OK);
    run_members(size, members, reduce_member, t);
    for (int m = 0; m < size; m++) members[m]->kind->close(members[m]);
}

static float sum_of(const trial *t, int size, int64_t i)
{
    bool half = t->compression == KOLO_COMPRESSION_FP16;
    float scale = half ? ldexpf(1, t->exponent) : 1, sum = 0;
    for (int m = 0; m < size; m++) sum += rounded(t->values[m][i] * scale, t->compression);
    return rounded(sum, t->compression) / scale;
}

static void has_the_bits_of_two_roundings(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 37, COUNT_MAX};
    static trial t, before;
    for (int compression = KOLO_COMPRESSION_FP16; compression <= KOLO_COMPRESSION_BF16; compression++)
        for (int size = 1; size <= 5; size++)
            for (int c = 0; c < 4; c++) {
                t = (trial){.compression = (kolo_compression)compression, .exponent = -c, .count = counts[c]};
                for (int m = 0; m < size; m++)
                    for (int64_t i = 0; i < t.count; i++)
                        t.values[m][i] = ldexpf(sinf((float)(i * 7 + m + 1)), (int)(i % 40) - 30);
                before = t;
                run_trial(&t, size);
                for (int m = 0; m < size; m++)
                    for (int64_t i = 0; i < t.count; i++) assert_true(t.values[m][i] == sum_of(&before, size, i));
            }
}

static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    static trial t;
    for (int compression = KOLO_COMPRESSION_FP16; compression <= KOLO_COMPRESSION_BF16; compression++) {
        t = (trial){.compression = (kolo_compression)compression, .count = 3};
        t.values[0][0] = NAN;
        t.values[1][1] = INFINITY;
        t.values[1][2] = compression == KOLO_COMPRESSION_FP16 ? 70000 : FLT_MAX; /* beyond the largest number */
        run_trial(&t, 2);
        for (int m = 0; m < 2; m++)
            assert_true(isnan(t.values[m][0]) && isinf(t.values[m][1]) && isinf(t.values[m][2]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_bits_of_two_roundings),
        cmocka_unit_test(what_is_not_finite_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
