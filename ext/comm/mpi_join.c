/* kolo_join(): a rank that answers the calls of the others until all have joined. It comes to each of their meetings
 * with the call KOLO_CALL_JOIN, learns there what they call, and does its part of the work. See mpi_comm.h. */
#include "comm/mpi_comm.h"

#include <math.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- values that change no result */

#define FILL(number, value)                                                                                            \
    for (int64_t i = 0; i < count; i++) ((number *)values)[i] = (number)(value)
#define FILL_BY(zero, one, least, greatest, number)                                                                    \
    switch (reduction) {                                                                                               \
    case KOLO_REDUCE_MIN: FILL(number, greatest); break;                                                               \
    case KOLO_REDUCE_MAX: FILL(number, least); break;                                                                  \
    case KOLO_REDUCE_PRODUCT: FILL(number, one); break;                                                                \
    default: FILL(number, zero);                                                                                       \
    }

/* The sum's is -0, since 0 + -0 is 0 and -0 + -0 is -0. */
static void fill_neutral(void *values, int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    switch (type) {
    case KOLO_TYPE_FLOAT: FILL_BY(-0.0f, 1, -INFINITY, INFINITY, float); break;
    case KOLO_TYPE_DOUBLE: FILL_BY(-0.0, 1, -INFINITY, INFINITY, double); break;
    case KOLO_TYPE_INT32: FILL_BY(0, 1, INT32_MIN, INT32_MAX, int32_t); break;
    default: FILL_BY(0, 1, INT64_MIN, INT64_MAX, int64_t);
    }
}

/* ---------------------------------------------------------------- answers */

static kolo_status answer_allreduce(mpi_comm *me)
{
    kolo_type type = (kolo_type)me->made.type;
    kolo_reduce_op reduction = (kolo_reduce_op)me->made.reduction;
    int64_t count = me->made.count;
    if (me->shared) {
        kolo_shared_answer_allreduce(me->shared);
        return KOLO_OK;
    }
    size_t bytes = (size_t)count * kolo_type_bytes(type);
    void *values = malloc(bytes + 1);
    if (!values) return kolo_fail_memory(bytes, "an all-reduce of other ranks");
    fill_neutral(values, count, type, reduction);
    kolo_status status = kolo_mpi_reduce_all(me, values, count, type, reduction);
    free(values);
    return status;
}

/* The counts of a kolo_allgatherv(). Those of this rank are 0, by which the others see that it has joined. */
static kolo_status answer_allgather(mpi_comm *me)
{
    size_t bytes = (size_t)me->made.count, all = bytes * (size_t)me->comm.size;
    char *zeros = calloc(bytes + all + 1, 1);
    if (!zeros) return kolo_fail_memory(bytes + all, "an all-gather of other ranks");
    kolo_status status = kolo_mpi_gather_all(me, zeros, bytes, zeros + bytes);
    free(zeros);
    return status;
}

/* Asynchronous calls move their bytes in another way: this rank does as those that made them. */
static kolo_status answer(mpi_comm *me)
{
    kolo_status status = KOLO_OK; /* a barrier, or parts of which this rank has none */
    kolo_call_in_background(me->made.asynchronous);
    if (me->made.operation == KOLO_CALL_ALLREDUCE) status = answer_allreduce(me);
    if (me->made.operation == KOLO_CALL_ALLGATHER) status = answer_allgather(me);
    kolo_call_in_background(false);
    return status;
}

kolo_status kolo_mpi_join(kolo_comm *comm, int *last)
{
    mpi_comm *me = (mpi_comm *)comm;
    if (comm->size == 1) {
        *last = 0;
        return KOLO_OK;
    }
    for (int64_t answered = 0;; answered++) {
        kolo_collective call = kolo_call_make(KOLO_CALL_JOIN, answered);
        KOLO_TRY(kolo_mpi_meet(comm, &call));
        if (me->made.operation == KOLO_CALL_JOIN) break;
        KOLO_TRY(answer(me));
    }
    *last = me->made.root;
    return KOLO_OK;
}
