/* Batch normalisation, by custom loops in the layout of x: one pass over memory for each operation. The formulas are
 * those of reference/batch_norm.c.
 *
 * The sixteen lanes are sixteen channels of one pixel, or, where channels come first, sixteen pixels of one channel.
 * Sums are doubles, to which short sums of bfloat16 values are added as floats. The factors of a channel are computed
 * first, into rows of floats. Then y = (x − mean) · scale + shift, where mean is rounded to a float and shift corrects
 * the rounding. The rows are zero for the channels that pad the last block, so that the padding stays zero.
 *
 * A sum behind the normalisation, as in residual networks, is computed in the same pass (KOLO_FUSE_ADD). */
#include <math.h>

#include "core/lanes.h"
#include "backend/onednn/onednn.h"
#include "core/vector.h"

typedef double doubles __attribute__((vector_size(64)));
typedef float eight_floats __attribute__((vector_size(32)));

/* The rows of floats: each has one number for each channel. */
enum { MEAN, SCALE, SHIFT, BY_X, CONSTANT, ROWS };

/* ---- numbers of a channel */

typedef struct rows {
    float *row[ROWS];
} rows;

static int64_t padded(const kolo_tiling *t)
{
    return t->blocks * t->block;
}

static rows rows_at(void *memory, const kolo_tiling *t)
{
    rows r;
    for (int i = 0; i < ROWS; i++) r.row[i] = (float *)memory + i * (padded(t) + KOLO_LANES);
    return r;
}

static double variance_of(const double *reduced, int64_t channels, int64_t c)
{
    double n = reduced[2 * channels], mean = reduced[c] / n, found = reduced[channels + c] / n - mean * mean;
    return found < 0 ? 0 : found;
}

/* NULL if the operation has no such operand. */
static const void *memory_of(const kolo_call *call, int value)
{
    return value < 0 ? NULL : call->memory[value];
}

/* The statistics come from the reduced moments; where `reduced` is NULL, they are the running mean and variance. */
typedef struct statistics {
    const double *reduced;
    const float *mean, *variance, *gamma, *beta;
    double epsilon;
    int64_t channels;
} statistics;

static double mean_of(const statistics *s, int64_t c)
{
    return s->reduced ? s->reduced[c] / s->reduced[2 * s->channels] : (double)s->mean[c];
}

static double slope_of(const statistics *s, int64_t c)
{
    return 1 / sqrt((s->reduced ? variance_of(s->reduced, s->channels, c) : (double)s->variance[c]) + s->epsilon);
}

static void fill_rows(const statistics *s, int64_t padded_channels, rows r)
{
    for (int64_t c = 0; c < padded_channels; c++) {
        r.row[MEAN][c] = r.row[SCALE][c] = r.row[SHIFT][c] = 0;
        if (c >= s->channels) continue;
        double mean = mean_of(s, c), scale = slope_of(s, c) * (s->gamma ? (double)s->gamma[c] : 1);
        r.row[MEAN][c] = (float)mean;
        r.row[SCALE][c] = (float)scale;
        r.row[SHIFT][c] = (float)((s->beta ? (double)s->beta[c] : 0) + ((double)(float)mean - mean) * scale);
    }
}

/* BY_X and CONSTANT of dx = dz · SCALE + (x − MEAN) · BY_X + CONSTANT. sum: Σdz of each channel, then Σdz·x̂. */
static void fill_backward_rows(const statistics *s, const double *sum, int64_t padded_channels, rows r)
{
    double n = s->reduced[2 * s->channels];
    for (int64_t c = 0; c < padded_channels; c++) {
        r.row[BY_X][c] = r.row[CONSTANT][c] = 0;
        if (c >= s->channels) continue;
        double mean = mean_of(s, c), slope = slope_of(s, c), scale = slope * (s->gamma ? (double)s->gamma[c] : 1);
        double by_x = -scale * slope * sum[s->channels + c] / n;
        r.row[BY_X][c] = (float)by_x;
        r.row[CONSTANT][c] = (float)(-scale * sum[c] / n + ((double)(float)mean - mean) * by_x);
    }
}

/* ---- runs: `steps` groups of `lanes` neighbours, the groups `stride` elements apart, the first at element `at` */

typedef struct run {
    int64_t at, steps, stride, lanes;
} run;

typedef struct lanes_of_sums {
    doubles first[2], second[2]; /* each: of the lower and of the upper eight lanes */
} lanes_of_sums;

/* The same sums, of SHORT_STEPS bfloat16 values at most. A float holds the product of two such values exactly. Each
 * addition rounds to 2⁻²⁴ of the sum; the values themselves were rounded to 2⁻⁹. */
typedef struct short_sums {
    kolo_floats first, second;
} short_sums;
enum { SHORT_STEPS = 32 };

/* A loop, as in core/lanes.h, behind copies of vectors as a whole. */
KOLO_INLINE doubles widened(eight_floats from)
{
    float narrow[8];
    double wide[8];
    doubles to;
    memcpy(narrow, &from, sizeof narrow);
    for (int i = 0; i < 8; i++) wide[i] = narrow[i];
    memcpy(&to, wide, sizeof to);
    return to;
}
KOLO_INLINE doubles lower(kolo_floats v)
{
    eight_floats half;
    memcpy(&half, &v, sizeof half);
    return widened(half);
}
KOLO_INLINE doubles upper(kolo_floats v)
{
    eight_floats half;
    memcpy(&half, (const char *)&v + sizeof half, sizeof half);
    return widened(half);
}

KOLO_INLINE doubles widened_at(const float *from)
{
    eight_floats eight;
    memcpy(&eight, from, sizeof eight);
    return widened(eight);
}

KOLO_INLINE void add_squares(lanes_of_sums *sums, kolo_floats x)
{
    doubles low = lower(x), high = upper(x);
    sums->first[0] += low;
    sums->first[1] += high;
    sums->second[0] += low * low;
    sums->second[1] += high * high;
}

/* x: the lanes of `from`. They are read a second time where they can be, which takes gcc 12 fewer instructions than to
 * divide the vector. */
KOLO_INLINE void add_products(lanes_of_sums *sums, kolo_floats value, const float *from, kolo_floats x, int64_t lanes)
{
    bool whole = lanes == KOLO_LANES;
    doubles low = lower(value), high = upper(value);
    sums->first[0] += low;
    sums->first[1] += high;
    sums->second[0] += low * (whole ? widened_at(from) : lower(x));
    sums->second[1] += high * (whole ? widened_at(from + 8) : upper(x));
}

KOLO_INLINE void add_short_sums(lanes_of_sums *sums, const short_sums *part)
{
    sums->first[0] += lower(part->first);
    sums->first[1] += upper(part->first);
    sums->second[0] += lower(part->second);
    sums->second[1] += upper(part->second);
}

/* The rows of the channels that the lanes belong to. */
typedef struct lanes_of_rows {
    kolo_floats row[ROWS];
} lanes_of_rows;

typedef struct arrays {
    const void *x, *dy;
    void *to;    /* y or dx */
    const void *addend; /* of the fused sum */
    bool relu, relu_of_sum;
} arrays;

KOLO_INLINE kolo_floats normalised(const lanes_of_rows *r, kolo_floats x)
{
    return (x - r->row[MEAN]) * r->row[SCALE] + r->row[SHIFT];
}

/* dy, but 0 where the ReLU made y zero. */
KOLO_INLINE kolo_floats dz_of(const arrays *a, const lanes_of_rows *r, kolo_floats x, int64_t at, int64_t lanes,
                              int narrow)
{
    kolo_floats dy = kolo_get(a->dy, at, lanes, narrow), none = {0};
    return a->relu ? kolo_select_floats(normalised(r, x) <= 0, none, dy) : dy;
}

KOLO_INLINE kolo_floats rectified(kolo_floats y, bool relu)
{
    return relu ? kolo_select_floats(y < 0, (kolo_floats){0}, y) : y;
}

typedef enum task { MOMENTS, NORMALISE, NORMALISE_AND_ADD, SUMS, BACKWARD } task;

/* Adds to *part where the values are bfloat16, else to *sums. */
KOLO_INLINE void add_step(task what, const arrays *a, int64_t at, kolo_floats x, int64_t lanes, int narrow,
                          const lanes_of_rows *r, lanes_of_sums *sums, short_sums *part)
{
    kolo_floats value = what == MOMENTS ? x : dz_of(a, r, x, at, lanes, narrow);
    if (narrow) {
        part->first += value;
        part->second += value * x;
    } else if (what == MOMENTS) add_squares(sums, x);
    else add_products(sums, value, (const float *)a->x + at, x, lanes);
}

KOLO_INLINE void write_step(task what, const arrays *a, int64_t at, kolo_floats x, int64_t lanes, int narrow,
                            const lanes_of_rows *r)
{
    if (what == NORMALISE) kolo_put(a->to, at, rectified(normalised(r, x), a->relu), lanes, narrow);
    if (what == NORMALISE_AND_ADD) {
        kolo_floats y = kolo_rounded(rectified(normalised(r, x), a->relu), narrow);
        y += kolo_get(a->addend, at, lanes, narrow);
        kolo_put(a->to, at, rectified(y, a->relu_of_sum), lanes, narrow);
    }
    if (what == BACKWARD) {
        kolo_floats dz = dz_of(a, r, x, at, lanes, narrow);
        kolo_put(a->to, at, dz * r->row[SCALE] + (x - r->row[MEAN]) * r->row[BY_X] + r->row[CONSTANT], lanes, narrow);
    }
}

/* The copy of the addresses stays in registers, since no store can change it. */
KOLO_INLINE void run_lanes(task what, const arrays *given, run n, int64_t lanes, int narrow, const lanes_of_rows *r,
                           lanes_of_sums *sums)
{
    const arrays copy = *given, *a = &copy;
    bool adds = what == MOMENTS || what == SUMS;
    for (int64_t i = 0, at = n.at; i < n.steps;) {
        int64_t end = adds && narrow && n.steps - i > SHORT_STEPS ? i + SHORT_STEPS : n.steps;
        short_sums part = {0};
        for (; i < end; i++, at += n.stride) {
            kolo_floats x = kolo_get(a->x, at, lanes, narrow);
            if (adds) add_step(what, a, at, x, lanes, narrow, r, sums, &part);
            else write_step(what, a, at, x, lanes, narrow, r);
        }
        if (adds && narrow) add_short_sums(sums, &part);
    }
}

/* The two numbers of lanes that nearly all layouts have are constants to the compiler. */
KOLO_INLINE void run_once(task what, const arrays *a, run n, int narrow, const lanes_of_rows *r, lanes_of_sums *sums)
{
    if (n.lanes == KOLO_LANES) run_lanes(what, a, n, KOLO_LANES, narrow, r, sums);
    else if (n.lanes == KOLO_LANES / 2) run_lanes(what, a, n, KOLO_LANES / 2, narrow, r, sums);
    else run_lanes(what, a, n, n.lanes, narrow, r, sums);
}

/* ---- a microbatch */

/* Adds the sums of the lanes to sum[]: lane i belongs to channel c + i if `apart`, else to channel c. */
static void keep_sums(const lanes_of_sums *sums, double *sum, int64_t channels, int64_t c, int64_t lanes, bool apart)
{
    for (int64_t i = 0; i < lanes; i++) {
        int64_t to = apart ? c + i : c;
        if (to >= channels) break;
        sum[to] += sums->first[i / 8][i % 8];
        sum[channels + to] += sums->second[i / 8][i % 8];
    }
}

KOLO_INLINE void load_rows(task what, const rows *r, int64_t c, bool apart, lanes_of_rows *lanes)
{
    int count = what == MOMENTS ? 0 : what == BACKWARD ? ROWS : SHIFT + 1;
    for (int i = 0; i < count; i++)
        lanes->row[i] = apart ? kolo_get(r->row[i], c, KOLO_LANES, 0) : r->row[i][c] + (kolo_floats){0};
}

/* For layouts in which channels are neighbours: up to sixteen channels at a time, over all pixels of all samples. */
KOLO_INLINE void over_channels(task what, const kolo_tiling *t, int64_t samples, const arrays *a, const rows *r,
                               double *sum, int narrow)
{
    int64_t pixels = t->height * t->width;
    run n = {.steps = pixels, .stride = t->block};
    for (int64_t c = 0; c < padded(t); c += n.lanes) {
        int64_t b = c / t->block, left = t->block - c % t->block;
        n.lanes = left < KOLO_LANES ? left : KOLO_LANES;
        lanes_of_sums sums = {0};
        lanes_of_rows lanes;
        load_rows(what, r, c, true, &lanes);
        for (int64_t s = 0; s < samples; s++) {
            n.at = ((s * t->blocks + b) * pixels) * t->block + c % t->block;
            run_once(what, a, n, narrow, &lanes, &sums);
        }
        if (sum) keep_sums(&sums, sum, t->channels, c, n.lanes, true);
    }
}

/* For layouts in which pixels are neighbours: sixteen pixels of a channel at a time. */
KOLO_INLINE void over_pixels(task what, const kolo_tiling *t, int64_t samples, const arrays *a, const rows *r,
                             double *sum, int narrow)
{
    int64_t pixels = t->height * t->width, whole = pixels / KOLO_LANES, rest = pixels % KOLO_LANES;
    for (int64_t c = 0; c < t->channels; c++) {
        lanes_of_sums sums = {0};
        lanes_of_rows lanes;
        load_rows(what, r, c, false, &lanes);
        for (int64_t s = 0; s < samples; s++) {
            int64_t at = (s * t->channels + c) * pixels;
            run_lanes(what, a, (run){at, whole, KOLO_LANES, KOLO_LANES}, KOLO_LANES, narrow, &lanes, &sums);
            if (rest > 0) run_lanes(what, a, (run){at + pixels - rest, 1, 0, rest}, rest, narrow, &lanes, &sums);
        }
        if (sum) keep_sums(&sums, sum, t->channels, c, KOLO_LANES, false);
    }
}

KOLO_INLINE void over_microbatch(task what, const kolo_tiling *t, int64_t samples, const arrays *a, const rows *r,
                                 double *sum, int narrow)
{
    if (t->block == 1) over_pixels(what, t, samples, a, r, sum, narrow);
    else over_channels(what, t, samples, a, r, sum, narrow);
}

#define OVER_MICROBATCH(name, what)                                                                                    \
    KOLO_ALL_TYPES(name, (const kolo_tiling *t, int64_t samples, const arrays *a, const rows *r, double *sum),         \
                   over_microbatch(what, t, samples, a, r, sum, narrow))
OVER_MICROBATCH(moments, MOMENTS)
OVER_MICROBATCH(normalise, NORMALISE)
OVER_MICROBATCH(normalise_and_add, NORMALISE_AND_ADD)
OVER_MICROBATCH(sums, SUMS)
OVER_MICROBATCH(backward, BACKWARD)

/* ---- steps */

/* The tiling of x. If it has only one block of channels, the pixels of all samples follow one another: they are treated
 * as those of a single sample, and *samples becomes 1. */
static kolo_tiling flat(const kolo_step *step, int64_t *samples)
{
    kolo_tiling t = step->x;
    if (t.blocks > 1) return t;
    t.width *= *samples;
    *samples = 1;
    return t;
}

static statistics statistics_of(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call, int gamma)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    bool forward = op->kind == KOLO_OP_BATCH_NORM;
    return (statistics){.reduced = memory_of(call, op->in[forward ? 1 : 2]),
                        .mean = forward ? memory_of(call, op->in[4]) : NULL,
                        .variance = forward ? memory_of(call, op->in[5]) : NULL,
                        .gamma = memory_of(call, op->in[gamma]),
                        .beta = memory_of(call, op->in[gamma + 1]),
                        .epsilon = op->epsilon,
                        .channels = step->x.channels};
}

/* Zeros the samples that pad the microbatch. */
static void clear_padding(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call, void *values)
{
    size_t sample = (size_t)kolo_tiling_count(step->x) * (step->bfloat16 ? 2 : 4);
    memset((char *)values + sample * (size_t)call->samples, 0,
           sample * (size_t)(kernel->plan->microbatch - call->samples));
}

/* Operands: x. */
static void moments(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    double *sum = call->memory[kernel->plan->ops[kernel->op].out[0]];
    int64_t samples = call->samples;
    kolo_tiling t = flat(step, &samples);
    arrays a = {.x = kolo_operand_pointer(&step->operand[0], call)};
    rows none = {0};
    for (int64_t i = 0; i < 2 * t.channels; i++) sum[i] = 0;
    KOLO_FASTEST(moments, step->bfloat16)(&t, samples, &a, &none, sum);
    sum[2 * t.channels] = (double)(samples * t.height * t.width);
}

/* Writes the gradients of the running mean and variance: samples · mean and samples · variance. */
static void write_running_gradients(const kolo_op *op, const statistics *s, const kolo_call *call)
{
    float *mean = op->out[1] < 0 ? NULL : call->memory[op->out[1]];
    float *variance = op->out[2] < 0 ? NULL : call->memory[op->out[2]];
    for (int64_t c = 0; mean && c < s->channels; c++) mean[c] = (float)(call->samples * mean_of(s, c));
    for (int64_t c = 0; variance && c < s->channels; c++)
        variance[c] = (float)(call->samples * variance_of(s->reduced, s->channels, c));
}

/* Operands: x, y, rows, and the fused sum's other addend. */
static void normalise(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    int64_t samples = call->samples;
    kolo_tiling t = flat(step, &samples);
    statistics s = statistics_of(kernel, step, call, 2);
    rows r = rows_at(kolo_operand_pointer(&step->operand[2], call), &t);
    arrays a = {.x = kolo_operand_pointer(&step->operand[0], call),
                .to = kolo_operand_pointer(&step->operand[1], call),
                .relu = op->activation == KOLO_RELU,
                .relu_of_sum = step->flag};
    fill_rows(&s, padded(&t), r);
    if (step->count > 3) {
        a.addend = kolo_operand_pointer(&step->operand[3], call);
        KOLO_FASTEST(normalise_and_add, step->bfloat16)(&t, samples, &a, &r, NULL);
    } else KOLO_FASTEST(normalise, step->bfloat16)(&t, samples, &a, &r, NULL);
    clear_padding(kernel, step, call, a.to);
    if (s.reduced) write_running_gradients(op, &s, call);
}

/* Turns Σdz·x into Σdz·x̂, and writes the gradients of gamma and beta. */
static void finish_sums(const kolo_op *op, const statistics *s, const kolo_call *call, double *sum)
{
    float *dgamma = op->out[1] < 0 ? NULL : call->memory[op->out[1]];
    float *dbeta = op->out[2] < 0 ? NULL : call->memory[op->out[2]];
    for (int64_t c = 0; c < s->channels; c++) {
        sum[s->channels + c] = (sum[s->channels + c] - mean_of(s, c) * sum[c]) * slope_of(s, c);
        if (dgamma) dgamma[c] = (float)sum[s->channels + c];
        if (dbeta) dbeta[c] = (float)sum[c];
    }
}

/* Operands: dy, x, rows. */
static void sum_up(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    double *sum = call->memory[op->out[0]];
    int64_t samples = call->samples;
    kolo_tiling t = flat(step, &samples);
    statistics s = statistics_of(kernel, step, call, 3);
    rows r = rows_at(kolo_operand_pointer(&step->operand[2], call), &t);
    arrays a = {.dy = kolo_operand_pointer(&step->operand[0], call),
                .x = kolo_operand_pointer(&step->operand[1], call),
                .relu = op->activation == KOLO_RELU};
    fill_rows(&s, padded(&t), r);
    for (int64_t i = 0; i < 2 * t.channels; i++) sum[i] = 0;
    KOLO_FASTEST(sums, step->bfloat16)(&t, samples, &a, &r, sum);
    finish_sums(op, &s, call, sum);
}

/* Operands: dy, x, dx, rows. */
static void backward(const kolo_kernel *kernel, const kolo_step *step, const kolo_call *call)
{
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    int64_t samples = call->samples;
    kolo_tiling t = flat(step, &samples);
    statistics s = statistics_of(kernel, step, call, 3);
    rows r = rows_at(kolo_operand_pointer(&step->operand[3], call), &t);
    arrays a = {.dy = kolo_operand_pointer(&step->operand[0], call),
                .x = kolo_operand_pointer(&step->operand[1], call),
                .to = kolo_operand_pointer(&step->operand[2], call),
                .relu = op->activation == KOLO_RELU};
    fill_rows(&s, padded(&t), r);
    fill_backward_rows(&s, call->memory[op->in[5]], padded(&t), r);
    KOLO_FASTEST(backward, step->bfloat16)(&t, samples, &a, &r, NULL);
    clear_padding(kernel, step, call, a.to);
}

/* ---- operations */

/* *operand becomes x in a layout whose tiling, *t, has the channels of x: an image keeps its layout, anything else
 * becomes rows of channels. A step reorders x where it is a view of a value in another layout. */
static kolo_status reorder_x_in(kolo_kernel *kernel, kolo_plan *plan, int value, kolo_operand *operand, kolo_tiling *t)
{
    kolo_shape shape = plan->values[value].shape;
    int64_t channels = shape.dim[shape.rank - 1];
    kolo_operand from = kolo_operand_of(kernel, value);
    dnnl_memory_desc_t wanted;
    if (shape.rank == 3) KOLO_TRY(kolo_desc_image(plan, value, &wanted));
    else KOLO_TRY(kolo_desc_plain(plan, value, from.desc.data_type, &wanted));
    wanted.data_type = from.desc.data_type;
    KOLO_TRY(kolo_reorder_in(kernel, from, &wanted, operand));
    if (!kolo_tiling_of(&operand->desc, t)) return kolo_fail(KOLO_INTERNAL, "a layout without tiles");
    if (shape.rank != 3) *t = (kolo_tiling){channels, 1, kolo_shape_count(shape) / channels, channels, 1};
    return KOLO_OK;
}

static kolo_status add_rows(kolo_kernel *kernel, kolo_tiling t, kolo_operand *operand)
{
    dnnl_memory_desc_t desc;
    KOLO_TRY(kolo_desc_rows(ROWS, padded(&t) + KOLO_LANES, dnnl_f32, &desc));
    *operand = kolo_operand_scratch(kernel, &desc);
    return KOLO_OK;
}

static kolo_status place_parameters(kolo_plan *plan, const int *values, int count)
{
    for (int i = 0; i < count; i++) KOLO_TRY(kolo_layout_set_plain(plan, values[i]));
    return KOLO_OK;
}

static kolo_status add_loop(kolo_kernel *kernel, kolo_loop *loop, int count, const kolo_operand *operands,
                            kolo_tiling t)
{
    kolo_step *step = kolo_step_loop(kernel, loop, count, operands);
    if (!step) return KOLO_INTERNAL;
    step->x = t;
    return KOLO_OK;
}

kolo_status kolo_onednn_batch_norm_moments(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_tiling t;
    kolo_operand x;
    KOLO_TRY(reorder_x_in(kernel, plan, op->in[0], &x, &t));
    return add_loop(kernel, moments, 1, &x, t);
}

/* The addend of the sum behind it, in the layout of the normalised values. */
static kolo_status read_addend(kolo_kernel *kernel, const kolo_plan *plan, const kolo_op *op, const kolo_op *sum,
                               kolo_operand *operands)
{
    int addend = kolo_plan_same(plan, sum->in[0], op->out[0]) ? sum->in[1] : sum->in[0];
    return kolo_reorder_in(kernel, kolo_operand_of(kernel, addend), &operands[0].desc, &operands[3]);
}

kolo_status kolo_onednn_batch_norm(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    const kolo_op *sum = kolo_onednn_fused(plan, op);
    kolo_tiling t;
    kolo_operand operands[4] = {0};
    KOLO_TRY(reorder_x_in(kernel, plan, op->in[0], &operands[0], &t));
    KOLO_TRY(place_parameters(plan, op->in + 2, 4));
    KOLO_TRY(place_parameters(plan, op->out + 1, 2));
    dnnl_memory_desc_t layout = operands[0].desc;
    layout.data_type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &layout));
    operands[1] = kolo_output_buffer(kernel, op->out[0], &operands[0].desc);
    KOLO_TRY(add_rows(kernel, t, &operands[2]));
    if (sum) KOLO_TRY(read_addend(kernel, plan, op, sum, operands));
    KOLO_TRY(add_loop(kernel, normalise, sum ? 4 : 3, operands, t));
    kernel->step[kernel->step_count - 1].flag = sum && sum->activation == KOLO_RELU;
    return kolo_reorder_out(kernel, operands[1], op->out[0]);
}

kolo_status kolo_onednn_batch_norm_sums(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_tiling t;
    kolo_operand operands[3] = {0};
    KOLO_TRY(reorder_x_in(kernel, plan, op->in[1], &operands[1], &t));
    KOLO_TRY(place_parameters(plan, op->in + 3, 2));
    KOLO_TRY(place_parameters(plan, op->out + 1, 2));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[0]), &operands[1].desc, &operands[0]));
    KOLO_TRY(add_rows(kernel, t, &operands[2]));
    return add_loop(kernel, sum_up, 3, operands, t);
}

kolo_status kolo_onednn_batch_norm_backward(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_tiling t;
    kolo_operand operands[4] = {0};
    KOLO_TRY(reorder_x_in(kernel, plan, op->in[1], &operands[1], &t));
    KOLO_TRY(place_parameters(plan, op->in + 3, 2));
    dnnl_memory_desc_t layout = operands[1].desc;
    layout.data_type = kolo_onednn_type(plan, op->out[0]);
    KOLO_TRY(kolo_layout_set(plan, op->out[0], &layout));
    KOLO_TRY(kolo_reorder_in(kernel, kolo_operand_of(kernel, op->in[0]), &operands[1].desc, &operands[0]));
    operands[2] = kolo_output_buffer(kernel, op->out[0], &operands[1].desc);
    KOLO_TRY(add_rows(kernel, t, &operands[3]));
    KOLO_TRY(add_loop(kernel, backward, 4, operands, t));
    return kolo_reorder_out(kernel, operands[2], op->out[0]);
}
