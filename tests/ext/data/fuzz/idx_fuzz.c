/* Any bytes as two IDX files; the first two say where the second begins. */
#include "harness.h"

#include "data/sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 2) return 0;
    size_t first = bytes[0] | (size_t)bytes[1] << 8;
    bytes += 2, size -= 2;
    if (first > size) first = size;
    const char *images = as_file(0, bytes, first), *labels = as_file(1, bytes + first, size - first);
    kolo_arrays arrays = {0};
    kolo_status status = kolo_idx_read(&arrays, images, labels);
    check_read(status, &arrays);
    return 0;
}
