/* The functions of the reference backend: the memory of the values, and the conversion and rounding of an operation's
 * inputs and outputs. Read backend/reference/reference.h first. */
#include "backend/reference/reference.h"

#include <stdlib.h>
#include <string.h>

typedef struct kernel {
    const kolo_plan *plan;
    int op;
    kolo_compute *compute;
} kernel;

/* Copies the features, which widen() has made doubles. */
void kolo_reference_input(const kolo_reference_job *job)
{
    size_t elements = (size_t)(job->plan->microbatch * kolo_shape_count(kolo_reference_in(job, 0)));
    memcpy(job->out[0], job->in[0], elements * sizeof(double));
}

/* There is no row for DENSE_LOSS, since this backend fuses nothing, none for REDUCE and COPY, which the engine carries
 * out, and none for CUSTOM and LOSS, which run() computes on the canonical values. */
#define ROW(name, function) [KOLO_OP_##name] = kolo_reference_##function,
static kolo_compute *const compute_functions[KOLO_OP_KINDS] = {KOLO_REFERENCE_OPS(ROW)};
#undef ROW

static int enter_thread(void)
{
    return 0;
}

static void leave_thread(int entered)
{
    (void)entered;
}

/* ---- the memory of values */

static int64_t element_count(const kolo_plan *plan, int value)
{
    const kolo_value *v = &plan->values[value];
    bool of_samples =
        v->kind == KOLO_VALUE_INPUT || v->kind == KOLO_VALUE_ACTIVATION || v->kind == KOLO_VALUE_WORKSPACE;
    return (of_samples ? plan->microbatch : 1) * kolo_shape_count(v->shape);
}

/* Whether a value is float32 in memory rather than double. */
static bool is_float(const kolo_plan *plan, int value)
{
    kolo_value_kind kind = plan->values[value].kind;
    return kind == KOLO_VALUE_INPUT || kind == KOLO_VALUE_GRADIENT || kolo_plan_canonical(plan, value);
}

static size_t bytes_of(const kolo_plan *plan, int value)
{
    size_t count = (size_t)element_count(plan, value);
    if (plan->values[value].kind == KOLO_VALUE_WORKSPACE) return count * sizeof(int32_t);
    return count * (is_float(plan, value) ? sizeof(float) : sizeof(double));
}

/* Sets the bytes of an operand; returns those of the copy as doubles that the operation needs, or 0. */
static size_t place(kolo_plan *plan, int value)
{
    if (value < 0) return 0;
    int base = kolo_plan_base(plan, value);
    plan->values[base].bytes = bytes_of(plan, base);
    return is_float(plan, value) ? (size_t)element_count(plan, value) * sizeof(double) : 0;
}

static kolo_status prepare(kolo_plan *plan, int op, void **made)
{
    kolo_op *o = &plan->ops[op];
    bool by_host = o->kind == KOLO_OP_CUSTOM || o->kind == KOLO_OP_LOSS; /* see run() */
    if (!compute_functions[o->kind] && !by_host)
        return kolo_fail(KOLO_INTERNAL, "operation %s: KOLO_REFERENCE_OPS of reference.h has no entry for it",
                         kolo_op_name(o->kind));
    o->scratch = 0;
    for (int i = 0; i < KOLO_OP_INS; i++) o->scratch += place(plan, o->in[i]);
    for (int i = 0; i < KOLO_OP_OUTS; i++) o->scratch += place(plan, o->out[i]);
    if (o->kind == KOLO_OP_LOSS) o->scratch = kolo_host_loss_scratch(plan, o);
    kernel *k = malloc(sizeof *k);
    if (!k) return kolo_fail_memory(sizeof *k, "a kernel");
    *k = (kernel){plan, op, compute_functions[o->kind]};
    *made = k;
    return KOLO_OK;
}

static void forget(kolo_plan *plan)
{
    (void)plan; /* no layouts: everything is canonical */
}

/* ---- conversion and rounding */

/* The nearest bfloat16, ties to even: a float32 whose lower half is zero. */
static double round_bfloat16(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (narrow != narrow) return value;
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
    memcpy(&narrow, &bits, sizeof narrow);
    return (double)narrow;
}

static double rounded(const kolo_plan *plan, double value)
{
    return plan->precision == KOLO_MIXED_FP16 ? (double)kolo_nearest_half((float)value) : round_bfloat16(value);
}

static bool is_narrow(const kolo_plan *plan)
{
    return plan->precision == KOLO_MIXED_BF16 || plan->precision == KOLO_MIXED_FP16;
}

static bool is_mixed(const kolo_plan *plan, int value)
{
    return is_narrow(plan) && plan->values[value].kind == KOLO_VALUE_ACTIVATION;
}

/* An operand as doubles: its memory, or a copy in scratch memory; *scratch is then moved behind the copy. */
static void *widen(const kernel *k, const kolo_call *call, int value, double **scratch, bool read)
{
    if (value < 0 || !is_float(k->plan, value)) return value < 0 ? NULL : call->memory[value];
    const float *from = call->memory[value];
    double *to = *scratch;
    int64_t count = element_count(k->plan, value);
    *scratch += count;
    for (int64_t i = 0; read && i < count; i++) to[i] = (double)from[i];
    for (int64_t i = 0; read && is_mixed(k->plan, value) && i < count; i++) to[i] = rounded(k->plan, to[i]);
    return to;
}

static void narrow(const kernel *k, const kolo_call *call, int value, double *result)
{
    if (value < 0 || k->plan->values[value].kind == KOLO_VALUE_WORKSPACE) return;
    int64_t count = element_count(k->plan, value);
    if (is_float(k->plan, value)) {
        float *to = call->memory[value];
        for (int64_t i = 0; i < count; i++) to[i] = (float)result[i];
    } else if (is_mixed(k->plan, value)) {
        for (int64_t i = 0; i < count; i++) result[i] = rounded(k->plan, result[i]);
    }
}

static kolo_status run(void *prepared, const kolo_call *call)
{
    const kernel *k = prepared;
    const kolo_op *op = &k->plan->ops[k->op];
    if (op->kind == KOLO_OP_LOSS) return kolo_host_loss(k->plan, op, call);
    if (op->kind == KOLO_OP_CUSTOM) return kolo_host_custom(k->plan, op, call);
    kolo_reference_job job = {.plan = k->plan, .op = op, .call = call};
    double *scratch = call->scratch;
    for (int i = 0; i < KOLO_OP_INS; i++) job.in[i] = widen(k, call, op->in[i], &scratch, true);
    for (int i = 0; i < KOLO_OP_OUTS; i++) job.out[i] = widen(k, call, op->out[i], &scratch, false);
    k->compute(&job);
    for (int i = 0; i < KOLO_OP_OUTS; i++) narrow(k, call, op->out[i], job.out[i]);
    return KOLO_OK;
}

/* ---- weights and gradients */

static kolo_status pack(const kolo_plan *plan, int value, const float *canonical, void *packed)
{
    double *to = packed;
    int64_t count = element_count(plan, value);
    if (is_float(plan, value)) memcpy(packed, canonical, (size_t)count * sizeof *canonical);
    if (is_float(plan, value)) return KOLO_OK;
    bool mixed = is_narrow(plan) && plan->values[value].shape.rank > 1; /* not biases */
    for (int64_t i = 0; i < count; i++) to[i] = mixed ? rounded(plan, (double)canonical[i]) : (double)canonical[i];
    return KOLO_OK;
}

static kolo_status unpack(const kolo_plan *plan, int value, const void *packed, float *canonical)
{
    memcpy(canonical, packed, (size_t)element_count(plan, value) * sizeof *canonical);
    return KOLO_OK;
}

static void add(const kolo_plan *plan, int value, void *to, const void *from)
{
    kolo_host_add(to, from, element_count(plan, value));
}

#define REFERENCE_ARITHMETIC                                                                                           \
    .version = KOLO_BACKEND_VERSION, .open = kolo_host_open, .enter_thread = enter_thread,                             \
    .leave_thread = leave_thread, .prepare = prepare, .run = run, .release = free, .forget = forget, .pack = pack,     \
    .unpack = unpack, .add = add

const kolo_backend kolo_reference_backend = {REFERENCE_ARITHMETIC, .name = "reference", .streams = &kolo_host_streams,
                                             .updates = &kolo_host_updates};

/* ---------------------------------------------------------------- "enqueued": each device has a separate memory */

static int memories(int devices)
{
    return devices;
}

static kolo_weight_placement place_weights(kolo_weight_placement wanted)
{
    (void)wanted;
    return KOLO_WEIGHTS_COPIED;
}

const kolo_backend kolo_enqueued_backend = {REFERENCE_ARITHMETIC,
                                            .name = "enqueued",
                                            .streams = &kolo_enqueued_streams,
                                            .updates = &kolo_enqueued_updates,
                                            .memories = memories,
                                            .place_weights = place_weights};
