/* Kernels: their steps, their operands, and how a kernel runs. */
#include "backend/onednn/onednn.h"
#include "core/signals.h"

#include <stdlib.h>
#include <string.h>

/* ---- operands */

kolo_operand kolo_operand_of(const kolo_kernel *kernel, int value)
{
    return (kolo_operand){.desc = kolo_layout_of(kernel->plan, value)->desc, .value = value};
}

kolo_operand kolo_operand_scratch(kolo_kernel *kernel, const dnnl_memory_desc_t *desc)
{
    kolo_operand operand = {.desc = *desc, .value = -1, .offset = kernel->scratch};
    kernel->scratch += kolo_align(dnnl_memory_desc_get_size(desc), KOLO_ALIGNMENT);
    return operand;
}

void *kolo_operand_pointer(const kolo_operand *operand, const kolo_call *call)
{
    size_t advanced = operand->advance * (size_t)call->round;
    char *base = operand->value >= 0 ? call->memory[operand->value] : (char *)call->scratch + operand->offset;
    return base + advanced;
}

/* ---- reorders between layouts */

static bool canonical(const dnnl_memory_desc_t *desc)
{
    kolo_tiling tiling;
    return kolo_tiling_of(desc, &tiling) && kolo_tiling_canonical(tiling);
}

/* The plain layout of the dimensions of `like`, in that type. */
static kolo_status plain_like(const dnnl_memory_desc_t *like, dnnl_data_type_t type, dnnl_memory_desc_t *plain)
{
    dnnl_format_tag_t tag = like->ndims == 4 ? dnnl_nhwc : dnnl_ab;
    return kolo_onednn_check(dnnl_memory_desc_init_by_tag(plain, like->ndims, like->dims, type, tag), "a plain layout");
}

static bool same_dims(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b)
{
    return a->ndims == b->ndims && memcmp(a->dims, b->dims, (size_t)a->ndims * sizeof a->dims[0]) == 0;
}

/* Gives an operand the dimensions of `like` (an image becomes rows, or rows become an image). A canonical operand only
 * gets another descriptor; any other is first copied to scratch memory in the canonical order. */
static kolo_status redimension(kolo_kernel *kernel, kolo_operand *operand, const dnnl_memory_desc_t *like)
{
    dnnl_memory_desc_t plain;
    if (same_dims(&operand->desc, like)) return KOLO_OK;
    if (!canonical(&operand->desc)) {
        KOLO_TRY(plain_like(&operand->desc, like->data_type, &plain));
        kolo_operand copy = kolo_operand_scratch(kernel, &plain);
        KOLO_TRY(kolo_step_reorder(kernel, operand, &copy));
        *operand = copy;
    }
    return plain_like(like, operand->desc.data_type, &operand->desc);
}

kolo_status kolo_reorder_in(kolo_kernel *kernel, kolo_operand from, const dnnl_memory_desc_t *wanted, kolo_operand *to)
{
    KOLO_TRY(redimension(kernel, &from, wanted));
    *to = from;
    if (dnnl_memory_desc_equal(&from.desc, wanted)) return KOLO_OK;
    *to = kolo_operand_scratch(kernel, wanted);
    return kolo_step_reorder(kernel, &from, to);
}

kolo_operand kolo_output_buffer(kolo_kernel *kernel, int value, const dnnl_memory_desc_t *written)
{
    kolo_operand operand = kolo_operand_of(kernel, value);
    bool equal = dnnl_memory_desc_equal(&operand.desc, written);
    bool relabelled = operand.desc.data_type == written->data_type && canonical(&operand.desc) && canonical(written);
    if (!equal && !relabelled) return kolo_operand_scratch(kernel, written);
    operand.desc = *written;
    return operand;
}

kolo_status kolo_reorder_out(kolo_kernel *kernel, kolo_operand written, int value)
{
    kolo_operand target = kolo_operand_of(kernel, value);
    if (written.value >= 0) return KOLO_OK;
    KOLO_TRY(redimension(kernel, &written, &target.desc));
    return kolo_step_reorder(kernel, &written, &target);
}

kolo_status kolo_plain_in(kolo_kernel *kernel, int value, dnnl_data_type_t type, kolo_operand *operand)
{
    dnnl_memory_desc_t plain;
    KOLO_TRY(kolo_desc_plain(kernel->plan, value, type, &plain));
    return kolo_reorder_in(kernel, kolo_operand_of(kernel, value), &plain, operand);
}

kolo_status kolo_plain_buffer(kolo_kernel *kernel, kolo_plan *plan, int value, dnnl_data_type_t type,
                              kolo_operand *operand)
{
    dnnl_memory_desc_t plain;
    KOLO_TRY(kolo_desc_plain(plan, value, type, &plain));
    KOLO_TRY(kolo_layout_set(plan, value, &plain));
    *operand = kolo_output_buffer(kernel, value, &plain);
    return KOLO_OK;
}

/* ---- steps */

kolo_status kolo_onednn_check(dnnl_status_t status, const char *what)
{
    static const char *const words[] = {
        "success",       "out of memory", "invalid arguments", "unimplemented", "last implementation reached",
        "runtime error", "not required"};
    if (status == dnnl_success) return KOLO_OK;
    kolo_status code = status == dnnl_out_of_memory   ? KOLO_MEMORY
                       : status == dnnl_unimplemented ? KOLO_UNSUPPORTED
                                                      : KOLO_INTERNAL;
    bool known = (size_t)status < sizeof words / sizeof *words;
    return kolo_fail(code, "oneDNN failed at %s: %s", what, known ? words[status] : "unknown status");
}

/* With slope 0, oneDNN's ReLU turns NaN into 0, and a broken network would show a finite loss. With another slope s it
 * computes x > 0 ? x : s·x. Here s is the smallest subnormal number, which threads count as zero when they run kernels
 * (onednn.c). */
kolo_status kolo_attributes(bool relu, dnnl_primitive_attr_t *attributes)
{
    const float slope = 0x1p-149f;
    dnnl_post_ops_t behind = NULL;
    KOLO_DNNL(dnnl_primitive_attr_create(attributes), "attributes");
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (relu && status == dnnl_success) status = dnnl_post_ops_create(&behind);
    if (relu && status == dnnl_success) {
        status = dnnl_post_ops_append_eltwise(behind, 1.0f, dnnl_eltwise_relu, slope, 0.0f);
    }
    if (relu && status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(*attributes, behind);
    if (behind) dnnl_post_ops_destroy(behind);
    if (status != dnnl_success) dnnl_primitive_attr_destroy(*attributes);
    return kolo_onednn_check(status, "attributes");
}

static kolo_step *step_new(kolo_kernel *kernel, int count, const kolo_operand *operands)
{
    if (kernel->step_count == KOLO_KERNEL_STEPS) return NULL;
    kolo_step *step = &kernel->step[kernel->step_count++];
    *step = (kolo_step){.count = count, .to = 1};
    for (int i = 0; i < count; i++) step->operand[i] = operands[i];
    return step;
}

kolo_status kolo_step_primitive(kolo_kernel *kernel, dnnl_primitive_desc_t descriptor, int count, const int *arguments,
                                const kolo_operand *operands)
{
    kolo_step *step = step_new(kernel, count, operands);
    if (!step) {
        dnnl_primitive_desc_destroy(descriptor);
        return kolo_fail(KOLO_INTERNAL, "an operation needs more than %d steps", KOLO_KERNEL_STEPS);
    }
    for (int i = 0; i < count; i++) step->argument[i] = arguments[i];
    const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0);
    size_t bytes = pad ? dnnl_memory_desc_get_size(pad) : 0;
    if (bytes > kernel->scratchpad) kernel->scratchpad = bytes;
    if (bytes > 0) {
        step->argument[step->count] = DNNL_ARG_SCRATCHPAD;
        step->operand[step->count++] = (kolo_operand){.desc = *pad, .value = -1, .offset = SIZE_MAX};
    }
    dnnl_status_t status = dnnl_primitive_create(&step->primitive, descriptor);
    dnnl_primitive_desc_destroy(descriptor);
    return kolo_onednn_check(status, "making a primitive");
}

kolo_step *kolo_step_loop(kolo_kernel *kernel, kolo_loop *loop, int count, const kolo_operand *operands)
{
    kolo_step *step = step_new(kernel, count, operands);
    if (!step) {
        kolo_fail(KOLO_INTERNAL, "an operation needs more than %d steps", KOLO_KERNEL_STEPS);
        return NULL;
    }
    step->loop = loop;
    if (count == 0) return step;
    step->bfloat16 = operands[0].desc.data_type == dnnl_bf16;
    step->elements = (int64_t)(dnnl_memory_desc_get_size(&operands[0].desc) / (step->bfloat16 ? 2 : 4));
    return step;
}

kolo_step *kolo_step_loop_or_fail(kolo_kernel *kernel, kolo_loop_or_fail *loop, int count, const kolo_operand *operands)
{
    kolo_step *step = kolo_step_loop(kernel, NULL, count, operands);
    if (step) step->loop_or_fail = loop;
    return step;
}

kolo_step *kolo_step_images(kolo_kernel *kernel, int x, const dnnl_memory_desc_t *from, int y,
                            const dnnl_memory_desc_t *to, kolo_loop *loop)
{
    kolo_operand operands[2];
    if (kolo_reorder_in(kernel, kolo_operand_of(kernel, x), from, &operands[0]) != KOLO_OK) return NULL;
    operands[1] = kolo_output_buffer(kernel, y, to);
    kolo_step *step = kolo_step_loop(kernel, loop, 2, operands);
    if (!step || !kolo_tiling_of(from, &step->x) || !kolo_tiling_of(to, &step->y)) return NULL;
    return kolo_reorder_out(kernel, operands[1], y) == KOLO_OK ? step : NULL;
}

kolo_status kolo_step_reorder(kolo_kernel *kernel, const kolo_operand *from, const kolo_operand *to)
{
    dnnl_primitive_desc_t descriptor;
    dnnl_primitive_attr_t attributes;
    dnnl_engine_t engine = kolo_onednn_engine();
    KOLO_TRY(kolo_attributes(false, &attributes));
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&descriptor, &from->desc, engine, &to->desc, engine, attributes);
    dnnl_primitive_attr_destroy(attributes);
    KOLO_DNNL(status, "a reorder");
    const int arguments[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
    const kolo_operand operands[] = {*from, *to};
    return kolo_step_primitive(kernel, descriptor, 2, arguments, operands);
}

void kolo_steps_last(kolo_kernel *kernel, int first)
{
    for (int s = first; kernel->rounds > 1 && s < kernel->step_count; s++) {
        kernel->step[s].from = kernel->rounds - 1;
        kernel->step[s].to = kernel->rounds;
    }
}

/* ---- running: a memory object of oneDNN holds a pointer, so that each thread needs a private set of them */

typedef struct kolo_memories {
    struct kolo_memories *next;
    dnnl_stream_t stream;
    dnnl_exec_arg_t argument[KOLO_KERNEL_STEPS][KOLO_STEP_OPERANDS];
} kolo_memories;

static void memories_free(kolo_memories *memories)
{
    for (int s = 0; s < KOLO_KERNEL_STEPS; s++) {
        for (int i = 0; i < KOLO_STEP_OPERANDS; i++) dnnl_memory_destroy(memories->argument[s][i].memory);
    }
    dnnl_stream_destroy(memories->stream);
    free(memories);
}

static kolo_status memories_fill(const kolo_kernel *kernel, kolo_memories *memories)
{
    dnnl_engine_t engine = kolo_onednn_engine();
    KOLO_DNNL(dnnl_stream_create(&memories->stream, engine, dnnl_stream_default_flags), "a stream");
    for (int s = 0; s < kernel->step_count; s++) {
        const kolo_step *step = &kernel->step[s];
        for (int i = 0; step->primitive && i < step->count; i++) {
            dnnl_exec_arg_t *argument = &memories->argument[s][i];
            argument->arg = step->argument[i];
            KOLO_DNNL(dnnl_memory_create(&argument->memory, &step->operand[i].desc, engine, DNNL_MEMORY_NONE),
                      "memory");
        }
    }
    return KOLO_OK;
}

static kolo_status memories_take(kolo_kernel *kernel, kolo_memories **taken)
{
    pthread_mutex_lock(&kernel->mutex);
    kolo_memories *memories = kernel->idle;
    if (memories) kernel->idle = memories->next;
    pthread_mutex_unlock(&kernel->mutex);
    *taken = memories;
    if (memories) return KOLO_OK;
    KOLO_TRY(kolo_onednn_check_room(KOLO_KERNEL_ROOM, "a kernel's operands"));
    memories = calloc(1, sizeof *memories);
    if (!memories) return kolo_fail_memory(sizeof *memories, "a kernel's operands");
    kolo_status status = memories_fill(kernel, memories);
    if (status == KOLO_OK) *taken = memories;
    if (status != KOLO_OK) memories_free(memories);
    return status;
}

static void memories_return(kolo_kernel *kernel, kolo_memories *memories)
{
    pthread_mutex_lock(&kernel->mutex);
    memories->next = kernel->idle;
    kernel->idle = memories;
    pthread_mutex_unlock(&kernel->mutex);
}

static dnnl_status_t execute(const kolo_kernel *kernel, const kolo_step *step, dnnl_stream_t stream,
                             dnnl_exec_arg_t *arguments, const kolo_call *call)
{
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < step->count && status == dnnl_success; i++) {
        bool pad = step->argument[i] == DNNL_ARG_SCRATCHPAD;
        void *pointer = pad ? (char *)call->scratch + kernel->scratch : kolo_operand_pointer(&step->operand[i], call);
        status = dnnl_memory_set_data_handle(arguments[i].memory, pointer);
    }
    if (status == dnnl_success) status = dnnl_primitive_execute(step->primitive, stream, step->count, arguments);
    return status;
}

/* The float32 products of oneDNN 2.6 keep pointers below the stack pointer's red zone, where the frame of a signal
 * handler would overwrite them. So signals are held until the step ends, after some milliseconds; faults cannot be
 * held. */
static kolo_status run_held(const kolo_kernel *kernel, int number, kolo_memories *memories, const kolo_call *call)
{
    const kolo_step *step = &kernel->step[number];
    sigset_t before;
    kolo_hold_signals(&before);
    kolo_status status = KOLO_OK;
    if (step->loop_or_fail) status = step->loop_or_fail(kernel, step, call);
    else
        status = kolo_onednn_check(execute(kernel, step, memories->stream, memories->argument[number], call),
                                   "running a primitive");
    kolo_release_signals(&before);
    return status;
}

static kolo_status run_step(const kolo_kernel *kernel, int number, kolo_memories *memories, const kolo_call *call)
{
    const kolo_step *step = &kernel->step[number];
    if (call->round < step->from || call->round >= step->to) return KOLO_OK;
    if (!step->loop) return run_held(kernel, number, memories, call);
    step->loop(kernel, step, call);
    return KOLO_OK;
}

kolo_status kolo_kernel_run(void *prepared, const kolo_call *call)
{
    kolo_kernel *kernel = prepared;
    kolo_memories *memories;
    kolo_status status = KOLO_OK;
    kolo_call now = *call;
    int rounds = kernel->rounds > 0 ? kernel->rounds : 1;
    KOLO_TRY(memories_take(kernel, &memories));
    for (now.round = 0; now.round < rounds && status == KOLO_OK; now.round++)
        for (int s = 0; s < kernel->step_count && status == KOLO_OK; s++) status = run_step(kernel, s, memories, &now);
    memories_return(kernel, memories);
    return status;
}

void kolo_kernel_release(void *prepared)
{
    kolo_kernel *kernel = prepared;
    if (!kernel) return;
    for (int s = 0; s < kernel->step_count; s++) {
        if (kernel->step[s].primitive) dnnl_primitive_destroy(kernel->step[s].primitive);
    }
    for (kolo_memories *next, *each = kernel->idle; each; each = next) {
        next = each->next;
        memories_free(each);
    }
    pthread_mutex_destroy(&kernel->mutex);
    free(kernel);
}
