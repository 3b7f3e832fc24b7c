/* The arrays that a reader hands over to a data set: see arrays.h. */
#include "data/arrays.h"

#include <stdlib.h>
#include <string.h>

void kolo_arrays_free(kolo_arrays *arrays)
{
    for (int64_t i = 0; arrays->columns && i < kolo_shape_count(arrays->shape); i++) free(arrays->columns[i].words);
    free(arrays->columns);
    free(arrays->bytes), free(arrays->floats), free(arrays->tokens);
    free(arrays->labels), free(arrays->targets), free(arrays->weights);
    free(arrays->class_names), free(arrays->feature_names);
    free(arrays->roles), free(arrays->column_names);
    *arrays = (kolo_arrays){0};
}

kolo_status kolo_names_copy(const char *const *list, int count, char ***names)
{
    size_t pointers = (size_t)count * sizeof **names, size = pointers + 1;
    for (int i = 0; i < count; i++) size += strlen(list[i]) + 1;
    if (!(*names = malloc(size))) return kolo_fail_memory(size, "names");
    char *at = (char *)*names + pointers;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(list[i]) + 1;
        (*names)[i] = memcpy(at, list[i], length);
        at += length;
    }
    return KOLO_OK;
}

/* Replaces *block by the elements block[index[i]], i < count, of `each` bytes each. *block NULL: does nothing. */
static kolo_status choose(void **block, size_t each, const int32_t *index, int64_t count)
{
    if (!*block) return KOLO_OK;
    char *chosen = malloc((size_t)count * each);
    if (!chosen) return kolo_fail_memory((size_t)count * each, "a choice of samples");
    for (int64_t i = 0; i < count; i++)
        memcpy(chosen + (size_t)i * each, (char *)*block + (size_t)index[i] * each, each);
    free(*block);
    *block = chosen;
    return KOLO_OK;
}

kolo_status kolo_arrays_choose(kolo_arrays *arrays, const int32_t *index, int64_t count)
{
    size_t elements = (size_t)kolo_shape_count(arrays->shape), labels = (size_t)arrays->label_count;
    size_t targets = (size_t)kolo_shape_count(arrays->target_shape);
    KOLO_TRY(choose((void **)&arrays->bytes, elements, index, count));
    KOLO_TRY(choose((void **)&arrays->floats, elements * sizeof(float), index, count));
    KOLO_TRY(choose((void **)&arrays->tokens, elements * sizeof(int32_t), index, count));
    KOLO_TRY(choose((void **)&arrays->labels, labels * sizeof(int32_t), index, count));
    KOLO_TRY(choose((void **)&arrays->targets, targets * sizeof(float), index, count));
    KOLO_TRY(choose((void **)&arrays->weights, sizeof(float), index, count));
    arrays->samples = count;
    return KOLO_OK;
}
