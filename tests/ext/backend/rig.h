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

#include <dlfcn.h>
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
    int32_t labels[512];
    float *targets, *weights; /* of the plan's outputs, before rig_prepare(): NULL, or the test's own */
    kolo_call call;
    kolo_stream *stream;  /* of the backend; all memory is its */
    kolo_step_parameters *step_parameters;  /* in its memory, like the following: */
    int32_t *device_labels;
    float *device_targets, *device_weights;
    kolo_totals *device_totals;
} rig;

static inline void rig_ok(kolo_status status)
{
    if (status != KOLO_OK) print_error("%s\n", kolo_failure_take().text);
    assert_int_equal(status, KOLO_OK);
}

/* Whether devices are the shim's, as many as KOLO_SHIM_DEVICES says: asking does not start the driver. Their memory
 * begins as poison, and a kernel that reads what nobody has written ends there. */
static inline bool rig_is_simulated(const kolo_backend *backend)
{
    Dl_info plugin = {0};
    return backend && backend->devices && dladdr(backend, &plugin) != 0 && strstr(plugin.dli_fname, "/shim/");
}

/* ---- memory: the backend's */

static inline void *rig_allocate(rig *r, size_t bytes)
{
    void *memory = NULL;
    rig_ok(r->backend->streams->allocate(r->stream, bytes, "a test", &memory));
    assert_non_null(memory);
    return memory;
}

static inline void rig_copy(rig *r, void *to, const void *from, size_t bytes)
{
    rig_ok(r->backend->streams->copy(r->stream, to, from, bytes));
    rig_ok(r->backend->streams->synchronize(r->stream));
}

static inline void *rig_allocate_poisoned(rig *r, size_t bytes)
{
    void *memory = rig_allocate(r, bytes), *poison;
    if (rig_is_simulated(r->backend)) return memory;
    poison = malloc(bytes + 1);
    assert_non_null(poison);
    memset(poison, 0xFF, bytes);
    rig_copy(r, memory, poison, bytes);
    free(poison);
    return memory;
}

static inline void rig_deallocate(rig *r, void *memory)
{
    r->backend->streams->release(r->stream, memory);
}

static inline rig *rig_new(const kolo_backend *backend, kolo_precision precision, int microbatch)
{
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->backend = backend;
    r->plan = (kolo_plan){.microbatch = microbatch, .training = true, .dropout = true, .precision = precision};
    r->call = (kolo_call){.samples = microbatch, .seed = 7, .step = 3, .first_sample = 64};
    rig_ok(backend->open(precision));
    rig_ok(backend->streams->open(&(kolo_stream_place){.backend = backend, .threads = 1}, &r->stream));
    r->plan.stream = r->stream;
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

/* A canonical copy, by an activation that changes nothing. */
static inline int rig_copied(rig *r, int value)
{
    kolo_shape flat = {1, {(int)kolo_shape_count(r->plan.values[value].shape)}};
    int view = kolo_plan_view(&r->plan, value, flat), copy = rig_value(r, KOLO_VALUE_ACTIVATION, flat);
    r->plan.values[copy].canonical = true;
    rig_op(r, (kolo_op){.kind = KOLO_OP_ACTIVATION, .in = {view}, .out = {copy}, .activation = KOLO_LINEAR});
    return copy;
}

/* What to read a value by. The reference backend's is read as it lies; another backend's layout is its own affair, so
 * a pooling of single pixels copies the value into a canonical one. */
static inline int rig_probe(rig *r, int value)
{
    kolo_shape shape = r->plan.values[value].shape;
    if (r->backend == &kolo_reference_backend || kolo_plan_canonical(&r->plan, value)) return value;
    if (r->backend->devices) return rig_copied(r, value);
    if (shape.rank != 3) shape = (kolo_shape){3, {1, 1, (int)kolo_shape_count(shape)}};
    int view = kolo_plan_view(&r->plan, value, shape), copy = rig_value(r, KOLO_VALUE_ACTIVATION, shape);
    r->plan.values[copy].canonical = true;
    kolo_window pixel = {.kernel = {1, 1}, .stride = {1, 1}};
    rig_op(r, (kolo_op){.kind = KOLO_OP_MAX_POOL2D, .in = {view}, .out = {copy, -1}, .window = pixel});
    return copy;
}

static inline size_t rig_target_bytes(const rig *r)
{
    return (size_t)(r->plan.microbatch * kolo_shape_count(r->plan.values[r->plan.output].shape)) * sizeof(float);
}

/* A fused plan does not change: a backend says how values lie in memory, and what scratch it needs, no more. */
static inline void rig_same_plan(const rig *r, const kolo_op *ops, const kolo_value *values)
{
    for (int op = 0; op < r->plan.op_count; op++) {
        kolo_op prepared = r->plan.ops[op];
        prepared.scratch = ops[op].scratch;
        if (memcmp(&prepared, &ops[op], sizeof prepared) != 0) fail_msg("prepare() changed operation %d", op);
    }
    for (int v = 0; v < r->plan.value_count; v++)
        if (r->plan.values[v].view_of != values[v].view_of) fail_msg("prepare() made value %d a view", v);
}

/* Kernels and memory; from here on nothing can be added. */
static inline void rig_prepare(rig *r)
{
    size_t scratch = 64, op_bytes = (size_t)r->plan.op_count * sizeof(kolo_op);
    size_t value_bytes = (size_t)r->plan.value_count * sizeof(kolo_value);
    r->plan.stream = r->stream;
    kolo_fuse(&r->plan, r->backend->fuses);
    kolo_op *ops = malloc(op_bytes);
    kolo_value *values = malloc(value_bytes);
    assert_true(ops && values);
    memcpy(ops, r->plan.ops, op_bytes);
    memcpy(values, r->plan.values, value_bytes);
    r->kernels = calloc((size_t)r->plan.op_count, sizeof *r->kernels);
    r->memory = calloc((size_t)r->plan.value_count, sizeof *r->memory);
    assert_true(r->kernels && r->memory);
    r->backend->enter_thread();
    for (int op = 0; op < r->plan.op_count; op++) {
        if (r->plan.ops[op].computed_by >= 0) continue;
        rig_ok(r->backend->prepare(&r->plan, op, &r->kernels[op]));
        if (r->plan.ops[op].scratch > scratch) scratch = r->plan.ops[op].scratch;
    }
    rig_same_plan(r, ops, values);
    free(ops);
    free(values);
    for (int v = 0; v < r->plan.value_count; v++) {
        if (!kolo_value_has_memory(&r->plan.values[v])) continue;
        r->memory[v] = rig_allocate_poisoned(r, r->plan.values[v].bytes + (r->backend->devices ? 0 : 64));
    }
    for (int v = 0; v < r->plan.value_count; v++) r->memory[v] = r->memory[kolo_plan_base(&r->plan, v)];
    r->scratch = rig_allocate_poisoned(r, scratch);
    r->call.memory = r->memory;
    r->call.scratch = r->scratch;
    r->call.stream = r->stream;
    r->call.step_parameters = r->step_parameters = rig_allocate(r, sizeof *r->step_parameters);
    r->call.labels = r->device_labels = rig_allocate(r, sizeof r->labels);
    r->call.totals = r->device_totals = rig_allocate(r, sizeof *r->device_totals);
    if (r->targets) r->call.targets = r->device_targets = rig_allocate(r, rig_target_bytes(r));
    if (r->weights)
        r->call.weights = r->device_weights = rig_allocate(r, (size_t)r->plan.microbatch * sizeof *r->weights);
}

/* Packs a WEIGHTS value, or unpacks a GRADIENT. */
static inline void rig_convert(rig *r, int value, const void *from, void *to)
{
    rig_ok(r->backend->streams->convert(r->stream, r->backend, &r->plan, &(kolo_conversion){value, from, to}, 1));
    rig_ok(r->backend->streams->synchronize(r->stream));
}

/* Into the features behind x, or a WEIGHTS value. */
static inline void rig_write(rig *r, int value, const float *values)
{
    const kolo_value *v = &r->plan.values[value];
    size_t count = (size_t)kolo_shape_count(v->shape), bytes = count * sizeof *values;
    if (v->kind != KOLO_VALUE_WEIGHTS) {
        rig_copy(r, r->memory[value - 1], values, (size_t)r->plan.microbatch * bytes);
        return;
    }
    float *canonical = rig_allocate(r, bytes);
    rig_copy(r, canonical, values, bytes);
    if (v->in_place) rig_copy(r, r->memory[value], canonical, bytes);
    else rig_convert(r, value, canonical, r->memory[value]);
    rig_deallocate(r, canonical);
}

/* What the host says of the microbatch, to the device; and what the device found, back. */
static inline void rig_tell(rig *r)
{
    kolo_step_parameters step_parameters = {.samples = r->call.first_sample + r->call.samples,
                                            .step = r->call.step,
                                            .seed = r->call.seed,
                                            .loss_scale = r->call.loss_scale != 0 ? r->call.loss_scale : 1};
    rig_copy(r, r->step_parameters, &step_parameters, sizeof step_parameters);
    rig_copy(r, r->device_labels, r->labels, sizeof r->labels);
    rig_copy(r, r->device_totals, &r->totals, sizeof r->totals);
    if (r->targets) rig_copy(r, r->device_targets, r->targets, rig_target_bytes(r));
    if (r->weights) rig_copy(r, r->device_weights, r->weights, (size_t)r->plan.microbatch * sizeof *r->weights);
}

static inline void rig_run(rig *r)
{
    rig_tell(r);
    for (int op = 0; op < r->plan.op_count; op++)
        if (r->kernels[op])
            rig_ok(r->backend->streams->run(r->stream, r->backend, &r->plan, op, r->kernels[op], &r->call));
    rig_copy(r, &r->totals, r->device_totals, sizeof r->totals);
}

static inline int64_t rig_count(const rig *r, int value)
{
    const kolo_value *v = &r->plan.values[value];
    bool parameter = v->kind == KOLO_VALUE_WEIGHTS || v->kind == KOLO_VALUE_GRADIENT;
    return (parameter ? 1 : r->plan.microbatch) * kolo_shape_count(v->shape);
}

/* A gradient becomes NaNs: what is read then was written since. */
static inline void rig_forget(rig *r, int value)
{
    int64_t count = rig_count(r, value);
    float *none = malloc((size_t)count * sizeof *none);
    assert_non_null(none);
    for (int64_t i = 0; i < count; i++) none[i] = NAN;
    rig_copy(r, r->memory[value], none, (size_t)count * sizeof *none);
    free(none);
}

/* The caller frees it. */
static inline double *rig_read(rig *r, int value)
{
    int64_t count = rig_count(r, value);
    double *values = malloc((size_t)count * sizeof *values);
    float *floats = malloc((size_t)count * sizeof *floats);
    assert_true(values && floats);
    size_t bytes = (size_t)count * sizeof *floats;
    bool gradient = r->plan.values[value].kind == KOLO_VALUE_GRADIENT;
    bool is_double = !gradient && !kolo_plan_canonical(&r->plan, value);
    if (is_double) rig_copy(r, values, r->memory[value], (size_t)count * sizeof *values);
    if (gradient) {
        float *canonical = rig_allocate(r, bytes);
        rig_convert(r, value, r->memory[value], canonical);
        rig_copy(r, floats, canonical, bytes);
        rig_deallocate(r, canonical);
    } else if (!is_double) {
        rig_copy(r, floats, r->memory[value], bytes);
    }
    for (int64_t i = 0; !is_double && i < count; i++) values[i] = (double)floats[i];
    free(floats);
    return values;
}

static inline void rig_free(rig *r)
{
    for (int op = 0; op < r->plan.op_count; op++)
        if (r->kernels[op]) r->backend->release(r->kernels[op]);
    for (int v = 0; v < r->plan.value_count; v++) {
        if (kolo_value_has_memory(&r->plan.values[v])) rig_deallocate(r, r->memory[v]);
    }
    rig_deallocate(r, r->scratch);
    rig_deallocate(r, r->step_parameters);
    rig_deallocate(r, r->device_labels);
    rig_deallocate(r, r->device_totals);
    rig_deallocate(r, r->device_targets);
    rig_deallocate(r, r->device_weights);
    r->backend->streams->close(&r->stream);
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
    const kolo_window_spec spec = {.what = "window",
                                   .size = {height, width},
                                   .stride = {stride_h, stride_w},
                                   .padding = same ? KOLO_SAME : KOLO_VALID};
    rig_ok(kolo_window_make(&node, &spec, &window, sizes));
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
