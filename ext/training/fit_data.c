/* The data of a fit: splits it into training and validation data, and weights samples by class. See fit.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/written.h"
#include "training/fit.h"

/* ---------------------------------------------------------------- .validation_split */

/* Sets the number of samples to train with. As in Keras, the last samples, before any shuffling, are for validation. */
static kolo_status count_trained(const kolo_fit_args *args, int64_t *trained)
{
    double share = args->validation_split;
    int64_t samples = args->data->samples;
    *trained = samples;
    if (share == 0) return KOLO_OK;
    if (!(share > 0 && share < 1))
        return kolo_fail(KOLO_INVALID, ".validation_split: wanted 0 to below 1, got %g", share);
    if (args->validation_data) return kolo_fail(KOLO_INVALID, "wanted .validation_data or .validation_split, got both");
    *trained = (int64_t)floor((double)samples * (1 - share));
    if (*trained >= 1 && *trained < samples) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".validation_split: wanted a sample on both sides, got %lld of %lld to train",
                     (long long)*trained, (long long)samples);
}

/* Makes slices even where all samples are used: a slice keeps the memory alive if a callback frees the data. */
static kolo_status split(kolo_fit_state *state)
{
    const kolo_fit_args *args = state->args;
    kolo_data *other = args->validation_data ? args->validation_data : args->data;
    int64_t trained;
    KOLO_TRY(count_trained(args, &trained));
    int64_t first = args->validation_data ? 0 : trained, validated = other->samples - first;
    state->data = state->parts[0] = kolo_data_slice(args->data, 0, trained);
    if (!state->data) return KOLO_MEMORY;
    if (validated == 0) return KOLO_OK;
    state->validation = state->parts[1] = kolo_data_slice(other, first, validated);
    return state->validation ? KOLO_OK : KOLO_MEMORY;
}

/* ---------------------------------------------------------------- .class_weight */

static int64_t classes_of(const kolo_data *data)
{
    if (data->has_labels) return data->classes;
    return data->has_targets ? kolo_shape_count(data->target_shape) : 0;
}

/* Gets a sample's class, and its weight in the data. Without labels the class is the index of the largest target.
 * targets: room for a sample's targets. */
static kolo_status class_of(const kolo_data *data, int64_t sample, float *targets, int64_t *class, float *weight)
{
    int32_t label = 0;
    int64_t count = kolo_shape_count(data->target_shape);
    kolo_gathered to = {.weights = weight};
    if (data->has_labels) to.labels = &label;
    else to.targets = targets, to.outputs = count;
    KOLO_TRY(kolo_data_gather(data, NULL, NULL, sample, 1, &to));
    *class = label;
    for (int64_t i = 1; !data->has_labels && i < count; i++)
        if (targets[i] > targets[*class]) *class = i;
    return KOLO_OK;
}

static kolo_status check_class_weights(const kolo_data *data, const double *given, bool *any)
{
    int64_t classes = classes_of(data);
    for (int c = 0; c < KOLO_CLASS_WEIGHTS_MAX; c++) {
        if (given[c] == 0) continue;
        *any = true;
        if (given[c] != KOLO_NONE && !(given[c] > 0 && isfinite(given[c])))
            return kolo_fail(KOLO_INVALID, ".class_weight[%d]: wanted a number of at least 0, got %g", c, given[c]);
        if (c >= classes)
            return kolo_fail(KOLO_INVALID, ".class_weight[%d]: wanted a class of the data, which has %lld", c,
                             (long long)classes);
    }
    if (*any && (data->has_labels ? data->label_count > 1 : data->target_shape.rank > 1 || classes == 1))
        return kolo_fail(KOLO_INVALID, ".class_weight: wanted a class for each sample, got %s",
                         data->has_labels ? "several labels" : kolo_shape_text(data->target_shape));
    return KOLO_OK;
}

static kolo_status weigh_classes(kolo_fit_state *state)
{
    double given[KOLO_CLASS_WEIGHTS_MAX];
    const kolo_data *data = state->data;
    bool any = false;
    memcpy(given, state->args->class_weight, sizeof given);
    kolo_keep_zeros(state->args->_, "class_weight", given, KOLO_CLASS_WEIGHTS_MAX);
    KOLO_TRY(check_class_weights(data, given, &any));
    if (!any) return KOLO_OK;
    size_t bytes = (size_t)data->samples * sizeof *state->weights;
    state->weights = malloc(bytes);
    if (!state->weights) return kolo_fail_memory(bytes, "the samples' weights");
    float *targets = calloc((size_t)kolo_shape_count(data->target_shape) + 1, sizeof *targets);
    kolo_status status = targets ? KOLO_OK : kolo_fail_memory(sizeof *targets, "a sample");
    for (int64_t i = 0; i < data->samples && status == KOLO_OK; i++) {
        int64_t class = 0;
        status = class_of(data, i, targets, &class, &state->weights[i]);
        double weight = class < KOLO_CLASS_WEIGHTS_MAX && given[class] != 0 ? given[class] : 1;
        state->weights[i] *= weight == KOLO_NONE ? 0 : (float)weight;
    }
    free(targets);
    KOLO_TRY(status);
    state->weighted = *data;
    state->weighted.weights = state->weights;
    state->data = &state->weighted;
    return KOLO_OK;
}

kolo_status kolo_fit_open_data(kolo_fit_state *state)
{
    KOLO_TRY(split(state));
    return weigh_classes(state);
}

void kolo_fit_close_data(kolo_fit_state *state)
{
    kolo_data_free(&state->parts[0]);
    kolo_data_free(&state->parts[1]);
    free(state->weights);
}
