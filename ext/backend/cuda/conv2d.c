/* Convolutions, transposed convolutions and their gradients: by cuDNN where it has an engine (conv_graph.h), else by
 * our own kernels (conv.cu). A convolution computes the smaller image, y, from the larger one, x. A transposed
 * convolution computes x from y. An element is narrow if it has 2 bytes.
 *
 * Our own kernels always compute:
 * - depthwise convolutions and those of first layers, for which cuDNN's engines are slow;
 * - small narrow convolutions that are fused with the max pooling behind them (pooled_conv2d.h);
 * - narrow weight gradients of 3 × 3 windows over few channels (conv_filter.cu).
 * cuDNN computes the other narrow weight gradients, and rounds them to the element, as PyTorch does. */
#include "backend/cuda/conv_graph.h"
#include "backend/cuda/first_conv2d.h"
#include "backend/cuda/pooled_conv2d.h"

#include <string.h>

/* ---- the makers' data ---- */

/* How x, y or the weight gradient is computed: by a graph of cuDNN, or by our own kernel if graph is NULL. */
typedef struct route {
    const kolo_conv_graph *graph;
    ptrdiff_t scratch; /* the graph's workspace: an offset in the operation's scratch memory */
} route;

typedef struct convolution {
    kolo_conv_spec spec; /* of the image that is computed: forward the output, backward the input gradient */
    route image, weight_gradient;
    ptrdiff_t dz, bias; /* scratch offsets: the masked dy; partial sums of dbias, or an aligned copy of the bias */
    kolo_cuda_parts parts; /* of the weight gradient, if our own kernel computes it */
    ptrdiff_t rounded;     /* in the scratch memory: cuDNN's narrow weight gradient */
    bool separate_bias_pass; /* a pass after the image's graph applies bias and ReLU */
} convolution;

/* A kernel's shape is {height, width, channels of a group, filters}. */
static kolo_conv_spec spec_of(const kolo_plan *plan, const kolo_op *op, int larger, int smaller, int kernel)
{
    kolo_shape x = plan->values[larger].shape, y = plan->values[smaller].shape;
    const kolo_window *w = &op->window;
    kolo_conv_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.conv = (kolo_conv){.microbatch = plan->microbatch,
                            .height = x.dim[0],
                            .width = x.dim[1],
                            .channels = x.dim[2],
                            .out_height = y.dim[0],
                            .out_width = y.dim[1],
                            .filters = y.dim[2],
                            .groups = x.dim[2] / plan->values[kernel].shape.dim[2],
                            .kernel = {w->kernel[0], w->kernel[1]},
                            .stride = {w->stride[0], w->stride[1]},
                            .dilation = {w->gap[0] + 1, w->gap[1] + 1},
                            .before = {w->before[0], w->before[1]}};
    spec.after[0] = w->after[0];
    spec.after[1] = w->after[1];
    spec.tf32 = plan->precision == KOLO_TF32;
    spec.conv.tensor_cores = plan->stream->capability >= 80;
    spec.conv.shared = plan->stream->shared;
    return spec;
}

bool kolo_cuda_fuses_pooled_conv2d(const kolo_plan *plan, const kolo_fusion *fusion)
{
    const kolo_op *op = fusion->op[0], *pool = fusion->op[1], *pool_back = fusion->op[3];
    kolo_element element = kolo_cuda_element_of(plan->precision);
    kolo_conv conv = spec_of(plan, op, op->in[0], op->out[0], op->in[1]).conv;
    const int values[] = {op->out[0], pool->out[0], pool_back ? pool_back->in[0] : -1,
                          pool_back ? pool_back->out[0] : -1};
    bool inside = true;
    for (int i = 0; i < 4; i++)
        inside = inside && (values[i] < 0 ||
                            (plan->values[values[i]].kind == KOLO_VALUE_ACTIVATION &&
                             !kolo_plan_canonical(plan, values[i]) && kolo_cuda_element(plan, values[i]) == element));
    return inside && !kolo_cuda_conv_first_fits(&conv) && kolo_cuda_conv_pooled_fits(element, &conv);
}

/* Finds cuDNN's graph. found->graph becomes NULL if there is none, or if our own kernel is the better choice. */
static kolo_status find(kolo_cuda_kernel *kernel, const kolo_plan *plan, const kolo_conv_spec *spec, route *found)
{
    size_t scratch = 0;
    bool own = spec->result == KOLO_CONV_KERNEL ? kolo_cuda_has_filter(spec->element, &spec->conv)
                                                : kolo_cuda_is_depthwise(&spec->conv);
    found->graph = NULL;
    if (!own) KOLO_TRY(kolo_conv_graph_find(plan->stream, spec, &found->graph, &scratch));
    found->scratch = kolo_cuda_reserve(&kernel->scratch, scratch);
    return KOLO_OK;
}

/* The filters are the last axis of our kernel and the first of cuDNN's, so the kernel is transposed for cuDNN. It is
 * aligned since our own kernels read sixteen bytes at a time. */
static kolo_status choose_layout(kolo_plan *plan, const route *by, int value, kolo_element element)
{
    if (value < 0) return KOLO_OK;
    return kolo_cuda_choose_layout(plan, value,
                                   (kolo_cuda_layout){
                                       .element = element, .transposed = by->graph != NULL, .aligned = true});
}

static kolo_status finish(const kolo_cuda_job *job, const float *bias, void *to)
{
    int64_t count = kolo_cuda_count(job->plan, job->op->out[0]);
    int width = kolo_cuda_width(kolo_cuda_out(job, 0));
    const convolution *own = job->kernel->state;
    KOLO_CUDA(kolo_cuda_bias_forward(job->stream, job->element, count / width, width, bias, own->spec.relu, to),
              "a convolution's bias");
    return KOLO_OK;
}

/* Computes the image of spec.result from the other image. */
static kolo_status compute(const kolo_cuda_job *job, const void *from, const void *weights, const void *bias, void *to)
{
    const convolution *own = job->kernel->state;
    const kolo_conv_spec *spec = &own->spec;
    bool of_y = spec->result == KOLO_CONV_Y;
    if (own->image.graph) {
        KOLO_TRY(kolo_conv_graph_run(own->image.graph, of_y ? from : to, weights, of_y ? to : from, bias,
                                     (char *)job->scratch + own->image.scratch));
        return own->separate_bias_pass ? finish(job, bias, to) : KOLO_OK;
    }
    KOLO_CUDA((of_y ? kolo_cuda_conv : kolo_cuda_conv_data)(job->stream, job->element, &spec->conv, from, weights, bias,
                                                            to, spec->relu),
              "a convolution");
    return KOLO_OK;
}

/* ---- forward ---- */

static kolo_status run_forward(const kolo_cuda_job *job)
{
    const convolution *own = job->kernel->state;
    void *bias = (char *)job->scratch + own->bias;
    if (own->image.graph && !own->separate_bias_pass) KOLO_TRY(kolo_cuda_align_bias(job, &bias));
    else bias = job->in[2];
    return compute(job, job->in[0], job->in[1], bias, job->out[0]);
}

/* cuDNN has precompiled engines for a convolution with a bias, with or without ReLU. It would compile one for a ReLU
 * without a bias, or for a transposed convolution with either. In these cases a pass after the graph applies them. */
static kolo_status find_forward(kolo_cuda_kernel *kernel, const kolo_plan *plan, convolution *made)
{
    const kolo_conv_spec *spec = &made->spec;
    kolo_conv_spec alone = *spec;
    alone.bias = alone.relu = 0;
    if (spec->result == KOLO_CONV_Y && spec->bias) KOLO_TRY(find(kernel, plan, spec, &made->image));
    if (made->image.graph) return KOLO_OK;
    made->separate_bias_pass = spec->bias || spec->relu;
    return find(kernel, plan, &alone, &made->image);
}

static kolo_status make_forward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op, bool transposed)
{
    int x = transposed ? op->out[0] : op->in[0], y = transposed ? op->in[0] : op->out[0], bias = op->in[2];
    convolution made = {.spec = spec_of(plan, op, x, y, op->in[1])};
    if (!transposed && kolo_cuda_conv_first_fits(&made.spec.conv))
        return kolo_cuda_make_first_conv2d(kernel, plan, op, &made.spec.conv);
    if (kolo_cuda_fused(plan, op)) return kolo_cuda_make_pooled_conv2d(kernel, plan, op, &made.spec.conv);
    made.spec.result = transposed ? KOLO_CONV_X : KOLO_CONV_Y;
    made.spec.element = kernel->element;
    made.spec.bias = bias >= 0;
    made.spec.relu = op->activation == KOLO_RELU;
    KOLO_TRY(find_forward(kernel, plan, &made));
    KOLO_TRY(choose_layout(plan, &made.image, op->in[1], kernel->element));
    if (made.image.graph && !made.separate_bias_pass && bias >= 0) {
        made.bias = kolo_cuda_reserve(&kernel->scratch, (size_t)kolo_cuda_count(plan, bias) * sizeof(float));
        if (kernel->element != KOLO_ELEMENT_FLOAT)
            KOLO_TRY(kolo_cuda_choose_layout(plan, bias, (kolo_cuda_layout){.element = kernel->element}));
    }
    kernel->run = run_forward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}

kolo_status kolo_cuda_make_conv2d(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return make_forward(kernel, plan, op, false);
}

kolo_status kolo_cuda_make_conv2d_transpose(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return make_forward(kernel, plan, op, true);
}

/* ---- backward ---- */

/* Computes dbias, and dz: dy masked by the ReLU, or dy itself if there is no mask. */
static kolo_status through_bias(const kolo_cuda_job *job, const void **dz)
{
    const convolution *own = job->kernel->state;
    char *scratch = job->scratch;
    int width = kolo_cuda_width(kolo_cuda_in(job, 0));
    kolo_bias_job bias = {.rows = kolo_cuda_count(job->plan, job->op->in[0]) / width,
                          .width = width,
                          .element = job->element,
                          .dy_element = job->element,
                          .dy = job->in[0],
                          .y = job->in[1],
                          .dz = job->in[1] ? scratch + own->dz : NULL,
                          .dbias = job->out[2],
                          .scratch = scratch + own->bias,
                          .tickets = job->call->stream->tickets};
    *dz = bias.dz ? bias.dz : bias.dy;
    if (!bias.dz && !bias.dbias) return KOLO_OK;
    KOLO_CUDA(kolo_cuda_bias_backward(job->stream, &bias), "a bias's gradient");
    return KOLO_OK;
}

static kolo_status compute_kernel(const kolo_cuda_job *job, const void *x, const void *y)
{
    const convolution *own = job->kernel->state;
    char *scratch = job->scratch;
    bool narrow = job->element != KOLO_ELEMENT_FLOAT;
    void *to = narrow ? scratch + own->rounded : job->out[1];
    if (own->weight_gradient.graph) {
        KOLO_TRY(kolo_conv_graph_run(own->weight_gradient.graph, x, to, y, NULL,
                                     scratch + own->weight_gradient.scratch));
        if (narrow)
            KOLO_CUDA(kolo_cuda_cast(job->stream, job->element, to, KOLO_ELEMENT_FLOAT, job->out[1],
                                     kolo_cuda_count(job->plan, job->op->out[1])),
                      "a convolution's gradient");
        return KOLO_OK;
    }
    KOLO_CUDA(kolo_cuda_conv_filter(job->stream, job->element, &own->spec.conv, x, y,
                                    kolo_cuda_parts_at(job, &own->parts)),
              "a convolution's gradient");
    return kolo_cuda_sum_parts(job, &own->parts);
}

static kolo_status run_backward(const kolo_cuda_job *job)
{
    const convolution *own = job->kernel->state;
    bool transposed = own->spec.result == KOLO_CONV_Y; /* dx is the smaller image */
    const void *dz;
    KOLO_TRY(through_bias(job, &dz));
    KOLO_TRY(transposed ? compute_kernel(job, dz, job->in[2]) : compute_kernel(job, job->in[2], dz));
    return job->out[0] ? compute(job, dz, job->in[3], NULL, job->out[0]) : KOLO_OK;
}

static kolo_status find_kernel(kolo_cuda_kernel *kernel, kolo_plan *plan, int gradient, convolution *made)
{
    made->spec.result = KOLO_CONV_KERNEL;
    KOLO_TRY(find(kernel, plan, &made->spec, &made->weight_gradient));
    if (made->weight_gradient.graph) {
        size_t bytes = (size_t)kolo_cuda_count(plan, gradient) * kolo_element_bytes(kernel->element);
        made->rounded = kolo_cuda_reserve(&kernel->scratch, kernel->element == KOLO_ELEMENT_FLOAT ? 0 : bytes);
        return choose_layout(plan, &made->weight_gradient, gradient, KOLO_ELEMENT_FLOAT);
    }
    int parts = kolo_cuda_conv_filter_parts(kernel->element, &made->spec.conv);
    return kolo_cuda_expect_parts(kernel, plan, 1, parts, &made->parts);
}

static kolo_status make_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op, bool transposed)
{
    int x = transposed ? op->in[0] : op->in[2], y = transposed ? op->in[2] : op->in[0];
    int width = kolo_cuda_width(plan->values[op->in[0]].shape);
    int64_t count = kolo_cuda_count(plan, op->in[0]);
    convolution made = {.spec = spec_of(plan, op, x, y, op->out[1])};
    if (!transposed && op->out[0] < 0 && kolo_cuda_conv_first_fits(&made.spec.conv))
        return kolo_cuda_make_first_conv2d_backward(kernel, plan, op, &made.spec.conv);
    if (kolo_cuda_fused(plan, op)) return kolo_cuda_make_pooled_conv2d_backward(kernel, plan, op, &made.spec.conv);
    made.spec.element = kernel->element;
    KOLO_TRY(find_kernel(kernel, plan, op->out[1], &made));
    made.spec.result = transposed ? KOLO_CONV_Y : KOLO_CONV_X;
    if (op->out[0] >= 0) KOLO_TRY(find(kernel, plan, &made.spec, &made.image));
    KOLO_TRY(choose_layout(plan, &made.image, op->in[3], kernel->element));
    size_t dz = op->in[1] < 0 ? 0 : (size_t)count * kolo_element_bytes(kernel->element);
    made.dz = kolo_cuda_reserve(&kernel->scratch, dz);
    made.bias = kolo_cuda_reserve(&kernel->scratch, op->out[2] < 0 ? 0 : kolo_cuda_bias_scratch(count / width, width));
    kernel->run = run_backward;
    return kolo_cuda_keep(kernel, &made, sizeof made, "a convolution");
}

kolo_status kolo_cuda_make_conv2d_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return make_backward(kernel, plan, op, false);
}

kolo_status kolo_cuda_make_conv2d_transpose_backward(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    return make_backward(kernel, plan, op, true);
}
