/* Dropout, by custom loops. The same elements are dropped whatever the layout, the thread or the microbatch: the mask,
 * one byte for each element, is in the canonical order and is applied in the order of memory. The rule is in
 * core/random.h. */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

#define COUNTERS 8 /* computed at once; each word of a Philox block has a 64-bit lane, so that products fit */

typedef uint64_t wide_words __attribute__((vector_size(8 * COUNTERS)));
typedef uint32_t narrow_words __attribute__((vector_size(4 * COUNTERS)));

/* kolo_philox() of COUNTERS neighbouring counters. */
KOLO_INLINE void philox(uint64_t key, uint64_t counter, uint64_t high, wide_words word[4])
{
    const uint64_t low_half = 0xFFFFFFFF;
    wide_words number = counter + (wide_words){0, 1, 2, 3, 4, 5, 6, 7};
    wide_words w0 = number & low_half, w1 = number >> 32;
    wide_words w2 = (high & low_half) + (wide_words){0}, w3 = (high >> 32) + (wide_words){0};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        wide_words p0 = w0 * 0xD2511F53u, p1 = w2 * 0xCD9E8D57u;
        w0 = (p1 >> 32) ^ w1 ^ k0;
        w2 = (p0 >> 32) ^ w3 ^ k1;
        w1 = p1 & low_half;
        w3 = p0 & low_half;
    }
    word[0] = w0;
    word[1] = w1;
    word[2] = w2;
    word[3] = w3;
}

/* mask[count] of one sample: 0xFF where an element is kept, 0 where it is dropped. Word w of counter i decides about
 * element 4·i + w, whose mask is byte w of the counter's lane. */
KOLO_VECTORISED static void make_mask(uint64_t key, uint64_t sample, uint32_t threshold, uint8_t *mask, int64_t count)
{
    for (int64_t first = 0; first < count; first += 4 * COUNTERS) {
        wide_words word[4];
        philox(key, (uint64_t)first / 4, sample, word);
        wide_words kept =
            ((wide_words)(word[0] >= threshold) & 0x000000FFu) | ((wide_words)(word[1] >= threshold) & 0x0000FF00u) |
            ((wide_words)(word[2] >= threshold) & 0x00FF0000u) | ((wide_words)(word[3] >= threshold) & 0xFF000000u);
        narrow_words bytes = __builtin_convertvector(kept, narrow_words);
        int64_t left = count - first;
        memcpy(mask + first, &bytes, (size_t)(left < 4 * COUNTERS ? left : 4 * COUNTERS));
    }
}

/* y = x·scale where the mask is set, else 0. */
KOLO_INLINE void scale_lanes(const void *x, const uint8_t *mask, void *y, int64_t at, int64_t lanes, float scale,
                             int narrow)
{
    kolo_bytes bytes = {0};
    memcpy(&bytes, mask, (size_t)lanes);
    kolo_ints kept = __builtin_convertvector(bytes, kolo_ints) != 0;
    kolo_floats scaled = kolo_get(x, at, lanes, narrow) * scale;
    kolo_put(y, at, (kolo_floats)((kolo_ints)scaled & kept), lanes, narrow);
}

/* `count` elements that are neighbours both in memory and in the canonical order. */
KOLO_INLINE void scale_run(const void *x, const uint8_t *mask, void *y, int64_t at, int64_t count, float scale,
                           int narrow)
{
    int64_t i = 0;
    for (; i + KOLO_LANES <= count; i += KOLO_LANES) scale_lanes(x, mask + i, y, at + i, KOLO_LANES, scale, narrow);
    if (i < count) scale_lanes(x, mask + i, y, at + i, count - i, scale, narrow);
}

/* One sample, in the order of memory; the padding of the last block becomes zero. */
KOLO_INLINE void scale_sample(const kolo_tiling *t, const void *x, const uint8_t *mask, void *y, int64_t at,
                              float scale, int narrow)
{
    int64_t pixels = t->height * t->width;
    if (kolo_tiling_canonical(*t)) {
        scale_run(x, mask, y, at, t->channels * pixels, scale, narrow);
        return;
    }
    for (int64_t b = 0; b < t->blocks; b++) {
        int64_t left = t->channels - b * t->block, real = left < t->block ? left : t->block;
        for (int64_t p = 0; p < pixels; p++, at += t->block) {
            const uint8_t *run = mask + p * t->channels + b * t->block;
            if (real == KOLO_LANES) scale_lanes(x, run, y, at, KOLO_LANES, scale, narrow);
            if (real != KOLO_LANES) scale_run(x, run, y, at, real, scale, narrow);
            if (real < t->block) kolo_put(y, at + real, (kolo_floats){0}, t->block - real, narrow);
        }
    }
}

KOLO_ALL_TYPES(scale, (const kolo_tiling *t, const void *x, const uint8_t *mask, void *y, int64_t at, float scale),
               const kolo_tiling copy = *t;
               scale_sample(&copy, x, mask, y, at, scale, narrow))

/* Operands: x, y, mask. flag: forward, which makes the mask first. */
static void drop(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    uint64_t key = kolo_dropout_key(call->seed, op->layer, call->step);
    uint32_t threshold = kolo_dropout_threshold(op->rate);
    float scale = (float)(1 / (1 - op->rate));
    const void *x = kolo_operand_pointer(&step->operand[0], call);
    void *y = kolo_operand_pointer(&step->operand[1], call);
    uint8_t *mask = kolo_operand_pointer(&step->operand[2], call);
    int64_t elements = step->x.channels * step->x.height * step->x.width, in_memory = kolo_tiling_count(step->x);
    for (int64_t n = 0; n < kernel->plan->microbatch; n++, mask += elements) {
        if (step->flag) make_mask(key, (uint64_t)(call->first_sample + n), threshold, mask, elements);
        KOLO_FASTEST(scale, step->bfloat16)(&step->x, x, mask, y, n * in_memory, scale);
    }
}

/* Adds the step from the value `from` to the value `to`, both in the layout of `from`. */
static kolo_status add_drop(kolo_kernel *kernel, kolo_plan *plan, int from, int to, int mask, bool forward)
{
    kolo_operand operands[3] = {[2] = {.value = mask}};
    dnnl_memory_desc_t layout = kolo_layout_of(plan, from)->desc;
    layout.data_type = kolo_onednn_type(plan, to);
    KOLO_TRY(kolo_layout_set(plan, to, &layout));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, from), &layout, &operands[0]));
    operands[1] = kolo_output_buffer(kernel, to, &layout);
    kolo_step *step = kolo_step_loop(kernel, drop, 3, operands);
    if (!step) return KOLO_INTERNAL;
    step->flag = forward;
    kolo_tiling_of(&layout, &step->x);
    return kolo_reorder_out(kernel, operands[1], to);
}

kolo_status kolo_onednn_dropout(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    plan->values[op->out[1]].bytes = (size_t)(plan->microbatch * kolo_shape_count(plan->values[op->in[0]].shape));
    return add_drop(kernel, plan, op->in[0], op->out[0], op->out[1], true);
}

kolo_status kolo_onednn_dropout_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add_drop(kernel, plan, op->in[0], op->out[0], op->in[1], false);
}
