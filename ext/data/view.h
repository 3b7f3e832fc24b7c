/* Views: data sets made of other data sets, whose samples are computed when they are gathered. Transforms such as
 * kolo_shuffle() are views.
 *
 * A view keeps the storage of its sources, so their handles may be freed before it. A view of a view gathers through
 * it. Several threads gather at once, so gather() must synchronise what it changes in the view. Read data.h first. */
#ifndef KOLO_DATA_VIEW_H
#define KOLO_DATA_VIEW_H

#include "data/data.h"

#define KOLO_VIEW_ROWS 64 /* most rows of one gather() */

typedef struct kolo_view_kind {
    const char *name; /* added to kolo_data_info.source: "shuffled"; NULL: nothing is added */
    bool keeps_features; /* features are unchanged: each sample has those of some sample of the source */
    /* Gathers the samples rows[count] of the view, count ≤ KOLO_VIEW_ROWS, into `to`. Must not spend time on members
     * of `to` that are NULL. */
    kolo_status (*gather)(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                          const kolo_gathered *to);
    void (*free)(kolo_view *view); /* frees what the view owns beside its sources; NULL: it owns nothing */
} kolo_view_kind;

struct kolo_view {
    kolo_storage storage;
    const kolo_view_kind *kind;
    kolo_data from[2];
    int sources;
};

/* Makes a view of one data set, and the data set *out, which owns the view and copies the source's description for
 * the caller to change. `size`: bytes of the view, a struct that begins with kolo_view; the rest of it is zeroed. */
kolo_status kolo_view_open(const kolo_view_kind *kind, size_t size, const kolo_data *source, kolo_data **out);
/* The data set's view, to be filled in before samples are gathered. */
void *kolo_view_of(const kolo_data *data);
/* The view's first source. */
static inline const kolo_data *kolo_view_source(const kolo_data *data)
{
    return &data->view->from[0];
}

/* kolo_data_gather() for a view: calls gather() for at most KOLO_VIEW_ROWS samples at a time. */
kolo_status kolo_view_gather(const kolo_data *data, const kolo_gather_call *call, const int32_t *index, int64_t first,
                             int count, const kolo_gathered *to);

/* A gather() for views that compute features sample by sample: make() gathers the features of the source's sample
 * `row` into `scratch`, which has room for one sample, and writes the view's features to `to`; call->first_sample is
 * this sample's. Labels, targets and weights are the source's. */
typedef kolo_status kolo_view_sample(const kolo_data *data, const kolo_gather_call *call, int32_t row, float *scratch,
                                     float *to);
kolo_status kolo_view_gather_each(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                  const kolo_gathered *to, kolo_view_sample *make);

/* `to` with its arrays advanced by `at` samples of this data set. */
kolo_gathered kolo_gathered_from(const kolo_data *data, const kolo_gathered *to, int64_t at);

/* Ends a public call that makes a view: returns *data if `status` is KOLO_OK, else frees it and returns NULL. */
kolo_data *kolo_view_leave(kolo_scope scope, kolo_status status, kolo_data **data);

#endif
