/* Checks that data matches a model: shapes, labels, targets. See scores.h. */
#include "training/scores.h"

#include <stdlib.h>

#include "data/view.h"

/* Checks that there is one label for each row of the outputs. A label that is used as the target of a single output may
 * be any number, unless the loss is for two classes only. */
static kolo_status check_labels(const kolo_model *model, const kolo_data *data, const char *what)
{
    kolo_shape shape = model->layers[model->output].out;
    int64_t width = model->metrics.outputs, rows = kolo_shape_count(shape) / width;
    bool numbers = width == 1 && !model->metrics.labels;
    if (data->label_count != rows)
        return kolo_fail(KOLO_INVALID, "%s: wanted %lld labels a sample, one for each row of the outputs %s, got %d",
                         what, (long long)rows, kolo_shape_text(shape), data->label_count);
    if (numbers && model->settings.loss.kind->left_out != KOLO_SIGMOID) return KOLO_OK;
    if (data->classes <= (numbers ? 2 : width)) return KOLO_OK;
    if (numbers)
        return kolo_fail(KOLO_INVALID, "%s: wanted labels 0 and 1, since %s has one output here, got %d classes", what,
                         model->settings.loss.kind->name, data->classes);
    return kolo_fail(KOLO_INVALID,
                     "%s: wanted labels from 0 to %lld, as many as the last layer has outputs, got %d classes", what,
                     (long long)width - 1, data->classes);
}

/* The targets must have the outputs' shape, or the same number of elements where either of the two is a row. */
static kolo_status check_target_shape(const kolo_model *model, const kolo_data *data, const char *what)
{
    kolo_shape wanted = model->layers[model->output].out, got = data->target_shape;
    bool row = (wanted.rank == 1 || got.rank == 1) && kolo_shape_count(wanted) == kolo_shape_count(got);
    if (row || kolo_shape_equal(wanted, got)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted targets of %s, as the last layer gives, got %s", what,
                     kolo_shape_text(wanted), kolo_shape_text(got));
}

/* Checks the targets of samples first … first+count-1: with a target below 0 or above 1 the cross-entropy has no
 * minimum. */
static kolo_status check_some_shares(const kolo_data *data, int64_t first, int count, int64_t outputs, float *targets,
                                     const char *what)
{
    KOLO_TRY(kolo_data_gather(data, NULL, NULL, first, count,
                              &(kolo_gathered){.targets = targets, .outputs = outputs}));
    for (int64_t i = 0; i < count * outputs; i++)
        if (!(targets[i] >= 0 && targets[i] <= 1))
            return kolo_fail(KOLO_INVALID,
                             "%s: wanted targets from 0 to 1, as binary_crossentropy takes them, got %g"
                             " in sample %lld",
                             what, (double)targets[i], (long long)(first + i / outputs));
    return KOLO_OK;
}

/* Whether reading targets computes features, because an autoencoder's targets are the features of a view. */
static bool targets_are_computed(const kolo_data *data)
{
    if (data->autoencoder) return data->view != NULL;
    bool computed = false;
    for (int i = 0; data->view && i < data->view->sources; i++)
        computed = computed || targets_are_computed(&data->view->from[i]);
    return computed;
}

/* Checks all samples, once for each data set. Where targets are computed, it checks the first COMPUTED. */
static kolo_status check_target_range(const kolo_data *data, int64_t outputs, const char *what)
{
    enum { BLOCK = 64, COMPUTED = 1024 };
    if (__atomic_load_n(&data->targets_checked, __ATOMIC_RELAXED) == data) return KOLO_OK;
    if (data->autoencoder && data->bytes && data->scale > 0 && data->scale * 255 <= 1) return KOLO_OK;
    int64_t samples = targets_are_computed(data) && data->samples > COMPUTED ? COMPUTED : data->samples;
    size_t bytes = (size_t)(BLOCK * outputs) * sizeof(float);
    float *targets = malloc(bytes);
    if (!targets) return kolo_fail_memory(bytes, "targets");
    kolo_status status = KOLO_OK;
    for (int64_t first = 0; first < samples && status == KOLO_OK; first += BLOCK) {
        int count = samples - first < BLOCK ? (int)(samples - first) : BLOCK;
        status = check_some_shares(data, first, count, outputs, targets, what);
    }
    free(targets);
    if (status == KOLO_OK) __atomic_store_n(&((kolo_data *)data)->targets_checked, data, __ATOMIC_RELAXED);
    return status;
}

static kolo_status check_targets(const kolo_model *model, const kolo_data *data, const char *what)
{
    const kolo_metric_list *wants = &model->metrics;
    bool numbers = data->has_targets || data->autoencoder;
    if (!model->settings.loss.kind)
        return kolo_fail(KOLO_INVALID, "wanted kolo_compile() with a .loss, got a model without one");
    if (wants->labels && !data->has_labels)
        return kolo_fail(KOLO_INVALID, "%s: wanted labels, got data %s", what,
                         numbers ? "with targets alone, which KOLO_CATEGORICAL_CROSSENTROPY and others take"
                                 : "without");
    if (wants->targets && !numbers && !data->has_labels)
        return kolo_fail(KOLO_INVALID, "%s: wanted targets or labels, got data without", what);
    if (wants->targets && numbers) KOLO_TRY(check_target_shape(model, data, what));
    if (numbers && model->settings.loss.kind == &kolo_binary_crossentropy_kind)
        KOLO_TRY(check_target_range(data, kolo_shape_count(model->layers[model->output].out), what));
    return wants->labels || !numbers ? check_labels(model, data, what) : KOLO_OK;
}

kolo_status kolo_check_data(const kolo_model *model, const kolo_data *data, bool targets, const char *what)
{
    if (!data) return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "%s: wanted data, got NULL", what);
    kolo_shape wanted = model->layers[0].out;
    if (!kolo_shape_equal(data->shape, wanted))
        return kolo_fail(KOLO_INVALID, "%s: wanted samples of %s, as kolo_input() says, got %s", what,
                         kolo_shape_text(wanted), kolo_shape_text(data->shape));
    return targets ? check_targets(model, data, what) : KOLO_OK;
}
