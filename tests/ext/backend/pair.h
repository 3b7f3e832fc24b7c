/* One plan in two backends, reference and the tested one (tested.h), on the same numbers.
 *
 * Two kinds of numbers. Exact ones (eighths) have sums that float32 holds exactly: both backends must agree to the
 * last bit, which finds any element in a wrong place; Winograd's algorithm, never exact, is turned off for them. Others
 * are held to max|a − b| ≤ 1e-5 · max(1, √(K/1024)) · max|b|, K the length of the sum behind an element: rounding
 * errors of float32 grow like √K (Higham 2002, 2.8); and with KOLO_MIXED_BF16 to one unit of bfloat16's last place,
 * 2^-8, where results are bfloat16 (2^-10 with KOLO_MIXED_FP16, which tells that inputs, weights and outputs are
 * rounded in the same places), else to the same rule, since products of bfloat16 are exact in float32. KOLO_TF32 rounds
 * factors to 2^-11: the shim is held to 2^-10, devices to 2^-9, whose tensor cores read a factor's first ten bits and
 * so cut off what no library has rounded before. Accelerators may round biases as they round kernels (cuBLASLt adds
 * none that is wider than its result), so theirs are drawn rounded. Softmax is held to 2^-7, as oneDNN rounds exp(x)
 * before it divides. Where a library computes the gradients of convolutions' kernels, it rounds them to the precision's
 * element, too (pair.rounds); and it rounds a transposed convolution before the bias is added, too (pair.twice).
 */
#ifndef KOLO_TESTS_PAIR_H
#define KOLO_TESTS_PAIR_H

#include "rig.h"
#include "tested.h"

static const kolo_backend *tested;

#define BOTH(value) ((value)[0]), ((value)[1])

typedef struct pair {
    rig *r[2]; /* reference, tested */
    bool exact, rounds, twice;
    kolo_precision precision;
    int number; /* of the case, for messages */
    const char *what;
} pair;

/* A pair of rigs with the case's precision, microbatch and kind of numbers drawn. */
static inline pair pair_new(dice *d, const char *what, int number)
{
    pair p = {.what = what, .number = number, .exact = roll_coin(d)};
    setenv("KOLO_WINOGRAD", p.exact ? "0" : "1", 1);
    static const kolo_precision precisions[] = {KOLO_FLOAT32, KOLO_MIXED_BF16, KOLO_FLOAT32, KOLO_MIXED_BF16,
                                                KOLO_MIXED_FP16};
    int drawn = roll_between(d, 0, 4);
    p.precision = drawn == 2 && tested->devices ? KOLO_TF32 : precisions[drawn];
    if (tested->open(p.precision) != KOLO_OK) {
        kolo_failure_take();
        p.precision = KOLO_FLOAT32;
    }
    int microbatch = roll_between(d, 0, 2) == 0 ? 1 : roll_between(d, 2, 9);
    p.r[0] = rig_new(&kolo_reference_backend, p.precision, microbatch);
    p.r[1] = rig_new(tested, p.precision, microbatch);
    p.r[0]->plan.deterministic = p.r[1]->plan.deterministic = number % 2 == 1;
    return p;
}

/* Whether a library computes the gradients of convolutions' kernels. */
static inline bool is_rounded(const pair *p)
{
    const char *library = getenv("KOLO_CUDNN");
    bool narrow = p->precision == KOLO_MIXED_BF16 || p->precision == KOLO_MIXED_FP16;
    return tested->devices && narrow && !(library && strcmp(library, "0") == 0);
}

static inline int steps(const pair *p)
{
    return p->exact ? 8 : 0;
}

static inline float nearest_bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* As a GPU may. */
static inline void round_bias(const pair *p, int value, float *values)
{
    const kolo_value *v = &p->r[0]->plan.values[value];
    if (!tested->devices || v->kind != KOLO_VALUE_WEIGHTS || v->shape.rank > 1) return;
    for (int i = 0; i < v->shape.dim[0]; i++) {
        if (p->precision == KOLO_MIXED_BF16) values[i] = nearest_bfloat16(values[i]);
        if (p->precision == KOLO_MIXED_FP16) values[i] = kolo_nearest_half(values[i]);
    }
}

/* Both rigs have the same plan but for probes, so that values have the same numbers until the first probe. */
static inline void pair_write(pair *p, dice *d, int value)
{
    float *values = numbers(d, rig_count(p->r[0], value), steps(p));
    round_bias(p, value, values);
    for (int i = 0; i < 2; i++) rig_write(p->r[i], value, values);
    free(values);
}

static inline void pair_write_same(pair *p, dice *d, int a, int b)
{
    float *values = numbers(d, rig_count(p->r[0], a), steps(p));
    for (int i = 0; i < 2; i++) rig_write(p->r[i], a, values);
    for (int i = 0; i < 2; i++) rig_write(p->r[i], b, values);
    free(values);
}

/* terms: K; 0 for a softmax. */
static inline void pair_compare(pair *p, const char *result, int reference, int other, double terms)
{
    double *wanted = rig_read(p->r[0], reference), *got = rig_read(p->r[1], other);
    const kolo_value *value = &p->r[0]->plan.values[reference];
    bool kernel = value->kind == KOLO_VALUE_GRADIENT && value->shape.rank == 4 && p->rounds;
    bool gradient = value->kind == KOLO_VALUE_GRADIENT && !kernel;
    double bound = 1e-5 * fmax(1, sqrt(terms / 1024));
    if (p->precision == KOLO_MIXED_BF16 && !gradient) bound = terms > 0 ? 0x1p-8 : 0x1p-7;
    if (p->precision == KOLO_MIXED_FP16 && !gradient) bound = 0x1p-10;
    if (p->twice) bound *= 2;
    if (p->precision == KOLO_TF32) bound = rig_is_simulated(tested) ? 0x1p-10 : 0x1p-9;
    if (p->exact && !kernel && !p->twice) bound = 0;
    static const char *const names[] = {"", "fp32", "bf16", "fp16", "tf32"};
    double distance = rig_distance(got, wanted, rig_count(p->r[0], reference));
    if (!(distance <= bound)) {
        print_error("%s %d (%s, %s, microbatch %d): %s differs by %g, bound %g\n", p->what, p->number,
                    names[p->precision], p->exact ? "exact" : "not exact", p->r[0]->plan.microbatch, result, distance,
                    bound);
    }
    assert_true(distance <= bound);
    free(wanted);
    free(got);
}

static inline void pair_free(pair *p)
{
    for (int i = 0; i < 2; i++) rig_free(p->r[i]);
}

static inline void pair_run(pair *p)
{
    for (int i = 0; i < 2; i++) rig_run(p->r[i]);
}

/* ---- tests */

#define CASES 160

static inline void check(void (*one_case)(dice *, int), uint64_t seed)
{
    dice d = {seed};
    for (int number = 0; number < CASES; number++) one_case(&d, number);
}

/* False, and a sentence, where the plugin does not load. */
static inline bool pair_open(void)
{
    tested = tested_backend();
    return tested;
}

#endif
