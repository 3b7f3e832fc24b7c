/* Any bytes as a HIGGS table, plain or compressed; the first says which split is read. */
#include "in_folder.h"

#include "data/higgs.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    put("HIGGS.csv", bytes + 1, size - 1);
    kolo_arrays arrays = {0};
    kolo_status status = kolo_higgs_read(&arrays, folder, bytes[0] & 1 ? KOLO_TEST : KOLO_TRAIN);
    check_read(status, &arrays);
    return 0;
}
