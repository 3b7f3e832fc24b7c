/* Biases that no primitive of oneDNN adds, for images in any tiling, sixteen channels at a time. */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

/* Adds the bias to `lanes` neighbouring channels of every pixel of one block; `at` is the first element. Lanes from
 * number `real` on are padding, whose zeros stay zero. */
KOLO_INLINE void add_block(const kolo_tiling *t, const void *z, const float *bias, int64_t real, void *y, int64_t at,
                           int64_t lanes, bool relu, int narrow)
{
    kolo_floats b = {0};
    if (bias) memcpy(&b, bias, (size_t)(real < lanes ? real : lanes) * sizeof *bias);
    for (int64_t p = 0; p < t->height * t->width; p++, at += t->block) {
        kolo_floats sum = kolo_get(z, at, lanes, 0) + b;
        if (relu) sum = kolo_select_floats(sum < 0, (kolo_floats){0}, sum);
        kolo_put(y, at, sum, lanes, narrow);
    }
}

KOLO_INLINE void add_samples(const kolo_tiling *t, int64_t samples, const void *z, const float *bias, void *y,
                             bool relu, int narrow)
{
    for (int64_t i = 0; i < samples * t->blocks; i++) {
        int64_t first = i % t->blocks * t->block, at = i * t->block * t->height * t->width;
        for (int64_t c = 0; c < t->block; c += KOLO_LANES) {
            int64_t left = t->block - c, real = t->channels - first - c;
            if (real <= 0) continue;
            const float *from = bias ? bias + first + c : NULL;
            if (left >= KOLO_LANES) add_block(t, z, from, real, y, at + c, KOLO_LANES, relu, narrow);
            else add_block(t, z, from, real, y, at + c, left, relu, narrow);
        }
    }
}

/* By the type of y. */
KOLO_ALL_TYPES(add, (const kolo_tiling *t, int64_t samples, const void *z, const float *bias, void *y, bool relu),
               const kolo_tiling copy = *t;
               add_samples(&copy, samples, z, bias, y, relu, narrow))

/* Operands: z (float32), bias (value -1: none), y. flag: ReLU. */
static void add(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const void *z = kolo_operand_pointer(&step->operand[0], call);
    const float *bias = step->operand[1].value < 0 ? NULL : kolo_operand_pointer(&step->operand[1], call);
    void *y = kolo_operand_pointer(&step->operand[2], call);
    const dnnl_memory_desc_t *written = &step->operand[2].desc; /* the microbatch, or the part for a round */
    bool narrowing = written->data_type == dnnl_bf16;
    (void)kernel;
    KOLO_FASTEST(add, narrowing)(&step->x, written->dims[0], z, bias, y, step->flag);
}

kolo_status kolo_bias_add(kolo_kernel *kernel, kolo_operand z, int bias, bool relu, kolo_operand y)
{
    const kolo_operand operands[] = {z, bias < 0 ? (kolo_operand){.value = -1} : kolo_operand_of(kernel, bias), y};
    kolo_step *step = kolo_step_loop(kernel, add, 3, operands);
    if (!step || !kolo_tiling_of(&z.desc, &step->x)) return KOLO_INTERNAL;
    step->flag = relu;
    return KOLO_OK;
}

/* ---- the gradient */

KOLO_INLINE void sum_block(const kolo_tiling *t, int64_t samples, const void *dz, int64_t at, int64_t lanes,
                           int64_t real, float *dbias, int narrow)
{
    kolo_floats sum = {0};
    for (int64_t n = 0; n < samples; n++) {
        kolo_floats of_sample = {0};
        for (int64_t p = 0; p < t->height * t->width; p++)
            of_sample += kolo_get(dz, at + n * kolo_tiling_count(*t) + p * t->block, lanes, narrow);
        sum += of_sample;
    }
    memcpy(dbias, &sum, (size_t)(real < lanes ? real : lanes) * sizeof *dbias);
}

KOLO_INLINE void sum_blocks(const kolo_tiling *t, int64_t samples, const void *dz, float *dbias, int narrow)
{
    for (int64_t b = 0; b < t->blocks; b++) {
        for (int64_t c = 0; c < t->block; c += KOLO_LANES) {
            int64_t at = b * t->block * t->height * t->width + c, left = t->block - c, first = b * t->block + c;
            int64_t real = t->channels - first;
            if (real <= 0) continue;
            if (left >= KOLO_LANES) sum_block(t, samples, dz, at, KOLO_LANES, real, dbias + first, narrow);
            else sum_block(t, samples, dz, at, left, real, dbias + first, narrow);
        }
    }
}

KOLO_ALL_TYPES(sum, (const kolo_tiling *t, int64_t samples, const void *dz, float *dbias), const kolo_tiling copy = *t;
               sum_blocks(&copy, samples, dz, dbias, narrow))

/* Operands: dz, dbias. */
static void sum(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const void *dz = kolo_operand_pointer(&step->operand[0], call);
    float *dbias = kolo_operand_pointer(&step->operand[1], call);
    KOLO_FASTEST(sum, step->bfloat16)(&step->x, kernel->plan->microbatch, dz, dbias);
}

kolo_status kolo_bias_sum(kolo_kernel *kernel, kolo_operand dz, int dbias)
{
    const kolo_operand operands[] = {dz, kolo_operand_of(kernel, dbias)};
    kolo_step *step = kolo_step_loop(kernel, sum, 2, operands);
    return step && kolo_tiling_of(&dz.desc, &step->x) ? KOLO_OK : KOLO_INTERNAL;
}
