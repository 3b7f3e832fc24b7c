/* Data sets in memory: their ownership, parts, single samples, and the gathering of batches. Read data.h first. */
#include "data/view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void storage_free(kolo_storage *storage)
{
    kolo_arrays_free(&storage->arrays);
    free(storage);
}

/* Slices may be used and freed by different threads, so the count is atomic. */
void kolo_data_retain(const kolo_data *data)
{
    __atomic_add_fetch(&data->storage->users, 1, __ATOMIC_RELAXED);
}

void kolo_data_release(const kolo_data *data)
{
    kolo_storage *storage = data->storage;
    if (storage && __atomic_sub_fetch(&storage->users, 1, __ATOMIC_ACQ_REL) == 0) storage->free(storage);
}

static int classes_of(const kolo_arrays *arrays)
{
    int32_t largest = -1;
    int64_t count = arrays->labels ? arrays->samples * arrays->label_count : 0;
    for (int64_t i = 0; i < count; i++) largest = arrays->labels[i] > largest ? arrays->labels[i] : largest;
    return arrays->classes ? arrays->classes : largest + 1;
}

/* Whether the samples have met suspiciously few of the classes. With at least ten samples for each class they should
 * meet all classes. With fewer they should meet half of the classes, or half as many classes as there are samples. */
static bool too_few_met(int met, int classes, int64_t samples)
{
    int64_t most = samples < classes ? samples : classes;
    return met < classes && (samples >= 10 * (int64_t)classes || 2 * met < most);
}

/* Warns if class numbers are unused: a label above all others is more likely damaged than intended, and the model would
 * need an output for each number below it. */
static kolo_status warn_of_gaps(const kolo_arrays *arrays, int classes)
{
    bool plain = arrays->labels && arrays->label_count <= 1 && !arrays->class_names && !arrays->synthetic;
    if (!plain || classes < 3) return KOLO_OK;
    bool *met = calloc((size_t)classes, sizeof *met);
    if (!met) return kolo_fail_memory((size_t)classes, "classes");
    int count = 0;
    for (int64_t i = 0; i < arrays->samples; i++) {
        int32_t label = arrays->labels[i];
        if (label < 0 || label >= classes || met[label]) continue;
        met[label] = true, count++;
    }
    free(met);
    if (too_few_met(count, classes, arrays->samples))
        kolo_warn("%s: only %d of the %d classes 0 to %d have samples, and a model needs an output for each of %d: is a"
                  " label damaged?",
                  arrays->source, count, classes, classes - 1, classes);
    return KOLO_OK;
}

kolo_status kolo_arrays_become(kolo_arrays *arrays, kolo_data **out)
{
    kolo_data *data = calloc(1, sizeof *data);
    kolo_storage *storage = calloc(1, sizeof *storage);
    int classes = classes_of(arrays);
    kolo_status status = data && storage ? warn_of_gaps(arrays, classes)
                                         : kolo_fail_memory(sizeof *data + sizeof *storage, "a data set");
    if (status != KOLO_OK) {
        free(data), free(storage);
        kolo_arrays_free(arrays);
        return status;
    }
    *storage = (kolo_storage){.users = 1, .arrays = *arrays, .free = storage_free};
    *data = (kolo_data){.storage = storage,
                        .bytes = arrays->bytes,
                        .floats = arrays->floats,
                        .tokens = arrays->tokens,
                        .scale = arrays->bytes ? arrays->scale : 1,
                        .labels = arrays->labels,
                        .label_count = arrays->label_count ? arrays->label_count : 1,
                        .targets = arrays->targets,
                        .target_shape = arrays->target_shape,
                        .weights = arrays->weights,
                        .has_labels = arrays->labels != NULL,
                        .has_targets = arrays->targets != NULL,
                        .has_tokens = arrays->tokens != NULL,
                        .samples = arrays->samples,
                        .shape = arrays->shape,
                        .classes = classes,
                        .class_names = (const char *const *)arrays->class_names,
                        .feature_names = (const char *const *)arrays->feature_names,
                        .synthetic = arrays->synthetic};
    memcpy(data->source, arrays->source, sizeof data->source);
    *arrays = (kolo_arrays){0};
    *out = data;
    return KOLO_OK;
}

kolo_data *kolo_arrays_leave(kolo_scope scope, kolo_status status, kolo_arrays *arrays)
{
    kolo_data *data = NULL;
    if (status == KOLO_OK) status = kolo_arrays_become(arrays, &data);
    else kolo_arrays_free(arrays);
    return kolo_leave(scope, status) == KOLO_OK ? data : NULL;
}

/* ------------------------------------------------------------------------------------------ slices */

kolo_status kolo_data_part(kolo_data **out, const kolo_data *data, int64_t first, int64_t samples)
{
    if (first < 0 || samples < 1 || first >= data->samples || samples > data->samples - first)
        return kolo_fail(KOLO_INVALID, "wanted samples within 0 to %" PRId64 ", got %" PRId64 " from %" PRId64 " on",
                         data->samples - 1, samples, first);
    kolo_data *part = malloc(sizeof *part);
    if (!part) return kolo_fail_memory(sizeof *part, "a slice");
    int64_t skipped = first * kolo_shape_count(data->shape);
    *part = *data;
    part->targets_checked = NULL;
    part->samples = samples;
    part->first += first;
    if (data->bytes) part->bytes += skipped;
    if (data->floats) part->floats += skipped;
    if (data->tokens) part->tokens += skipped;
    if (data->labels) part->labels += first * data->label_count;
    if (data->targets) part->targets += first * kolo_shape_count(data->target_shape);
    if (data->weights) part->weights += first;
    kolo_data_retain(part);
    *out = part;
    return KOLO_OK;
}

void kolo_data_free(kolo_data **data)
{
    if (!data || !*data) return;
    kolo_data_release(*data);
    free(*data);
    *data = NULL;
}

/* ------------------------------------------------------------------------------------------ reading */

kolo_data_info kolo_data_get_info(const kolo_data *data)
{
    if (!data) return (kolo_data_info){0};
    kolo_data_info info = {.samples = data->samples,
                           .rank = data->shape.rank,
                           .classes = data->classes,
                           .class_names = data->class_names,
                           .feature_names = data->feature_names,
                           .tokens = data->has_tokens,
                           .labels = data->has_labels ? data->label_count : 0,
                           .target_rank = data->has_targets || data->autoencoder ? data->target_shape.rank : 0,
                           .synthetic = data->synthetic,
                           .source = data->source};
    memcpy(info.shape, data->shape.dim, sizeof(int) * (size_t)data->shape.rank);
    memcpy(info.target_shape, data->target_shape.dim, sizeof(int) * (size_t)info.target_rank);
    return info;
}

static kolo_status check_specs(const kolo_data_sample_args *args)
{
    const kolo_data *data = args->data;
    if (args->index < 0 || args->index >= data->samples)
        return kolo_fail(KOLO_INVALID, "wanted a sample of 0 to %" PRId64 ", got %" PRId64, data->samples - 1,
                         args->index);
    if (args->labels && !data->has_labels)
        return kolo_fail(KOLO_INVALID, ".labels: wanted data with labels, got data without");
    if (args->targets && !data->has_targets && !data->autoencoder)
        return kolo_fail(KOLO_INVALID, ".targets: wanted data with targets, got data without");
    return KOLO_OK;
}

/* The sample's index serves as its number in the batch, so that not all samples are augmented alike. */
static kolo_status look_at(const kolo_data_sample_args *args)
{
    const kolo_data *data = args->data;
    KOLO_TRY(check_specs(args));
    int32_t *labels = calloc((size_t)data->label_count, sizeof *labels);
    if (!labels) return kolo_fail_memory((size_t)data->label_count * sizeof *labels, "a sample");
    kolo_gathered to = {args->features, labels, args->targets, args->weight, kolo_shape_count(data->target_shape)};
    kolo_gather_call call = {
        .training = args->training, .seed = args->seed, .step = args->step, .first_sample = args->index};
    kolo_status status = kolo_data_gather(data, &call, NULL, args->index, 1, &to);
    if (status == KOLO_OK && args->label) *args->label = labels[0];
    if (status == KOLO_OK && args->labels) memcpy(args->labels, labels, (size_t)data->label_count * sizeof *labels);
    free(labels);
    return status;
}

kolo_status kolo_data_sample_at(const kolo_data_sample_args *args, kolo_here here)
{
    if (!args->data) return KOLO_INVALID;
    kolo_scope scope = kolo_enter("kolo_data_sample", here);
    return kolo_leave(scope, look_at(args));
}

static void gather_arrays(const kolo_data *data, const int32_t *index, int64_t first, int count,
                          const kolo_gathered *to)
{
    const kolo_sources from = {.bytes = data->bytes,
                               .floats = data->floats,
                               .tokens = data->tokens,
                               .scale = data->scale,
                               .labels = data->labels,
                               .label_count = data->label_count,
                               .targets = data->targets,
                               .autoencoder = data->autoencoder,
                               .weights = data->weights,
                               .elements = kolo_shape_count(data->shape),
                               .order = index};
    kolo_gather_samples(&from, index ? 0 : first, count, to);
}

/* A view's own weights, and the features as targets, replace those that its gather() would compute. */
kolo_status kolo_data_gather(const kolo_data *data, const kolo_gather_call *call, const int32_t *index, int64_t first,
                             int count, const kolo_gathered *to)
{
    static const kolo_gather_call scored;
    kolo_gathered rest = *to;
    if (!call) call = &scored;
    if (!data->view) {
        gather_arrays(data, index, first, count, to);
        return KOLO_OK;
    }
    if (to->weights && data->weights) {
        gather_arrays(data, index, first, count, &(kolo_gathered){.weights = to->weights});
        rest.weights = NULL;
    }
    if (to->targets && data->autoencoder) {
        KOLO_TRY(kolo_view_gather(data, call, index, first, count, &(kolo_gathered){.features = to->targets}));
        rest.targets = NULL;
    }
    return kolo_view_gather(data, call, index, first, count, &rest);
}

const kolo_arrays *kolo_data_arrays(const kolo_data *data)
{
    while (data->view) data = &data->view->from[0];
    return &data->storage->arrays;
}
