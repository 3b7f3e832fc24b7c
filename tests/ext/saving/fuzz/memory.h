/* For fuzzers of files: bytes as a file that has a name, without a disk. */
#ifndef KOLO_FUZZ_MEMORY_H
#define KOLO_FUZZ_MEMORY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
const char *__asan_default_options(void);

/* A model may ask for more memory than there is: that must be a sentence, too. */
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

static inline void expect(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* Its name; *fd is to be closed. */
static inline const char *file_of(const void *bytes, size_t size, int *fd)
{
    static char name[64];
    *fd = memfd_create("fuzz", MFD_CLOEXEC);
    expect(*fd >= 0 && write(*fd, bytes, size) == (ssize_t)size, "memory for a file");
    snprintf(name, sizeof name, "/proc/self/fd/%d", *fd);
    return name;
}

#endif
