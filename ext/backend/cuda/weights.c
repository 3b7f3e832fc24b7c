/* Layouts of weights and gradients, and conversions from and to the canonical order. Kernels: weights.cu. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>

kolo_cuda_layout kolo_cuda_layout_of(const kolo_plan *plan, int value)
{
    const kolo_cuda_layout *chosen = plan->values[value].layout;
    return chosen ? *chosen : (kolo_cuda_layout){.element = kolo_cuda_element(plan, value)};
}

static int64_t parts_of(kolo_cuda_layout layout)
{
    return layout.parts > 1 ? layout.parts : 1;
}

kolo_status kolo_cuda_choose_layout(kolo_plan *plan, int value, kolo_cuda_layout layout)
{
    kolo_value *v = &plan->values[value];
    kolo_cuda_layout *chosen = malloc(sizeof *chosen);
    if (!chosen) return kolo_fail_memory(sizeof *chosen, "a layout");
    *chosen = layout;
    free(v->layout);
    v->layout = chosen;
    v->bytes = (size_t)(parts_of(layout) * kolo_cuda_count(plan, value)) * kolo_element_bytes(layout.element);
    v->in_place =
        v->kind == KOLO_VALUE_WEIGHTS && layout.element == KOLO_ELEMENT_FLOAT && !layout.transposed && !layout.aligned;
    return KOLO_OK;
}

static bool packs_alike(const kolo_plan *plan, int a, int b)
{
    kolo_cuda_layout left = kolo_cuda_layout_of(plan, a), right = kolo_cuda_layout_of(plan, b);
    return left.element == right.element && left.transposed == right.transposed;
}

void kolo_cuda_share_copies(kolo_plan *plan, const kolo_op *op)
{
    for (int i = 0; i < KOLO_OP_INS; i++)
        if (op->in[i] >= 0) kolo_plan_share_packed(plan, op->in[i], packs_alike);
}

kolo_status kolo_cuda_expect_parts(kolo_cuda_kernel *kernel, kolo_plan *plan, int out, int count, kolo_cuda_parts *made)
{
    int value = plan->ops[kernel->op].out[out];
    *made = (kolo_cuda_parts){.out = out, .count = count, .left = count == 1 || !plan->deterministic};
    if (value < 0 || count == 1) return KOLO_OK;
    if (made->left)
        return kolo_cuda_choose_layout(plan, value, (kolo_cuda_layout){.element = KOLO_ELEMENT_FLOAT, .parts = count});
    size_t bytes = (size_t)(count * kolo_cuda_count(plan, value)) * sizeof(float);
    made->scratch = kolo_cuda_reserve(&kernel->scratch, bytes);
    return KOLO_OK;
}

float *kolo_cuda_parts_at(const kolo_cuda_job *job, const kolo_cuda_parts *made)
{
    void *value = job->out[made->out];
    return !value || made->left ? value : (void *)((char *)job->scratch + made->scratch);
}

kolo_status kolo_cuda_sum_parts(const kolo_cuda_job *job, const kolo_cuda_parts *made)
{
    if (!job->out[made->out] || made->left) return KOLO_OK;
    const kolo_packing move = {.from = kolo_cuda_parts_at(job, made),
                               .to = job->out[made->out],
                               .rows = 1,
                               .columns = kolo_cuda_count(job->plan, job->op->out[made->out]),
                               .element = KOLO_ELEMENT_FLOAT,
                               .parts = made->count};
    KOLO_CUDA(kolo_cuda_pack_arrays(job->stream, &move, 1), "summing a gradient's parts");
    return KOLO_OK;
}

void kolo_cuda_forget(kolo_plan *plan)
{
    for (int v = 0; v < plan->value_count; v++) {
        free(plan->values[v].layout);
        plan->values[v].layout = NULL;
    }
}

/* Packs a WEIGHTS value or unpacks a GRADIENT. A transposed GRADIENT is transposed again. */
static kolo_packing move_of(const kolo_plan *plan, const kolo_conversion *conversion)
{
    int value = conversion->value;
    bool packs = plan->values[value].kind == KOLO_VALUE_WEIGHTS;
    kolo_cuda_layout layout = kolo_cuda_layout_of(plan, value);
    int64_t last = kolo_cuda_width(plan->values[value].shape), others = kolo_cuda_count(plan, value) / last;
    return (kolo_packing){.from = conversion->from,
                          .to = conversion->to,
                          .rows = packs ? others : last,
                          .columns = packs ? last : others,
                          .element = packs ? layout.element : KOLO_ELEMENT_FLOAT,
                          .transposed = layout.transposed,
                          .parts = (int)parts_of(layout)};
}

kolo_status kolo_cuda_convert(const kolo_plan *plan, const kolo_conversion *list, int count)
{
    kolo_packing *moves = malloc((size_t)count * sizeof *moves);
    if (!moves) return kolo_fail_memory((size_t)count * sizeof *moves, "what is packed");
    for (int i = 0; i < count; i++) moves[i] = move_of(plan, &list[i]);
    cudaError_t error = kolo_cuda_pack_arrays(plan->stream->handle, moves, count);
    free(moves);
    return error == cudaSuccess ? KOLO_OK : kolo_cuda_fail(error, "packing weights or unpacking gradients");
}

kolo_status kolo_cuda_pack(const kolo_plan *plan, int value, const float *canonical, void *packed)
{
    return kolo_cuda_convert(plan, &(const kolo_conversion){value, canonical, packed}, 1);
}

kolo_status kolo_cuda_unpack(const kolo_plan *plan, int value, const void *packed, float *canonical)
{
    return kolo_cuda_convert(plan, &(const kolo_conversion){value, packed, canonical}, 1);
}

kolo_status kolo_cuda_align_bias(const kolo_cuda_job *job, void **bias)
{
    void *room = *bias;
    *bias = job->in[2];
    if ((uintptr_t)*bias % 16 == 0) return KOLO_OK;
    const kolo_packing move = {.from = *bias,
                               .to = room,
                               .rows = 1,
                               .columns = kolo_cuda_count(job->plan, job->op->in[2]),
                               .element = KOLO_ELEMENT_FLOAT,
                               .parts = 1};
    *bias = room;
    KOLO_CUDA(kolo_cuda_pack_arrays(job->stream, &move, 1), "copying a bias");
    return KOLO_OK;
}

/* It cannot return a failure: the stream keeps the first one, and reports it when the host waits for its work. */
void kolo_cuda_add_gradient(const kolo_plan *plan, int value, void *to, const void *from)
{
    int64_t count = parts_of(kolo_cuda_layout_of(plan, value)) * kolo_cuda_count(plan, value);
    cudaError_t error = kolo_cuda_add_floats(plan->stream->handle, to, from, count);
    if (plan->stream->failed == cudaSuccess) plan->stream->failed = error;
}
