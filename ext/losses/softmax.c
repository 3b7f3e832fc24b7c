/* Exponentials of long rows: see softmax.h. */
#include "losses/softmax.h"

#include "core/lanes_math.h"
#include "core/vector.h"

#define BLOCK 1024 /* elements that are summed in float32, in sixteen lanes; the sum over blocks is double */

KOLO_INLINE double block_exponentials(const float *z, int64_t count, float *parts, float largest)
{
    kolo_floats sum = {0};
    for (int64_t i = 0; i < count; i += KOLO_LANES) {
        int64_t lanes = kolo_lanes_at(i, count);
        kolo_floats e = kolo_only(kolo_floats_exp(kolo_get_some(z, i, lanes, 0) - largest), lanes);
        sum += e;
        if (parts) kolo_put_some(parts, i, e, lanes, 0);
    }
    return (double)kolo_sum_lanes(sum);
}

KOLO_VECTORISED double kolo_exponentials(const float *z, int64_t count, float *parts, float *largest)
{
    double sum = 0;
    *largest = kolo_largest(z, count);
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t length = count - first < BLOCK ? count - first : BLOCK;
        sum += block_exponentials(z + first, length, parts ? parts + first : NULL, *largest);
    }
    return sum;
}

KOLO_VECTORISED void kolo_scale_row(float *x, int64_t count, float factor, float less)
{
    for (int64_t i = 0; i < count; i++) x[i] = x[i] * factor - less;
}

KOLO_VECTORISED int64_t kolo_first_largest(const float *x, int64_t count)
{
    int64_t block = 0;
    float largest = x[0];
    for (int64_t first = 0; first < count; first += BLOCK) {
        float most = kolo_largest(x + first, count - first < BLOCK ? count - first : BLOCK);
        if (!(most > largest)) continue;
        largest = most;
        block = first;
    }
    while (block < count - 1 && x[block] != largest) block++;
    return block;
}
