/* SGD and Adam against where Keras's own optimizers arrive in 100 steps (keras_optimizers.py). */
#include "ext/core/small.h"

#include "core/optimizer.h"

#define WEIGHTS 4
#define STEPS   100

/* Keras forms 1 − β₂ᵗ in float32: at the first steps, where it is about 1e-3, that is off by up to 6e-8 / 1e-3 = 6e-5
 * of itself, and half of that is left under the root. Ours is formed in double. */
#define TOLERANCE 5e-5

static void arrives_where_keras_does(void **state)
{
    (void)state;
    const struct {
        const char *name;
        kolo_optimizer optimizer;
        float arrived[WEIGHTS];
    } cases[] = {
#include "keras_optimizers.h"
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const kolo_optimizer_kind *kind = cases[c].optimizer.kind;
        float weights[WEIGHTS] = {0.5f, -1, 2, 0}, gradient[WEIGHTS], slots[2][WEIGHTS] = {{0}};
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < WEIGHTS; i++)
                gradient[i] = (float)(sin(0.7 * step + i) + 0.3 * i) * 4; /* of 4 samples */
            kind->update(&(const kolo_update){.optimizer = &cases[c].optimizer,
                                              .step = step + 1,
                                              .count = WEIGHTS,
                                              .learning_rate = kind->learning_rate(&cases[c].optimizer),
                                              .weights = weights,
                                              .gradient = gradient,
                                              .scale = 0.25,
                                              .slots = {slots[0], slots[1]}});
        }
        for (int i = 0; i < WEIGHTS; i++)
            if (fabs((double)weights[i] - (double)cases[c].arrived[i]) > TOLERANCE * fmax(1, fabs((double)weights[i])))
                fail_msg("%s: weight %d: wanted %.9g, got %.9g", cases[c].name, i, (double)cases[c].arrived[i],
                         (double)weights[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arrives_where_keras_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
