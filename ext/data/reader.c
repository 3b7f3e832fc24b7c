/* Sequential reading of plain, gzip and xz files: see reader.h. */
#include "data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lzma.h>
#include <zlib.h>

#define DEFLATE_RATIO 1032           /* deflate's largest compression ratio (zlib's technical notes) */
#define XZ_MEMORY     (256u << 20)   /* most bytes for a dictionary; `xz -9` needs 65 MiB */
#define FIRST_PIECE   (int64_t)65536 /* bytes that are allocated before anything was read */

struct kolo_reader {
    const char *path;
    int fd;
    int64_t size;
    bool ended, gzip, xz;
    unsigned char *next; /* the unread part of input, `left` bytes */
    size_t left;
    z_stream deflated;
    lzma_stream lzma;
    unsigned char input[1 << 16];
};

const char *kolo_reader_path(const kolo_reader *file)
{
    return file->path;
}

int64_t kolo_reader_size(const kolo_reader *file)
{
    return file->size;
}

bool kolo_reader_compressed(const kolo_reader *file)
{
    return file->gzip || file->xz;
}

int64_t kolo_reader_most(const kolo_reader *file)
{
    int64_t most = file->size;
    if (file->xz || (file->gzip && __builtin_mul_overflow(file->size, DEFLATE_RATIO, &most))) return INT64_MAX;
    return most;
}

/* Reads the next bytes of the file if input is empty; it stays empty at the end of the file. */
static kolo_status fill(kolo_reader *file)
{
    if (file->left > 0) return KOLO_OK;
    ssize_t got;
    do got = read(file->fd, file->input, sizeof file->input);
    while (got < 0 && errno == EINTR);
    if (got < 0) return kolo_fail(KOLO_IO, "%s: reading it failed: %s", file->path, strerror(errno));
    file->next = file->input;
    file->left = (size_t)got;
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ decompressing */

/* Called at the end of a gzip member: the file ends too, or another member begins, or the file is damaged. */
static kolo_status next_member(kolo_reader *file)
{
    KOLO_TRY(fill(file));
    if (file->left == 0) {
        file->ended = true;
        return KOLO_OK;
    }
    if (file->next[0] != 0x1f)
        return kolo_fail(KOLO_FORMAT, "%s: wanted nothing after the gzip data, got more bytes", file->path);
    return inflateReset(&file->deflated) == Z_OK ? KOLO_OK : kolo_fail(KOLO_INTERNAL, "%s: zlib failed", file->path);
}

/* The next three functions read up to *room bytes into target, and decrease *room by what they read. One call may
 * read none, but repeated calls read a byte, reach the end or fail. */
static kolo_status inflate_some(kolo_reader *file, unsigned char *target, size_t *room)
{
    z_stream *stream = &file->deflated;
    uInt part = *room < (1u << 30) ? (uInt)*room : 1u << 30; /* zlib counts in 32 bits */
    KOLO_TRY(fill(file));
    bool dry = file->left == 0;
    stream->next_in = file->next, stream->avail_in = (uInt)file->left;
    stream->next_out = target, stream->avail_out = part;
    int result = inflate(stream, Z_NO_FLUSH);
    file->next = stream->next_in, file->left = stream->avail_in;
    *room -= part - stream->avail_out;
    if (result == Z_STREAM_END) return next_member(file);
    if (result == Z_MEM_ERROR) return kolo_fail_memory(1 << 16, "decompressing");
    if (dry) return kolo_fail(KOLO_FORMAT, "%s: truncated: the gzip data stops before its end", file->path);
    if (result != Z_OK && result != Z_BUF_ERROR)
        return kolo_fail(KOLO_FORMAT, "%s: damaged gzip data (%s)", file->path,
                         stream->msg ? stream->msg : "wrong header");
    return KOLO_OK;
}

static const char *xz_message(lzma_ret result)
{
    switch (result) {
    case LZMA_FORMAT_ERROR: return "wrong header";
    case LZMA_OPTIONS_ERROR: return "options that liblzma does not know";
    case LZMA_MEMLIMIT_ERROR: return "a dictionary of more than 256 MiB";
    default: return "its checks fail";
    }
}

static kolo_status unxz_some(kolo_reader *file, unsigned char *target, size_t *room)
{
    lzma_stream *stream = &file->lzma;
    KOLO_TRY(fill(file));
    bool dry = file->left == 0;
    stream->next_in = file->next, stream->avail_in = file->left;
    stream->next_out = target, stream->avail_out = *room;
    lzma_ret result = lzma_code(stream, dry ? LZMA_FINISH : LZMA_RUN);
    file->next += file->left - stream->avail_in, file->left = stream->avail_in;
    *room = stream->avail_out;
    if (result == LZMA_STREAM_END) file->ended = true;
    else if (result == LZMA_MEM_ERROR) return kolo_fail_memory(XZ_MEMORY, "decompressing");
    else if (result == LZMA_BUF_ERROR)
        return kolo_fail(KOLO_FORMAT, "%s: truncated: the xz data stops before its end", file->path);
    else if (result != LZMA_OK)
        return kolo_fail(KOLO_FORMAT, "%s: damaged xz data (%s)", file->path, xz_message(result));
    return KOLO_OK;
}

static kolo_status copy_some(kolo_reader *file, unsigned char *target, size_t *room)
{
    KOLO_TRY(fill(file));
    size_t count = file->left < *room ? file->left : *room;
    if (file->left == 0) file->ended = true;
    else memcpy(target, file->next, count);
    file->next += count, file->left -= count;
    *room -= count;
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ opening */

static kolo_status start_decoder(kolo_reader *file)
{
    KOLO_TRY(fill(file));
    if (file->left >= 2 && memcmp(file->input, "\x1f\x8b", 2) == 0) {
        if (inflateInit2(&file->deflated, 16 + MAX_WBITS) != Z_OK) return kolo_fail_memory(1 << 16, "decompressing");
        file->gzip = true;
    } else if (file->left >= 6 && memcmp(file->input,
                                         "\xfd"
                                         "7zXZ",
                                         6) == 0) { /* the final 0 is the sixth byte */
        if (lzma_stream_decoder(&file->lzma, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
            return kolo_fail_memory(1 << 16, "decompressing");
        file->xz = true;
    }
    return KOLO_OK;
}

static kolo_status start(kolo_reader *file, const char *what)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0) return kolo_fail(KOLO_IO, "%s: %s", file->path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return kolo_fail(KOLO_FORMAT, "%s: wanted a file, got a folder", file->path);
    if (!S_ISREG(info.st_mode)) return kolo_fail(KOLO_FORMAT, "%s: wanted a file, got a device or a pipe", file->path);
    if (info.st_size == 0) return kolo_fail(KOLO_FORMAT, "%s: wanted %s, got an empty file", file->path, what);
    file->size = info.st_size;
    return start_decoder(file);
}

/* O_NONBLOCK: open() must not block on a pipe without a writer. */
kolo_status kolo_reader_open(kolo_reader **out, const char *path, const char *what)
{
    if (!path || !*path)
        return kolo_fail(KOLO_INVALID, "wanted the name of %s, got %s", what, path ? "an empty one" : "NULL");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        kolo_status code = errno == ENOENT || errno == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO;
        return kolo_fail(code, "%s: wanted a file to read, got: %s", path, strerror(errno));
    }
    kolo_reader *file = calloc(1, sizeof *file);
    if (!file) {
        close(fd);
        return kolo_fail_memory(sizeof *file, "reading a file");
    }
    file->path = path;
    file->fd = fd;
    kolo_status status = start(file, what);
    if (status != KOLO_OK) kolo_reader_close(file);
    else *out = file;
    return status;
}

void kolo_reader_close(kolo_reader *file)
{
    if (!file) return;
    if (file->gzip) inflateEnd(&file->deflated);
    if (file->xz) lzma_end(&file->lzma);
    close(file->fd);
    free(file);
}

/* ------------------------------------------------------------------------------------------ reading */

kolo_status kolo_reader_read(kolo_reader *file, void *target, int64_t wanted, int64_t *got)
{
    size_t room = wanted > 0 ? (size_t)wanted : 0;
    while (room > 0 && !file->ended) {
        unsigned char *at = (unsigned char *)target + ((size_t)wanted - room);
        if (file->gzip) KOLO_TRY(inflate_some(file, at, &room));
        else if (file->xz) KOLO_TRY(unxz_some(file, at, &room));
        else KOLO_TRY(copy_some(file, at, &room));
    }
    *got = wanted - (int64_t)room;
    return KOLO_OK;
}

/* Allocates one byte more than it reads, for kolo_reader_whole(). The memory for a compressed file doubles as it goes:
 * the most that the file can hold is too much to be allocated at once. */
static kolo_status take(kolo_reader *file, int64_t wanted, uint8_t **bytes, int64_t *got)
{
    int64_t most = kolo_reader_most(file), room = 0;
    if (wanted > most) wanted = most;
    for (*got = 0; *got == room && room < wanted;) {
        int64_t larger = !kolo_reader_compressed(file) ? wanted : room ? room * 2 : FIRST_PIECE, more;
        if (larger > wanted) larger = wanted;
        uint8_t *moved = realloc(*bytes, (size_t)larger + 1);
        if (!moved) return kolo_fail_memory((size_t)larger, file->path);
        *bytes = moved;
        room = larger;
        KOLO_TRY(kolo_reader_read(file, *bytes + *got, room - *got, &more));
        *got += more;
    }
    return KOLO_OK;
}

kolo_status kolo_reader_take(kolo_reader *file, int64_t wanted, uint8_t **bytes, int64_t *got)
{
    *bytes = NULL;
    kolo_status status = take(file, wanted, bytes, got);
    if (status != KOLO_OK) free(*bytes), *bytes = NULL;
    return status;
}

kolo_status kolo_reader_finish(kolo_reader *file, const char *after)
{
    unsigned char beyond;
    int64_t more;
    KOLO_TRY(kolo_reader_read(file, &beyond, 1, &more));
    return more ? kolo_fail(KOLO_FORMAT, "%s: wanted nothing after %s, got more bytes", file->path, after) : KOLO_OK;
}

kolo_status kolo_reader_whole(const char *path, const char *what, uint8_t **bytes, int64_t *size)
{
    kolo_reader *file = NULL;
    *bytes = NULL;
    KOLO_TRY(kolo_reader_open(&file, path, what));
    kolo_status status = kolo_reader_take(file, INT64_MAX, bytes, size);
    if (*bytes) (*bytes)[*size] = 0;
    kolo_reader_close(file);
    return status;
}
