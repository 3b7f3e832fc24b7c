/* Where data sets come from: what dataset.c chooses among. Read data.h first. */
#ifndef KOLO_DATA_SOURCES_H
#define KOLO_DATA_SOURCES_H

#include "data/data.h"

#include <limits.h>

/* Each fills arrays, which are empty on failure. */
/* Two IDX files. */
kolo_status kolo_idx_read(kolo_arrays *arrays, const char *images, const char *labels);
/* Of a NumPy archive, or two files where archive is NULL. */
kolo_status kolo_numpy_read(kolo_arrays *arrays, const kolo_numpy_args *args);
/* tf.train.Examples. */
kolo_status kolo_tfrecord_read(kolo_arrays *arrays, const kolo_tfrecord_args *args);
/* Words of a text. */
kolo_status kolo_text_read(kolo_arrays *arrays, const kolo_text_args *args);
/* Digits; samples 0 and seed 0 mean the defaults. */
kolo_status kolo_digits_draw(kolo_arrays *arrays, kolo_split split, int64_t samples, uint64_t seed);
kolo_status kolo_images_draw(kolo_arrays *arrays, const kolo_synthetic_images_args *args);
kolo_status kolo_table_draw(kolo_arrays *arrays, const kolo_synthetic_table_args *args);
kolo_status kolo_sentences_draw(kolo_arrays *arrays, const kolo_synthetic_text_args *args);

/* The folder of what was fetched: $XDG_CACHE_HOME/kolo, ~/.cache/kolo; false where there is no home. */
bool kolo_data_cache(char path[PATH_MAX]);

#endif
