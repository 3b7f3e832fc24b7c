/* Arrays of samples, in the common subset of C and CUDA C. */
#ifndef KOLO_BACKEND_SAMPLES_H
#define KOLO_BACKEND_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

/* The arrays of samples in the device's memory. One of bytes, floats and tokens is set, the others are NULL. */
typedef struct kolo_sources {
    const uint8_t *bytes; /* feature = byte · scale */
    const float *floats;
    const int32_t *tokens; /* feature = (float)token */
    float scale;
    const int32_t *labels; /* [samples][label_count] */
    int label_count;
    const float *targets; /* [samples][outputs]; NULL: the labels, one-hot, or as they are if each has one output */
    bool autoencoder; /* the targets are the features */
    const float *weights; /* [samples]; NULL: all 1 */
    int64_t elements; /* of one sample's features */
    const int32_t *order; /* the samples' numbers, of an epoch or a batch; NULL: in the order of the arrays */
} kolo_sources;

/* Where samples are gathered. An array that is not wanted is NULL. Data without labels gives labels of -1, data without
 * weights gives weights of 1. Data without targets gives its labels as targets: one-hot, or the label itself where a
 * sample has as many targets as labels. */
typedef struct kolo_gathered {
    float *features;
    int32_t *labels;
    float *targets;
    float *weights;
    int64_t outputs; /* elements of one sample's targets */
} kolo_gathered;

/* host_arrays.c. Gathers samples first … first+count-1 of `from` on the host. */
void kolo_gather_samples(const kolo_sources *from, int64_t first, int count, const kolo_gathered *to);
/* Writes the targets of `count` labels to targets[outputs], which holds zeros: one-hot, or the label itself where a
 * label has one output. */
void kolo_labels_expand(const int32_t *labels, int count, int64_t outputs, float *targets);

#endif
