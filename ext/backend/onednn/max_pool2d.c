/* Max pooling, by custom loops in the tiling that the input has.
 *
 * `where` holds each maximum's place in its window, in the tiling of y: one byte, or four where the window has 255
 * places or more. With a fused ReLU (KOLO_FUSE_RELU_MASK) the place is "nowhere" if the ReLU makes the maximum zero.
 * Its gradient is then zero, without the ReLU's separate pass over the gradient of x, which is four times larger.
 */
#include "backend/onednn/onednn.h"
#include "core/lanes.h"
#include "core/vector.h"

typedef struct pool {
    kolo_tiling x, y;
    kolo_window window;
    bool relu;        /* fused; the place of its zeros is "nowhere" */
    bool wide;        /* places are int32_t, not bytes */
    bool exact;       /* windows cover each pixel once */
    bool overlapping; /* windows may share pixels */
    const void *in;
    void *out;
    void *where;  /* the places; may be NULL */
    void *plane; /* float[height · width of x][KOLO_LANES], for sums */
} pool;

static bool is_wide(const kolo_window *window)
{
    return (int64_t)window->kernel[0] * window->kernel[1] >= UINT8_MAX;
}

KOLO_INLINE kolo_ints get_places(const void *where, int64_t at, int64_t lanes, bool wide)
{
    kolo_ints places = {0};
    kolo_bytes bytes = {0};
    if (wide) memcpy(&places, (const int32_t *)where + at, (size_t)lanes * sizeof(int32_t));
    if (wide) return places;
    memcpy(&bytes, (const uint8_t *)where + at, (size_t)lanes);
    return __builtin_convertvector(bytes, kolo_ints);
}

/* "Nowhere" is all ones. As a byte it is 255, which is no place of a window that is not wide. */
KOLO_INLINE void put_places(void *where, int64_t at, kolo_ints places, int64_t lanes, bool wide)
{
    kolo_bytes bytes = __builtin_convertvector(places, kolo_bytes);
    if (wide) memcpy((int32_t *)where + at, &places, (size_t)lanes * sizeof(int32_t));
    if (!wide) memcpy((uint8_t *)where + at, &bytes, (size_t)lanes);
}

/* The rows (axis 0) or columns (axis 1) of the window at output position `at` that lie on the input: from *first to
 * *end - 1. */
KOLO_INLINE void clip(const kolo_window *window, int axis, int64_t at, int64_t length, int64_t *first, int64_t *end)
{
    int64_t origin = at * window->stride[axis] - window->before[axis], size = window->kernel[axis];
    *first = origin < 0 ? -origin : 0;
    *end = origin + size > length ? length - origin : size;
}

/* ---- forward */

/* All ones in the lanes that are NaN. It computes with the bits, since gcc 12 would split a second comparison of the
 * same vector into scalar ones. */
KOLO_INLINE kolo_ints nan_lanes(kolo_floats value)
{
    const int32_t infinity = 0x7F800000;
    return (infinity - ((kolo_ints)value & INT32_MAX)) >> 31;
}

/* The maxima of one window in neighbouring channels. x: the first channel's element in the window's pixel {0, 0}. */
KOLO_INLINE void window_maxima(const pool *p, int64_t x, int64_t h, int64_t w, int64_t y, int64_t lanes, int narrow)
{
    int64_t i0, i1, j0, j1;
    clip(&p->window, 0, h, p->x.height, &i0, &i1);
    clip(&p->window, 1, w, p->x.width, &j0, &j1);
    kolo_floats best = kolo_get(p->in, x + (i0 * p->x.width + j0) * p->x.block, lanes, narrow);
    kolo_ints place = (int32_t)(i0 * p->window.kernel[1] + j0) - (kolo_ints){0};
    for (int64_t i = i0; i < i1; i++) {
        for (int64_t j = j0; j < j1; j++) {
            kolo_floats value = kolo_get(p->in, x + (i * p->x.width + j) * p->x.block, lanes, narrow);
            kolo_ints here = (int32_t)(i * p->window.kernel[1] + j) - (kolo_ints){0};
            kolo_ints larger = value > best, nan = nan_lanes(value);
            place = kolo_select_ints(nan, here, kolo_select_ints(larger, here, place));
            best = kolo_select_floats(nan, value, kolo_select_floats(larger, value, best));
        }
    }
    if (p->relu) best = kolo_select_floats(best < 0, (kolo_floats){0}, best);
    kolo_put(p->out, y, best, lanes, narrow);
    if (p->where && p->relu) place |= best <= 0; /* all ones: nowhere */
    if (p->where) put_places(p->where, y, place, lanes, p->wide);
}

KOLO_INLINE void forward_block(const pool *p, int64_t x, int64_t y, int64_t lanes, int narrow)
{
    for (int64_t h = 0; h < p->y.height; h++) {
        for (int64_t w = 0; w < p->y.width; w++) {
            int64_t row = h * p->window.stride[0] - p->window.before[0];
            int64_t column = w * p->window.stride[1] - p->window.before[1];
            window_maxima(p, x + (row * p->x.width + column) * p->x.block, h, w, y + (h * p->y.width + w) * p->y.block,
                          lanes, narrow);
        }
    }
}

/* ---- backward: x stands for dx, which is written; y for dy, which is read */

/* Each pixel of the window becomes dy if the maximum was there, else 0. Where windows overlap (`sum`, a constant), that
 * is added to the plane instead. x: the first channel's element in dx; pixel: the window's pixel {0, 0}. */
KOLO_INLINE void window_gradient(const pool *p, int64_t x, int64_t pixel, int64_t h, int64_t w, int64_t y,
                                 int64_t lanes, int narrow, bool sum)
{
    int64_t i0, i1, j0, j1;
    clip(&p->window, 0, h, p->x.height, &i0, &i1);
    clip(&p->window, 1, w, p->x.width, &j0, &j1);
    kolo_floats dy = kolo_get(p->in, y, lanes, narrow);
    kolo_ints place = get_places(p->where, y, lanes, p->wide);
    for (int64_t i = i0; i < i1; i++) {
        for (int64_t j = j0; j < j1; j++) {
            int32_t here = (int32_t)(i * p->window.kernel[1] + j);
            int64_t at = pixel + i * p->x.width + j;
            kolo_floats dx = (kolo_floats)((kolo_ints)dy & (place == here));
            if (sum) dx = kolo_get(p->plane, at * KOLO_LANES, KOLO_LANES, 0) + dx;
            if (sum) kolo_put(p->plane, at * KOLO_LANES, dx, KOLO_LANES, 0);
            else kolo_put(p->out, x + at * p->x.block, dx, lanes, narrow);
        }
    }
}

KOLO_INLINE void backward_block(const pool *p, int64_t x, int64_t y, int64_t lanes, int narrow)
{
    int64_t pixels = p->x.height * p->x.width;
    if (p->overlapping) memset(p->plane, 0, (size_t)(pixels * KOLO_LANES) * sizeof(float));
    for (int64_t pixel = 0; !p->exact && !p->overlapping && pixel < pixels; pixel++) {
        kolo_put(p->out, x + pixel * p->x.block, (kolo_floats){0}, lanes, narrow);
    }
    for (int64_t h = 0; h < p->y.height; h++) {
        for (int64_t w = 0; w < p->y.width; w++) {
            int64_t row = h * p->window.stride[0] - p->window.before[0];
            int64_t column = w * p->window.stride[1] - p->window.before[1];
            int64_t pixel = row * p->x.width + column, dy = y + (h * p->y.width + w) * p->y.block;
            if (p->overlapping) window_gradient(p, x, pixel, h, w, dy, lanes, narrow, true);
            else window_gradient(p, x, pixel, h, w, dy, lanes, narrow, false);
        }
    }
    for (int64_t pixel = 0; p->overlapping && pixel < pixels; pixel++) {
        kolo_floats sum = kolo_get(p->plane, pixel * KOLO_LANES, KOLO_LANES, 0);
        kolo_put(p->out, x + pixel * p->x.block, sum, lanes, narrow);
    }
}

/* ---- over a microbatch */

/* The blocks of one sample, at most KOLO_LANES channels at a time. */
KOLO_INLINE void each_block(const pool *p, int64_t n, bool forward, int narrow)
{
    for (int64_t b = 0; b < p->x.blocks; b++) {
        int64_t x = n * kolo_tiling_count(p->x) + b * p->x.block * p->x.height * p->x.width;
        int64_t y = n * kolo_tiling_count(p->y) + b * p->y.block * p->y.height * p->y.width;
        for (int64_t c = 0; c < p->x.block; c += KOLO_LANES) {
            int64_t left = p->x.block - c;
            if (forward && left >= KOLO_LANES) forward_block(p, x + c, y + c, KOLO_LANES, narrow);
            if (forward && left < KOLO_LANES) forward_block(p, x + c, y + c, left, narrow);
            if (!forward && left >= KOLO_LANES) backward_block(p, x + c, y + c, KOLO_LANES, narrow);
            if (!forward && left < KOLO_LANES) backward_block(p, x + c, y + c, left, narrow);
        }
    }
}

/* The copies are for the compiler: no other pointer can point to them, so a store to `where` cannot change them. */
KOLO_ALL_TYPES(forward, (const pool *p, int64_t n), const pool copy = *p; each_block(&copy, n, true, narrow))
KOLO_ALL_TYPES(backward, (const pool *p, int64_t n), const pool copy = *p; each_block(&copy, n, false, narrow))

static pool pool_of(const kolo_kernel *kernel, const kolo_step *step)
{
    pool p = {.x = step->x, .y = step->y, .window = kernel->plan->ops[kernel->op].window, .relu = step->flag};
    p.wide = is_wide(&p.window);
    p.exact = true;
    for (int axis = 0; axis < 2; axis++) {
        int64_t in = axis ? p.x.width : p.x.height, out = axis ? p.y.width : p.y.height;
        int stride = p.window.stride[axis], size = p.window.kernel[axis];
        p.overlapping = p.overlapping || stride < size;
        p.exact = p.exact && stride == size && out * stride >= in + p.window.before[axis];
    }
    return p;
}

/* Operands: x, y, where. */
static void pool_forward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    pool p = pool_of(kernel, step);
    p.in = kolo_operand_pointer(&step->operand[0], call);
    p.out = kolo_operand_pointer(&step->operand[1], call);
    if (step->count > 2) p.where = kolo_operand_pointer(&step->operand[2], call);
    for (int64_t n = 0; n < kernel->plan->microbatch; n++) KOLO_FASTEST(forward, step->bfloat16)(&p, n);
}

/* Operands: dy, dx, where, plane. */
static void pool_backward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    pool p = pool_of(kernel, step);
    p.in = kolo_operand_pointer(&step->operand[0], call);
    p.out = kolo_operand_pointer(&step->operand[1], call);
    p.where = kolo_operand_pointer(&step->operand[2], call);
    p.plane = kolo_operand_pointer(&step->operand[3], call);
    for (int64_t n = 0; n < kernel->plan->microbatch; n++) KOLO_FASTEST(backward, step->bfloat16)(&p, n);
}

/* ---- operations */

/* The layouts in which a pooling computes: that of x, and one for y with the same blocks. */
static kolo_status tilings(const kolo_plan *plan, const kolo_op *forward, dnnl_memory_desc_t *x, dnnl_memory_desc_t *y)
{
    KOLO_TRY(kolo_desc_image(plan, forward->in[0], x));
    return kolo_desc_resized(plan, x, plan->values[forward->out[0]].shape, y);
}

/* The blocks of y are those of x. kolo_tiling_of() could find others if y has one pixel. */
static void set_tilings(kolo_step *step, const dnnl_memory_desc_t *x, const dnnl_memory_desc_t *y)
{
    kolo_tiling_of(x, &step->x);
    step->y = step->x;
    step->y.height = y->dims[2];
    step->y.width = y->dims[3];
}

kolo_status kolo_onednn_max_pool2d(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    dnnl_memory_desc_t x, y;
    kolo_operand operands[3] = {[2] = {.value = op->out[1]}};
    KOLO_TRY(tilings(plan, op, &x, &y));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &y));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[0]), &x, &operands[0]));
    operands[1] = kolo_output_buffer(kernel, op->out[0], &y);
    kolo_step *step = kolo_step_loop(kernel, pool_forward, op->out[1] < 0 ? 2 : 3, operands);
    if (!step) return KOLO_INTERNAL;
    step->flag = op->activation == KOLO_RELU;
    set_tilings(step, &x, &y);
    if (op->out[1] >= 0) {
        size_t size = is_wide(&op->window) ? sizeof(int32_t) : sizeof(uint8_t);
        plan->values[op->out[1]].bytes = (size_t)(plan->microbatch * kolo_tiling_count(step->y)) * size;
    }
    return kolo_reorder_out(kernel, operands[1], op->out[0]);
}

kolo_status kolo_onednn_max_pool2d_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    dnnl_memory_desc_t x, y, plane;
    kolo_operand operands[4] = {[2] = {.value = op->in[1]}};
    KOLO_TRY(tilings(plan, kolo_plan_writer(plan, op->in[1]), &x, &y));
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &x));
    KOLO_TRY(kolo_desc_rows(x.dims[2] * x.dims[3], KOLO_LANES, dnnl_f32, &plane));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[0]), &y, &operands[0]));
    operands[1] = kolo_output_buffer(kernel, op->out[0], &x);
    operands[3] = kolo_operand_scratch(kernel, &plane);
    kolo_step *step = kolo_step_loop(kernel, pool_backward, 4, operands);
    if (!step) return KOLO_INTERNAL;
    set_tilings(step, &x, &y);
    return kolo_reorder_out(kernel, operands[1], op->out[0]);
}
