/* See sum.h. */
#include "comm/sum.h"

#include <string.h>

#include "comm/barrier.h"

/* Elements of a block of sums, which stays in the first-level cache while the sources are added one after the other. */
enum { BLOCK = 1024 };

/* Plain loops that gcc vectorises. The order of additions does not change, so the bits do not depend on the vector
 * width. */
#define DEFINE_SUM_SLICE(real)                                                                                         \
    __attribute__((optimize("O3"))) static void sum_##real(void *const *from, int sources, void *const *to,            \
                                                           int targets, int64_t begin, int64_t end)                    \
    {                                                                                                                  \
        _Alignas(KOLO_CACHE_LINE) real sums[BLOCK];                                                                    \
        for (int64_t at = begin; at < end; at += BLOCK) {                                                              \
            size_t count = (size_t)(end - at < BLOCK ? end - at : BLOCK);                                              \
            memcpy(sums, (const real *)from[0] + at, count * sizeof(real));                                            \
            for (int s = 1; s < sources; s++) {                                                                        \
                const real *values = (const real *)from[s] + at;                                                       \
                for (size_t i = 0; i < count; i++) sums[i] += values[i];                                               \
            }                                                                                                          \
            for (int t = 0; t < targets; t++) memcpy((real *)to[t] + at, sums, count * sizeof(real));                  \
        }                                                                                                              \
    }
DEFINE_SUM_SLICE(float)
DEFINE_SUM_SLICE(double)

void kolo_sum_slice(kolo_type type, void *const *from, int sources, void *const *to, int targets, int64_t begin,
                    int64_t end)
{
    if (type == KOLO_TYPE_DOUBLE) sum_double(from, sources, to, targets, begin, end);
    else sum_float(from, sources, to, targets, begin, end);
}

int64_t kolo_slice_begin(int64_t count, kolo_type type, int rank, int size)
{
    int64_t line = KOLO_CACHE_LINE / (int64_t)kolo_type_bytes(type), lines = (count + line - 1) / line;
    int64_t begin = (lines / size * rank + lines % size * rank / size) * line;
    return begin < count ? begin : count;
}
