/* Views of data sets: see view.h. */
#include "data/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_view(kolo_storage *storage)
{
    kolo_view *view = (kolo_view *)storage;
    if (view->kind->free) view->kind->free(view);
    for (int i = 0; i < view->sources; i++) kolo_data_release(&view->from[i]);
    free(view);
}

/* Adds to the description: "train.csv, standardized". */
static void name_source(kolo_data *data, const char *done)
{
    size_t length = strlen(data->source);
    if (done) snprintf(data->source + length, sizeof data->source - length, "%s%s", length ? ", " : "", done);
}

kolo_status kolo_view_open(const kolo_view_kind *kind, size_t size, const kolo_data *source, kolo_data **out)
{
    kolo_data *data = malloc(sizeof *data);
    kolo_view *view = calloc(1, size);
    if (!data || !view) {
        free(data), free(view);
        return kolo_fail_memory(sizeof *data + size, "a data set");
    }
    view->storage = (kolo_storage){.users = 1, .free = free_view};
    view->kind = kind;
    view->from[0] = *source;
    view->sources = 1;
    kolo_data_retain(source);
    *data = *source;
    data->storage = &view->storage;
    data->view = view;
    data->first = 0;
    data->views++;
    data->targets_checked = NULL;
    data->bytes = NULL, data->floats = NULL, data->tokens = NULL;
    data->labels = NULL, data->targets = NULL, data->weights = NULL;
    data->has_targets |= data->autoencoder; /* its targets stay the source's features, which the view may change */
    data->autoencoder = false;
    name_source(data, kind->name);
    *out = data;
    return KOLO_OK;
}

void *kolo_view_of(const kolo_data *data)
{
    return data->storage;
}

kolo_data *kolo_view_leave(kolo_scope scope, kolo_status status, kolo_data **data)
{
    if (status != KOLO_OK) kolo_data_free(data);
    return kolo_leave(scope, status) == KOLO_OK ? *data : NULL;
}

/* ------------------------------------------------------------------------------------------ gathering */

kolo_gathered kolo_gathered_from(const kolo_data *data, const kolo_gathered *to, int64_t at)
{
    kolo_gathered rows = *to;
    if (rows.features) rows.features += at * kolo_shape_count(data->shape);
    if (rows.labels) rows.labels += at * data->label_count;
    if (rows.targets) rows.targets += at * rows.outputs;
    if (rows.weights) rows.weights += at;
    return rows;
}

kolo_status kolo_view_gather_each(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                  const kolo_gathered *to, kolo_view_sample *make)
{
    const kolo_data *source = kolo_view_source(data);
    size_t bytes = (size_t)kolo_shape_count(source->shape) * sizeof(float);
    kolo_gathered rest = *to;
    rest.features = NULL;
    KOLO_TRY(kolo_data_gather(source, call, rows, 0, count, &rest));
    if (!to->features) return KOLO_OK;
    float *scratch = malloc(bytes);
    if (!scratch) return kolo_fail_memory(bytes, "a sample");
    kolo_status status = KOLO_OK;
    kolo_gather_call one = *call;
    for (int i = 0; i < count && status == KOLO_OK; i++, one.first_sample++)
        status = make(data, &one, rows[i], scratch, to->features + i * kolo_shape_count(data->shape));
    free(scratch);
    return status;
}

kolo_status kolo_view_gather(const kolo_data *data, const kolo_gather_call *call, const int32_t *index, int64_t first,
                             int count, const kolo_gathered *to)
{
    int32_t rows[KOLO_VIEW_ROWS];
    kolo_gather_call part = *call;
    for (int at = 0; at < count; at += KOLO_VIEW_ROWS) {
        int some = count - at < KOLO_VIEW_ROWS ? count - at : KOLO_VIEW_ROWS;
        kolo_gathered place = kolo_gathered_from(data, to, at);
        for (int i = 0; i < some; i++) rows[i] = (int32_t)(data->first + (index ? index[at + i] : first + at + i));
        part.first_sample = call->first_sample + at;
        KOLO_TRY(data->view->kind->gather(data, &part, rows, some, &place));
    }
    return KOLO_OK;
}
