/* exp, sigmoid, tanh and the normal distribution of core/lanes_math.h against the C library's in double, over floats
 * of every exponent and both signs: one in 251 of all that there are. Errors are counted in units of the last place of
 * a float32 of the true result's size. bfloat16 values that core/lanes.h writes against those rounded in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/lanes_math.h"
#include "core/vector.h"

typedef void evaluate(const float *x, float *y);

KOLO_VECTORISED static void exp_of(const float *x, float *y)
{
    kolo_put(y, 0, kolo_floats_exp(kolo_get(x, 0, KOLO_LANES, 0)), KOLO_LANES, 0);
}
KOLO_VECTORISED static void sigmoid_of(const float *x, float *y)
{
    kolo_put(y, 0, kolo_floats_sigmoid(kolo_get(x, 0, KOLO_LANES, 0)), KOLO_LANES, 0);
}
KOLO_VECTORISED static void tanh_of(const float *x, float *y)
{
    kolo_put(y, 0, kolo_floats_tanh(kolo_get(x, 0, KOLO_LANES, 0)), KOLO_LANES, 0);
}
KOLO_VECTORISED static void normal_of(const float *x, float *y)
{
    kolo_put(y, 0, kolo_floats_normal(kolo_get(x, 0, KOLO_LANES, 0), NULL), KOLO_LANES, 0);
}
KOLO_VECTORISED static void density_of(const float *x, float *y)
{
    kolo_floats density;
    kolo_floats_normal(kolo_get(x, 0, KOLO_LANES, 0), &density);
    kolo_put(y, 0, density, KOLO_LANES, 0);
}

static double true_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double true_normal(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}
static double true_density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1));
}

KOLO_ALL_TYPES(narrow_all, (const float *x, void *y), kolo_put(y, 0, kolo_get(x, 0, KOLO_LANES, 0), KOLO_LANES, narrow))
KOLO_ALL_TYPES(keep_rounded, (const float *x, float *y),
               kolo_put(y, 0, kolo_rounded(kolo_get(x, 0, KOLO_LANES, 0), narrow), KOLO_LANES, 0))

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Results smaller than `smallest` in size are held to an error of that. */
static void check(const char *name, evaluate *got, double (*wanted)(double), double units, double smallest)
{
    double worst = 0, at = 0;
    float x[KOLO_LANES], y[KOLO_LANES];
    for (uint64_t bits = 0; bits < UINT32_MAX - 251 * KOLO_LANES; bits += 251 * KOLO_LANES) {
        for (uint32_t i = 0; i < KOLO_LANES; i++) x[i] = from_bits((uint32_t)bits + 251 * i);
        got(x, y);
        for (int i = 0; i < KOLO_LANES; i++) {
            double truth = wanted((double)x[i]);
            if (isnan(x[i])) assert_true(isnan(y[i]));
            else if (truth > 3.4028235e38) assert_true(isinf(y[i]) || y[i] > 3.4e38f);
            else if (fabs(truth) < smallest) assert_true(fabs((double)y[i] - truth) <= smallest);
            else {
                int exponent;
                frexp(truth, &exponent);
                double error = fabs((double)y[i] - truth) / ldexp(1, exponent - 24);
                if (error > worst) at = (double)x[i];
                worst = fmax(worst, error);
            }
        }
    }
    if (worst > units) print_error("%s: %g units at %.9g, wanted at most %g\n", name, worst, at, units);
    assert_true(worst <= units);
}

static void test_all(void **state)
{
    (void)state;
    check("exp", exp_of, exp, 1.25, 0x1p-126);
    check("sigmoid", sigmoid_of, true_sigmoid, 2.5, 0x1p-126);
    check("tanh", tanh_of, tanh, 1.5, 0x1p-126);
    check("normal", normal_of, true_normal, 6, 0.02);
    check("normal's tail", normal_of, true_normal, 80, 1e-30);
    check("density", density_of, true_density, 6, 0.02);
    check("density's tail", density_of, true_density, 80, 1e-30);
}

/* Eight binary digits, ties to even; infinity beyond the largest. */
static double nearest_bfloat16(double x)
{
    int exponent;
    double digits = frexp(x, &exponent);
    if (isnan(x) || isinf(x)) return x;
    double rounded = ldexp(rint(ldexp(digits, 8)), exponent - 8);
    return fabs(rounded) > 0x1.FEp127 ? copysign(INFINITY, x) : rounded;
}

/* Sixteen floats in the distance `step`. Only the CPU's own instruction takes subnormal floats for zero. */
static void check_rounding(uint32_t first, uint32_t step, void (*in_memory)(const float *, void *),
                           evaluate *in_register)
{
    float x[KOLO_LANES], y[KOLO_LANES];
    uint16_t halves[KOLO_LANES];
    for (uint32_t i = 0; i < KOLO_LANES; i++) x[i] = from_bits(first + step * i);
    in_memory(x, halves);
    in_register(x, y);
    for (int i = 0; i < KOLO_LANES; i++) {
        float got = from_bits((uint32_t)halves[i] << 16);
        double wanted = nearest_bfloat16((double)x[i]);
        assert_memory_equal(&got, &y[i], sizeof got);
        if (isnan(x[i])) assert_true(isnan(got));
        else if (fpclassify(x[i]) == FP_SUBNORMAL) assert_true(fabs((double)got - (double)x[i]) < 0x1p-126);
        else if ((double)got != wanted || signbit(got) != signbit(x[i]))
            fail_msg("%a became %a, wanted %a", (double)x[i], (double)got, wanted);
    }
}

/* All pairs of neighbours and their middles, too: the last step is half of what separates two bfloat16 values. */
static void check_all_roundings(void (*in_memory)(const float *, void *), evaluate *in_register)
{
    for (uint64_t bits = 0; bits < UINT32_MAX - 251 * KOLO_LANES; bits += 251 * KOLO_LANES)
        check_rounding((uint32_t)bits, 251, in_memory, in_register);
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 0x8000 * KOLO_LANES)
        check_rounding((uint32_t)bits, 0x8000, in_memory, in_register);
}

static void test_rounding_to_bfloat16(void **state)
{
    (void)state;
    check_all_roundings(narrow_all_bfloat16, keep_rounded_bfloat16);
}

static void test_rounding_by_the_cpu(void **state)
{
    (void)state;
    float x[KOLO_LANES] = {1.5f}, y[KOLO_LANES];
    KOLO_FASTEST(narrow_all, 0)(x, y);
    assert_memory_equal(x, y, sizeof x);
    if (!KOLO_CPU_ROUNDS_BFLOAT16()) skip();
    assert_true(KOLO_FASTEST(narrow_all, 1) == narrow_all_by_cpu);
    check_all_roundings(KOLO_FASTEST(narrow_all, 1), KOLO_FASTEST(keep_rounded, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_rounding_to_bfloat16),
                                       cmocka_unit_test(test_rounding_by_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
