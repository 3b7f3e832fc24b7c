/* Features that are numbers of tokens, for models with an embedding. */
#ifndef KOLO_DATA_TOKENS_H
#define KOLO_DATA_TOKENS_H

#include "plan/plan.h"
#include "data/batch.h"

/* Checks the features of `count` samples from number `first` of the batch on. Fails unless they are whole numbers
 * from 0 to plan->tokens - 1; the error names the sample (its number in the data set) and the position. plan->tokens
 * 0: checks nothing. */
kolo_status kolo_tokens_check(const kolo_plan *plan, const kolo_batch *batch, int64_t first, int count,
                              const float *features);

#endif
