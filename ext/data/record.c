/* TFRecord files: see record.h. */
#include "data/record.h"
#include "core/crc32c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER      12
#define FOOTER      4
#define LARGEST     (int64_t)INT32_MAX /* bytes of a record: the limit of protobuf's messages */
#define FIRST_PIECE (int64_t)65536     /* bytes that are allocated before any of a record was read */

static void put_32(uint8_t *target, uint32_t value)
{
    for (int i = 0; i < 4; i++) target[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get_32(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* ------------------------------------------------------------------------------------------ reading */

static kolo_status damaged(const kolo_reader *file, const kolo_record *record, const char *what)
{
    return kolo_fail(KOLO_FORMAT, "%s: record %" PRId64 ": %s", kolo_reader_path(file), record->number, what);
}

/* Reads a record's length and compares its checksum, which random bytes match once in 2³² times. */
static kolo_status read_length(kolo_reader *file, kolo_record *record, bool *ended)
{
    uint8_t header[HEADER];
    int64_t got;
    KOLO_TRY(kolo_reader_read(file, header, HEADER, &got));
    *ended = got == 0;
    if (*ended) return KOLO_OK;
    if (got < HEADER) return damaged(file, record, "truncated: the file stops within its length");
    if (kolo_crc32c_masked(header, 8) != get_32(header + 8))
        return damaged(file, record,
                       record->number ? "damaged: its length has another checksum"
                                      : "not a TFRecord file, or damaged: its length has another checksum");
    uint64_t size = get_32(header) | (uint64_t)get_32(header + 4) << 32;
    if (size > (uint64_t)LARGEST)
        return kolo_fail(KOLO_FORMAT, "%s: record %" PRId64 ": wanted at most %" PRId64 " bytes, got %" PRIu64,
                         kolo_reader_path(file), record->number, LARGEST, size);
    record->size = (int64_t)size;
    return KOLO_OK;
}

/* Reads the record and its checksum, into memory that grows as bytes are read, since the length may be wrong. */
static kolo_status read_body(kolo_reader *file, kolo_record *record)
{
    int64_t wanted = record->size + FOOTER, got = 0, more;
    while (got < wanted) {
        int64_t room = got ? got * 2 : FIRST_PIECE;
        if (room > wanted) room = wanted;
        if (room > record->room) {
            uint8_t *moved = realloc(record->bytes, (size_t)room);
            if (!moved) return kolo_fail_memory((size_t)room, "a record");
            record->bytes = moved, record->room = room;
        } else room = record->room < wanted ? record->room : wanted;
        KOLO_TRY(kolo_reader_read(file, record->bytes + got, room - got, &more));
        got += more;
        if (got < room) return damaged(file, record, "truncated: the file stops within it");
    }
    if (kolo_crc32c_masked(record->bytes, (size_t)record->size) != get_32(record->bytes + record->size))
        return damaged(file, record, "damaged: it has another checksum");
    return KOLO_OK;
}

kolo_status kolo_record_next(kolo_reader *file, kolo_record *record, bool *ended)
{
    record->number++;
    KOLO_TRY(read_length(file, record, ended));
    return *ended ? KOLO_OK : read_body(file, record);
}

/* ------------------------------------------------------------------------------------------ writing */

kolo_status kolo_record_begin(kolo_record_file *file, const char *path, bool gzip)
{
    KOLO_TRY(kolo_file_begin(&file->file, path));
    file->gzip = gzip;
    file->used = 0;
    file->deflated = (z_stream){0};
    if (!gzip) return KOLO_OK;
    if (deflateInit2(&file->deflated, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK)
        return KOLO_OK;
    kolo_file_abandon(&file->file);
    return kolo_fail_memory(1 << 18, "compressing");
}

static kolo_status flush(kolo_record_file *file)
{
    size_t size = file->used;
    file->used = 0;
    return kolo_file_add(&file->file, file->buffer, size);
}

static kolo_status deflate_bytes(kolo_record_file *file, const uint8_t *bytes, size_t size, bool finish)
{
    z_stream *stream = &file->deflated;
    int result = Z_OK;
    stream->next_in = (z_const Bytef *)bytes, stream->avail_in = (uInt)size;
    while (stream->avail_in > 0 || (finish && result != Z_STREAM_END)) {
        stream->next_out = file->buffer + file->used, stream->avail_out = (uInt)(sizeof file->buffer - file->used);
        result = deflate(stream, finish ? Z_FINISH : Z_NO_FLUSH);
        if (result == Z_STREAM_ERROR) return kolo_fail(KOLO_INTERNAL, "%s: zlib failed", file->file.path);
        file->used = sizeof file->buffer - stream->avail_out;
        if (file->used == sizeof file->buffer) KOLO_TRY(flush(file));
    }
    return KOLO_OK;
}

static kolo_status add_bytes(kolo_record_file *file, const uint8_t *bytes, size_t size)
{
    if (file->gzip) return deflate_bytes(file, bytes, size, false);
    if (size > sizeof file->buffer - file->used) KOLO_TRY(flush(file));
    if (size > sizeof file->buffer) return kolo_file_add(&file->file, bytes, size);
    memcpy(file->buffer + file->used, bytes, size);
    file->used += size;
    return KOLO_OK;
}

kolo_status kolo_record_add(kolo_record_file *file, const void *bytes, size_t size)
{
    uint8_t header[HEADER], footer[FOOTER];
    if (size > (size_t)LARGEST)
        return kolo_fail(KOLO_UNSUPPORTED, "%s: wanted records of at most %" PRId64 " bytes, got %zu", file->file.path,
                         LARGEST, size);
    put_32(header, (uint32_t)size);
    put_32(header + 4, 0);
    put_32(header + 8, kolo_crc32c_masked(header, 8));
    put_32(footer, kolo_crc32c_masked(bytes, size));
    KOLO_TRY(add_bytes(file, header, HEADER));
    KOLO_TRY(add_bytes(file, bytes, size));
    return add_bytes(file, footer, FOOTER);
}

kolo_status kolo_record_commit(kolo_record_file *file)
{
    kolo_status status = file->gzip ? deflate_bytes(file, NULL, 0, true) : KOLO_OK;
    if (status == KOLO_OK) status = flush(file);
    if (status != KOLO_OK) kolo_file_abandon(&file->file);
    else status = kolo_file_commit(&file->file);
    if (file->gzip) deflateEnd(&file->deflated);
    return status;
}

void kolo_record_abandon(kolo_record_file *file)
{
    kolo_file_abandon(&file->file);
    if (file->gzip) deflateEnd(&file->deflated);
}
