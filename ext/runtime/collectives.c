/* The collectives of kolo.h: checks their arguments and calls the communicator of all ranks. */
#include "runtime/runtime.h"

/* Checks what all collectives require: a count of at least 0, and an array unless it is 0. */
static kolo_status check_array(const void *array, int64_t count, const char *name)
{
    if (count < 0) return kolo_fail(KOLO_INVALID, "wanted a count of at least 0, got %lld", (long long)count);
    if (!array && count > 0) return kolo_fail(KOLO_INVALID, "wanted %lld %s, got NULL", (long long)count, name);
    return KOLO_OK;
}

static kolo_status allreduce(float *values, int64_t count)
{
    kolo_comm *ranks = kolo_world_comm();
    KOLO_TRY(check_array(values, count, "values"));
    return ranks->kind->allreduce(ranks, values, count, KOLO_TYPE_FLOAT);
}

static kolo_status broadcast(float *values, int64_t count, int root)
{
    kolo_comm *ranks = kolo_world_comm();
    KOLO_TRY(check_array(values, count, "values"));
    if (root < 0 || root >= ranks->size)
        return kolo_fail(KOLO_INVALID, "wanted a root from 0 to %d, got %d", ranks->size - 1, root);
    return ranks->kind->broadcast(ranks, values, (size_t)count * sizeof *values, root);
}

static kolo_status allgather(const float *values, int64_t count, float *all)
{
    kolo_comm *ranks = kolo_world_comm();
    KOLO_TRY(check_array(values, count, "values"));
    KOLO_TRY(check_array(all, count * ranks->size, "elements of room for all ranks' values"));
    return ranks->kind->allgather(ranks, values, (size_t)count * sizeof *values, all);
}

static kolo_status barrier(void)
{
    kolo_comm *ranks = kolo_world_comm();
    return ranks->kind->barrier(ranks);
}

kolo_status kolo_allreduce_at(float *values, int64_t count, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_allreduce", here);
    return kolo_leave(scope, allreduce(values, count));
}

kolo_status kolo_broadcast_at(float *values, int64_t count, int root, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_broadcast", here);
    return kolo_leave(scope, broadcast(values, count, root));
}

kolo_status kolo_allgather_at(const float *values, int64_t count, float *all, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_allgather", here);
    return kolo_leave(scope, allgather(values, count, all));
}

kolo_status kolo_barrier_at(kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_barrier", here);
    return kolo_leave(scope, barrier());
}
