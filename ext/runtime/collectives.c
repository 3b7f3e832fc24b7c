/* The collectives of kolo.h: checks their arguments and calls the communicator of all ranks. */
#include "runtime/asynchronous.h"

#include <stdlib.h>

#include "comm/adasum.h"
#include "comm/call.h"
#include "comm/sum.h"
#include "runtime/process_set.h"

/* ---------------------------------------------------------------- arguments */

kolo_status kolo_check_array(const void *array, int64_t count, int times, kolo_type type, const char *name)
{
    if (count < 0) return kolo_fail(KOLO_INVALID, "wanted a count of at least 0, got %lld", (long long)count);
    int64_t bytes;
    if (__builtin_mul_overflow(count, (int64_t)kolo_type_bytes(type) * times, &bytes))
        return kolo_fail(KOLO_INVALID, "wanted a count that fits in memory, got %lld", (long long)count);
    if (!array && count > 0)
        return kolo_fail(KOLO_INVALID, "wanted %lld %s, got NULL", (long long)(count * times), name);
    return KOLO_OK;
}

static kolo_status check_rank(int rank, const char *name)
{
    if (rank >= 0 && rank < kolo_size()) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a %s from 0 to %d, got %d", name, kolo_size() - 1, rank);
}

static kolo_status check_reduction(kolo_reduce_op reduction, kolo_type type)
{
    if ((int)reduction < 0 || reduction > KOLO_REDUCE_ADASUM)
        return kolo_fail(KOLO_INVALID, ".op: wanted one of KOLO_REDUCE_SUM, …, KOLO_REDUCE_ADASUM, got %d",
                         (int)reduction);
    if (reduction == KOLO_REDUCE_ADASUM && type != KOLO_TYPE_FLOAT)
        return kolo_fail(KOLO_INVALID, ".op: wanted floats for KOLO_REDUCE_ADASUM, got %s", kolo_type_name(type));
    if (type == KOLO_TYPE_BYTE)
        return kolo_fail(KOLO_INVALID, "wanted floats, doubles, int32_t or int64_t to reduce, got bytes");
    if (reduction == KOLO_REDUCE_MEAN && type != KOLO_TYPE_FLOAT && type != KOLO_TYPE_DOUBLE)
        return kolo_fail(KOLO_INVALID, ".op: wanted floats or doubles for KOLO_REDUCE_MEAN, got %s",
                         kolo_type_name(type));
    return KOLO_OK;
}

/* The last step of a mean. */
static void divide(void *values, int64_t count, kolo_type type, int by)
{
    float *floats = values;
    double *doubles = values;
    for (int64_t i = 0; i < count && type == KOLO_TYPE_FLOAT; i++) floats[i] /= (float)by;
    for (int64_t i = 0; i < count && type == KOLO_TYPE_DOUBLE; i++) doubles[i] /= by;
}

/* ---------------------------------------------------------------- reductions */

static kolo_status check_allreduce(const void *call, kolo_type type)
{
    const kolo_allreduce_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    KOLO_TRY(kolo_check_array(args->values, args->count, 1, type, "values"));
    return check_reduction(args->op, type);
}

static kolo_status allreduce(const void *call, kolo_type type)
{
    const kolo_allreduce_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(check_allreduce(args, type));
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    if (args->op == KOLO_REDUCE_ADASUM)
        return kolo_adasum(ranks, args->values, &(kolo_adasum_part){.end = args->count}, 1);
    KOLO_TRY(ranks->kind->allreduce(ranks, args->values, args->count, type, args->op));
    if (args->op == KOLO_REDUCE_MEAN) divide(args->values, args->count, type, ranks->size);
    return KOLO_OK;
}

kolo_status kolo_allreduce_at(const kolo_allreduce_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_allreduce", here);
    return kolo_leave(scope, allreduce(args, type));
}

kolo_handle kolo_allreduce_async_at(const kolo_allreduce_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_allreduce_async", here);
    return kolo_asynchronous_leave(scope, check_allreduce(args, type), allreduce,
                                   kolo_asynchronous_copy(args, sizeof *args), type);
}

/* Sums the counts, and checks the arrays. */
static kolo_status check_group(const kolo_grouped_allreduce_args *args, int64_t *total)
{
    *total = 0;
    if (args->number < 0) return kolo_fail(KOLO_INVALID, "wanted at least 0 arrays, got %d", args->number);
    if (args->number > 0 && (!args->arrays || !args->counts))
        return kolo_fail(KOLO_INVALID, "wanted %d arrays with their counts, got NULL", args->number);
    for (int i = 0; i < args->number; i++) {
        KOLO_TRY(kolo_check_array(args->arrays[i], args->counts[i], 1, KOLO_TYPE_FLOAT,
                                  kolo_phrase("values in array %d", i)));
        if (__builtin_add_overflow(*total, args->counts[i], total))
            return kolo_fail(KOLO_INVALID, "wanted counts that fit in memory");
    }
    return kolo_check_array(args, *total, 1, KOLO_TYPE_FLOAT, "values");
}

static kolo_status grouped_allreduce(const void *call, kolo_type type)
{
    const kolo_grouped_allreduce_args *args = call;
    int64_t total, at = 0;
    KOLO_TRY(check_group(args, &total));
    size_t bytes = (size_t)total * sizeof(float);
    float *packed = malloc(bytes + 1);
    if (!packed) return kolo_fail_memory(bytes, "the arrays of a group");
    for (int i = 0; i < args->number; at += args->counts[i++])
        kolo_copy_bytes(packed + at, args->arrays[i], (size_t)args->counts[i] * sizeof(float));
    kolo_status status = allreduce(&(kolo_allreduce_args){.values = packed,
                                                          .count = total,
                                                          .op = args->op,
                                                          .process_set = args->process_set},
                                   type);
    at = 0;
    for (int i = 0; i < args->number && status == KOLO_OK; at += args->counts[i++])
        kolo_copy_bytes(args->arrays[i], packed + at, (size_t)args->counts[i] * sizeof(float));
    free(packed);
    return status;
}

kolo_status kolo_grouped_allreduce_at(const kolo_grouped_allreduce_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_grouped_allreduce", here);
    return kolo_leave(scope, grouped_allreduce(args, KOLO_TYPE_FLOAT));
}

/* Copies the two lists, too: the caller's may be gone when the call runs. */
static kolo_grouped_allreduce_args *copy_group(const kolo_grouped_allreduce_args *args)
{
    size_t number = (size_t)args->number, bytes = sizeof *args + number * (sizeof(int64_t) + sizeof(float *));
    kolo_grouped_allreduce_args *copy = malloc(bytes);
    if (!copy) return NULL;
    *copy = *args;
    int64_t *counts = (int64_t *)(copy + 1);
    float **arrays = (float **)(counts + number);
    kolo_copy_bytes(counts, args->counts, number * sizeof *counts);
    kolo_copy_bytes(arrays, args->arrays, number * sizeof *arrays);
    copy->counts = counts;
    copy->arrays = arrays;
    return copy;
}

kolo_handle kolo_grouped_allreduce_async_at(const kolo_grouped_allreduce_args *args, kolo_here here)
{
    int64_t total;
    kolo_scope scope = kolo_enter("kolo_grouped_allreduce_async", here);
    kolo_status status = check_group(args, &total);
    if (status == KOLO_OK) status = check_reduction(args->op, KOLO_TYPE_FLOAT);
    return kolo_asynchronous_leave(scope, status, grouped_allreduce, status == KOLO_OK ? copy_group(args) : NULL,
                                   KOLO_TYPE_FLOAT);
}

/* Sends each rank its part of the values, and reduces the parts that come, in the order of the ranks. Each element is
 * moved once, and no rank computes another one's part. */
static kolo_status reduce_parts(const kolo_reduce_scatter_args *args, kolo_type type, kolo_comm *ranks)
{
    size_t size = (size_t)ranks->size, part = (size_t)args->count * kolo_type_bytes(type);
    char *parts = malloc(size * part + 1);
    size_t *bytes = malloc(2 * size * sizeof *bytes), *offsets = bytes + size;
    void **from = malloc(size * sizeof *from);
    kolo_status status = KOLO_MEMORY;
    if (!parts || !bytes || !from) kolo_fail_memory(size * part, "the parts of all ranks");
    else {
        for (size_t i = 0; i < size; i++) {
            bytes[i] = part;
            offsets[i] = i * part;
            from[i] = parts + i * part;
        }
        status = ranks->kind->alltoallv(ranks, args->values, bytes, offsets, parts, bytes, offsets);
        void *to = args->mine;
        if (status == KOLO_OK && part > 0) kolo_reduce_slice(type, args->op, from, ranks->size, &to, 1, 0, args->count);
    }
    free(from);
    free(bytes);
    free(parts);
    return status;
}

static kolo_status check_reduce_scatter(const void *call, kolo_type type)
{
    const kolo_reduce_scatter_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    KOLO_TRY(kolo_check_array(args->values, args->count, ranks->size, type, "values"));
    KOLO_TRY(kolo_check_array(args->mine, args->count, 1, type, "elements of room for this rank's part"));
    if (args->op == KOLO_REDUCE_ADASUM)
        return kolo_fail(KOLO_UNSUPPORTED, ".op: wanted kolo_allreduce() for KOLO_REDUCE_ADASUM, which is of whole "
                                           "vectors");
    return check_reduction(args->op, type);
}

static kolo_status reduce_scatter(const void *call, kolo_type type)
{
    const kolo_reduce_scatter_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(check_reduce_scatter(args, type));
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    kolo_call_describe_parts(type, KOLO_CALL_REDUCE_SCATTER, args->count, args->op);
    kolo_status status = reduce_parts(args, type, ranks);
    kolo_call_plain();
    KOLO_TRY(status);
    if (args->op == KOLO_REDUCE_MEAN) divide(args->mine, args->count, type, ranks->size);
    return KOLO_OK;
}

kolo_status kolo_reduce_scatter_at(const kolo_reduce_scatter_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_reduce_scatter", here);
    return kolo_leave(scope, reduce_scatter(args, type));
}

kolo_handle kolo_reduce_scatter_async_at(const kolo_reduce_scatter_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_reduce_scatter_async", here);
    return kolo_asynchronous_leave(scope, check_reduce_scatter(args, type), reduce_scatter,
                                   kolo_asynchronous_copy(args, sizeof *args), type);
}

/* ---------------------------------------------------------------- broadcast, all-gather and barrier */

static kolo_status check_broadcast(const void *call, kolo_type type)
{
    const kolo_broadcast_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    KOLO_TRY(kolo_check_array(args->values, args->count, 1, type, "values"));
    KOLO_TRY(check_rank(args->root, "root"));
    if (kolo_process_set_member(args->process_set, args->root) >= 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a root in the .process_set, got rank %d", args->root);
}

static kolo_status broadcast(const void *call, kolo_type type)
{
    const kolo_broadcast_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(check_broadcast(args, type));
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    int root = kolo_process_set_member(args->process_set, args->root);
    kolo_call_describe(type, KOLO_CALL_NONE);
    kolo_status status = ranks->kind->broadcast(ranks, args->values, (size_t)args->count * kolo_type_bytes(type), root);
    kolo_call_plain();
    return status;
}

kolo_status kolo_broadcast_at(const kolo_broadcast_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_broadcast", here);
    return kolo_leave(scope, broadcast(args, type));
}

kolo_handle kolo_broadcast_async_at(const kolo_broadcast_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_broadcast_async", here);
    return kolo_asynchronous_leave(scope, check_broadcast(args, type), broadcast,
                                   kolo_asynchronous_copy(args, sizeof *args), type);
}

static kolo_status check_allgather(const void *call, kolo_type type)
{
    const kolo_allgather_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    KOLO_TRY(kolo_check_array(args->values, args->count, 1, type, "values"));
    return kolo_check_array(args->all, args->count, ranks->size, type, "elements of room for all ranks' values");
}

static kolo_status allgather(const void *call, kolo_type type)
{
    const kolo_allgather_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(check_allgather(args, type));
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    kolo_call_describe(type, KOLO_CALL_NONE);
    kolo_status status =
        ranks->kind->allgather(ranks, args->values, (size_t)args->count * kolo_type_bytes(type), args->all);
    kolo_call_plain();
    return status;
}

kolo_status kolo_allgather_at(const kolo_allgather_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_allgather", here);
    return kolo_leave(scope, allgather(args, type));
}

kolo_handle kolo_allgather_async_at(const kolo_allgather_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_allgather_async", here);
    return kolo_asynchronous_leave(scope, check_allgather(args, type), allgather,
                                   kolo_asynchronous_copy(args, sizeof *args), type);
}

static kolo_status barrier(const kolo_barrier_args *args)
{
    kolo_comm *ranks;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    return ranks->kind->barrier(ranks);
}

kolo_status kolo_barrier_at(const kolo_barrier_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_barrier", here);
    return kolo_leave(scope, barrier(args));
}

static kolo_status join(int *last)
{
    kolo_comm *ranks = kolo_world_comm();
    KOLO_TRY(kolo_check_joined());
    if (ranks->kind->join) return ranks->kind->join(ranks, last);
    return kolo_fail(KOLO_UNSUPPORTED, "wanted ranks of MPI, got ranks that TF_CONFIG names, which cannot join: start "
                                       "them with kolorun");
}

int kolo_join_at(kolo_here here)
{
    int last = -1;
    kolo_scope scope = kolo_enter("kolo_join", here);
    return kolo_leave(scope, join(&last)) == KOLO_OK ? last : -1;
}
