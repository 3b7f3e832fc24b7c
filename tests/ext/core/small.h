/* A small problem that any test can train on in a moment: 8×8 images of four classes, a bright quarter each. */
#ifndef KOLO_TESTS_SMALL_H
#define KOLO_TESTS_SMALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <kolo.h>
#include <math.h>
#include <stdlib.h>

#define SMALL_SIDE    8
#define SMALL_CLASSES 4

static inline kolo_data *small_data(int samples)
{
    int elements = SMALL_SIDE * SMALL_SIDE;
    float *features = malloc((size_t)(samples * elements) * sizeof *features);
    int32_t *labels = malloc((size_t)samples * sizeof *labels);
    assert_true(features && labels);
    uint32_t state = 12345;
    for (int s = 0; s < samples; s++) {
        labels[s] = s % SMALL_CLASSES;
        for (int e = 0; e < elements; e++) {
            state = state * 1664525u + 1013904223u;
            int quarter = (e / SMALL_SIDE >= SMALL_SIDE / 2) * 2 + (e % SMALL_SIDE >= SMALL_SIDE / 2);
            features[s * elements + e] = (float)(state >> 8) * 0x1p-24f + (quarter == labels[s] ? 0.6f : 0);
        }
    }
    kolo_data *data = kolo_data_from_arrays(features, labels, .samples = samples, .shape = {SMALL_SIDE, SMALL_SIDE, 1},
                                            .classes = SMALL_CLASSES);
    free(features);
    free(labels);
    assert_non_null(data);
    return data;
}

/* Every kind of layer there is. */
static inline kolo_model *small_model(void)
{
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                                        kolo_conv2d(5, .kernel = {3, 3}, .activation = KOLO_RELU),
                                        kolo_max_pool2d(2, 2), kolo_dropout(0.2), kolo_flatten(),
                                        kolo_dense(12, .activation = KOLO_RELU), kolo_dense(SMALL_CLASSES));
    assert_non_null(model);
    return model;
}

#endif
