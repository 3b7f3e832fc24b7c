/* Dropout, by loops of our own: the same elements are dropped whatever the layout, the thread or the leaf, since a
 * mask is made in the canonical order, a byte an element, and applied in the order of memory. core/random.h has the
 * rule. */
#include "backend/onednn/onednn.h"
#include "backend/onednn/bfloat16.h"
#include "core/random.h"
#include "core/vector.h"

#include <string.h>

#define LANES 16

/* kolo_philox() of LANES neighbouring counters at once: the loops over lanes become vector instructions. */
KOLO_INLINE void philox(uint64_t key, uint64_t counter, uint64_t high, uint32_t word[4][LANES])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int l = 0; l < LANES; l++) {
        word[0][l] = (uint32_t)(counter + (uint64_t)l);
        word[1][l] = (uint32_t)((counter + (uint64_t)l) >> 32);
        word[2][l] = (uint32_t)high;
        word[3][l] = (uint32_t)(high >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        for (int l = 0; l < LANES; l++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * word[0][l], p1 = (uint64_t)0xCD9E8D57u * word[2][l];
            word[0][l] = (uint32_t)(p1 >> 32) ^ word[1][l] ^ k0;
            word[2][l] = (uint32_t)(p0 >> 32) ^ word[3][l] ^ k1;
            word[1][l] = (uint32_t)p1;
            word[3][l] = (uint32_t)p0;
        }
    }
}

/* mask[count] of one sample: 0xFF where an element is kept, 0 where it is dropped. */
KOLO_VECTORISED static void make_mask(uint64_t key, uint64_t sample, uint32_t threshold, uint8_t *mask, int64_t count)
{
    uint32_t word[4][LANES];
    uint8_t kept[4 * LANES];
    for (int64_t first = 0; first < count; first += 4 * LANES) {
        philox(key, (uint64_t)first / 4, sample, word);
        for (int l = 0; l < LANES; l++) {
            for (int w = 0; w < 4; w++) kept[4 * l + w] = word[w][l] >= threshold ? 0xFF : 0;
        }
        int64_t left = count - first;
        memcpy(mask + first, kept, (size_t)(left < 4 * LANES ? left : 4 * LANES));
    }
}

/* y = x·scale where the mask is set, else 0; with as many elements as there are. */
KOLO_INLINE void scale_run(const void *x, const uint8_t *mask, void *y, int64_t at, int64_t count, float scale,
                           int is_bfloat16)
{
    for (int64_t i = 0; i < count; i++) {
        float value = kolo_get(x, at + i, is_bfloat16) * scale;
        kolo_put(y, at + i, mask[i] ? value : 0.0f, is_bfloat16);
    }
}

/* One sample, in the order of memory; what pads the last block is zeros already and stays so. */
KOLO_INLINE void scale_sample(const kolo_tiling *t, const void *x, const uint8_t *mask, void *y, int64_t at,
                              float scale, int is_bfloat16)
{
    int64_t pixels = t->height * t->width;
    if (kolo_tiling_canonical(*t)) {
        scale_run(x, mask, y, at, t->channels * pixels, scale, is_bfloat16);
        return;
    }
    for (int64_t b = 0; b < t->blocks; b++) {
        int64_t left = t->channels - b * t->block, real = left < t->block ? left : t->block;
        for (int64_t p = 0; p < pixels; p++, at += t->block) {
            const uint8_t *run = mask + p * t->channels + b * t->block;
            if (real == LANES) scale_run(x, run, y, at, LANES, scale, is_bfloat16);
            if (real != LANES) scale_run(x, run, y, at, real, scale, is_bfloat16);
            for (int64_t c = real; c < t->block; c++) kolo_put(y, at + c, 0, is_bfloat16);
        }
    }
}

KOLO_VECTORISED static void scale_float(const kolo_tiling *t, const void *x, const uint8_t *mask, void *y, int64_t at,
                                        float scale)
{
    scale_sample(t, x, mask, y, at, scale, 0);
}

KOLO_VECTORISED static void scale_bfloat16(const kolo_tiling *t, const void *x, const uint8_t *mask, void *y,
                                           int64_t at, float scale)
{
    scale_sample(t, x, mask, y, at, scale, 1);
}

/* Places: x, y, mask. flag: forward, where the mask is made first. */
static void drop(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    uint64_t key = kolo_dropout_key(call->seed, op->layer, call->step);
    uint32_t threshold = kolo_dropout_threshold(op->rate);
    float scale = (float)(1 / (1 - op->rate));
    const void *x = kolo_place_pointer(&step->place[0], call);
    void *y = kolo_place_pointer(&step->place[1], call);
    uint8_t *mask = kolo_place_pointer(&step->place[2], call);
    int64_t elements = step->x.channels * step->x.height * step->x.width, in_memory = kolo_tiling_count(step->x);
    for (int64_t n = 0; n < kernel->plan->leaf; n++, mask += elements) {
        if (step->flag) make_mask(key, (uint64_t)(call->first_sample + n), threshold, mask, elements);
        if (step->bfloat16) scale_bfloat16(&step->x, x, mask, y, n * in_memory, scale);
        if (!step->bfloat16) scale_float(&step->x, x, mask, y, n * in_memory, scale);
    }
}

/* From one value to another in the same layout. */
static kolo_status add_drop(kolo_kernel *kernel, kolo_plan *plan, int from, int to, int mask, bool forward)
{
    kolo_place places[3] = {[2] = {.value = mask}};
    dnnl_memory_desc_t layout = kolo_layout_of(plan, from)->desc;
    layout.data_type = kolo_onednn_type(plan, to);
    KOLO_TRY(kolo_layout_set(plan, to, &layout));
    KOLO_TRY(kolo_bring(kernel, kolo_place_of(kernel, from), &layout, &places[0]));
    places[1] = kolo_produce(kernel, to, &layout);
    kolo_step *step = kolo_step_own(kernel, drop, 3, places);
    if (!step) return KOLO_INTERNAL;
    step->flag = forward;
    kolo_tiling_of(&layout, &step->x);
    return kolo_deliver(kernel, places[1], to);
}

kolo_status kolo_onednn_dropout(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    plan->values[op->out[1]].bytes = (size_t)(plan->leaf * kolo_shape_count(plan->values[op->in[0]].shape));
    return add_drop(kernel, plan, op->in[0], op->out[0], op->out[1], true);
}

kolo_status kolo_onednn_dropout_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add_drop(kernel, plan, op->in[0], op->out[0], op->in[1], false);
}
