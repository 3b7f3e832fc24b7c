/* Named arrays in a file, for weights and optimizer state, in a format that PyTorch's and Hugging Face's tools read.
 *
 * safetensors (huggingface.co/docs/safetensors): eight bytes, little-endian, hold the length of the header; the
 * header is JSON, padded with spaces; the arrays follow, one after the other. Header: {"name": {"dtype": "F32",
 * "shape": [3, 3, 1, 32], "data_offsets": [begin, end]}, …, "__metadata__": {"key": "text", …}}. */
#ifndef KOLO_SAVING_SAFETENSORS_H
#define KOLO_SAVING_SAFETENSORS_H

#include "core/error.h"
#include "core/shape.h"

#include <jansson.h>

/* An array of float32 to be written. */
typedef struct kolo_array {
    const char *name;
    kolo_shape shape;
    const float *values;
} kolo_array;

/* Writes the file whole or not at all. metadata: an object of strings; the caller keeps its reference. Equal arrays
 * and metadata give the same bytes. Fails if two arrays have the same name, or a name is not UTF-8. */
kolo_status kolo_safetensors_write(const char *path, const kolo_array *arrays, int count, json_t *metadata);

/* A file that is open for reading. Its header was checked. */
typedef struct kolo_safetensors {
    const char *path; /* the caller's */
    int fd;
    json_t *header;
    int64_t data, size; /* offset of the arrays in the file; bytes of the arrays */
} kolo_safetensors;

/* Opens a file and checks its header. On failure there is nothing to close. */
kolo_status kolo_safetensors_open(kolo_safetensors *from, const char *path);
void kolo_safetensors_close(kolo_safetensors *from);

/* A string of the metadata, or NULL. Valid until the file is closed. */
const char *kolo_safetensors_text(const kolo_safetensors *from, const char *key);

/* Whether the file has an array of that name; of that name and shape. */
bool kolo_safetensors_has(const kolo_safetensors *from, const char *name);
bool kolo_safetensors_fits(const kolo_safetensors *from, const char *name, kolo_shape shape);
/* The array's shape as text for an error: "{3, 3, 1, 32}". */
const char *kolo_safetensors_shape(const kolo_safetensors *from, const char *name);

/* Reads an array of dtype F32, F16, BF16 or F64 as float32. Fails if there is none of that name, or it has another
 * shape or dtype. */
kolo_status kolo_safetensors_read(const kolo_safetensors *from, const char *name, kolo_shape shape, float *values);

#endif
