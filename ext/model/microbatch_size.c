/* How many samples a microbatch may and should have: see lower.h. */
#include "model/lower.h"

#include <math.h>

#include "plan/fusion.h"

#define USUAL_MICROBATCH    32          /* samples: with more, oneDNN's kernels are no faster, and caches overflow */
#define LARGEST_MICROBATCH  512 /* samples, where the gradients of the weights need more memory than the values */
#define PRODUCTS_PER_WEIGHT 32 /* multiplications per weight: see kolo_smallest_microbatch() */
#define LARGEST_ACTIVATIONS (192 << 20) /* bytes of a microbatch's values, if no two shared memory */

/* Where backend->microbatch_bytes limits microbatches, scoring and predicting have these limits, too: */
#define LARGEST_SCORED 4096 /* samples of a microbatch, which limits the memory of its outputs */
#define MOST_SCORED    ((int64_t)1 << 29) /* elements of its outputs */

/* Whether a value needs memory for each sample. After fusion no operation writes some of the activations. */
static bool is_kept(const kolo_plan *plan, int v)
{
    const kolo_value *value = &plan->values[v];
    if (!kolo_value_has_memory(value)) return false;
    return value->kind == KOLO_VALUE_INPUT || (value->kind == KOLO_VALUE_ACTIVATION && kolo_plan_writer(plan, v));
}

static int64_t bytes_of(const kolo_plan *plan)
{
    int64_t bytes = 0;
    for (int v = 0; v < plan->value_count; v++)
        if (is_kept(plan, v)) bytes += kolo_shape_count(plan->values[v].shape) * (int64_t)sizeof(float);
    return bytes;
}

/* The largest microbatch whose values need at most `room` bytes. A sample's values need `bytes` bytes; it has `outputs`
 * outputs. */
static int microbatch_in(int64_t room, kolo_purpose purpose, int64_t bytes, int64_t outputs)
{
    bool trains = purpose == KOLO_FOR_TRAINING || purpose == KOLO_FOR_GRADIENTS;
    int64_t microbatch = room / bytes, most = trains ? INT32_MAX : LARGEST_SCORED;
    if (!trains && most > MOST_SCORED / outputs) most = MOST_SCORED / outputs;
    if (microbatch > most) microbatch = most;
    return microbatch < 1 ? 1 : (int)microbatch;
}

/* Adds the size of an operation's kernel to *weights, and the number of a sample's multiplications by it to *products:
 * the size times the number of positions in the image or text. */
static void add_kernel(const kolo_plan *plan, const kolo_op *op, double *weights, double *products)
{
    bool convolves = op->kind == KOLO_OP_CONV2D || op->kind == KOLO_OP_CONV2D_TRANSPOSE;
    if (!convolves && op->kind != KOLO_OP_DENSE && op->kind != KOLO_OP_DENSE_LOSS) return;
    kolo_shape kernel = plan->values[op->in[1]].shape;
    int wide = op->kind == KOLO_OP_CONV2D ? op->out[0] : op->in[0];
    kolo_shape positions = plan->values[wide].shape;
    double size = (double)kolo_shape_count(kernel), width = (double)positions.dim[positions.rank - 1];
    if (!convolves) width = (double)kernel.dim[0];
    *weights += size;
    *products += size * (double)kolo_shape_count(positions) / width;
}

typedef struct lowered {
    bool fails; /* the model cannot be lowered; the next kolo_lower() reports why */
    bool reduces; /* an operation needs all microbatches of a batch */
    int64_t bytes; /* of a sample's values */
    int64_t outputs; /* elements of a sample's outputs */
    double weights, products; /* of all kernels: see add_kernel() */
} lowered;

static lowered lower(const kolo_model *model, kolo_purpose purpose)
{
    kolo_plan plan = {0};
    lowered result = {.fails = kolo_lower(model, purpose, USUAL_MICROBATCH, &plan) != KOLO_OK, .outputs = 1};
    if (result.fails) {
        kolo_failure_take();
    } else {
        kolo_fuse_loss(&plan, model->backend->fuses);
        result.bytes = bytes_of(&plan);
        result.outputs = kolo_plan_outputs(&plan);
        for (int o = 0; o < plan.op_count; o++) {
            add_kernel(&plan, &plan.ops[o], &result.weights, &result.products);
            result.reduces = result.reduces || plan.ops[o].kind == KOLO_OP_REDUCE;
        }
    }
    kolo_plan_free(&plan);
    return result;
}

/* Every microbatch writes a gradient of all the weights, which is then added to the others. A microbatch whose values
 * need less memory than the weights spends more time on this than its use of the caches saves. */
int kolo_largest_microbatch(const kolo_model *model, kolo_purpose purpose)
{
    const kolo_backend *backend = model->backend;
    lowered l = lower(model, purpose);
    int64_t microbatch = USUAL_MICROBATCH;
    if (l.bytes == 0) return USUAL_MICROBATCH;
    if (backend->microbatch_bytes)
        return microbatch_in(backend->microbatch_bytes(kolo_model_device(model, 0, 0)), purpose, l.bytes, l.outputs);
    if (purpose == KOLO_FOR_TRAINING) microbatch = model->weight_count * (int64_t)sizeof(float) / l.bytes;
    microbatch = microbatch < USUAL_MICROBATCH     ? USUAL_MICROBATCH
                 : microbatch > LARGEST_MICROBATCH ? LARGEST_MICROBATCH
                                                   : microbatch;
    if (l.bytes <= LARGEST_ACTIVATIONS / microbatch) return (int)microbatch;
    return l.bytes < LARGEST_ACTIVATIONS ? (int)(LARGEST_ACTIVATIONS / l.bytes) : 1;
}

int kolo_smallest_microbatch(const kolo_model *model)
{
    lowered l = lower(model, KOLO_FOR_TRAINING);
    return l.products > 0 ? (int)fmax(1, PRODUCTS_PER_WEIGHT * l.weights / l.products) : 1;
}

bool kolo_microbatches_reduce(const kolo_model *model)
{
    lowered l = lower(model, KOLO_FOR_TRAINING);
    return l.fails || l.reduces;
}
