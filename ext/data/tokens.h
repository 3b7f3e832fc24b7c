/* Features that are numbers of tokens, for models that look them up in a table. */
#ifndef KOLO_DATA_TOKENS_H
#define KOLO_DATA_TOKENS_H

#include "plan/plan.h"
#include "data/batch.h"

/* The features of `count` samples from number `first` of the batch: whole numbers from 0 to plan->tokens - 1, else a
 * sentence that names the sample (its number in the data set) and the position. */
kolo_status kolo_tokens_check(const kolo_plan *plan, const kolo_batch *batch, int64_t first, int count,
                              const float *features);

#endif
