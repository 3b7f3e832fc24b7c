/* Named copies of weights: see kept.h. */
#include "model/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float *kolo_kept_find(const kolo_kept *kept, const char *name)
{
    for (int i = 0; i < kept->count; i++)
        if (strncmp(kept->names[i], name, KOLO_KEPT_NAME - 1) == 0) return kept->values[i];
    return NULL;
}

float *kolo_kept_add(kolo_kept *kept, const char *name, int64_t weights)
{
    float *values = kolo_kept_find(kept, name);
    if (values || kept->count == KOLO_KEPT_MAX) return values;
    values = calloc((size_t)weights + 1, sizeof *values);
    if (!values) return NULL;
    snprintf(kept->names[kept->count], KOLO_KEPT_NAME, "%s", name);
    return kept->values[kept->count++] = values;
}

void kolo_kept_clear(kolo_kept *kept)
{
    for (int i = 0; i < kept->count; i++) free(kept->values[i]);
    kept->count = 0;
}
