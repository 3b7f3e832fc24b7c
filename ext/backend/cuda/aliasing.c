/* Aliases of an update's arrays: a parameter's gradient where the microbatch's backward wrote it, and the parameter's
 * packed copies. The update reads a gradient in the canonical order from there, and writes up to KOLO_COPIES packed
 * copies, in its one pass over all weights (optimizers.cu). Other gradients are unpacked before it, and further copies
 * are packed after it. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>

static bool is_copy(const kolo_value *value)
{
    return value->kind == KOLO_VALUE_WEIGHTS && kolo_value_has_memory(value) && !value->in_place;
}

static bool is_gradient(const kolo_value *value)
{
    return value->kind == KOLO_VALUE_GRADIENT && kolo_value_has_memory(value);
}

/* Whether a value is one array in the canonical order. */
static bool lies_straight(const kolo_plan *plan, int value)
{
    kolo_cuda_layout layout = kolo_cuda_layout_of(plan, value);
    return !layout.transposed && layout.parts <= 1;
}

void kolo_cuda_find_aliases(const kolo_update_job *job, kolo_alias *aliases)
{
    const kolo_plan *plan = job->plan;
    for (int s = 0; s < job->span_count; s++) aliases[s].gradient = -1;
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        kolo_alias *alias = value->parameter < 0 ? NULL : &aliases[value->parameter];
        if (alias && is_gradient(value) && lies_straight(plan, v)) alias->gradient = (int64_t)value->offset;
        if (!alias || !is_copy(value) || alias->copy_count == KOLO_COPIES) continue;
        kolo_cuda_layout layout = kolo_cuda_layout_of(plan, v);
        alias->columns = kolo_cuda_width(value->shape);
        alias->rows = (int32_t)(kolo_shape_count(value->shape) / alias->columns);
        alias->copies[alias->copy_count++] = (kolo_copy){(int64_t)value->offset, layout.element, layout.transposed};
    }
}

static kolo_status convert(const kolo_plan *plan, kolo_conversion *list, int count)
{
    kolo_status status = count > 0 ? kolo_cuda_convert(plan, list, count) : KOLO_OK;
    free(list);
    return status;
}

kolo_status kolo_cuda_unpack_left(const kolo_update_job *job, bool whole)
{
    const kolo_plan *plan = job->plan;
    kolo_conversion *list = calloc((size_t)plan->value_count + 1, sizeof *list);
    int count = 0;
    if (!list) return kolo_fail_memory((size_t)plan->value_count * sizeof *list, "a list of values");
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        if (!is_gradient(value) || (!whole && lies_straight(plan, v))) continue;
        list[count++] = (kolo_conversion){.value = v,
                                          .from = (const char *)job->packed_gradient + value->offset,
                                          .to = job->gradient + job->spans[value->parameter].offset};
    }
    return convert(plan, list, count);
}

/* The index of value `copy` among the packed copies of its parameter. */
static int number_of(const kolo_plan *plan, int copy)
{
    int number = 0;
    for (int v = 0; v < copy; v++)
        number += is_copy(&plan->values[v]) && plan->values[v].parameter == plan->values[copy].parameter;
    return number;
}

kolo_status kolo_cuda_pack_rest(const kolo_update_job *job)
{
    const kolo_plan *plan = job->plan;
    kolo_conversion *list = calloc((size_t)plan->value_count + 1, sizeof *list);
    int count = 0;
    if (!list) return kolo_fail_memory((size_t)plan->value_count * sizeof *list, "a list of values");
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        if (!is_copy(value) || number_of(plan, v) < KOLO_COPIES) continue;
        list[count++] = (kolo_conversion){.value = v,
                                          .from = job->weights + job->spans[value->parameter].offset,
                                          .to = (char *)job->packed + value->offset};
    }
    return convert(plan, list, count);
}
