/* Where data sets come from: what dataset.c chooses among. Read data.h first. */
#ifndef KOLO_DATA_SOURCES_H
#define KOLO_DATA_SOURCES_H

#include "data/data.h"

/* The largest data set: its samples are numbered by int32_t. */
#define KOLO_SAMPLES_MAX INT32_MAX

/* A data set over arrays from malloc: bytes · 1/255, or floats (one of them NULL); labels may be NULL. It owns them
 * from then on; on failure they are freed. `classes` 0: the largest label + 1. */
kolo_status kolo_data_own(kolo_data **out, uint8_t *bytes, float *floats, int32_t *labels, int64_t samples,
                          kolo_shape shape, int classes);

/* Reads two IDX files. */
kolo_status kolo_idx_read(kolo_data **out, const char *images, const char *labels);

/* Draws digits; samples 0 and seed 0 mean the defaults. */
kolo_status kolo_digits_draw(kolo_data **out, kolo_split split, int64_t samples, uint64_t seed);

#endif
