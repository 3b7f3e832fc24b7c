/* Checks tokens before an embedding looks them up: see tokens.h. */
#include "data/tokens.h"

#include "core/vector.h"

/* Counts numbers that are no tokens; NaN fails the comparisons. Has no branches, so that compilers vectorise it. */
KOLO_VECTORISED static int64_t count_bad(const float *features, int64_t count, float tokens)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        float x = features[i];
        bool fine = (x >= 0) & (x < tokens) & (__builtin_truncf(x) == x);
        bad += !fine;
    }
    return bad;
}

static kolo_status name_first(const kolo_plan *plan, const kolo_batch *batch, int64_t first, int64_t length,
                              const float *features)
{
    int64_t at = 0;
    while (count_bad(features + at, 1, (float)plan->tokens) == 0) at++;
    int64_t number = first + at / length, sample = batch->order ? batch->order[number] : batch->first + number;
    return kolo_fail(KOLO_INVALID, "sample %lld, position %lld: wanted a token, a whole number from 0 to %d, got %g",
                     (long long)sample, (long long)(at % length), plan->tokens - 1, (double)features[at]);
}

kolo_status kolo_tokens_check(const kolo_plan *plan, const kolo_batch *batch, int64_t first, int count,
                              const float *features)
{
    int64_t length = kolo_shape_count(plan->values[plan->input].shape);
    if (plan->tokens == 0 || count_bad(features, count * length, (float)plan->tokens) == 0) return KOLO_OK;
    return name_first(plan, batch, first, length, features);
}
