/* A plan made by hand, prepared and run by any backend: operations are fed through INPUT operations and read back as
 * doubles. Memory is filled with NaN first, so that what a kernel reads without having written shows.
 */
#ifndef KOLO_TESTS_RIG_H
#define KOLO_TESTS_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "layers/common.h"

/* ---- numbers */

typedef struct dice {
    uint64_t state;
} dice;

static inline uint32_t roll(dice *d)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33);
}
static inline int roll_between(dice *d, int low, int high)
{
    return low + (int)(roll(d) % (uint32_t)(high - low + 1));
}
static inline bool roll_coin(dice *d)
{
    return roll(d) & 1;
}

/* steps = 0: any numbers in [-1, 1); else multiples of 1/steps in [-1/2, 1/2], whose sums of products are exact in
 * float32, so that backends that add in different orders must agree to the last bit. */
static inline float *numbers(dice *d, int64_t count, int steps)
{
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        if (steps == 0) values[i] = (float)roll(d) * 0x1p-30f - 1;
        if (steps != 0) values[i] = (float)roll_between(d, -steps / 2, steps / 2) / (float)steps;
    }
    return values;
}

/* ---- the rig */

typedef struct rig {
    const kolo_backend *backend;
    kolo_plan plan;
    void **kernels, **memory;
    void *scratch;
    kolo_totals totals;
    int32_t labels[64];
    kolo_call call;
} rig;

static inline void rig_ok(kolo_status status)
{
    if (status != KOLO_OK) print_error("%s\n", kolo_failure_take().text);
    assert_int_equal(status, KOLO_OK);
}

static inline rig *rig_new(const kolo_backend *backend, kolo_precision precision, int leaf)
{
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->backend = backend;
    r->plan = (kolo_plan){.leaf = leaf, .training = true, .dropout = true, .precision = precision};
    r->call = (kolo_call){.samples = leaf, .seed = 7, .step = 3, .first_sample = 64};
    return r;
}

static inline int rig_value(rig *r, kolo_value_kind kind, kolo_shape shape)
{
    int value = kolo_plan_value(&r->plan, kind, shape);
    assert_true(value >= 0);
    return value;
}

static inline void rig_op(rig *r, kolo_op op)
{
    if (op.activation == 0) op.activation = KOLO_LINEAR;
    rig_ok(kolo_plan_op(&r->plan, op));
}

/* Features, and the activations that they become; the features are the value before. */
static inline int rig_input(rig *r, kolo_shape shape)
{
    int features = rig_value(r, KOLO_VALUE_INPUT, shape), x = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
    rig_op(r, (kolo_op){.kind = KOLO_OP_INPUT, .in = {features}, .out = {x}});
    return x;
}

/* What to read a value by. The reference backend's is read as it lies; another backend's layout is its own affair, so
 * a pooling of single pixels copies the value into a canonical one. */
static inline int rig_probe(rig *r, int value)
{
    kolo_shape shape = r->plan.values[value].shape;
    if (r->backend == &kolo_reference_backend || kolo_plan_canonical(&r->plan, value)) return value;
    if (shape.rank != 3) shape = (kolo_shape){3, {1, 1, (int)kolo_shape_count(shape)}};
    int view = kolo_plan_view(&r->plan, value, shape), copy = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
    r->plan.values[copy].canonical = true;
    kolo_window pixel = {.kernel = {1, 1}, .stride = {1, 1}};
    rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D, .in = {view}, .out = {copy, -1}, .window = pixel});
    return copy;
}

/* Kernels and memory; from here on nothing can be added. */
static inline void rig_prepare(rig *r)
{
    size_t scratch = 64;
    r->kernels = calloc((size_t)r->plan.op_count, sizeof *r->kernels);
    r->memory = calloc((size_t)r->plan.value_count, sizeof *r->memory);
    assert_true(r->kernels && r->memory);
    rig_ok(r->backend->open(r->plan.precision));
    r->backend->enter_thread();
    for (int op = 0; op < r->plan.op_count; op++) {
        rig_ok(r->backend->prepare(&r->plan, op, &r->kernels[op]));
        if (r->plan.ops[op].scratch > scratch) scratch = r->plan.ops[op].scratch;
    }
    for (int v = 0; v < r->plan.value_count; v++) {
        if (r->plan.values[v].view_of >= 0) continue;
        r->memory[v] = kolo_host_allocate(r->plan.values[v].bytes + 64);
        assert_non_null(r->memory[v]);
        memset(r->memory[v], 0xFF, r->plan.values[v].bytes);
    }
    for (int v = 0; v < r->plan.value_count; v++) r->memory[v] = r->memory[kolo_plan_base(&r->plan, v)];
    r->scratch = kolo_host_allocate(scratch);
    assert_non_null(r->scratch);
    memset(r->scratch, 0xFF, scratch);
    r->call.memory = r->memory;
    r->call.scratch = r->scratch;
    r->call.labels = r->labels;
    r->call.totals = &r->totals;
}

/* Into the features behind x, or a WEIGHTS value. */
static inline void rig_write(rig *r, int value, const float *values)
{
    const kolo_value *v = &r->plan.values[value];
    if (v->kind == KOLO_VALUE_WEIGHTS) {
        rig_ok(r->backend->pack(&r->plan, value, values, r->memory[value]));
    } else {
        memcpy(r->memory[value - 1], values, (size_t)(r->plan.leaf * kolo_shape_count(v->shape)) * sizeof *values);
    }
}

static inline void rig_run(rig *r)
{
    for (int op = 0; op < r->plan.op_count; op++) rig_ok(r->backend->run(r->kernels[op], &r->call));
}

static inline int64_t rig_count(const rig *r, int value)
{
    const kolo_value *v = &r->plan.values[value];
    bool parameter = v->kind == KOLO_VALUE_WEIGHTS || v->kind == KOLO_VALUE_GRADIENT;
    return (parameter ? 1 : r->plan.leaf) * kolo_shape_count(v->shape);
}

/* The caller frees it. */
static inline double *rig_read(rig *r, int value)
{
    int64_t count = rig_count(r, value);
    double *values = malloc((size_t)count * sizeof *values);
    float *floats = malloc((size_t)count * sizeof *floats);
    assert_true(values && floats);
    const void *memory = r->memory[value];
    bool gradient = r->plan.values[value].kind == KOLO_VALUE_GRADIENT;
    if (gradient) {
        rig_ok(r->backend->unpack(&r->plan, value, memory, floats));
        memory = floats;
    }
    bool is_double = !gradient && !kolo_plan_canonical(&r->plan, value);
    for (int64_t i = 0; i < count; i++) {
        values[i] = is_double ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
    }
    free(floats);
    return values;
}

static inline void rig_free(rig *r)
{
    for (int op = 0; op < r->plan.op_count; op++) r->backend->release(r->kernels[op]);
    for (int v = 0; v < r->plan.value_count; v++) {
        if (r->plan.values[v].view_of < 0) kolo_host_deallocate(r->memory[v]);
    }
    kolo_host_deallocate(r->scratch);
    r->backend->forget(&r->plan);
    kolo_plan_free(&r->plan);
    free(r->kernels);
    free(r->memory);
    free(r);
}

/* ---- windows */

static inline kolo_window rig_window(kolo_shape in, int height, int width, int stride_h, int stride_w, bool same,
                                     kolo_shape *out, int channels)
{
    kolo_layer_node node = {.in = in};
    kolo_window window;
    int sizes[2];
    const kolo_window_wish wish = {.what = "window",
                                   .size = {height, width},
                                   .stride = {stride_h, stride_w},
                                   .padding = same ? KOLO_SAME : KOLO_VALID};
    rig_ok(kolo_window_make(&node, &wish, &window, sizes));
    *out = (kolo_shape){3, {sizes[0], sizes[1], channels}};
    return window;
}

/* ---- comparing */

/* max|a − b| / max|b|; infinite if anything is not a number. */
static inline double rig_distance(const double *a, const double *b, int64_t count)
{
    double difference = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
        difference = fmax(difference, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    return difference == 0 ? 0 : difference / largest;
}

#endif
