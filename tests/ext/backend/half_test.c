/* Rounding to binary16 against NumPy's, for each class of value (numpy_halves.py), and against the compiler's own, for
 * one value in 251 of all that there are. */
#include "rig.h"

#include "tested.h"

__extension__ typedef _Float16 half;

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float value_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void rounds_as_numpy(void **state)
{
    (void)state;
    const struct {
        const char *class;
        uint32_t value, rounded;
    } cases[] = {
#include "numpy_halves.h"
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float value = value_of(cases[c].value), wanted = value_of(cases[c].rounded);
        float got = kolo_nearest_half(value);
        bool equal = wanted != wanted ? got != got : bits_of(got) == cases[c].rounded;
        if (!equal)
            fail_msg("%s: %.9g: wanted %.9g, got %.9g", cases[c].class, (double)value, (double)wanted, (double)got);
    }
}

static void rounds_as_the_compiler(void **state)
{
    (void)state;
    enum { many = 4096 };
    float values[many], rounded[many];
    uint64_t next = 0;
    while (next < UINT32_MAX) {
        int count = 0;
        for (; count < many && next < UINT32_MAX; next += 251) values[count++] = value_of((uint32_t)next);
        memcpy(rounded, values, sizeof values);
        kolo_host_round_half(rounded, count);
        for (int i = 0; i < count; i++) {
            float wanted = (float)(half)values[i];
            if (wanted != wanted ? rounded[i] == rounded[i] : bits_of(wanted) != bits_of(rounded[i]))
                fail_msg("%.9g: wanted %.9g, got %.9g", (double)values[i], (double)wanted, (double)rounded[i]);
        }
    }
}

/* 1 + 2^-12 is nearest to 1 in binary16, 1 + 3·2^-12 to 1 + 2^-10: x and the kernel are rounded, by both backends,
 * biases and canonical outputs are not. */
static void both_backends_round_the_same(void **state)
{
    (void)state;
    const kolo_backend *backends[] = {&kolo_reference_backend, tested_backend()};
    assert_non_null(backends[1]);
    kolo_shape one = {1, {1}};
    for (int i = 0; i < 2; i++)
        for (int canonical = 0; canonical < 2; canonical++) {
            assert_int_equal(backends[i]->open(KOLO_MIXED_FP16), KOLO_OK);
            rig *r = rig_new(backends[i], KOLO_MIXED_FP16, 1);
            int x = rig_input(r, one), k = kolo_plan_weights(&r->plan, 0, (kolo_shape){2, {1, 1}});
            int b = kolo_plan_weights(&r->plan, 1, one), y = rig_value(r, KOLO_VALUE_ACTIVATION, one);
            r->plan.values[y].canonical = canonical;
            rig_op(r, (kolo_op){.kind = KOLO_OP_DENSE, .in = {x, k, b}, .out = {y}});
            int seen = canonical ? y : rig_probe(r, y);
            rig_prepare(r);
            rig_write(r, x, &(const float){1 + 0x1p-12f});
            rig_write(r, k, &(const float){1 + 3 * 0x1p-12f});
            rig_write(r, b, &(const float){0x1p-20f});
            rig_run(r);
            double *result = rig_read(r, seen);
            assert_true(*result == 1 + 0x1p-10 + (canonical ? 0x1p-20 : 0));
            free(result);
            rig_free(r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds_as_numpy), cmocka_unit_test(rounds_as_the_compiler),
                                       cmocka_unit_test(both_backends_round_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
