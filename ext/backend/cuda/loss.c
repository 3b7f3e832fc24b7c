/* The loss and the metrics of a microbatch. Kernels: loss.cu. A custom loss or metric is a function of the host; then
 * the loss and all metrics are computed there (custom.c). */
#include "backend/cuda/cuda.h"

#include "losses/formulas.h"

_Static_assert(KOLO_LOSS_METRICS == KOLO_METRICS_MAX, "a kernel takes all metrics of a model");

/* False: one of the metrics is custom. */
static bool describe_metrics(const kolo_plan *plan, kolo_loss_job *job)
{
    for (int m = 0; m < KOLO_METRICS_MAX && plan->metrics[m].kind; m++) {
        const kolo_metric *metric = &plan->metrics[m];
        kolo_formula formula = kolo_metric_formula(metric->kind);
        if (formula == KOLO_FORMULA_NONE) return false;
        bool compares = formula == KOLO_FORMULA_CATEGORICAL_ACCURACY || formula == KOLO_FORMULA_COUNT_LARGEST;
        job->needs_largest = job->needs_largest || compares;
        job->needs_truth = job->needs_truth || compares || formula == KOLO_FORMULA_TOP_K;
        job->metrics[job->metric_count++] = (kolo_loss_metric){formula, plan->metric_offset[m], metric->number};
        if (metric->kind->probabilities && plan->probabilities) job->probabilities = (kolo_function)plan->probabilities;
    }
    return true;
}

bool kolo_cuda_describe_loss(const kolo_plan *plan, kolo_loss_job *job)
{
    kolo_shape outputs = plan->values[plan->output].shape;
    *job = (kolo_loss_job){.width = kolo_cuda_width(outputs),
                           .microbatch = plan->microbatch,
                           .loss = kolo_loss_formula(plan->loss.kind),
                           .number = plan->loss.number,
                           .sums = plan->metric_sums,
                           .shared = plan->stream->shared,
                           .probabilities = KOLO_FUNCTION_LINEAR};
    job->rows = kolo_shape_count(outputs) / job->width;
    if (job->loss == KOLO_FORMULA_NONE || !describe_metrics(plan, job)) return false;
    bool of_softmax = job->loss <= KOLO_FORMULA_KL_DIVERGENCE || job->probabilities == KOLO_FUNCTION_SOFTMAX;
    job->needs_softmax = of_softmax;
    job->needs_largest = job->needs_largest || of_softmax;
    return true;
}

bool kolo_cuda_has_loss(const kolo_plan *plan)
{
    if (kolo_loss_formula(plan->loss.kind) == KOLO_FORMULA_NONE) return false;
    for (int m = 0; m < KOLO_METRICS_MAX && plan->metrics[m].kind; m++)
        if (kolo_metric_formula(plan->metrics[m].kind) == KOLO_FORMULA_NONE) return false;
    return true;
}

void kolo_cuda_aim_loss(const kolo_call *call, kolo_loss_job *loss)
{
    loss->first = call->first_sample;
    loss->labels = call->labels;
    loss->targets = call->targets;
    loss->weights = call->weights;
    loss->total_samples = &call->totals->samples;
    loss->total_loss = &call->totals->loss;
    loss->total_sums = call->totals->sums;
    loss->tickets = call->stream->tickets;
}

static kolo_status run_loss(const kolo_cuda_job *job)
{
    const kolo_call *call = job->call;
    kolo_loss_job loss = *(const kolo_loss_job *)job->kernel->state;
    kolo_cuda_aim_loss(call, &loss);
    loss.outputs = job->in[0];
    loss.gradient = job->out[0];
    KOLO_CUDA(kolo_cuda_loss(job->stream, &loss, call->step_parameters, job->scratch), "the loss");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_loss(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_loss_job job;
    if (!kolo_cuda_describe_loss(plan, &job)) return kolo_cuda_make_custom(kernel, plan, op);
    if (op->out[0] >= 0) job.gradient_element = kolo_cuda_element(plan, op->out[0]);
    kernel->element = KOLO_ELEMENT_FLOAT; /* outputs are canonical */
    kernel->any_out[0] = true;
    kernel->run = run_loss;
    kernel->scratch = kolo_cuda_loss_scratch(&job);
    return kolo_cuda_keep(kernel, &job, sizeof job, "a loss");
}
