/* Makes an operation's kernel, places its operands, and runs it. Read backend/cuda/cuda.h first. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

/* Of each operation its run(), or its maker, which chooses one. */
static const struct {
    kolo_cuda_runner *run;
    kolo_cuda_maker *make;
} kernels[KOLO_OP_KINDS] = {
    [KOLO_OP_INPUT] = {.run = kolo_cuda_run_input},
    [KOLO_OP_ACTIVATION] = {.run = kolo_cuda_run_activation, .make = kolo_cuda_make_activation},
    [KOLO_OP_ACTIVATION_BACKWARD] = {.run = kolo_cuda_run_activation_backward, .make = kolo_cuda_make_activation},
    [KOLO_OP_ADD] = {.run = kolo_cuda_run_add},
    [KOLO_OP_DROPOUT] = {.make = kolo_cuda_make_dropout},
    [KOLO_OP_DROPOUT_BACKWARD] = {.run = kolo_cuda_run_dropout_backward},

    [KOLO_OP_DENSE] = {.make = kolo_cuda_make_dense},
    [KOLO_OP_DENSE_BACKWARD] = {.make = kolo_cuda_make_dense_backward},
    [KOLO_OP_CONV2D] = {.make = kolo_cuda_make_conv2d},
    [KOLO_OP_CONV2D_BACKWARD] = {.make = kolo_cuda_make_conv2d_backward},
    [KOLO_OP_CONV2D_TRANSPOSE] = {.make = kolo_cuda_make_conv2d_transpose},
    [KOLO_OP_CONV2D_TRANSPOSE_BACKWARD] = {.make = kolo_cuda_make_conv2d_transpose_backward},

    [KOLO_OP_LOSS] = {.make = kolo_cuda_make_loss},
    [KOLO_OP_DENSE_LOSS] = {.make = kolo_cuda_make_dense_loss},
    [KOLO_OP_CUSTOM] = {.make = kolo_cuda_make_custom},

    [KOLO_OP_MAX_POOL2D] = {.make = kolo_cuda_make_max_pool2d},
    [KOLO_OP_MAX_POOL2D_BACKWARD] = {.make = kolo_cuda_make_max_pool2d_backward},
    [KOLO_OP_AVERAGE_POOL2D] = {.run = kolo_cuda_run_average_pool2d},
    [KOLO_OP_AVERAGE_POOL2D_BACKWARD] = {.run = kolo_cuda_run_average_pool2d_backward},
    [KOLO_OP_PAD2D] = {.run = kolo_cuda_run_pad2d},
    [KOLO_OP_CROP2D] = {.run = kolo_cuda_run_crop2d},
    [KOLO_OP_UPSAMPLE2D] = {.run = kolo_cuda_run_upsample2d},
    [KOLO_OP_UPSAMPLE2D_BACKWARD] = {.run = kolo_cuda_run_upsample2d_backward},
    [KOLO_OP_CONCATENATE] = {.run = kolo_cuda_run_concatenate},
    [KOLO_OP_SLICE] = {.run = kolo_cuda_run_slice},
    [KOLO_OP_MULTIPLY] = {.run = kolo_cuda_run_multiply},
    [KOLO_OP_MULTIPLY_SUM] = {.run = kolo_cuda_run_multiply_sum},
    [KOLO_OP_BATCH_NORM_MOMENTS] = {.make = kolo_cuda_make_batch_norm_moments},
    [KOLO_OP_BATCH_NORM] = {.run = kolo_cuda_run_batch_norm},
    [KOLO_OP_BATCH_NORM_SUMS] = {.make = kolo_cuda_make_batch_norm_sums},
    [KOLO_OP_BATCH_NORM_BACKWARD] = {.run = kolo_cuda_run_batch_norm_backward},
    [KOLO_OP_LAYER_NORM] = {.run = kolo_cuda_run_layer_norm},
    [KOLO_OP_LAYER_NORM_BACKWARD] = {.make = kolo_cuda_make_layer_norm_backward},

    [KOLO_OP_EMBEDDING] = {.run = kolo_cuda_run_embedding},
    [KOLO_OP_EMBEDDING_BACKWARD] = {.make = kolo_cuda_make_embedding_backward},
    [KOLO_OP_POSITION] = {.run = kolo_cuda_run_position},
    [KOLO_OP_POSITION_BACKWARD] = {.run = kolo_cuda_run_position_backward},
    [KOLO_OP_ATTENTION] = {.make = kolo_cuda_make_attention},
    [KOLO_OP_ATTENTION_BACKWARD] = {.make = kolo_cuda_make_attention_backward},
};

/* ---- where values lie ---- */

int64_t kolo_cuda_count(const kolo_plan *plan, int value)
{
    const kolo_value *v = &plan->values[value];
    bool of_samples =
        v->kind == KOLO_VALUE_INPUT || v->kind == KOLO_VALUE_ACTIVATION || v->kind == KOLO_VALUE_WORKSPACE;
    return (of_samples ? plan->microbatch : 1) * kolo_shape_count(v->shape);
}

kolo_element kolo_cuda_element_of(kolo_precision precision)
{
    if (precision == KOLO_MIXED_BF16) return KOLO_ELEMENT_BFLOAT16;
    return precision == KOLO_MIXED_FP16 ? KOLO_ELEMENT_HALF : KOLO_ELEMENT_FLOAT;
}

/* Whether the value is the gradient with respect to the outputs, and only this backend's kernels write and read it.
 * They would convert it, so it has the precision's element from the start, although the plan marks it as canonical. */
static bool stays_inside(const kolo_plan *plan, int value)
{
    int gradient = plan->loss_gradient < 0 ? -1 : kolo_plan_base(plan, plan->loss_gradient), readers = 0;
    if (gradient < 0 || kolo_plan_base(plan, value) != gradient || !kolo_cuda_has_loss(plan)) return false;
    for (const kolo_op *op = plan->ops; op < plan->ops + plan->op_count; op++) {
        for (int i = 0; i < KOLO_OP_INS; i++) {
            if (op->in[i] < 0 || kolo_plan_base(plan, op->in[i]) != gradient) continue;
            if (op->kind == KOLO_OP_CUSTOM || op->kind == KOLO_OP_COPY) return false;
            readers++;
        }
    }
    return readers > 0;
}

kolo_element kolo_cuda_element(const kolo_plan *plan, int value)
{
    const kolo_value *v = &plan->values[value];
    bool narrow = v->kind == KOLO_VALUE_WEIGHTS ? v->shape.rank > 1 : v->kind == KOLO_VALUE_ACTIVATION;
    if (narrow && kolo_plan_canonical(plan, value)) narrow = stays_inside(plan, value);
    return narrow ? kolo_cuda_element_of(plan->precision) : KOLO_ELEMENT_FLOAT;
}

static bool holds_sums(const kolo_value *value)
{
    return value->kind == KOLO_VALUE_PARTIAL || value->kind == KOLO_VALUE_REDUCED;
}

/* The maker sets the bytes of a workspace. Weights that are float32 are read in place, from the canonical ones. */
static void place(kolo_plan *plan, int value)
{
    if (value < 0) return;
    int base = kolo_plan_base(plan, value);
    kolo_value *v = &plan->values[base];
    if (v->kind == KOLO_VALUE_WORKSPACE) return;
    size_t size = holds_sums(v) ? sizeof(double) : kolo_element_bytes(kolo_cuda_element(plan, base));
    v->bytes = (size_t)kolo_cuda_count(plan, base) * size;
    v->in_place = v->kind == KOLO_VALUE_WEIGHTS && kolo_cuda_element(plan, base) == KOLO_ELEMENT_FLOAT;
}

/* Reserves scratch memory for a converted copy of an activation that has another element than the kernel. Returns its
 * offset, or -1 if no copy is needed. any: run() takes any element. */
static ptrdiff_t reserve_copy(kolo_plan *plan, const kolo_cuda_kernel *kernel, int value, bool any, size_t *scratch)
{
    if (any || value < 0 || plan->values[value].kind != KOLO_VALUE_ACTIVATION) return -1;
    if (kolo_cuda_element(plan, value) == kernel->element) return -1;
    ptrdiff_t at = (ptrdiff_t)*scratch;
    *scratch +=
        kolo_align((size_t)kolo_cuda_count(plan, value) * kolo_element_bytes(kernel->element), KOLO_GPU_ALIGNMENT);
    return at;
}

/* Before Ampere neither our kernels nor cuDNN and cuBLAS have products in bfloat16. */
static kolo_status check_precision(const kolo_plan *plan)
{
    int capability = plan->stream->capability;
    if (plan->precision != KOLO_MIXED_BF16 || capability >= 80) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "mixed_bf16 wants a GPU of compute capability 8.0 or higher, got one of %d.%d: take mixed_fp16",
                     capability / 10, capability % 10);
}

bool kolo_cuda_has(kolo_op_kind kind)
{
    return kernels[kind].run || kernels[kind].make;
}

kolo_status kolo_cuda_prepare(kolo_plan *plan, int op, void **made)
{
    kolo_op *o = &plan->ops[op];
    KOLO_TRY(check_precision(plan));
    if (!kolo_cuda_has(o->kind)) return kolo_fail(KOLO_UNSUPPORTED, "backend cuda: wanted an operation that it has");
    KOLO_CUDA(cudaSetDevice(plan->stream->device), "choosing it");
    for (int i = 0; i < KOLO_OP_INS; i++) place(plan, o->in[i]);
    for (int i = 0; i < KOLO_OP_OUTS; i++) place(plan, o->out[i]);
    kolo_cuda_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) return kolo_fail_memory(sizeof *kernel, "a kernel");
    *kernel = (kolo_cuda_kernel){
        .plan = plan, .op = op, .element = kolo_cuda_element_of(plan->precision), .run = kernels[o->kind].run};
    kolo_cuda_name_range(plan, op, kernel->range);
    kolo_status status = kernels[o->kind].make ? kernels[o->kind].make(kernel, plan, o) : KOLO_OK;
    if (status != KOLO_OK) {
        kolo_cuda_release(kernel);
        return status;
    }
    kolo_cuda_share_copies(plan, o);
    o->scratch = kolo_align(kernel->scratch, KOLO_GPU_ALIGNMENT);
    for (int i = 0; i < KOLO_OP_INS; i++)
        kernel->copy_in[i] = reserve_copy(plan, kernel, o->in[i], kernel->any_in[i], &o->scratch);
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        kernel->copy_out[i] = reserve_copy(plan, kernel, o->out[i], kernel->any_out[i], &o->scratch);
    *made = kernel;
    return KOLO_OK;
}

kolo_status kolo_cuda_keep(kolo_cuda_kernel *kernel, const void *made, size_t bytes, const char *what)
{
    kernel->state = malloc(bytes);
    if (!kernel->state) return kolo_fail_memory(bytes, what);
    memcpy(kernel->state, made, bytes);
    kernel->free_state = free;
    return KOLO_OK;
}

void kolo_cuda_release(void *kernel)
{
    kolo_cuda_kernel *released = kernel;
    if (released->state) released->free_state(released->state);
    free(released);
}

/* ---- running ---- */

static void *operand(const kolo_call *call, int value, ptrdiff_t copy)
{
    if (value < 0) return NULL;
    return copy < 0 ? call->memory[value] : (char *)call->scratch + copy;
}

static kolo_status convert(const kolo_cuda_job *job, int value, kolo_element from, const void *x, kolo_element to,
                           void *y)
{
    KOLO_CUDA(kolo_cuda_cast(job->stream, from, x, to, y, kolo_cuda_count(job->plan, value)), "converting a value");
    return KOLO_OK;
}

kolo_status kolo_cuda_run(void *prepared, const kolo_call *call)
{
    const kolo_cuda_kernel *kernel = prepared;
    const kolo_op *op = &kernel->plan->ops[kernel->op];
    kolo_cuda_job job = {.kernel = kernel,
                         .plan = kernel->plan,
                         .op = op,
                         .call = call,
                         .stream = call->stream->handle,
                         .element = kernel->element,
                         .scratch = call->scratch};
    KOLO_CUDA(cudaSetDevice(call->stream->device), "choosing it");
    for (int i = 0; i < KOLO_OP_INS; i++) job.in[i] = operand(call, op->in[i], kernel->copy_in[i]);
    for (int i = 0; i < KOLO_OP_OUTS; i++) job.out[i] = operand(call, op->out[i], kernel->copy_out[i]);
    for (int i = 0; i < KOLO_OP_INS; i++)
        if (kernel->copy_in[i] >= 0)
            KOLO_TRY(convert(&job, op->in[i], KOLO_ELEMENT_FLOAT, call->memory[op->in[i]], job.element, job.in[i]));
    kolo_cuda_begin_range(kernel->range);
    kolo_status status = kernel->run(&job);
    kolo_cuda_end_range(kernel->range);
    KOLO_TRY(status);
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (kernel->copy_out[i] >= 0)
            KOLO_TRY(convert(&job, op->out[i], job.element, job.out[i], KOLO_ELEMENT_FLOAT, call->memory[op->out[i]]));
    return KOLO_OK;
}
