/* Rounding to binary16 against NumPy's, for each class of value (numpy_halves.py), and against the compiler's own, for
 * one value in 251 of all that there are. */
#include "rig.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounds_as_numpy), cmocka_unit_test(rounds_as_the_compiler)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
