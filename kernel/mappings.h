/* The mappings in a process's memory, read from /proc/PID/maps. Read first: nothing. */
#ifndef KERNEL_MAPPINGS_H
#define KERNEL_MAPPINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct mapping {
    uint64_t begin, end;
    uint64_t offset; /* in the file */
    bool readable, writable;
    char file[4200]; /* its path; "" for memory without a file */
} mapping;

FILE *mappings_open(pid_t process); /* NULL when there is no such process; fclose() ends it */
/* The next one, from the lowest address on; false: that was the last, or `maps` is NULL. */
bool mapping_next(FILE *maps, mapping *m);

#endif
