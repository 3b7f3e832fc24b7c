/* Any bytes as a text; the first says how it is read. */
#include "harness.h"

#include "data/sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    uint8_t how = bytes[0];
    kolo_text_args args = {.path = as_file(0, bytes + 1, size - 1),
                           .length = 1 + (how >> 5),
                           .vocabulary = how & 1 ? 5 : 0,
                           .continuous = how & 2,
                           .characters = how & 4,
                           .punctuation = (kolo_punctuation)(how >> 3 & 3)};
    kolo_arrays arrays = {0};
    kolo_status status = kolo_text_read(&arrays, &args);
    check_read(status, &arrays);
    return 0;
}
