/* Any bytes as a TFRecord file, or as the examples in one, with right checksums: the first byte says which, and how
 * they are read. A byte 254 ends an example. */
#include "harness.h"

#include "core/crc32c.h"
#include "data/sources.h"

/* A record around bytes. Returns its size. */
static size_t frame(uint8_t *target, const uint8_t *bytes, size_t size)
{
    uint32_t crc;
    memset(target, 0, 8);
    for (int i = 0; i < 4; i++) target[i] = (uint8_t)(size >> 8 * i);
    crc = kolo_crc32c_masked(target, 8);
    memcpy(target + 8, &crc, 4);
    memcpy(target + 12, bytes, size);
    crc = kolo_crc32c_masked(bytes, size);
    memcpy(target + 12 + size, &crc, 4);
    return size + 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    uint8_t how = *bytes++, *file = malloc(17 * size + 32);
    size_t used = 0;
    size--;
    if (how & 1) memcpy(file, bytes, used = size);
    else
        for (size_t at = 0; at <= size;) {
            const uint8_t *end = memchr(bytes + at, 254, size - at);
            size_t length = end ? (size_t)(end - bytes) - at : size - at;
            used += frame(file + used, bytes + at, length);
            at += length + 1;
        }
    kolo_tfrecord_args args = {.path = as_file(0, file, used), .tokens = how & 2, .no_label = how & 4};
    if (how & 8) args.features[0] = "a", args.features[1] = "b";
    if (how & 16) args.shape[0] = 2, args.shape[1] = 3;
    kolo_arrays arrays = {0};
    kolo_status status = kolo_tfrecord_read(&arrays, &args);
    check_read(status, &arrays);
    free(file);
    return 0;
}
