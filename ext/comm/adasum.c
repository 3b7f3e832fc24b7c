/* Adasum: see adasum.h.
 *
 * Horovod halves vectors and doubles distances: in each round a rank exchanges half of its vector with a partner. Here
 * each member gets one slice of the vectors of all members at once (all-to-all), which moves as many bytes. It then
 * combines its slices round by round. Only the products of a round need all slices: each member computes them over its
 * own slice, and all members add these up in the same order. At last all members collect the slices of the result. */
#include "comm/adasum.h"

#include <stdlib.h>
#include <string.h>

#include "comm/call.h"

/* Products of two vectors over one part. */
typedef struct products {
    double ab, aa, bb;
} products;

typedef struct adasum {
    kolo_comm *comm;
    const kolo_adasum_part *parts;
    int count;       /* of parts */
    int64_t first, slice; /* this member's slice: its first element, and the number of its elements */
    float *vectors;  /* [members][slice] */
    products *mine, *all; /* [pairs][count] of this slice; [members][pairs][count] of all slices */
    size_t *sizes;   /* six lists of [members] */
} adasum;

static int64_t slice_first(const adasum *x, int member)
{
    return x->parts[x->count - 1].end * member / x->comm->size;
}

static kolo_status adasum_open(adasum *x)
{
    size_t size = (size_t)x->comm->size, products_of_round = size / 2 * (size_t)x->count;
    x->first = slice_first(x, x->comm->rank);
    x->slice = slice_first(x, x->comm->rank + 1) - x->first;
    x->vectors = malloc((size * (size_t)x->slice + 1) * sizeof *x->vectors);
    x->mine = malloc(products_of_round * sizeof *x->mine);
    x->all = malloc(size * products_of_round * sizeof *x->all);
    x->sizes = calloc(6 * size, sizeof *x->sizes);
    bool fine = x->vectors && x->mine && x->all && x->sizes;
    return fine ? KOLO_OK : kolo_fail_memory(size * (size_t)x->slice * sizeof *x->vectors, "Adasum");
}

static void adasum_close(adasum *x)
{
    free(x->vectors);
    free(x->mine);
    free(x->all);
    free(x->sizes);
}

/* ---------------------------------------------------------------- a round */

/* The elements of this slice that belong to a part. */
static void range_of(const adasum *x, int part, int64_t *begin, int64_t *end)
{
    int64_t from = part > 0 ? x->parts[part - 1].end : 0, to = x->parts[part].end, last = x->first + x->slice;
    *begin = (from > x->first ? from : x->first) - x->first;
    *end = (to < last ? to : last) - x->first;
}

static products multiply(const float *a, const float *b, int64_t begin, int64_t end)
{
    products sum = {0};
    for (int64_t i = begin; i < end; i++) {
        sum.ab += (double)a[i] * (double)b[i];
        sum.aa += (double)a[i] * (double)a[i];
        sum.bb += (double)b[i] * (double)b[i];
    }
    return sum;
}

/* all[0] becomes the sum of the products of all slices. */
static kolo_status multiply_all(adasum *x, int pairs)
{
    size_t numbers = (size_t)pairs * (size_t)x->count;
    for (int p = 0; p < pairs; p++)
        for (int part = 0; part < x->count; part++) {
            const float *a = x->vectors + 2 * p * x->slice;
            int64_t begin, end;
            range_of(x, part, &begin, &end);
            x->mine[p * x->count + part] = multiply(a, a + x->slice, begin, end);
        }
    KOLO_TRY(x->comm->kind->allgather(x->comm, x->mine, numbers * sizeof *x->mine, x->all));
    for (int m = 1; m < x->comm->size; m++)
        for (size_t i = 0; i < numbers; i++) {
            const products *of = &x->all[(size_t)m * numbers + i];
            x->all[i].ab += of->ab;
            x->all[i].aa += of->aa;
            x->all[i].bb += of->bb;
        }
    return KOLO_OK;
}

/* The factor of a vector; 1 for a vector of zeros, whose formula would divide by zero. */
static double factor(double ab, double square)
{
    return square > 0 ? 1 - ab / (2 * square) : 1;
}

/* Writes the Adasum of the vectors 2·pair and 2·pair + 1 to the vector `pair`, which is not read any more. */
static void combine(adasum *x, int pair)
{
    const float *a = x->vectors + 2 * pair * x->slice, *b = a + x->slice;
    float *to = x->vectors + pair * x->slice;
    for (int part = 0; part < x->count; part++) {
        const products *of = &x->all[pair * x->count + part];
        double of_a = x->parts[part].plain ? 1 : factor(of->ab, of->aa);
        double of_b = x->parts[part].plain ? 1 : factor(of->ab, of->bb);
        int64_t begin, end;
        range_of(x, part, &begin, &end);
        for (int64_t i = begin; i < end; i++) to[i] = (float)(of_a * (double)a[i] + of_b * (double)b[i]);
    }
}

static kolo_status combine_all(adasum *x)
{
    for (int left = x->comm->size; left > 1; left = (left + 1) / 2) {
        KOLO_TRY(multiply_all(x, left / 2));
        for (int pair = 0; pair < left / 2; pair++) combine(x, pair);
        if (left % 2 == 1)
            memmove(x->vectors + left / 2 * x->slice, x->vectors + (left - 1) * x->slice,
                    (size_t)x->slice * sizeof *x->vectors);
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- exchanges */

static kolo_status exchange_slices(adasum *x, const float *values)
{
    size_t size = (size_t)x->comm->size, slice = (size_t)x->slice * sizeof *values;
    size_t *send = x->sizes, *send_offsets = send + size, *receive = send_offsets + size;
    size_t *receive_offsets = receive + size;
    for (int m = 0; m < x->comm->size; m++) {
        send_offsets[m] = (size_t)slice_first(x, m) * sizeof *values;
        send[m] = (size_t)slice_first(x, m + 1) * sizeof *values - send_offsets[m];
        receive[m] = slice;
        receive_offsets[m] = (size_t)m * slice;
    }
    return x->comm->kind->alltoallv(x->comm, values, send, send_offsets, x->vectors, receive, receive_offsets);
}

static kolo_status run(adasum *x, float *values)
{
    KOLO_TRY(adasum_open(x));
    KOLO_TRY(exchange_slices(x, values));
    KOLO_TRY(combine_all(x));
    const size_t *bytes = x->sizes, *offsets = x->sizes + x->comm->size; /* of exchange_slices() */
    return x->comm->kind->allgatherv(x->comm, x->vectors, values, bytes, offsets);
}

kolo_status kolo_adasum(kolo_comm *comm, float *values, const kolo_adasum_part *parts, int count)
{
    adasum x = {.comm = comm, .parts = parts, .count = count};
    kolo_collective call =
        kolo_call_allreduce(count > 0 ? parts[count - 1].end : 0, KOLO_TYPE_FLOAT, KOLO_REDUCE_ADASUM);
    KOLO_TRY(comm->kind->meet(comm, &call));
    if (comm->size == 1 || call.count == 0) return KOLO_OK;
    kolo_status status = run(&x, values);
    adasum_close(&x);
    return status;
}
