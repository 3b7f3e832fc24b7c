/* The sources of data sets: readers of file formats, and synthetic data. Read data.h first. */
#ifndef KOLO_DATA_SOURCES_H
#define KOLO_DATA_SOURCES_H

#include "data/data.h"

#include <limits.h>

/* Each function fills the arrays, which are empty before; the caller frees them, also on failure. */
/* Reads two IDX files. */
kolo_status kolo_idx_read(kolo_arrays *arrays, const char *images, const char *labels);
/* Reads arrays of a NumPy archive, or, if args->path is NULL, of two files. */
kolo_status kolo_numpy_read(kolo_arrays *arrays, const kolo_numpy_args *args);
/* Reads records of tf.train.Example. */
kolo_status kolo_tfrecord_read(kolo_arrays *arrays, const kolo_tfrecord_args *args);
/* Reads a text as numbers of words. */
kolo_status kolo_text_read(kolo_arrays *arrays, const kolo_text_args *args);
/* Draws digits; samples 0 and seed 0 mean the defaults. */
kolo_status kolo_digits_draw(kolo_arrays *arrays, kolo_split split, int64_t samples, uint64_t seed);
kolo_status kolo_images_draw(kolo_arrays *arrays, const kolo_synthetic_images_args *args);
kolo_status kolo_table_draw(kolo_arrays *arrays, const kolo_synthetic_table_args *args);

/* The folder that `make data` fetches data sets into if KOLO_DATA is not set: $XDG_CACHE_HOME/kolo, or ~/.cache/kolo.
 * False: neither variable names a folder. */
bool kolo_data_cache(char path[PATH_MAX]);

#endif
