/* Named arrays in a file, in the format that PyTorch's and Hugging Face's tools read: weights and optimizer state.
 *
 * safetensors (huggingface.co/docs/safetensors): eight bytes, little-endian, say how long the header is; the header is
 * JSON, padded with spaces; then the arrays lie one after the other. {"name": {"dtype": "F32", "shape": [3, 3, 1, 32],
 * "data_offsets": [begin, end]}, …, "__metadata__": {"key": "text", …}}. */
#ifndef KOLO_SAVING_SAFETENSORS_H
#define KOLO_SAVING_SAFETENSORS_H

#include "core/error.h"
#include "core/shape.h"

#include <jansson.h>

/* An array to be written, of float32. */
typedef struct kolo_array {
    const char *name;
    kolo_shape shape;
    const float *values;
} kolo_array;

/* Writes the file whole or not at all. metadata: an object of strings, borrowed. Equal arrays and metadata give equal
 * files, byte for byte. Two arrays of one name, or a name that is no UTF-8, are refused. */
kolo_status kolo_safetensors_write(const char *path, const kolo_array *arrays, int count, json_t *metadata);

/* A file that is read: its header is known to be sound. */
typedef struct kolo_safetensors {
    const char *path; /* the caller's */
    int fd;
    json_t *header;
    int64_t data, size; /* where the arrays begin; their bytes */
} kolo_safetensors;

/* On failure there is nothing to close. */
kolo_status kolo_safetensors_open(kolo_safetensors *from, const char *path);
void kolo_safetensors_close(kolo_safetensors *from);

/* A text of the metadata, or NULL. Belongs to the open file. */
const char *kolo_safetensors_text(const kolo_safetensors *from, const char *key);

/* Whether the file has an array of that name, and one of that shape. */
bool kolo_safetensors_has(const kolo_safetensors *from, const char *name);
bool kolo_safetensors_fits(const kolo_safetensors *from, const char *name, kolo_shape shape);
/* Its shape, as a sentence shows it: "{3, 3, 1, 32}". */
const char *kolo_safetensors_shape(const kolo_safetensors *from, const char *name);

/* The array's values, as float32: of dtype F32, or F16, BF16, F64 converted. One that is not there, or of another shape
 * or dtype, fails with a sentence. */
kolo_status kolo_safetensors_read(const kolo_safetensors *from, const char *name, kolo_shape shape, float *values);

#endif
