/* Lowering: makes a plan of a model's layers. */
#ifndef KOLO_MODEL_LOWER_H
#define KOLO_MODEL_LOWER_H

#include "model/model.h"

typedef enum kolo_purpose {
    KOLO_FOR_TRAINING,  /* forward with dropout, loss, backward */
    KOLO_FOR_GRADIENTS, /* the same without dropout */
    KOLO_FOR_SCORES,    /* forward and loss */
    KOLO_FOR_OUTPUTS    /* forward */
} kolo_purpose;

/* Fills in *plan. The caller frees it with kolo_plan_free(), also after a failure. */
kolo_status kolo_lower(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_plan *plan);

/* The most samples that a microbatch may have. On a CPU it is 32. In training it is up to 512 where the values of 32
 * samples need less memory than the weights. It is less where the values would need more than some 200 MB. On a GPU it
 * is as many as the device's memory can hold. It does not depend on the number of devices, so microbatches are the same
 * for any number of them. */
int kolo_largest_microbatch(const kolo_model *model, kolo_purpose purpose);
/* The fewest samples that a microbatch should have, from 1 to 32: with fewer, adding its gradient to the others takes
 * longer than computing it. The less often a sample uses each weight, the more samples. It depends on the model alone.
 */
int kolo_smallest_microbatch(const kolo_model *model);
/* Whether training has a cross-microbatch reduction, as for batch normalisation; also true if lowering fails. */
bool kolo_microbatches_reduce(const kolo_model *model);

#endif
