/* NumPy's arrays: files of one array (.npy), and zip archives of several (.npz). */
#ifndef KOLO_DATA_NPY_H
#define KOLO_DATA_NPY_H

#include "data/arrays.h"

#define KOLO_NPY_RANK_MAX 8
#define KOLO_NPY_ORDER    (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>') /* this machine's */

typedef struct kolo_npy_array {
    char kind; /* 'u', 'i', 'f'; 'b': bool, as bytes of 0 and 1 */
    int size;  /* bytes of an element: 1, 2, 4, 8 */
    int rank;  /* 0 … KOLO_NPY_RANK_MAX */
    int64_t dim[KOLO_NPY_RANK_MAX];
    int64_t count; /* elements */
    void *values;  /* C order, this machine's byte order, from malloc */
} kolo_npy_array;

/* Parses the contents of a .npy file. Takes over `bytes`, which are from malloc: they become array->values or are
 * freed. `name` names the file in errors. */
kolo_status kolo_npy_parse(const char *name, uint8_t *bytes, int64_t size, kolo_npy_array *array);
kolo_status kolo_npy_read(const char *path, kolo_npy_array *array);
/* Reads one array of an archive: "x_train", or "x_train.npy". */
kolo_status kolo_npz_read(const char *path, const char *name, kolo_npy_array *array);

double kolo_npy_number(const kolo_npy_array *array, int64_t i);
/* Type and shape, "float32 {60000, 28, 28}", in a buffer of kolo_phrase(). */
const char *kolo_npy_text(const kolo_npy_array *array);

#endif
