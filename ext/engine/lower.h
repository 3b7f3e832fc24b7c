/* Lowering: a model's layers written out as a plan. */
#ifndef KOLO_ENGINE_LOWER_H
#define KOLO_ENGINE_LOWER_H

#include "engine/program.h"

/* Fills in an empty plan; on failure what it holds is freed with kolo_plan_free(). */
kolo_status kolo_lower(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_plan *plan);

/* Samples that a leaf may have at most: 32; in training, where the values of 32 take less memory than the weights, up
 * to 512; or as few as keep a leaf's values within some 200 MB. On an accelerator as many as its memory may hold. By
 * the model alone, so that leaves are the same for any number of devices. */
int kolo_largest_leaf(const kolo_model *model, kolo_purpose purpose);
/* Samples that a leaf should have at least, of 1 to 32, or else adding up its gradient takes longer than computing it:
 * the more, the fewer products with it a weight goes into. By the model alone, too. */
int kolo_smallest_leaf(const kolo_model *model);
/* Whether leaves meet before their end: batch norm's do. */
bool kolo_leaves_meet(const kolo_model *model);

#endif
