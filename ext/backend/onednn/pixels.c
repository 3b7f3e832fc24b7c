/* Operations that move whole pixels, in the tiling that the input has: padding and cropping, upsampling and its
 * gradient. Each block of channels of a sample counts as a separate image here, whose pixels have `block` elements. */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

typedef struct images {
    int64_t count;       /* of images: samples · blocks */
    int64_t height[2], width[2]; /* of the input, of the output */
    int64_t block;       /* elements of a pixel */
    size_t size;         /* bytes of an element */
    const char *in;
    char *out;
} images;

static images images_of(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    return (images){.count = kernel->plan->microbatch * step->x.blocks,
                    .height = {step->x.height, step->y.height},
                    .width = {step->x.width, step->y.width},
                    .block = step->x.block,
                    .size = step->bfloat16 ? sizeof(uint16_t) : sizeof(float),
                    .in = kolo_operand_pointer(&step->operand[0], call),
                    .out = kolo_operand_pointer(&step->operand[1], call)};
}

static const kolo_window *window_of(const kolo_kernel *kernel)
{
    return &kernel->plan->ops[kernel->op].window;
}

/* ---- padding, cropping: each row of the smaller image is part of a row of the larger one */

static void pad(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    images m = images_of(kernel, step, call);
    const kolo_window *w = window_of(kernel);
    size_t pixel = (size_t)m.block * m.size, in_row = (size_t)m.width[0] * pixel, out_row = (size_t)m.width[1] * pixel;
    for (int64_t i = 0; i < m.count; i++) {
        for (int64_t h = 0; h < m.height[1]; h++, m.out += out_row) {
            bool inside = h >= w->before[0] && h < w->before[0] + m.height[0];
            size_t left = inside ? (size_t)w->before[1] * pixel : out_row, right = inside ? out_row - left - in_row : 0;
            memset(m.out, 0, left);
            if (!inside) continue;
            memcpy(m.out + left, m.in, in_row);
            memset(m.out + left + in_row, 0, right);
            m.in += in_row;
        }
    }
}

static void crop(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    images m = images_of(kernel, step, call);
    const kolo_window *w = window_of(kernel);
    size_t pixel = (size_t)m.block * m.size, in_row = (size_t)m.width[0] * pixel, out_row = (size_t)m.width[1] * pixel;
    for (int64_t i = 0; i < m.count; i++, m.in += (size_t)m.height[0] * in_row) {
        const char *row = m.in + (size_t)w->before[0] * in_row + (size_t)w->before[1] * pixel;
        for (int64_t h = 0; h < m.height[1]; h++, row += in_row, m.out += out_row) memcpy(m.out, row, out_row);
    }
}

/* ---- upsampling: each pixel of x becomes window.kernel pixels of y */

static void upsample(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    images m = images_of(kernel, step, call);
    const kolo_window *w = window_of(kernel);
    size_t pixel = (size_t)m.block * m.size, row = (size_t)m.width[1] * pixel;
    for (int64_t i = 0; i < m.count * m.height[0]; i++) {
        char *first = m.out;
        for (int64_t x = 0; x < m.width[0]; x++, m.in += pixel)
            for (int again = 0; again < w->kernel[1]; again++, m.out += pixel) memcpy(m.out, m.in, pixel);
        for (int again = 1; again < w->kernel[0]; again++, m.out += row) memcpy(m.out, first, row);
    }
}

/* The `lanes` channels from c on, of the pixel {h, x} of dx in image i. */
KOLO_INLINE void sum_pixel(const images *m, const kolo_window *w, int64_t i, int64_t h, int64_t x, int64_t c,
                           int64_t lanes, int narrow)
{
    kolo_floats sum = {0};
    for (int64_t j = 0; j < w->kernel[0]; j++) {
        int64_t row = (i * m->height[0] + h * w->kernel[0] + j) * m->width[0];
        for (int64_t k = 0; k < w->kernel[1]; k++)
            sum += kolo_get(m->in, (row + x * w->kernel[1] + k) * m->block + c, lanes, narrow);
    }
    kolo_put(m->out, ((i * m->height[1] + h) * m->width[1] + x) * m->block + c, sum, lanes, narrow);
}

KOLO_INLINE void sum_pixels(const images *m, const kolo_window *w, int narrow)
{
    for (int64_t i = 0; i < m->count; i++)
        for (int64_t h = 0; h < m->height[1]; h++)
            for (int64_t x = 0; x < m->width[1]; x++)
                for (int64_t c = 0; c < m->block; c += KOLO_LANES) {
                    int64_t left = m->block - c;
                    if (left >= KOLO_LANES) sum_pixel(m, w, i, h, x, c, KOLO_LANES, narrow);
                    else sum_pixel(m, w, i, h, x, c, left, narrow);
                }
}

KOLO_ALL_TYPES(sum, (const images *m, const kolo_window *w), sum_pixels(m, w, narrow))

static void sum_up(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    images m = images_of(kernel, step, call);
    KOLO_FASTEST(sum, step->bfloat16)(&m, window_of(kernel));
}

/* ---- operations */

static kolo_status add(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op, kolo_loop *loop)
{
    dnnl_memory_desc_t from, to;
    KOLO_TRY(kolo_desc_image(plan, op->in[0], &from));
    KOLO_TRY(kolo_desc_resized(plan, &from, plan->values[op->out[0]].shape, &to));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &to));
    return kolo_step_images(kernel, op->in[0], &from, op->out[0], &to, loop) ? KOLO_OK : KOLO_INTERNAL;
}

kolo_status kolo_onednn_pad2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add(kernel, plan, op, pad);
}
kolo_status kolo_onednn_crop2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add(kernel, plan, op, crop);
}
kolo_status kolo_onednn_upsample2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add(kernel, plan, op, upsample);
}
kolo_status kolo_onednn_upsample2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return add(kernel, plan, op, sum_up);
}
