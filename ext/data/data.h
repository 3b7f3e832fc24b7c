/* Data sets inside the library: arrays in memory, of bytes or floats, with labels. */
#ifndef KOLO_DATA_H
#define KOLO_DATA_H

#include "core/error.h"
#include "core/shape.h"

typedef struct kolo_storage { /* shared by slices; counts its users */
    int users;
    void *features;
    int32_t *labels;
    void (*free)(struct kolo_storage *storage);
} kolo_storage;

struct kolo_data {
    kolo_storage *storage;
    const uint8_t *bytes; /* features, one of the two: bytes · scale, */
    const float *floats;  /* or floats as they are */
    float scale;
    const int32_t *labels; /* or NULL */
    int64_t samples;
    kolo_shape shape;
    int classes;
    bool synthetic;
    char source[200];
};

/* Sample numbers index[count] (NULL: first, first+1, …) into features[count][elements] and labels[count] (-1 without
 * labels). Numbers are in range: the library's own. Any thread. */
void kolo_data_gather(const kolo_data *data, const int32_t *index, int64_t first, int count, float *features,
                      int32_t *labels);

#endif
