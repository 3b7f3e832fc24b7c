/* Lowering: a model's layers written out as a plan. */
#ifndef KOLO_MODEL_LOWER_H
#define KOLO_MODEL_LOWER_H

#include "model/model.h"

typedef enum kolo_purpose {
    KOLO_FOR_TRAINING,  /* forward with dropout, loss, backward */
    KOLO_FOR_GRADIENTS, /* the same without dropout */
    KOLO_FOR_SCORES,    /* forward and loss */
    KOLO_FOR_OUTPUTS    /* forward */
} kolo_purpose;

/* Fills in an empty plan; on failure what it holds is freed with kolo_plan_free(). */
kolo_status kolo_lower(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_plan *plan);

/* The most samples that a microbatch may have. On a CPU it is 32. In training it is up to 512 where the values of 32
 * samples take less memory than the weights. It is less where the values would take more than some 200 MB. On a
 * GPU it is what the device's memory may hold. It depends on the model alone, not on the number of devices, so
 * that microbatches are the same for any number of them. */
int kolo_largest_microbatch(const kolo_model *model, kolo_purpose purpose);
/* The fewest samples that a microbatch should have, from 1 to 32: with fewer, adding up its gradient takes longer than
 * computing it. It grows as a sample uses each weight less often. It depends on the model alone, too. */
int kolo_smallest_microbatch(const kolo_model *model);
/* Whether training has a reduction over microbatches before their end: batch normalisation has. */
bool kolo_microbatches_reduce(const kolo_model *model);

#endif
