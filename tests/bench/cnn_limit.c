/* What oneDNN alone leaves of a training step of the lesson's CNN:
 *
 *     cnn_limit BATCH fp32|bf16 STEPS EPOCHS [winograd]
 *
 * Its heavy primitives on memory of zeros, with layouts of its own choice, on all cores: both convolutions and the
 * first dense layer, forward with relu and both ways back, the pooling, and relu's way back. No data, dropout, second
 * dense layer, loss, metric or optimizer. Convolutions are direct, or by Winograd's algorithm where oneDNN has it: no
 * library that computes with oneDNN and the same algorithm can train faster. Prints net_bench.c's JSON. Failures end
 * it: there is nothing to save.
 */
#include <oneapi/dnnl/dnnl.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { PRIMITIVES_MAX = 32, OPERANDS = 4 };

typedef struct call {
    dnnl_primitive_t primitive;
    int count;
    dnnl_exec_arg_t operand[OPERANDS];
} call;

typedef struct tensor {
    dnnl_memory_desc_t desc;
    dnnl_memory_t memory;
} tensor;

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_data_type_t type;
static dnnl_alg_kind_t algorithm = dnnl_convolution_direct;
static dnnl_primitive_attr_t relu;
static call calls[PRIMITIVES_MAX];
static int call_count;

static void must(dnnl_status_t status)
{
    if (status == dnnl_success) return;
    fprintf(stderr, "cnn_limit: oneDNN fails with code %d\n", (int)status);
    exit(1);
}

static dnnl_memory_desc_t any(int rank, const dnnl_dim_t *size)
{
    dnnl_memory_desc_t desc;
    must(dnnl_memory_desc_init_by_tag(&desc, rank, size, type, dnnl_format_tag_any));
    return desc;
}

static tensor zeros(const dnnl_memory_desc_t *desc)
{
    tensor made = {*desc, NULL};
    void *bytes;
    must(dnnl_memory_create(&made.memory, desc, engine, DNNL_MEMORY_ALLOCATE));
    must(dnnl_memory_get_data_handle(made.memory, &bytes));
    memset(bytes, 0, dnnl_memory_desc_get_size(desc));
    return made;
}

static tensor zeros_of(dnnl_primitive_desc_t descriptor, dnnl_query_t what)
{
    return zeros(dnnl_primitive_desc_query_md(descriptor, what, 0));
}

static void add(dnnl_primitive_desc_t descriptor, int count, const int *arguments, const tensor *operands)
{
    call *made = &calls[call_count++];
    must(dnnl_primitive_create(&made->primitive, descriptor));
    made->count = count;
    for (int i = 0; i < count; i++) made->operand[i] = (dnnl_exec_arg_t){arguments[i], operands[i].memory};
}

/* x as the primitive wants it: itself, or what a reorder makes of it. */
static tensor bring(tensor x, dnnl_primitive_desc_t descriptor, dnnl_query_t what)
{
    const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(descriptor, what, 0);
    if (dnnl_memory_desc_equal(&x.desc, wanted)) return x;
    tensor y = zeros(wanted);
    dnnl_primitive_desc_t reorder;
    must(dnnl_reorder_primitive_desc_create(&reorder, &x.desc, engine, wanted, engine, NULL));
    add(reorder, 2, (int[]){DNNL_ARG_FROM, DNNL_ARG_TO}, (tensor[]){x, y});
    return y;
}

/* ---- Convolutions and dense layers ---- */

typedef struct layer {
    dnnl_dims_t in, kernel, out;
    dnnl_primitive_desc_t descriptor;
    tensor x, weights, y;
} layer;

static dnnl_primitive_desc_t describe_by(const layer *l, int way, dnnl_alg_kind_t by)
{
    static const dnnl_dims_t one = {1, 1}, none = {0, 0};
    dnnl_convolution_desc_t desc;
    dnnl_memory_desc_t in = any(4, l->in), kernel = any(4, l->kernel), bias = any(1, &l->kernel[0]),
                       out = any(4, l->out);
    if (way == 0)
        must(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_training, by, &in, &kernel, &bias, &out, one, none,
                                                none));
    if (way == 1)
        must(dnnl_convolution_backward_weights_desc_init(&desc, by, &in, &kernel, &bias, &out, one, none, none));
    if (way == 2) must(dnnl_convolution_backward_data_desc_init(&desc, by, &in, &kernel, &out, one, none, none));
    dnnl_primitive_desc_t made;
    dnnl_status_t status =
        dnnl_primitive_desc_create(&made, &desc, way == 0 ? relu : NULL, engine, way == 0 ? NULL : l->descriptor);
    if (status == dnnl_unimplemented && by == dnnl_convolution_winograd) return NULL;
    must(status);
    return made;
}

static dnnl_primitive_desc_t describe(const layer *l, int way)
{
    bool wide = l->in[1] >= 16; /* the first convolution's one channel would be padded to sixteen */
    dnnl_primitive_desc_t made = wide ? describe_by(l, way, algorithm) : NULL;
    return made ? made : describe_by(l, way, dnnl_convolution_direct);
}

static dnnl_primitive_desc_t describe_dense(const layer *l, int way)
{
    dnnl_inner_product_desc_t desc;
    dnnl_memory_desc_t in = any(4, l->in), kernel = any(4, l->kernel), bias = any(1, &l->kernel[0]),
                       out = any(2, l->out);
    if (way == 0) must(dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_training, &in, &kernel, &bias, &out));
    if (way == 1) must(dnnl_inner_product_backward_weights_desc_init(&desc, &in, &kernel, &bias, &out));
    if (way == 2) must(dnnl_inner_product_backward_data_desc_init(&desc, &in, &kernel, &out));
    dnnl_primitive_desc_t made;
    must(dnnl_primitive_desc_create(&made, &desc, way == 0 ? relu : NULL, engine, way == 0 ? NULL : l->descriptor));
    return made;
}

static dnnl_primitive_desc_t describe_either(const layer *l, int way)
{
    return l->out[2] > 0 ? describe(l, way) : describe_dense(l, way);
}

static tensor forward(layer *l, tensor x)
{
    l->descriptor = describe_either(l, 0);
    l->x = bring(x, l->descriptor, dnnl_query_src_md);
    l->weights = zeros_of(l->descriptor, dnnl_query_weights_md);
    l->y = zeros_of(l->descriptor, dnnl_query_dst_md);
    tensor bias = zeros(dnnl_primitive_desc_query_md(l->descriptor, dnnl_query_weights_md, 1));
    add(l->descriptor, 4, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
        (tensor[]){l->x, l->weights, bias, l->y});
    return l->y;
}

static tensor relu_backward(const layer *l, tensor dy)
{
    const dnnl_alg_kind_t of_y = dnnl_eltwise_relu_use_dst_for_bwd;
    dnnl_eltwise_desc_t desc;
    dnnl_primitive_desc_t hint, descriptor;
    must(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training, of_y, &l->y.desc, 0, 0));
    must(dnnl_primitive_desc_create(&hint, &desc, NULL, engine, NULL));
    must(dnnl_eltwise_backward_desc_init(&desc, of_y, &dy.desc, &l->y.desc, 0, 0));
    must(dnnl_primitive_desc_create(&descriptor, &desc, NULL, engine, hint));
    tensor dx = zeros_of(descriptor, dnnl_query_diff_src_md);
    add(descriptor, 3, (int[]){DNNL_ARG_DST, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}, (tensor[]){l->y, dy, dx});
    return dx;
}

static tensor backward(const layer *l, tensor dy, int needs_dx)
{
    dy = relu_backward(l, dy);
    dnnl_primitive_desc_t descriptor = describe_either(l, 1);
    tensor dw = zeros_of(descriptor, dnnl_query_diff_weights_md);
    tensor db = zeros(dnnl_primitive_desc_query_md(descriptor, dnnl_query_diff_weights_md, 1));
    tensor x = bring(l->x, descriptor, dnnl_query_src_md), given = bring(dy, descriptor, dnnl_query_diff_dst_md);
    add(descriptor, 4, (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS},
        (tensor[]){x, given, dw, db});
    if (!needs_dx) return dy;
    descriptor = describe_either(l, 2);
    tensor dx = zeros_of(descriptor, dnnl_query_diff_src_md);
    tensor weights = bring(l->weights, descriptor, dnnl_query_weights_md);
    given = bring(dy, descriptor, dnnl_query_diff_dst_md);
    add(descriptor, 3, (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC}, (tensor[]){given, weights, dx});
    return dx;
}

/* ---- Pooling ---- */

typedef struct pool {
    dnnl_primitive_desc_t descriptor;
    tensor x, where;
} pool;

static const dnnl_dims_t two = {2, 2}, zero = {0, 0};

static tensor pool_forward(pool *p, tensor x, dnnl_dim_t batch)
{
    dnnl_memory_desc_t out = any(4, (dnnl_dims_t){batch, 64, 12, 12});
    dnnl_pooling_desc_t desc;
    must(dnnl_pooling_forward_desc_init(&desc, dnnl_forward_training, dnnl_pooling_max, &x.desc, &out, two, two, zero,
                                        zero));
    must(dnnl_primitive_desc_create(&p->descriptor, &desc, NULL, engine, NULL));
    p->x = x;
    p->where = zeros_of(p->descriptor, dnnl_query_workspace_md);
    tensor y = zeros_of(p->descriptor, dnnl_query_dst_md);
    add(p->descriptor, 3, (int[]){DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WORKSPACE}, (tensor[]){x, y, p->where});
    return y;
}

static tensor pool_backward(const pool *p, tensor dy)
{
    dy = bring(dy, p->descriptor, dnnl_query_dst_md);
    dnnl_pooling_desc_t desc;
    dnnl_primitive_desc_t descriptor;
    must(dnnl_pooling_backward_desc_init(&desc, dnnl_pooling_max, &p->x.desc, &dy.desc, two, two, zero, zero));
    must(dnnl_primitive_desc_create(&descriptor, &desc, NULL, engine, p->descriptor));
    tensor dx = zeros(&p->x.desc);
    add(descriptor, 3, (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WORKSPACE, DNNL_ARG_DIFF_SRC}, (tensor[]){dy, p->where, dx});
    return dx;
}

/* ---- The step ---- */

static void write_step(dnnl_dim_t n)
{
    layer first = {.in = {n, 1, 28, 28}, .kernel = {32, 1, 3, 3}, .out = {n, 32, 26, 26}},
          second = {.in = {n, 32, 26, 26}, .kernel = {64, 32, 3, 3}, .out = {n, 64, 24, 24}},
          dense = {.in = {n, 64, 12, 12}, .kernel = {128, 64, 12, 12}, .out = {n, 128}};
    pool halves;
    dnnl_memory_desc_t pictures;
    must(dnnl_memory_desc_init_by_tag(&pictures, 4, first.in, type, dnnl_nhwc));
    tensor y = forward(&second, forward(&first, zeros(&pictures)));
    y = forward(&dense, pool_forward(&halves, y, n));
    tensor dx = backward(&dense, zeros(&y.desc), 1);
    dx = backward(&second, pool_backward(&halves, dx), 1);
    backward(&first, bring(dx, first.descriptor, dnnl_query_dst_md), 0);
}

static void run(int steps)
{
    for (int step = 0; step < steps; step++)
        for (int i = 0; i < call_count; i++)
            must(dnnl_primitive_execute(calls[i].primitive, stream, calls[i].count, calls[i].operand));
    must(dnnl_stream_wait(stream));
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void time_epochs(int batch, int steps, int epochs)
{
    run(1);
    printf("{\"first_step_at\": %.6f, \"epochs\": [", seconds(CLOCK_REALTIME));
    for (int i = 0; i < epochs; i++) {
        double begin = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        run(steps);
        printf("%s{\"seconds\": %.6f, \"images\": %lld, \"cpu_seconds\": %.6f}", i ? ", " : "",
               seconds(CLOCK_MONOTONIC) - begin, (long long)batch * steps, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("], \"peak_bytes\": %ld}\n", use.ru_maxrss * 1024);
}

int main(int argc, char **argv)
{
    bool winograd = argc == 6 && strcmp(argv[5], "winograd") == 0, right = argc == 5 || winograd;
    int batch = right ? atoi(argv[1]) : 0, steps = right ? atoi(argv[3]) : 0, epochs = right ? atoi(argv[4]) : 0;
    if (batch < 1 || steps < 1 || epochs < 1) {
        fprintf(stderr, "usage: cnn_limit BATCH fp32|bf16 STEPS EPOCHS [winograd]\n");
        return 2;
    }
    if (winograd) algorithm = dnnl_convolution_winograd;
    type = strcmp(argv[2], "bf16") == 0 ? dnnl_bf16 : dnnl_f32;
    dnnl_post_ops_t after;
    must(dnnl_engine_create(&engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    must(dnnl_primitive_attr_create(&relu));
    must(dnnl_post_ops_create(&after));
    must(dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_relu, 0, 0));
    must(dnnl_primitive_attr_set_post_ops(relu, after));
    write_step(batch);
    time_epochs(batch, steps, epochs);
    return 0;
}
