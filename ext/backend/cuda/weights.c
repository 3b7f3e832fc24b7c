/* How weights and gradients lie, and to and from the canonical order. Kernels: weights.cu. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>

static kolo_cuda_layout layout_of(const kolo_plan *plan, int value)
{
    const kolo_cuda_layout *chosen = plan->values[value].layout;
    return chosen ? *chosen : (kolo_cuda_layout){kolo_cuda_element(plan, value), false};
}

kolo_status kolo_cuda_choose_layout(kolo_plan *plan, int value, kolo_cuda_layout layout)
{
    kolo_value *v = &plan->values[value];
    kolo_cuda_layout *chosen = malloc(sizeof *chosen);
    if (!chosen) return kolo_fail_memory(sizeof *chosen, "a layout");
    *chosen = layout;
    free(v->layout);
    v->layout = chosen;
    v->bytes = (size_t)kolo_cuda_count(plan, value) * kolo_element_bytes(layout.element);
    v->in_place = v->kind == KOLO_VALUE_WEIGHTS && layout.element == KOLO_ELEMENT_FLOAT && !layout.transposed;
    return KOLO_OK;
}

void kolo_cuda_forget(kolo_plan *plan)
{
    for (int v = 0; v < plan->value_count; v++) {
        free(plan->values[v].layout);
        plan->values[v].layout = NULL;
    }
}

kolo_status kolo_cuda_pack(const kolo_plan *plan, int value, const float *canonical, void *packed)
{
    kolo_cuda_layout layout = layout_of(plan, value);
    cudaStream_t stream = plan->queue->stream;
    int64_t count = kolo_cuda_count(plan, value), last = kolo_cuda_width(plan->values[value].shape);
    KOLO_CUDA(layout.transposed
                  ? kolo_cuda_pack_transposed(stream, canonical, layout.element, packed, count / last, last)
                  : kolo_cuda_pack_plain(stream, canonical, layout.element, packed, count),
              "packing weights");
    return KOLO_OK;
}

kolo_status kolo_cuda_unpack(const kolo_plan *plan, int value, const void *packed, float *canonical)
{
    cudaStream_t stream = plan->queue->stream;
    int64_t count = kolo_cuda_count(plan, value), last = kolo_cuda_width(plan->values[value].shape);
    KOLO_CUDA(layout_of(plan, value).transposed
                  ? kolo_cuda_pack_transposed(stream, packed, KOLO_ELEMENT_FLOAT, canonical, last, count / last)
                  : kolo_cuda_pack_plain(stream, packed, KOLO_ELEMENT_FLOAT, canonical, count),
              "unpacking a gradient");
    return KOLO_OK;
}

/* What goes wrong here shows at the next call on the queue. */
void kolo_cuda_add_gradient(const kolo_plan *plan, int value, void *to, const void *from)
{
    kolo_cuda_add_floats(plan->queue->stream, to, from, kolo_cuda_count(plan, value));
}
