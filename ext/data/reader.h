/* Sequential reading of files, which are decompressed if their content, not their name, is that of gzip or xz. The
 * readers of all file formats use it. Memory is allocated only as far as the file can fill it, whatever a header
 * states; and damaged files are reported with a sentence for each kind of damage. */
#ifndef KOLO_DATA_READER_H
#define KOLO_DATA_READER_H

#include "core/error.h"

typedef struct kolo_reader kolo_reader;

/* Opens a regular file that is not empty. `what`: what it should be, for errors: "an IDX file". path must outlive the
 * reader. */
kolo_status kolo_reader_open(kolo_reader **out, const char *path, const char *what);
void kolo_reader_close(kolo_reader *file); /* takes NULL */

const char *kolo_reader_path(const kolo_reader *file);
int64_t kolo_reader_size(const kolo_reader *file);     /* bytes on disk */
bool kolo_reader_compressed(const kolo_reader *file);
/* The most bytes that the file can hold, decompressed: exact if plain, an upper bound for gzip, INT64_MAX for xz. */
int64_t kolo_reader_most(const kolo_reader *file);

/* Reads up to `wanted` bytes into target; fewer only at the end of the file. */
kolo_status kolo_reader_read(kolo_reader *file, void *target, int64_t wanted, int64_t *got);
/* The same into memory from malloc. Allocates what is wanted at once, but not more than a plain file has; of a
 * compressed file at most twice what was read, or 64 KiB. *bytes is NULL on failure, and may be NULL if nothing was
 * read. */
kolo_status kolo_reader_take(kolo_reader *file, int64_t wanted, uint8_t **bytes, int64_t *got);
/* Fails if more bytes follow. `after`: what they follow, for the error. */
kolo_status kolo_reader_finish(kolo_reader *file, const char *after);

/* Reads a whole file into *bytes, from malloc, followed by a 0 that *size does not count. */
kolo_status kolo_reader_whole(const char *path, const char *what, uint8_t **bytes, int64_t *size);

#endif
