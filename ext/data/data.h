/* Data sets inside the library: arrays in memory, of bytes or floats, with labels. */
#ifndef KOLO_DATA_H
#define KOLO_DATA_H

#include "data/arrays.h"

typedef struct kolo_storage { /* shared by slices; counts its users */
    int users;
    kolo_arrays arrays;
    void (*free)(struct kolo_storage *storage);
} kolo_storage;

struct kolo_data {
    kolo_storage *storage;
    const uint8_t *bytes; /* features, one of the three: bytes · scale, */
    const float *floats;  /* floats as they are, */
    const int32_t *tokens; /* or numbers of words, which are gathered as floats */
    float scale;
    const int32_t *labels; /* [samples][label_count], or NULL */
    int label_count;       /* 1; of a sequence one for each position */
    const float *targets;  /* [samples][target_shape], what a regression is to give; or NULL */
    kolo_shape target_shape;
    bool autoencoder; /* its targets are its features */
    const float *weights; /* [samples], of the samples in the loss; NULL: all 1 */
    int64_t samples;
    kolo_shape shape;
    int classes;
    const char *const *class_names;   /* [classes], or NULL */
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

/* Sample numbers index[count] (NULL: first, first+1, …) into `to`. Numbers are in range: the library's own. Any
 * thread. */
void kolo_data_gather(const kolo_data *data, const int32_t *index, int64_t first, int count, const kolo_gathered *to);

#endif
