/* Data sets inside the library: arrays in memory, with labels or targets; or views of other data sets, whose samples
 * are computed when they are gathered (view.h). */
#ifndef KOLO_DATA_H
#define KOLO_DATA_H

#include "backend/samples.h"
#include "data/arrays.h"

typedef struct kolo_storage { /* shared by slices and views; counts its users */
    int users;
    kolo_arrays arrays; /* empty in a view's storage */
    void (*free)(struct kolo_storage *storage);
    /* A hash of features that was computed once (training/fit_agree_data.c), and of which ones: the array from which
     * they are gathered, and their number. Zeros: none yet. */
    const void *hashed;
    int64_t hashed_samples;
    uint64_t hash;
} kolo_storage;

typedef struct kolo_view kolo_view;

struct kolo_data {
    kolo_storage *storage;
    const kolo_view *view; /* the storage, if it is a view's; NULL: the arrays below hold the samples */
    int64_t first; /* number of sample 0 in the storage */
    /* The features, [samples][shape], are in one of three arrays; the others, or all for a view, are NULL. */
    const uint8_t *bytes; /* to be multiplied by scale */
    const float *floats; /* as they are */
    const int32_t *tokens; /* numbers of words, gathered as floats */
    float scale;
    const int32_t *labels; /* [samples][label_count], or NULL */
    int label_count; /* labels per sample: 1, or one for each position of a sequence */
    const float *targets; /* [samples][target_shape], or NULL */
    kolo_shape target_shape;
    bool autoencoder; /* the features serve as targets */
    const kolo_data *targets_checked; /* points to this struct itself once its targets were checked to lie in [0, 1] */
    const float *weights; /* [samples], of the samples in the loss; NULL: all 1, or those that the view gives */
    bool has_labels, has_targets, has_tokens; /* also true where a view gives them without an array */
    int views; /* length of the chain of views from the arrays to this data set */
    bool chance; /* a view of the chain uses random numbers in training */
    int prefetch, prefetch_threads; /* default feed of kolo_fit(): batches ahead, 0: none; its threads, 0: default */
    int64_t samples;
    kolo_shape shape;
    int classes;
    const char *const *class_names; /* [classes], or NULL */
    const char *const *feature_names; /* [elements of shape], or NULL */
    bool synthetic;
    char source[200];
};

/* The purpose of a gathering. Random numbers depend on the seed, the step and a sample's number in the batch, like
 * dropout's. */
typedef struct kolo_gather_call {
    bool training; /* false: no random numbers are used */
    uint64_t seed, step;
    int64_t first_sample; /* number in the batch, over all ranks, of the first sample that is gathered */
    bool stoppable; /* a requested stop ends the gathering with KOLO_INTERRUPTED */
    const bool *closing; /* once true, it has the same effect; any thread may set it, atomically; or NULL */
} kolo_gather_call;

/* Gathers the samples index[count] (NULL: first, first+1, …) into `to`. Does not check the sample numbers. call NULL:
 * as for scoring. Only views can fail. Any thread. */
kolo_status kolo_data_gather(const kolo_data *data, const kolo_gather_call *call, const int32_t *index, int64_t first,
                             int count, const kolo_gathered *to);

/* Makes a slice, as kolo_data_slice() does. */
kolo_status kolo_data_part(kolo_data **out, const kolo_data *data, int64_t first, int64_t samples);
/* The arrays that the data set was read into; for a view, those of its first source. */
const kolo_arrays *kolo_data_arrays(const kolo_data *data);
/* Adds a user to the storage; removes one, and frees the storage with the last. */
void kolo_data_retain(const kolo_data *data);
void kolo_data_release(const kolo_data *data);

#endif
