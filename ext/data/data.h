/* Data sets inside the library: arrays in memory, of bytes or floats, with labels. */
#ifndef KOLO_DATA_H
#define KOLO_DATA_H

#include "data/arrays.h"

typedef struct kolo_storage { /* shared by slices; counts its users */
    int users;
    kolo_arrays arrays;
    void (*free)(struct kolo_storage *storage);
} kolo_storage;

/* What is done to a sample's features on their way, one behind the other: kolo_data_map(). */
typedef struct kolo_map {
    kolo_map_function function;
    void *user;
} kolo_map;
#define KOLO_MAPS_MAX 8

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
    int64_t first; /* number of its first sample in the data set that it is a part of */
    kolo_map maps[KOLO_MAPS_MAX];
    int map_count;
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

/* Sample numbers index[count] (NULL: first, first+1, …) into `to`. Numbers are in range: the library's own. Fails as a
 * learner's function does. Any thread. */
kolo_status kolo_data_gather(const kolo_data *data, const int32_t *index, int64_t first, int count, const kolo_gathered *to);
/* map.c */
kolo_status kolo_data_run_maps(const kolo_data *data, int64_t sample, float *features);

#endif
