/* What the fuzzers of file readers share: bytes as a file, and what must hold of whatever was read. */
#ifndef KOLO_TEST_HARNESS_H
#define KOLO_TEST_HARNESS_H

#define _GNU_SOURCE
#include "data/arrays.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static inline void expect(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

/* The bytes as a file of this name; one for each place. */
static inline const char *as_file(int place, const uint8_t *bytes, size_t size)
{
    static struct {
        int fd;
        char path[64];
    } files[2];
    if (!files[place].fd) {
        files[place].fd = memfd_create("input", 0);
        snprintf(files[place].path, sizeof files[place].path, "/proc/self/fd/%d", files[place].fd);
    }
    expect(ftruncate(files[place].fd, 0) == 0, "the input can be emptied");
    expect(pwrite(files[place].fd, bytes, size, 0) == (ssize_t)size, "the input can be written");
    return files[place].path;
}

static volatile double looked_at; /* so that no reading is left out */

static inline void look_at(const void *array, size_t bytes)
{
    double sum = 0;
    for (size_t i = 0; array && i < bytes; i++) sum += ((const unsigned char *)array)[i];
    looked_at = sum;
}

static inline void look_at_names(char *const *names, int64_t count)
{
    for (int64_t i = 0; names && i < count; i++) look_at(names[i], strlen(names[i]) + 1);
}

/* Either arrays that are what they say, or one sentence. Frees them. */
static inline void check_read(kolo_status status, kolo_arrays *a)
{
    kolo_failure failure = kolo_failure_take();
    expect((status == KOLO_OK) == (failure.code == KOLO_OK), "a failure has a sentence");
    if (status != KOLO_OK) {
        expect(strlen(failure.text) > 10 && !strchr(failure.text, '\n'), "it is one line");
        expect(status != KOLO_INTERNAL, "no input is our own fault");
        kolo_arrays_free(a);
        return;
    }
    size_t samples = (size_t)a->samples, elements = (size_t)kolo_shape_count(a->shape);
    expect(a->samples >= 1 && a->samples <= KOLO_SAMPLES_MAX && elements >= 1, "there are samples");
    expect((a->bytes != NULL) + (a->floats != NULL) + (a->tokens != NULL) == 1, "features are of one kind");
    look_at(a->bytes, samples * elements);
    look_at(a->floats, samples * elements * sizeof(float));
    for (size_t i = 0; a->tokens && i < samples * elements; i++) expect(a->tokens[i] >= 0, "tokens count from 0");
    for (size_t i = 0; a->labels && i < samples * (size_t)a->label_count; i++)
        expect(a->labels[i] >= 0 && (!a->classes || a->labels[i] < a->classes), "labels are of the classes");
    if (a->targets) look_at(a->targets, samples * (size_t)kolo_shape_count(a->target_shape) * sizeof(float));
    look_at(a->weights, samples * sizeof(float));
    look_at_names(a->class_names, a->classes);
    look_at_names(a->feature_names, (int64_t)elements);
    kolo_arrays_free(a);
}

#endif
