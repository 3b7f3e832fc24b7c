/* IDX files, plain or compressed by gzip, as MNIST and Fashion-MNIST come: two zero bytes, the element type, the
 * number of dimensions, each dimension as a big-endian 32-bit number, then the elements, the last dimension fastest
 * (Y. LeCun, C. Cortes, C. Burges, "The MNIST database").
 *
 * Nothing in a file is believed before it is checked: no more is allocated than the file can hold. */
#include "data/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define IDX_UNSIGNED_BYTE 0x08
#define DEFLATE_RATIO     1032 /* deflate never shrinks further (zlib's technical notes) */

/* A file being read, decompressed on the way if it is gzip. */
typedef struct reader {
    const char *path;
    int fd;
    int64_t size; /* of the file on disk */
    bool gzip, ended;
    z_stream stream; /* its next_in and avail_in are the unread part of input, gzip or not */
    unsigned char input[1 << 16];
} reader;

typedef struct header {
    int rank;
    int64_t dim[4];
    int64_t bytes; /* the product of the dimensions */
} header;

/* ------------------------------------------------------------------------------------------ bytes */

static kolo_status reader_fill(reader *file)
{
    if (file->stream.avail_in > 0) return KOLO_OK;
    ssize_t got;
    do got = read(file->fd, file->input, sizeof file->input);
    while (got < 0 && errno == EINTR);
    if (got < 0) return kolo_fail(KOLO_IO, "%s: reading it failed: %s", file->path, strerror(errno));
    file->stream.next_in = file->input;
    file->stream.avail_in = (uInt)got;
    return KOLO_OK;
}

/* A member of a gzip file has ended: the file ends too, or another member begins, or it is damaged. */
static kolo_status reader_next_member(reader *file)
{
    KOLO_TRY(reader_fill(file));
    if (file->stream.avail_in == 0) {
        file->ended = true;
        return KOLO_OK;
    }
    if (file->stream.next_in[0] != 0x1f)
        return kolo_fail(KOLO_FORMAT, "%s: wanted nothing after the gzip data, got more bytes", file->path);
    return inflateReset(&file->stream) == Z_OK ? KOLO_OK : kolo_fail(KOLO_INTERNAL, "%s: zlib failed", file->path);
}

static kolo_status reader_inflate(reader *file)
{
    KOLO_TRY(reader_fill(file));
    bool dry = file->stream.avail_in == 0;
    int result = inflate(&file->stream, Z_NO_FLUSH);
    if (result == Z_STREAM_END) return reader_next_member(file);
    if (result == Z_MEM_ERROR) return kolo_fail_memory(1 << 16, "decompressing");
    if (dry) return kolo_fail(KOLO_FORMAT, "%s: truncated: the gzip data stops before its end", file->path);
    if (result != Z_OK && result != Z_BUF_ERROR)
        return kolo_fail(KOLO_FORMAT, "%s: damaged gzip data (%s)", file->path,
                         file->stream.msg ? file->stream.msg : "wrong header");
    return KOLO_OK;
}

static kolo_status reader_copy(reader *file)
{
    z_stream *stream = &file->stream;
    KOLO_TRY(reader_fill(file));
    uInt count = stream->avail_in < stream->avail_out ? stream->avail_in : stream->avail_out;
    if (stream->avail_in == 0) file->ended = true;
    else memcpy(stream->next_out, stream->next_in, count);
    stream->next_in += count, stream->avail_in -= count;
    stream->next_out += count, stream->avail_out -= count;
    return KOLO_OK;
}

/* Fewer than wanted only where the file ends. */
static kolo_status reader_read(reader *file, unsigned char *target, int64_t wanted, int64_t *got)
{
    for (*got = 0; *got < wanted && !file->ended;) {
        int64_t part = wanted - *got < (1 << 30) ? wanted - *got : 1 << 30; /* zlib counts in 32 bits */
        file->stream.next_out = target + *got;
        file->stream.avail_out = (uInt)part;
        KOLO_TRY(file->gzip ? reader_inflate(file) : reader_copy(file));
        *got += part - file->stream.avail_out;
    }
    return KOLO_OK;
}

static kolo_status reader_start(reader *file)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0) return kolo_fail(KOLO_IO, "%s: %s", file->path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return kolo_fail(KOLO_FORMAT, "%s: wanted a file, got a folder", file->path);
    if (!S_ISREG(info.st_mode)) return kolo_fail(KOLO_FORMAT, "%s: wanted a file, got a device or a pipe", file->path);
    if (info.st_size == 0) return kolo_fail(KOLO_FORMAT, "%s: wanted an IDX file, got an empty file", file->path);
    file->size = info.st_size;
    KOLO_TRY(reader_fill(file));
    file->gzip = file->stream.avail_in >= 2 && file->input[0] == 0x1f && file->input[1] == 0x8b;
    if (file->gzip && inflateInit2(&file->stream, 16 + MAX_WBITS) != Z_OK) {
        file->gzip = false; /* nothing for inflateEnd */
        return kolo_fail_memory(1 << 16, "decompressing");
    }
    return KOLO_OK;
}

/* O_NONBLOCK: opening a pipe that nobody writes must not hang. */
static kolo_status reader_open(reader **out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        kolo_status code = errno == ENOENT || errno == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO;
        return kolo_fail(code, "%s: wanted a file to read, got: %s", path, strerror(errno));
    }
    reader *file = calloc(1, sizeof *file);
    if (!file) {
        close(fd);
        return kolo_fail_memory(sizeof *file, "reading a file");
    }
    file->path = path;
    file->fd = fd;
    *out = file;
    return reader_start(file);
}

static void reader_close(reader *file)
{
    if (!file) return;
    if (file->gzip) inflateEnd(&file->stream);
    close(file->fd);
    free(file);
}

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

static kolo_status read_dimensions(reader *file, header *head)
{
    unsigned char bytes[16];
    int64_t got, wanted = 4 * head->rank;
    KOLO_TRY(reader_read(file, bytes, wanted, &got));
    if (got < wanted)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: wanted a header of %" PRId64 " bytes, got %" PRId64, file->path,
                         wanted + 4, got + 4);
    bool overflow = false;
    head->bytes = 1;
    for (int axis = 0; axis < head->rank; axis++) {
        const unsigned char *b = bytes + 4 * axis;
        head->dim[axis] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
        overflow |= __builtin_mul_overflow(head->bytes, head->dim[axis], &head->bytes);
        if (head->dim[axis] > INT32_MAX) overflow = true;
    }
    if (head->dim[0] == 0) return kolo_fail(KOLO_FORMAT, "%s: wanted at least one sample, got none", file->path);
    if (overflow)
        return kolo_fail(KOLO_FORMAT,
                         "%s: wanted dimensions that a file can hold, got %" PRId64 " × %" PRId64 " × %" PRId64 "%s",
                         file->path, head->dim[0], head->dim[1], head->dim[2], head->rank == 4 ? " × …" : "");
    if (head->bytes == 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted images of at least one pixel, got none", file->path);
    return KOLO_OK;
}

/* What the header claims against what the file can hold. */
static kolo_status check_size(const reader *file, const header *head)
{
    int64_t wanted = 4 + 4 * head->rank + head->bytes;
    if (file->gzip && wanted / DEFLATE_RATIO > file->size)
        return kolo_fail(KOLO_FORMAT,
                         "%s: its header promises %" PRId64 " bytes, more than %" PRId64 " compressed bytes can hold",
                         file->path, wanted, file->size);
    if (!file->gzip && file->size < wanted)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: wanted %" PRId64 " bytes, got %" PRId64, file->path, wanted,
                         file->size);
    if (!file->gzip && file->size > wanted)
        return kolo_fail(KOLO_FORMAT, "%s: wanted %" PRId64 " bytes, got %" PRId64 ": something follows the data",
                         file->path, wanted, file->size);
    return KOLO_OK;
}

static kolo_status read_header(reader *file, header *head, int ranks[2], const char *what)
{
    unsigned char magic[4];
    int64_t got;
    KOLO_TRY(reader_read(file, magic, 4, &got));
    if (got < 4)
        return kolo_fail(KOLO_FORMAT, "%s: not an IDX file: wanted at least 4 bytes, got %" PRId64, file->path, got);
    KOLO_TRY(check_magic(file->path, magic, ranks, what));
    head->rank = magic[3];
    KOLO_TRY(read_dimensions(file, head));
    return check_size(file, head);
}

static kolo_status read_elements(reader *file, const header *head, uint8_t *bytes)
{
    int64_t got, more;
    uint8_t beyond;
    KOLO_TRY(reader_read(file, bytes, head->bytes, &got));
    if (got < head->bytes)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: wanted %" PRId64 " bytes of data, got %" PRId64, file->path,
                         head->bytes, got);
    KOLO_TRY(reader_read(file, &beyond, 1, &more));
    if (more) return kolo_fail(KOLO_FORMAT, "%s: wanted %" PRId64 " bytes of data, got more", file->path, head->bytes);
    return KOLO_OK;
}

/* The whole file; *bytes is from malloc. */
static kolo_status read_file(const char *path, int ranks[2], const char *what, header *head, uint8_t **bytes)
{
    reader *file = NULL;
    kolo_status status;
    *bytes = NULL;
    KOLO_GO(done, reader_open(&file, path));
    KOLO_GO(done, read_header(file, head, ranks, what));
    if (!(*bytes = malloc((size_t)head->bytes))) KOLO_GO(done, kolo_fail_memory((size_t)head->bytes, path));
    KOLO_GO(done, read_elements(file, head, *bytes));
done:
    if (status != KOLO_OK) free(*bytes), *bytes = NULL;
    reader_close(file);
    return status;
}

static kolo_status read_labels(const char *path, int64_t samples, const char *images, int32_t **out)
{
    header head;
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

kolo_status kolo_idx_read(kolo_data **out, const char *images, const char *labels)
{
    header head;
    uint8_t *bytes;
    int32_t *numbers;
    if (!images || !labels) return kolo_fail(KOLO_INVALID, "wanted a file of images and one of labels, got NULL");
    KOLO_TRY(read_file(images, (int[]){3, 4}, "images (3 or 4 dimensions)", &head, &bytes));
    kolo_status status = KOLO_OK;
    if (head.bytes / head.dim[0] > INT32_MAX)
        status = kolo_fail(KOLO_FORMAT, "%s: wanted images of at most %d bytes each, got %" PRId64, images, INT32_MAX,
                           head.bytes / head.dim[0]);
    if (status == KOLO_OK) status = read_labels(labels, head.dim[0], images, &numbers);
    if (status != KOLO_OK) {
        free(bytes);
        return status;
    }
    kolo_shape shape = {3, {(int)head.dim[1], (int)head.dim[2], head.rank == 4 ? (int)head.dim[3] : 1}};
    KOLO_TRY(kolo_data_own(out, bytes, NULL, numbers, head.dim[0], shape, 0));
    snprintf((*out)->source, sizeof(*out)->source, "%s", images);
    return KOLO_OK;
}

kolo_data *kolo_idx_at(const char *images, const char *labels, kolo_here here)
{
    kolo_data *data = NULL;
    kolo_scope scope = kolo_enter("kolo_idx", here);
    return kolo_leave(scope, kolo_idx_read(&data, images, labels)) == KOLO_OK ? data : NULL;
}
