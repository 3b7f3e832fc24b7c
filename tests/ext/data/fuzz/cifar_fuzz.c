/* Any bytes as a batch of CIFAR-10 or CIFAR-100, plain or compressed; the first says which, the others may be names. */
#include "harness.h"

#include "data/cifar.h"

static char folder[] = "/dev/shm/kolo-fuzz-XXXXXX";

static void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) perror(folder);
}

static void put(const char *name, const uint8_t *bytes, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    if (!bytes) return;
    FILE *file = fopen(path, "wb");
    expect(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "the input can be written");
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static bool made;
    if (!made) {
        expect(mkdtemp(folder) != NULL, "there is a folder");
        atexit(remove_folder);
        made = true;
    }
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
