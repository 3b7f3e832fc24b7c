/* The loss and the metrics of a leaf. Kernels: loss.cu. One that has a loss or a metric of a learner's own, which is a
 * function of the host's, is computed there: own.c. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>

#include "losses/formulas.h"

_Static_assert(KOLO_LOSS_METRICS == KOLO_METRICS_MAX, "a kernel takes all metrics of a model");

/* What stays from run to run. */
typedef struct loss {
    kolo_loss_job job;
    kolo_queue *queue;
    unsigned *ended; /* the device's */
} loss;

static void free_loss(void *own)
{
    loss *l = own;
    kolo_cuda_accelerator.release(l->queue, l->ended);
    free(l);
}

/* False: one of them is a learner's own. */
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

static bool describe(const kolo_plan *plan, const kolo_op *op, kolo_loss_job *job)
{
    kolo_shape outputs = plan->values[op->in[0]].shape;
    *job = (kolo_loss_job){.width = kolo_cuda_width(outputs),
                           .leaf = plan->leaf,
                           .loss = kolo_loss_formula(plan->loss.kind),
                           .number = plan->loss.number,
                           .sums = plan->metric_sums,
                           .probabilities = KOLO_FUNCTION_LINEAR};
    job->rows = kolo_shape_count(outputs) / job->width;
    if (job->loss == KOLO_FORMULA_NONE || !describe_metrics(plan, job)) return false;
    bool of_softmax = job->loss <= KOLO_FORMULA_KL_DIVERGENCE || job->probabilities == KOLO_FUNCTION_SOFTMAX;
    job->needs_softmax = of_softmax;
    job->needs_largest = job->needs_largest || of_softmax;
    return true;
}

static kolo_status run_loss(const kolo_cuda_job *job)
{
    const loss *own = job->kernel->own;
    const kolo_call *call = job->call;
    kolo_loss_job of_leaf = own->job;
    of_leaf.first = call->first_sample;
    of_leaf.outputs = job->in[0];
    of_leaf.gradient = job->out[0];
    of_leaf.labels = call->labels;
    of_leaf.targets = call->targets;
    of_leaf.weights = call->weights;
    of_leaf.total_samples = &call->totals->samples;
    of_leaf.total_loss = &call->totals->loss;
    of_leaf.total_sums = call->totals->sums;
    of_leaf.ended = own->ended;
    KOLO_CUDA(kolo_cuda_loss(job->stream, &of_leaf, call->moment, job->scratch), "the loss");
    return KOLO_OK;
}

kolo_status kolo_cuda_make_loss(kolo_cuda_kernel *kernel, kolo_plan *plan, const kolo_op *op)
{
    kolo_loss_job job;
    if (!describe(plan, op, &job)) return kolo_cuda_make_own(kernel, plan, op);
    loss *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a loss");
    *made = (loss){.job = job, .queue = plan->queue};
    kernel->own = made;
    kernel->free_own = free_loss;
    kernel->element = KOLO_ELEMENT_FLOAT; /* outputs and their gradient are canonical */
    kernel->run = run_loss;
    kernel->scratch = kolo_cuda_loss_scratch(&job);
    void *memory = NULL;
    KOLO_TRY(kolo_cuda_accelerator.allocate(plan->queue, sizeof *made->ended, "the loss", &memory));
    made->ended = memory;
    return kolo_cuda_accelerator.clear(plan->queue, memory, sizeof *made->ended);
}
