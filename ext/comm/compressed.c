/* See compressed.h. */
#include "comm/compressed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/sum.h"
#include "core/vector.h"

/* ---------------------------------------------------------------- numbers of 16 bits */

/* bfloat16 is the upper half of a float32; to nearest, ties to even. A NaN stays one. */
static inline uint16_t to_bfloat(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1)) >> 16);
}

static inline float from_bfloat(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

__extension__ typedef _Float16 binary16;

static inline uint16_t to_binary16(float value)
{
    binary16 half = (binary16)value;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

static inline float from_binary16(uint16_t bits)
{
    binary16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
}

KOLO_VECTORISED static void pack_bfloats(uint16_t *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] = to_bfloat(from[i]);
}

KOLO_VECTORISED static void add_bfloats(float *restrict to, const uint16_t *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) to[i] += from_bfloat(from[i]);
}

static void pack(uint16_t *to, const float *from, int64_t count, kolo_compression compression, float scale)
{
    if (compression == KOLO_COMPRESSION_BF16) pack_bfloats(to, from, count);
    else
        for (int64_t i = 0; i < count; i++) to[i] = to_binary16(from[i] * scale);
}

/* The sum of binary16 numbers stays scaled. */
static void add(float *to, const uint16_t *from, int64_t count, kolo_compression compression)
{
    if (compression == KOLO_COMPRESSION_BF16) add_bfloats(to, from, count);
    else
        for (int64_t i = 0; i < count; i++) to[i] += from_binary16(from[i]);
}

static void unpack(float *to, const uint16_t *from, int64_t count, kolo_compression compression, float scale)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = compression == KOLO_COMPRESSION_BF16 ? from_bfloat(from[i]) : from_binary16(from[i]) / scale;
}

/* ---------------------------------------------------------------- the exchange */

typedef struct reducing {
    kolo_comm *comm;
    kolo_compression compression;
    float scale;
    kolo_slices slices;
    int64_t mine;     /* elements of this rank's slice */
    uint16_t *packed; /* [count] */
    float *sum;       /* [mine] */
} reducing;

static kolo_status open_reducing(reducing *x, int64_t count)
{
    KOLO_TRY(kolo_slices_open(&x->slices, x->comm, count, KOLO_TYPE_FLOAT, sizeof *x->packed));
    x->mine = (int64_t)(x->slices.bytes[x->comm->rank] / sizeof *x->packed);
    x->packed = malloc((size_t)count * sizeof *x->packed + 1);
    x->sum = calloc((size_t)x->mine + 1, sizeof *x->sum);
    return x->packed && x->sum ? KOLO_OK : kolo_fail_memory((size_t)count * 4, "an all-reduce");
}

static kolo_status reduce(reducing *x, float *values, int64_t count)
{
    const kolo_comm_kind *kind = x->comm->kind;
    const kolo_slices *s = &x->slices;
    pack(x->packed, values, count, x->compression, x->scale);
    KOLO_TRY(kind->alltoallv(x->comm, x->packed, s->bytes, s->offsets, s->copies, s->own, s->places));
    for (int r = 0; r < x->comm->size; r++)
        add(x->sum, (const uint16_t *)(s->copies + s->places[r]), x->mine, x->compression);
    pack((uint16_t *)s->copies, x->sum, x->mine, x->compression, 1);
    KOLO_TRY(kind->allgatherv(x->comm, s->copies, x->packed, s->bytes, s->offsets));
    unpack(values, x->packed, count, x->compression, x->scale);
    return KOLO_OK;
}

kolo_status kolo_compressed_allreduce(kolo_comm *comm, float *values, int64_t count, kolo_compression compression,
                                      int exponent)
{
    reducing x = {.comm = comm, .compression = compression, .scale = ldexpf(1, exponent)};
    if (count == 0) return comm->kind->allreduce(comm, values, 0, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
    kolo_status status = open_reducing(&x, count);
    if (status == KOLO_OK) status = reduce(&x, values, count);
    kolo_slices_close(&x.slices);
    free(x.packed);
    free(x.sum);
    return status;
}
