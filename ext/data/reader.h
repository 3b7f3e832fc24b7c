/* Files read from front to back, decompressed on the way where they are gzip or xz (told by content, not by name).
 * What every format's reader stands on: nothing is allocated because a header promises it, only as far as the file can
 * hold it; and each way in which a file can be damaged is one sentence. */
#ifndef KOLO_DATA_READER_H
#define KOLO_DATA_READER_H

#include "core/error.h"

typedef struct kolo_reader kolo_reader;

/* Opens a regular file that is not empty. `what` it should be, for sentences: "an IDX file". path must outlive it. */
kolo_status kolo_reader_open(kolo_reader **out, const char *path, const char *what);
void kolo_reader_close(kolo_reader *file); /* takes NULL */

const char *kolo_reader_path(const kolo_reader *file);
int64_t kolo_reader_size(const kolo_reader *file);     /* bytes on disk */
bool kolo_reader_compressed(const kolo_reader *file);
/* The most bytes that the file can give: exact when it is not compressed, INT64_MAX when nothing is known. */
int64_t kolo_reader_most(const kolo_reader *file);

/* Up to `wanted` bytes into target; fewer only where the file ends. */
kolo_status kolo_reader_read(kolo_reader *file, void *target, int64_t wanted, int64_t *got);
/* The same into memory from malloc, no more of it than arrives twice over; *bytes is NULL on failure, and may be where
 * nothing was got. */
kolo_status kolo_reader_take(kolo_reader *file, int64_t wanted, uint8_t **bytes, int64_t *got);
/* Exactly `wanted` bytes, or the sentence that the file is truncated in `part` ("the labels"). */
kolo_status kolo_reader_exactly(kolo_reader *file, void *target, int64_t wanted, const char *part);
/* Nothing may follow. `after` what, for the sentence. */
kolo_status kolo_reader_finish(kolo_reader *file, const char *after);

/* A whole file, with a 0 behind it that size does not count; *bytes is from malloc. */
kolo_status kolo_reader_whole(const char *path, const char *what, uint8_t **bytes, int64_t *size);

#endif
