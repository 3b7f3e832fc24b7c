/* Augmentation as layers: in training an image is turned over left to right, or moved with zeros coming in, by chance;
 * in scores and outputs it is as it is. As layers they need no copies of the data, and chance goes by sample and step
 * (core/random.h), so that any number of devices and ranks sees the same images. Moving by up to 4 pixels is He et al.
 * 2016's (section 4.2) padding by 4 and random crop.
 *
 * Both only move pixels, so the way back moves them back. It is arithmetic of a layer's own (KOLO_OP_OWN): there is
 * none to speed up. */
#include "layers/common.h"

#include <string.h>

#include "core/random.h"

static kolo_random_block chance_of(const kolo_own_call *call, int sample)
{
    uint64_t key = kolo_random_key(call->seed, KOLO_RANDOM_AUGMENT, (uint64_t)call->layer);
    key = kolo_random_key(key, KOLO_RANDOM_AUGMENT, call->step);
    return kolo_philox(key, 0, (uint64_t)(call->first_sample + sample));
}

static kolo_status check_image(const kolo_layer_node *node)
{
    if (node->in.rank == 3) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted images {H, W, C}, got %s", kolo_shape_text(node->in));
}

/* ---------------------------------------------------------------- flip */

static void flip_image(const float *in, float *out, const kolo_shape *shape, bool turn)
{
    int columns = shape->dim[1], channels = shape->dim[2];
    for (int row = 0; row < shape->dim[0]; row++)
        for (int column = 0; column < columns; column++) {
            int from = turn ? columns - 1 - column : column;
            memcpy(out + ((size_t)row * (size_t)columns + (size_t)column) * (size_t)channels,
                   in + ((size_t)row * (size_t)columns + (size_t)from) * (size_t)channels,
                   (size_t)channels * sizeof *out);
        }
}

/* There and back alike. */
static void flip(const kolo_own_call *call)
{
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int s = 0; s < call->leaf; s++)
        flip_image(call->in[0] + s * count, call->out[0] + s * count, &call->in_shape[0],
                   chance_of(call, s).word[0] >> 31);
}

static kolo_status flip_build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return check_image(node);
}

/* ---------------------------------------------------------------- shift */

/* What stands at (row, column) comes from (row + down, column + right); zero where that is outside. */
static void shift_image(const float *in, float *out, const kolo_shape *shape, int down, int right)
{
    int rows = shape->dim[0], columns = shape->dim[1];
    size_t channels = (size_t)shape->dim[2], line = (size_t)columns * channels;
    int first = right < 0 ? -right : 0, end = right > 0 ? columns - right : columns;
    memset(out, 0, (size_t)rows * line * sizeof *out);
    for (int row = 0; row < rows; row++) {
        int from = row + down;
        if (from < 0 || from >= rows || first >= end) continue;
        memcpy(out + (size_t)row * line + (size_t)first * channels,
               in + (size_t)from * line + (size_t)(first + right) * channels,
               (size_t)(end - first) * channels * sizeof *out);
    }
}

/* -pixels … pixels, each as likely as the others. */
static int drawn(uint32_t word, int pixels)
{
    return (int)((uint64_t)word * (uint64_t)(2 * pixels + 1) >> 32) - pixels;
}

static void shift_all(const kolo_own_call *call, int sign)
{
    const kolo_random_shift_args *args = (const kolo_random_shift_args *)(const void *)call->args;
    int64_t count = kolo_shape_count(call->in_shape[0]);
    for (int s = 0; s < call->leaf; s++) {
        kolo_random_block chance = chance_of(call, s);
        shift_image(call->in[0] + s * count, call->out[0] + s * count, &call->in_shape[0],
                    sign * drawn(chance.word[1], args->pixels), sign * drawn(chance.word[2], args->pixels));
    }
}

static void shift(const kolo_own_call *call)
{
    shift_all(call, 1);
}

static void shift_back(const kolo_own_call *call)
{
    shift_all(call, -1);
}

static kolo_status shift_build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    KOLO_TRY(check_image(node));
    int pixels = node->recipe.random_shift.pixels;
    int most = node->in.dim[0] < node->in.dim[1] ? node->in.dim[0] : node->in.dim[1];
    if (pixels >= 1 && pixels < most) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "pixels: wanted 1 to %d, got %d", most - 1, pixels);
}

/* ---------------------------------------------------------------- in a plan */

static kolo_status add(kolo_plan *plan, const kolo_layer_flow *flow, void (*compute)(const kolo_own_call *call), int x,
                       int *y)
{
    *y = -1;
    return kolo_plan_own(plan, flow, compute, 1, &x, 1, y, &flow->node->in);
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->y = flow->x;
    if (!plan->dropout) return KOLO_OK; /* not in kolo_fit(): the image as it is */
    return add(plan, flow, flow->node->recipe.kind == &kolo_random_flip_kind ? flip : shift, flow->x, &flow->y);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    flow->dx = flow->need_dx ? flow->dy : -1;
    if (!flow->need_dx || !plan->dropout) return KOLO_OK;
    return add(plan, flow, flow->node->recipe.kind == &kolo_random_flip_kind ? flip : shift_back, flow->dy, &flow->dx);
}

static const kolo_field flip_fields[] = {KOLO_FIELDS_END(random_flip)};

static const kolo_field shift_fields[] = {
    KOLO_POSITIONAL(KOLO_FIELD_INT, random_shift, pixels),
    KOLO_FIELDS_END(random_shift),
};

const kolo_layer_kind kolo_random_flip_kind = {
    .name = "random_flip", .fields = flip_fields, .build = flip_build, .forward = forward, .backward = backward};
const kolo_layer_kind kolo_random_shift_kind = {
    .name = "random_shift", .fields = shift_fields, .build = shift_build, .forward = forward, .backward = backward};
