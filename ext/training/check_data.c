/* Whether data fit a model: shapes, labels, targets. See scores.h. */
#include "training/scores.h"
#include "data/data.h"

/* Labels, one for each row of the outputs. Those that count as the target of a single output may be any number, unless
 * the loss knows two classes only. */
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

/* Of the outputs' shape; or in a row where the outputs are not, or the other way round. */
static kolo_status check_target_shape(const kolo_model *model, const kolo_data *data, const char *what)
{
    kolo_shape wanted = model->layers[model->output].out, got = data->target_shape;
    bool row = (wanted.rank == 1 || got.rank == 1) && kolo_shape_count(wanted) == kolo_shape_count(got);
    if (row || kolo_shape_equal(wanted, got)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted targets of %s, as the last layer gives, got %s", what,
                     kolo_shape_text(wanted), kolo_shape_text(got));
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
