/* See sum.h. */
#include "comm/sum.h"

#include <stdlib.h>
#include <string.h>

#include "comm/barrier.h"

/* Elements of a block of sums, which stays in the first-level cache while the sources are added one after the other. */
enum { BLOCK = 1024 };

#define ADD(a, b)      ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define SMALLER(a, b)  ((b) < (a) ? (b) : (a))
#define LARGER(a, b)   ((b) > (a) ? (b) : (a))

typedef void reduce_function(void *const *from, int sources, void *const *to, int targets, int64_t begin, int64_t end);

/* Plain loops that gcc vectorises. The order of additions does not change, so the bits do not depend on the vector
 * width. */
#define DEFINE_REDUCE(name, number, COMBINE)                                                                           \
    __attribute__((optimize("O3"))) static void name(void *const *from, int sources, void *const *to, int targets,     \
                                                     int64_t begin, int64_t end)                                       \
    {                                                                                                                  \
        _Alignas(KOLO_CACHE_LINE) number sums[BLOCK];                                                                  \
        for (int64_t at = begin; at < end; at += BLOCK) {                                                              \
            size_t count = (size_t)(end - at < BLOCK ? end - at : BLOCK);                                              \
            memcpy(sums, (const number *)from[0] + at, count * sizeof(number));                                        \
            for (int s = 1; s < sources; s++) {                                                                        \
                const number *values = (const number *)from[s] + at;                                                   \
                for (size_t i = 0; i < count; i++) sums[i] = COMBINE(sums[i], values[i]);                              \
            }                                                                                                          \
            for (int t = 0; t < targets; t++) memcpy((number *)to[t] + at, sums, count * sizeof(number));              \
        }                                                                                                              \
    }
/* Sums and products of integers are computed without sign: there an overflow is defined. */
#define DEFINE_REDUCTIONS(type, number, wrapping)                                                                      \
    DEFINE_REDUCE(sum_##type, wrapping, ADD)                                                                           \
    DEFINE_REDUCE(min_##type, number, SMALLER)                                                                         \
    DEFINE_REDUCE(max_##type, number, LARGER)                                                                          \
    DEFINE_REDUCE(product_##type, wrapping, MULTIPLY)
DEFINE_REDUCTIONS(float, float, float)
DEFINE_REDUCTIONS(double, double, double)
DEFINE_REDUCTIONS(int32, int32_t, uint32_t)
DEFINE_REDUCTIONS(int64, int64_t, uint64_t)

#define REDUCTIONS(type)                                                                                               \
    {[KOLO_REDUCE_SUM] = sum_##type,                                                                                   \
     [KOLO_REDUCE_MEAN] = sum_##type,                                                                                  \
     [KOLO_REDUCE_MIN] = min_##type,                                                                                   \
     [KOLO_REDUCE_MAX] = max_##type,                                                                                   \
     [KOLO_REDUCE_PRODUCT] = product_##type}
static reduce_function *const reductions[][KOLO_REDUCE_PRODUCT + 1] = {[KOLO_TYPE_FLOAT] = REDUCTIONS(float),
                                                                       [KOLO_TYPE_DOUBLE] = REDUCTIONS(double),
                                                                       [KOLO_TYPE_INT32] = REDUCTIONS(int32),
                                                                       [KOLO_TYPE_INT64] = REDUCTIONS(int64)};

void kolo_reduce_slice(kolo_type type, kolo_reduce_op reduction, void *const *from, int sources, void *const *to,
                       int targets, int64_t begin, int64_t end)
{
    reductions[type][reduction](from, sources, to, targets, begin, end);
}

void kolo_sum_slice(kolo_type type, void *const *from, int sources, void *const *to, int targets, int64_t begin,
                    int64_t end)
{
    reductions[type][KOLO_REDUCE_SUM](from, sources, to, targets, begin, end);
}

int64_t kolo_slice_begin(int64_t count, kolo_type type, int rank, int size)
{
    int64_t line = KOLO_CACHE_LINE / (int64_t)kolo_type_bytes(type), lines = (count + line - 1) / line;
    int64_t begin = (lines / size * rank + lines % size * rank / size) * line;
    return begin < count ? begin : count;
}

kolo_status kolo_slices_open(kolo_slices *slices, const kolo_comm *comm, int64_t count, kolo_type type, size_t width)
{
    size_t size = (size_t)comm->size;
    *slices = (kolo_slices){.bytes = calloc(4 * size, sizeof *slices->bytes)};
    if (!slices->bytes) return kolo_fail_memory(4 * size * sizeof *slices->bytes, "an all-reduce");
    slices->offsets = slices->bytes + size;
    slices->own = slices->offsets + size;
    slices->places = slices->own + size;
    for (int r = 0; r < comm->size; r++) {
        int64_t begin = kolo_slice_begin(count, type, r, comm->size);
        slices->offsets[r] = (size_t)begin * width;
        slices->bytes[r] = (size_t)(kolo_slice_begin(count, type, r + 1, comm->size) - begin) * width;
    }
    size_t mine = slices->bytes[comm->rank], room = (mine + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    for (size_t r = 0; r < size; r++) {
        slices->own[r] = mine;
        slices->places[r] = r * room;
    }
    slices->copies = malloc(size * room + 1);
    return slices->copies ? KOLO_OK : kolo_fail_memory(size * room, "an all-reduce");
}

void kolo_slices_close(kolo_slices *slices)
{
    free(slices->bytes);
    free(slices->copies);
}
