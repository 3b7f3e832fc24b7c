/* Any bytes as a batch of CIFAR-10 or CIFAR-100, plain or compressed; the first says which, the others may be names. */
#include "in_folder.h"

#include "data/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    bool hundred = bytes[0] & 1, names = bytes[0] & 2;
    put("data_batch_1.bin", hundred ? NULL : bytes + 1, size - 1);
    put("train.bin", hundred ? bytes + 1 : NULL, size - 1);
    put(hundred ? "fine_label_names.txt" : "batches.meta.txt", names ? bytes + 1 : NULL, size <= 100 ? size - 1 : 100);
    kolo_arrays arrays = {0};
    kolo_status status = kolo_cifar_read(&arrays, folder, KOLO_TRAIN);
    check_read(status, &arrays);
    return 0;
}
