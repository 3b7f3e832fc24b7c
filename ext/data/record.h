/* TFRecord files: records of any bytes, each behind its length and both behind their checksums
 * (tensorflow/core/lib/io/record_writer.h):
 *
 *     8 bytes length   4 bytes masked CRC-32C of the length   the record   4 bytes masked CRC-32C of it
 *
 * all little-endian; the whole file may be compressed by gzip. */
#ifndef KOLO_DATA_RECORD_H
#define KOLO_DATA_RECORD_H

#include "core/file.h"
#include "data/reader.h"

#include <zlib.h>

/* ------------------------------------------------------------------------------------------ reading */

typedef struct kolo_record {
    uint8_t *bytes; /* from malloc, used again for the next; the caller frees the last one */
    int64_t size, room;
    int64_t number; /* of this record in its file, from 0; begin with -1 */
} kolo_record;

/* The next record, its checksums compared; *ended where the file ends before one. */
kolo_status kolo_record_next(kolo_reader *file, kolo_record *record, bool *ended);

/* ------------------------------------------------------------------------------------------ writing */

typedef struct kolo_record_file {
    kolo_file file;
    bool gzip;
    z_stream deflated;
    size_t used;
    uint8_t buffer[1 << 16];
} kolo_record_file;

/* As kolo_file's: whole or not at all. */
kolo_status kolo_record_begin(kolo_record_file *file, const char *path, bool gzip);
kolo_status kolo_record_add(kolo_record_file *file, const void *bytes, size_t size);
kolo_status kolo_record_commit(kolo_record_file *file);
void kolo_record_abandon(kolo_record_file *file);

#endif
