/* TFRecord files: a sequence of records of any bytes (tensorflow/core/lib/io/record_writer.h), each stored as
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
    uint8_t *bytes; /* from malloc, reused for the next record; freed by the caller */
    int64_t size, room;
    int64_t number; /* of this record in its file, from 0; the caller sets it to -1 before the first */
} kolo_record;

/* Reads the next record and compares its checksums. *ended: the file ended instead. */
kolo_status kolo_record_next(kolo_reader *file, kolo_record *record, bool *ended);

/* ------------------------------------------------------------------------------------------ writing */

typedef struct kolo_record_file {
    kolo_file file;
    bool gzip;
    z_stream deflated;
    size_t used;
    uint8_t buffer[1 << 16];
} kolo_record_file;

/* Like kolo_file: the file appears whole or not at all. */
kolo_status kolo_record_begin(kolo_record_file *file, const char *path, bool gzip);
kolo_status kolo_record_add(kolo_record_file *file, const void *bytes, size_t size);
kolo_status kolo_record_commit(kolo_record_file *file);
void kolo_record_abandon(kolo_record_file *file);

#endif
