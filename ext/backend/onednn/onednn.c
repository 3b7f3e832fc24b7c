/* The backend's functions: the engine, threads, and the operations. Read backend/onednn/onednn.h first. */
#include "backend/onednn/onednn.h"
#include "core/plugin.h"

#include <omp.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#include <stdlib.h>

/* ---- the runtime of oneDNN */

static dnnl_engine_t engine;
static dnnl_status_t engine_status;

static void engine_create(void)
{
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
}

dnnl_engine_t kolo_onednn_engine(void)
{
    return engine;
}

static kolo_status open(kolo_precision precision)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    KOLO_TRY(kolo_host_open(precision));
    pthread_once(&once, engine_create);
    KOLO_DNNL(engine_status, "starting");
    bool avx512 = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
    if (precision != KOLO_MIXED_BF16) return kolo_onednn_warm_up(false);
    if (avx512) return kolo_onednn_warm_up(true);
    return kolo_fail(KOLO_UNSUPPORTED, "KOLO_MIXED_BF16 needs a CPU with AVX-512; this one can only KOLO_FLOAT32");
}

/* MXCSR with these bits set and those cleared; returns it as it was. Other processors have no such register. */
static unsigned change_mxcsr(unsigned set, unsigned clear)
{
#if defined(__x86_64__)
    unsigned own = _mm_getcsr();
    _mm_setcsr((own | set) & ~clear);
    return own;
#else
    (void)set, (void)clear;
    return 0;
#endif
}

/* Bits 6 and 15 of MXCSR: numbers below 2^-126 count as zero, as inputs and as results. They do not matter to training,
 * and cost a hundred cycles each. kolo_attributes() depends on it, too. */
#define FLUSH 0x8040u

/* oneDNN takes its threads from OpenMP, which keeps their number for each calling thread. Returns the previous number
 * of threads in the lower 15 bits, and the previous MXCSR above them. */
static int enter_thread(void)
{
    int own = omp_get_max_threads();
    omp_set_num_threads(1);
    return (int)(change_mxcsr(FLUSH, 0) << 15 | (unsigned)own);
}

static void leave_thread(int entered)
{
    change_mxcsr((unsigned)entered >> 15, ~((unsigned)entered >> 15));
    omp_set_num_threads(entered & 0x7FFF);
}

/* ---- operations */

static kolo_make_steps *const makers[KOLO_OP_KINDS] = {
    [KOLO_OP_INPUT] = kolo_onednn_input,
    [KOLO_OP_CONV2D] = kolo_onednn_conv2d,
    [KOLO_OP_CONV2D_BACKWARD] = kolo_onednn_conv2d_backward,
    [KOLO_OP_CONV2D_TRANSPOSE] = kolo_onednn_conv2d_transpose,
    [KOLO_OP_CONV2D_TRANSPOSE_BACKWARD] = kolo_onednn_conv2d_transpose_backward,
    [KOLO_OP_DENSE] = kolo_onednn_dense,
    [KOLO_OP_DENSE_BACKWARD] = kolo_onednn_dense_backward,
    [KOLO_OP_MAX_POOL2D] = kolo_onednn_max_pool2d,
    [KOLO_OP_MAX_POOL2D_BACKWARD] = kolo_onednn_max_pool2d_backward,
    [KOLO_OP_AVERAGE_POOL2D] = kolo_onednn_average_pool2d,
    [KOLO_OP_AVERAGE_POOL2D_BACKWARD] = kolo_onednn_average_pool2d_backward,
    [KOLO_OP_PAD2D] = kolo_onednn_pad2d,
    [KOLO_OP_CROP2D] = kolo_onednn_crop2d,
    [KOLO_OP_UPSAMPLE2D] = kolo_onednn_upsample2d,
    [KOLO_OP_UPSAMPLE2D_BACKWARD] = kolo_onednn_upsample2d_backward,
    [KOLO_OP_CONCATENATE] = kolo_onednn_concatenate,
    [KOLO_OP_SLICE] = kolo_onednn_slice,
    [KOLO_OP_MULTIPLY] = kolo_onednn_multiply,
    [KOLO_OP_MULTIPLY_SUM] = kolo_onednn_multiply_sum,
    [KOLO_OP_ACTIVATION] = kolo_onednn_activation,
    [KOLO_OP_ACTIVATION_BACKWARD] = kolo_onednn_activation_backward,
    [KOLO_OP_DROPOUT] = kolo_onednn_dropout,
    [KOLO_OP_DROPOUT_BACKWARD] = kolo_onednn_dropout_backward,
    [KOLO_OP_ADD] = kolo_onednn_add,
    [KOLO_OP_EMBEDDING] = kolo_onednn_embedding,
    [KOLO_OP_EMBEDDING_BACKWARD] = kolo_onednn_embedding_backward,
    [KOLO_OP_POSITION] = kolo_onednn_position,
    [KOLO_OP_POSITION_BACKWARD] = kolo_onednn_position_backward,
    [KOLO_OP_LAYER_NORM] = kolo_onednn_layer_norm,
    [KOLO_OP_LAYER_NORM_BACKWARD] = kolo_onednn_layer_norm_backward,
    [KOLO_OP_ATTENTION] = kolo_onednn_attention,
    [KOLO_OP_ATTENTION_BACKWARD] = kolo_onednn_attention_backward,
    [KOLO_OP_BATCH_NORM_MOMENTS] = kolo_onednn_batch_norm_moments,
    [KOLO_OP_BATCH_NORM] = kolo_onednn_batch_norm,
    [KOLO_OP_BATCH_NORM_SUMS] = kolo_onednn_batch_norm_sums,
    [KOLO_OP_BATCH_NORM_BACKWARD] = kolo_onednn_batch_norm_backward,
    [KOLO_OP_DENSE_LOSS] = kolo_onednn_dense_loss,
    [KOLO_OP_CUSTOM] = kolo_onednn_custom,
    [KOLO_OP_LOSS] = kolo_onednn_loss,
};

static kolo_status make_steps(kolo_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    for (int i = 0; i < KOLO_OP_INS; i++) KOLO_TRY(kolo_onednn_round(kernel, op->in[i], true));
    KOLO_TRY(makers[op->kind](kernel, plan, op));
    int after = kernel->step_count;
    for (int i = 0; i < KOLO_OP_OUTS; i++) KOLO_TRY(kolo_onednn_round(kernel, op->out[i], false));
    kolo_steps_last(kernel, after);
    return KOLO_OK;
}

static bool has(kolo_op_kind kind)
{
    return makers[kind] != NULL;
}

/* oneDNN makes a primitive for as many threads as OpenMP has at that time: one. Small numbers are kept, else oneDNN
 * would take the slope of kolo_attributes() for zero. */
static kolo_status prepare(kolo_plan *plan, int op, void **made)
{
    KOLO_TRY(kolo_onednn_check_room(KOLO_KERNEL_ROOM, "the kernel of an operation"));
    kolo_kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) return kolo_fail_memory(sizeof *kernel, "a kernel");
    kernel->plan = plan;
    kernel->op = op;
    pthread_mutex_init(&kernel->mutex, NULL);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    unsigned own = change_mxcsr(0, FLUSH);
    kolo_status status = make_steps(kernel, plan, &plan->ops[op]);
    change_mxcsr(own, ~own);
    omp_set_num_threads(threads);
    if (status != KOLO_OK) {
        kolo_kernel_release(kernel);
        return status;
    }
    plan->ops[op].scratch = kernel->scratch + kernel->scratchpad;
    *made = kernel;
    return KOLO_OK;
}

static void forget(kolo_plan *plan)
{
    for (int i = 0; i < plan->value_count; i++) kolo_layout_free(&plan->values[i]);
}

/* Whether all values of the two operations have the type of activations, so that both keep one layout. Halves are
 * rounded behind kernels (half.c), so nothing is fused that would be rounded within one. */
static bool are_alike(const kolo_plan *plan, const kolo_op *op, const kolo_op *next)
{
    dnnl_data_type_t type = kolo_activation_type(plan);
    bool alike = plan->precision != KOLO_MIXED_FP16 && kolo_onednn_type(plan, op->out[0]) == type;
    for (int i = 0; i < KOLO_OP_INS; i++)
        alike = alike && (next->in[i] < 0 || kolo_onednn_type(plan, next->in[i]) == type);
    return alike && kolo_onednn_type(plan, next->out[0]) == type;
}

/* No DENSE_LOSS with KOLO_MIXED_FP16, since its steps do not apply the loss scale. */
static bool fuses(const kolo_plan *plan, const kolo_fusion *fusion)
{
    switch (fusion->kind) {
    case KOLO_FUSE_DENSE_LOSS: return plan->precision != KOLO_MIXED_FP16;
    case KOLO_FUSE_RELU_MASK: return fusion->op[2]->kind == KOLO_OP_CONV2D_BACKWARD;
    case KOLO_FUSE_RELU: return true;
    case KOLO_FUSE_ADD:
        return fusion->op[0]->kind == KOLO_OP_BATCH_NORM && are_alike(plan, fusion->op[0], fusion->op[1]);
    case KOLO_FUSE_RELU_BACKWARD: return are_alike(plan, fusion->op[0], fusion->op[1]);
    default: return false;
    }
}

static const kolo_backend onednn_backend = {
    .version = KOLO_BACKEND_VERSION,
    .name = "onednn",
    .fuses = fuses,
    .open = open,
    .enter_thread = enter_thread,
    .leave_thread = leave_thread,
    .has = has,
    .prepare = prepare,
    .run = kolo_kernel_run,
    .release = kolo_kernel_release,
    .forget = forget,
    .pack = kolo_onednn_pack_any,
    .unpack = kolo_onednn_unpack,
    .streams = &kolo_host_streams,
    .updates = &kolo_host_updates,
    .add = kolo_onednn_accumulate,
};

extern const kolo_plugin kolo_plugin_entry;
const kolo_plugin kolo_plugin_entry = {.version = KOLO_PLUGIN_VERSION, .backend = &onednn_backend};
