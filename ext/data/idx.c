/* IDX files, the format of MNIST and Fashion-MNIST, plain or compressed by gzip or xz: two zero bytes, the element
 * type, the number of dimensions, each dimension as a big-endian 32-bit number, then the elements, the last dimension
 * fastest (Y. LeCun, C. Cortes, C. Burges, "The MNIST database").
 *
 * A header is checked before memory is allocated: never more than the file can hold. */
#include "data/reader.h"
#include "data/sources.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define IDX_UNSIGNED_BYTE 0x08

typedef struct header {
    int rank;
    int64_t dim[4];
    int64_t bytes; /* the product of the dimensions */
} header;

/* ------------------------------------------------------------------------------------------ the format */

static const char *element_name(int type)
{
    switch (type) {
    case 0x09: return "signed bytes";
    case 0x0b: return "16-bit integers";
    case 0x0c: return "32-bit integers";
    case 0x0d: return "32-bit floats";
    case 0x0e: return "64-bit floats";
    default: return "an unknown type";
    }
}

static kolo_status check_magic(const char *path, const unsigned char magic[4], int ranks[2], const char *what)
{
    if (magic[0] != 0 || magic[1] != 0)
        return kolo_fail(KOLO_FORMAT,
                         "%s: not an IDX file: wanted the magic number 0x0000%02x%02x, got 0x%02x%02x%02x%02x", path,
                         IDX_UNSIGNED_BYTE, ranks[0], magic[0], magic[1], magic[2], magic[3]);
    if (magic[2] != IDX_UNSIGNED_BYTE)
        return kolo_fail(KOLO_FORMAT, "%s: wanted unsigned bytes (element type 0x%02x), got %s (0x%02x)", path,
                         IDX_UNSIGNED_BYTE, element_name(magic[2]), magic[2]);
    if (magic[3] != ranks[0] && magic[3] != ranks[1])
        return kolo_fail(KOLO_FORMAT, "%s: wanted %s, got an array of %d dimensions", path, what, magic[3]);
    return KOLO_OK;
}

static kolo_status read_dimensions(kolo_reader *file, header *head)
{
    const char *path = kolo_reader_path(file);
    unsigned char bytes[16];
    int64_t got, wanted = 4 * head->rank;
    KOLO_TRY(kolo_reader_read(file, bytes, wanted, &got));
    if (got < wanted)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: wanted a header of %" PRId64 " bytes, got %" PRId64, path,
                         wanted + 4, got + 4);
    bool overflow = false;
    head->bytes = 1;
    for (int axis = 0; axis < head->rank; axis++) {
        const unsigned char *b = bytes + 4 * axis;
        head->dim[axis] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
        overflow |= __builtin_mul_overflow(head->bytes, head->dim[axis], &head->bytes);
        if (head->dim[axis] > INT32_MAX) overflow = true;
    }
    if (head->dim[0] == 0) return kolo_fail(KOLO_FORMAT, "%s: wanted at least one sample, got none", path);
    if (overflow)
        return kolo_fail(KOLO_FORMAT,
                         "%s: wanted dimensions that a file can hold, got %" PRId64 " × %" PRId64 " × %" PRId64 "%s",
                         path, head->dim[0], head->dim[1], head->dim[2], head->rank == 4 ? " × …" : "");
    if (head->bytes == 0) return kolo_fail(KOLO_FORMAT, "%s: wanted images of at least one pixel, got none", path);
    return KOLO_OK;
}

/* Compares the size that the header states with what the file can hold. */
static kolo_status check_size(const kolo_reader *file, const header *head)
{
    const char *path = kolo_reader_path(file);
    int64_t wanted = 4 + 4 * head->rank + head->bytes;
    if (kolo_reader_compressed(file) && wanted > kolo_reader_most(file))
        return kolo_fail(KOLO_FORMAT,
                         "%s: its header promises %" PRId64 " bytes, more than %" PRId64 " compressed bytes can hold",
                         path, wanted, kolo_reader_size(file));
    if (!kolo_reader_compressed(file) && kolo_reader_size(file) < wanted)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: wanted %" PRId64 " bytes, got %" PRId64, path, wanted,
                         kolo_reader_size(file));
    if (!kolo_reader_compressed(file) && kolo_reader_size(file) > wanted)
        return kolo_fail(KOLO_FORMAT, "%s: wanted %" PRId64 " bytes, got %" PRId64 ": something follows the data", path,
                         wanted, kolo_reader_size(file));
    return KOLO_OK;
}

static kolo_status read_header(kolo_reader *file, header *head, int ranks[2], const char *what)
{
    const char *path = kolo_reader_path(file);
    unsigned char magic[4];
    int64_t got;
    KOLO_TRY(kolo_reader_read(file, magic, 4, &got));
    if (got < 4) return kolo_fail(KOLO_FORMAT, "%s: not an IDX file: wanted at least 4 bytes, got %" PRId64, path, got);
    KOLO_TRY(check_magic(path, magic, ranks, what));
    head->rank = magic[3];
    KOLO_TRY(read_dimensions(file, head));
    return check_size(file, head);
}

static kolo_status read_elements(kolo_reader *file, const header *head, uint8_t **bytes)
{
    const char *path = kolo_reader_path(file);
    int64_t got, more;
    uint8_t beyond;
    KOLO_TRY(kolo_reader_take(file, head->bytes, bytes, &got));
    if (got < head->bytes)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: wanted %" PRId64 " bytes of data, got %" PRId64, path,
                         head->bytes, got);
    KOLO_TRY(kolo_reader_read(file, &beyond, 1, &more));
    if (more) return kolo_fail(KOLO_FORMAT, "%s: wanted %" PRId64 " bytes of data, got more", path, head->bytes);
    return KOLO_OK;
}

/* Reads a whole file; *bytes is from malloc. ranks: the two numbers of dimensions that are accepted. */
static kolo_status read_file(const char *path, int ranks[2], const char *what, header *head, uint8_t **bytes)
{
    kolo_reader *file = NULL;
    kolo_status status;
    *bytes = NULL;
    KOLO_GO(done, kolo_reader_open(&file, path, "an IDX file"));
    KOLO_GO(done, read_header(file, head, ranks, what));
    KOLO_GO(done, read_elements(file, head, bytes));
done:
    if (status != KOLO_OK) free(*bytes), *bytes = NULL;
    kolo_reader_close(file);
    return status;
}

static kolo_status read_labels(const char *path, int64_t samples, const char *images, int32_t **out)
{
    header head = {0};
    uint8_t *bytes;
    KOLO_TRY(read_file(path, (int[]){1, 1}, "labels (1 dimension)", &head, &bytes));
    kolo_status status = KOLO_OK;
    int32_t *labels = NULL;
    if (head.dim[0] != samples)
        status = kolo_fail(KOLO_FORMAT, "%s: wanted %" PRId64 " labels, one for each image of %s, got %" PRId64, path,
                           samples, images, head.dim[0]);
    else if (!(labels = malloc(sizeof *labels * (size_t)samples)))
        status = kolo_fail_memory(sizeof *labels * (size_t)samples, "the labels");
    for (int64_t i = 0; labels && i < samples; i++) labels[i] = bytes[i];
    free(bytes);
    *out = labels;
    return status;
}

kolo_status kolo_idx_read(kolo_arrays *arrays, const char *images, const char *labels)
{
    header head = {0};
    if (!images || !labels) return kolo_fail(KOLO_INVALID, "wanted a file of images and one of labels, got NULL");
    KOLO_TRY(read_file(images, (int[]){3, 4}, "images (3 or 4 dimensions)", &head, &arrays->bytes));
    if (head.bytes / head.dim[0] > INT32_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted images of at most %d bytes each, got %" PRId64, images, INT32_MAX,
                         head.bytes / head.dim[0]);
    KOLO_TRY(read_labels(labels, head.dim[0], images, &arrays->labels));
    arrays->samples = head.dim[0];
    arrays->shape = (kolo_shape){3, {(int)head.dim[1], (int)head.dim[2], head.rank == 4 ? (int)head.dim[3] : 1}};
    arrays->scale = 1.0f / 255.0f;
    arrays->label_count = 1;
    snprintf(arrays->source, sizeof arrays->source, "%s", images);
    return KOLO_OK;
}

kolo_data *kolo_idx_at(const char *images, const char *labels, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_idx", here);
    return kolo_arrays_leave(scope, kolo_idx_read(&arrays, images, labels), &arrays);
}
