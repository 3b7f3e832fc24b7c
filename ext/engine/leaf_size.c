/* How many samples a leaf may have: see lower.h. */
#include "engine/lower.h"

#define USUAL_LEAF    32          /* samples: past this oneDNN's kernels gain nothing, and caches overflow */
#define LARGEST_LEAF  512         /* samples: where the weights' gradients weigh more */
#define LARGEST_FRAME (192 << 20) /* bytes of a leaf's values, if none shared memory with another */

static int64_t bytes_of(const kolo_plan *plan)
{
    int64_t bytes = 0;
    for (int v = 0; v < plan->value_count; v++) {
        const kolo_value *value = &plan->values[v];
        bool of_samples = value->kind == KOLO_VALUE_ACTIVATION || value->kind == KOLO_VALUE_INPUT;
        if (of_samples && value->view_of < 0) bytes += kolo_shape_count(value->shape) * (int64_t)sizeof(float);
    }
    if (plan->forward_count > 0 && plan->ops[plan->forward_count - 1].kind == KOLO_OP_DENSE_LOSS)
        bytes -= kolo_shape_count(plan->values[plan->output].shape) * (int64_t)sizeof(float); /* nowhere kept */
    return bytes;
}

/* Every leaf writes a gradient of all the weights, which is then added to the others: a leaf whose values take less
 * memory than the weights spends more on that than its caches save. */
int kolo_largest_leaf(const kolo_model *model, kolo_purpose purpose)
{
    kolo_plan plan = {0};
    kolo_status status = kolo_lower(model, purpose, USUAL_LEAF, &plan);
    int64_t bytes = status == KOLO_OK ? bytes_of(&plan) : 0, leaf = USUAL_LEAF;
    kolo_plan_free(&plan);
    if (status != KOLO_OK) kolo_failure_take(); /* who lowers it next will say so */
    if (bytes == 0) return USUAL_LEAF;
    if (purpose == KOLO_FOR_TRAINING) leaf = model->weight_count * (int64_t)sizeof(float) / bytes;
    leaf = leaf < USUAL_LEAF ? USUAL_LEAF : leaf > LARGEST_LEAF ? LARGEST_LEAF : leaf;
    if (bytes <= LARGEST_FRAME / leaf) return (int)leaf;
    return bytes < LARGEST_FRAME ? (int)(LARGEST_FRAME / bytes) : 1;
}
