/* For fuzzers of readers that look for files in a folder: a folder of their own, in memory, and bytes as a file in it.
 */
#ifndef KOLO_TEST_IN_FOLDER_H
#define KOLO_TEST_IN_FOLDER_H

#include "harness.h"

static char folder[] = "/dev/shm/kolo-fuzz-XXXXXX";

static inline void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) perror(folder);
}

static inline void make_folder(void)
{
    static bool made;
    if (made) return;
    expect(mkdtemp(folder) != NULL, "there is a folder");
    atexit(remove_folder);
    made = true;
}

/* NULL: there is no such file. */
static inline void put(const char *name, const uint8_t *bytes, size_t size)
{
    char path[64];
    make_folder();
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    if (!bytes) return;
    FILE *file = fopen(path, "wb");
    expect(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "the input can be written");
}

#endif
