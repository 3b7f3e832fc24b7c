/* Networks that are drawn by chance: their outputs and gradients on one backend, and how far those of another differ.
 */
#ifndef KOLO_TESTS_OUTCOME_H
#define KOLO_TESTS_OUTCOME_H

#include "rig.h"

typedef struct outcome {
    double loss;
    float *gradients, *outputs;
    int64_t weights;
} outcome;

/* Draws the model's weights from the seed. Frees the model; the caller frees the arrays. */
static inline outcome outcome_of(kolo_model *model, const char *backend, kolo_precision precision, uint64_t seed,
                                 kolo_data *data, int classes)
{
    dice d = {seed};
    assert_non_null(model);
    rig_ok(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend, .precision = precision));
    for (int w = 0; w < kolo_weight_count(model); w++) {
        kolo_weight weight = kolo_weight_get(model, w);
        for (int64_t i = 0; i < weight.count; i++) weight.values[i] = (float)roll_between(&d, -3, 3) / 8;
    }
    outcome result = {.weights = kolo_count_params(model)};
    result.gradients = malloc((size_t)result.weights * sizeof(float));
    result.outputs = malloc((size_t)(kolo_data_get_info(data).samples * classes) * sizeof(float));
    assert_true(result.gradients && result.outputs);
    result.loss = kolo_gradients(model, data, result.gradients);
    rig_ok(kolo_predict(model, data, result.outputs));
    kolo_model_free(&model);
    return result;
}

/* The largest difference, as a part of the largest wanted number. */
static inline double outcome_difference(const float *got, const float *wanted, int64_t count)
{
    double difference = 0, largest = 1e-30;
    for (int64_t i = 0; i < count; i++) {
        assert_true(isfinite((double)got[i]) && isfinite((double)wanted[i]));
        difference = fmax(difference, fabs((double)got[i] - (double)wanted[i]));
        largest = fmax(largest, fabs((double)wanted[i]));
    }
    return difference / largest;
}

#endif
