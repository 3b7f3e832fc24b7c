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

/* Samples that a microbatch may have at most: 32; in training, where the values of 32 take less memory than the
 * weights, up to 512; or as few as keep a microbatch's values within some 200 MB. On an accelerator as many as its
 * memory may hold. By the model alone, so that microbatches are the same for any number of devices. */
int kolo_largest_microbatch(const kolo_model *model, kolo_purpose purpose);
/* Samples that a microbatch should have at least, of 1 to 32, or else adding up its gradient takes longer than
 * computing it: the more, the fewer products with it a weight goes into. By the model alone, too. */
int kolo_smallest_microbatch(const kolo_model *model);
/* Whether microbatches meet before their end: batch norm's do. */
bool kolo_microbatches_reduce(const kolo_model *model);

#endif
