/* Views: data sets made of other data sets, whose samples are worked out when they are gathered. What a transform is.
 *
 * A view holds the data sets it is made of, so these may be freed before it. Views of views pass a sample on to each
 * other; several threads gather at once, so a view changes nothing of its own without care. Read data.h first. */
#ifndef KOLO_DATA_VIEW_H
#define KOLO_DATA_VIEW_H

#include "data/data.h"

#define KOLO_VIEW_ROWS 64 /* gathered at a time at most */

typedef struct kolo_view_kind {
    const char *name; /* what it does, for kolo_data_info.source: "shuffled"; NULL: says nothing */
    bool keeps_features; /* those of a sample are the source's, of this sample or another */
    /* Samples rows[count] of the view, at most KOLO_VIEW_ROWS of them, into `to`. Whatever of `to` is NULL is not
     * wanted, and must cost nothing. */
    kolo_status (*gather)(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                          const kolo_gathered *to);
    void (*free)(kolo_view *view); /* what it has beside its sources; NULL: nothing */
} kolo_view_kind;

struct kolo_view {
    kolo_storage storage;
    const kolo_view_kind *kind;
    kolo_data from[2];
    int sources;
};

/* A view of `size` bytes (a struct that begins with kolo_view; the rest is zero) of one data set, and the data set it
 * makes, which describes itself as its source does until the caller says otherwise. The data set owns the view. */
kolo_status kolo_view_open(const kolo_view_kind *kind, size_t size, const kolo_data *source, kolo_data **out);
/* Its view, to be filled in before anybody gathers. */
void *kolo_view_of(const kolo_data *data);
/* The source's samples, those of `rows` (NULL: first, first+1, …). */
static inline const kolo_data *kolo_view_source(const kolo_data *data)
{
    return &data->view->from[0];
}

kolo_status kolo_view_gather(const kolo_data *data, const kolo_gather_call *call, const int32_t *index, int64_t first,
                             int count, const kolo_gathered *to);

/* What gather() is where features are worked out sample by sample: make() turns those of sample `row` of the source,
 * for which there is room in `scratch`, into `to`, the call being that of this sample alone. The rest is the source's.
 */
typedef kolo_status kolo_view_sample(const kolo_data *data, const kolo_gather_call *call, int32_t row, float *scratch,
                                     float *to);
kolo_status kolo_view_gather_each(const kolo_data *data, const kolo_gather_call *call, const int32_t *rows, int count,
                                  const kolo_gathered *to, kolo_view_sample *make);

/* `to` from sample `at` of this data set on. */
kolo_gathered kolo_gathered_from(const kolo_data *data, const kolo_gathered *to, int64_t at);
/* Labels of one sample as targets: of each one outputs / label_count numbers, which are 0 before. */
void kolo_labels_expand(const kolo_data *data, const int32_t *labels, int64_t outputs, float *targets);

/* What is behind every public call that makes a view: `data` if all went well, else NULL, and it is freed. */
kolo_data *kolo_view_leave(kolo_scope scope, kolo_status status, kolo_data *data);

#endif
