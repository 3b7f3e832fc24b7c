/* Data sets inside the library: arrays in memory, of bytes or floats, with labels; or views of other data sets, whose
 * samples are worked out when they are gathered (view.h). */
#ifndef KOLO_DATA_H
#define KOLO_DATA_H

#include "data/arrays.h"

typedef struct kolo_storage { /* shared by slices and views; counts its users */
    int users;
    kolo_arrays arrays; /* none where it is a view's */
    void (*free)(struct kolo_storage *storage);
} kolo_storage;

typedef struct kolo_view kolo_view;

struct kolo_data {
    kolo_storage *storage;
    const kolo_view *view; /* the storage's, where it is one: then there are no arrays here, but for weights; */
    int64_t first;         /* and this is the number there of sample 0 */
    const uint8_t *bytes; /* features, one of the three: bytes · scale, */
    const float *floats;  /* floats as they are, */
    const int32_t *tokens; /* or numbers of words, which are gathered as floats */
    float scale;
    const int32_t *labels; /* [samples][label_count], or NULL */
    int label_count;       /* 1; of a sequence one for each position */
    const float *targets;  /* [samples][target_shape], what a regression is to give; or NULL */
    kolo_shape target_shape;
    bool autoencoder; /* its targets are its features */
    const kolo_data *shares; /* this handle itself once its targets were found to be from 0 to 1 */
    const float *weights; /* [samples], of the samples in the loss; NULL: all 1, or the view's */
    bool has_labels, has_targets, has_tokens; /* arrays or not */
    int views;   /* how many are one behind the other */
    bool chance; /* one of them leaves something to chance */
    int prefetch, prefetch_threads; /* batches that kolo_fit gathers ahead, unless told otherwise; threads that do */
    int64_t samples;
    kolo_shape shape;
    int classes;
    const char *const *class_names; /* [classes], or NULL */
    const char *const *feature_names; /* [elements of shape], or NULL */
    bool synthetic;
    char source[200];
};

/* Where samples are gathered: arrays of [count], each NULL if it is not wanted. What the data does not have becomes
 * labels of -1 and weights of 1; without targets labels are these, one-hot, or as they are where a label has one
 * number.
 */
typedef struct kolo_gathered {
    float *features;
    int32_t *labels;
    float *targets;
    float *weights;
    int64_t outputs; /* numbers of one sample's targets */
} kolo_gathered;

/* Whom samples are for. What is left to chance goes by seed, step and a sample's number in the batch, like dropout. */
typedef struct kolo_gather_call {
    bool training; /* else nothing is left to chance */
    uint64_t seed, step;
    int64_t first_sample; /* the number in the batch, over all ranks, of the first that is gathered */
    bool stoppable; /* a requested stop ends it, with KOLO_INTERRUPTED */
    const bool *closing; /* so does this once it is true, which any thread may make it; NULL: never */
} kolo_gather_call;

/* Sample numbers index[count] (NULL: first, first+1, …) into `to`. Numbers are in range: the library's own. call NULL:
 * as they are scored. Only views can fail. Any thread. */
kolo_status kolo_data_gather(const kolo_data *data, const kolo_gather_call *call, const int32_t *index, int64_t first,
                             int count, const kolo_gathered *to);

/* What kolo_data_slice() makes. */
kolo_status kolo_data_part(kolo_data **out, const kolo_data *data, int64_t first, int64_t samples);
/* The arrays that it was read into, or those of the first of the data sets it was made of. */
const kolo_arrays *kolo_data_arrays(const kolo_data *data);
/* Another user of the storage; gives it up. */
void kolo_data_retain(const kolo_data *data);
void kolo_data_release(const kolo_data *data);

#endif
