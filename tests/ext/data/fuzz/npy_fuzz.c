/* Any bytes as a .npy file, an archive with arrays, or features and labels, the first byte saying which. */
#include "harness.h"

#include "data/npy.h"
#include "data/sources.h"

static void check_array(const char *path)
{
    kolo_npy_array array;
    kolo_status status = kolo_npy_read(path, &array);
    kolo_failure failure = kolo_failure_take();
    expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has a sentence");
    expect(status == KOLO_OK || array.values == NULL, "and leaves nothing");
    if (status != KOLO_OK) return;
    double sum = 0;
    for (int64_t i = 0; i < array.count; i++) sum += kolo_npy_number(&array, i);
    looked_at = sum;
    free(array.values);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) return 0;
    uint8_t how = *bytes++;
    size_t first = --size;
    if ((how & 3) == 2) first = size / 2;
    const char *path = as_file(0, bytes, first);
    if ((how & 3) == 0) check_array(path);
    kolo_numpy_args args = {.features = path, .tokens = how & 4};
    if ((how & 3) == 1) args.path = path, args.features = "x_train", args.labels = how & 8 ? "y_train" : NULL;
    if ((how & 3) == 2) args.labels = as_file(1, bytes + first, size - first);
    if (how & 16) args.shape[0] = 2, args.shape[1] = 2;
    kolo_arrays arrays = {0};
    kolo_status status = kolo_numpy_read(&arrays, &args);
    check_read(status, &arrays);
    return 0;
}
