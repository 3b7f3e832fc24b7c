/* How fast an all-reduce is: over the ranks that a launcher started, beside MPI_Allreduce in the same run, or over
 * threads of this process. run.py builds it with mpicc and starts it:
 *
 *     build/bin/kolorun -np 8 build/bench/allreduce            build/bench/allreduce THREADS
 *
 * Kolo's and MPI's calls take turns, so that a machine that drifts or is busy slows both. Prints one line of JSON with
 * the median and the least seconds of a call, for each size.
 */
#include <mpi.h>

#include "runtime/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"

enum { THREADS_MAX = 64, ROUNDS = 15, SIZES = 5 };
static const int64_t sizes[SIZES] = {1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 26}; /* bytes */

typedef struct timing {
    double median, least; /* seconds of a call */
} timing;

typedef struct member {
    kolo_comm *comm;
    timing kolo[SIZES], mpi[SIZES];
} member;

/* So many calls that a round takes some milliseconds. */
static int calls_of(int64_t bytes)
{
    return bytes <= 1 << 16 ? 200 : bytes <= 1 << 20 ? 20 : 2;
}

static kolo_status call_kolo(kolo_comm *comm, float *values, int64_t count)
{
    return comm->kind->allreduce(comm, values, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
}

static kolo_status call_mpi(kolo_comm *comm, float *values, int64_t count)
{
    int result = MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return result == MPI_SUCCESS ? KOLO_OK : kolo_fail(KOLO_COMM, "MPI_Allreduce failed on rank %d", comm->rank);
}

typedef kolo_status allreduce_function(kolo_comm *comm, float *values, int64_t count);

/* values are zeros, which remain zeros. */
static kolo_status time_round(kolo_comm *comm, allreduce_function *call, float *values, int64_t bytes, double *seconds)
{
    int calls = calls_of(bytes);
    KOLO_TRY(call(comm, values, bytes / (int64_t)sizeof *values)); /* they begin together, and are warm */
    double begin = kolo_now();
    for (int i = 0; i < calls; i++) KOLO_TRY(call(comm, values, bytes / (int64_t)sizeof *values));
    *seconds = (kolo_now() - begin) / calls;
    return KOLO_OK;
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static timing summary_of(double *seconds)
{
    qsort(seconds, ROUNDS, sizeof *seconds, compare);
    return (timing){.median = seconds[ROUNDS / 2], .least = seconds[0]};
}

static kolo_status check_sum(kolo_comm *comm, float *values)
{
    for (int i = 0; i < 256; i++) values[i] = 1;
    KOLO_TRY(call_kolo(comm, values, 256));
    for (int i = 0; i < 256; i++) {
        if (values[i] != (float)comm->size) return kolo_fail(KOLO_INTERNAL, "the sum is wrong");
        values[i] = 0;
    }
    return KOLO_OK;
}

static kolo_status measure(member *me, float *values, bool beside_mpi)
{
    KOLO_TRY(check_sum(me->comm, values));
    for (int s = 0; s < SIZES; s++) {
        double kolo[ROUNDS], mpi[ROUNDS] = {0};
        for (int round = 0; round < ROUNDS; round++) {
            KOLO_TRY(time_round(me->comm, call_kolo, values, sizes[s], &kolo[round]));
            if (beside_mpi) KOLO_TRY(time_round(me->comm, call_mpi, values, sizes[s], &mpi[round]));
        }
        me->kolo[s] = summary_of(kolo);
        me->mpi[s] = summary_of(mpi);
    }
    return KOLO_OK;
}

static kolo_status measure_member(member *me, bool beside_mpi)
{
    float *values = calloc((size_t)sizes[SIZES - 1], 1);
    kolo_status status = values ? measure(me, values, beside_mpi) : KOLO_MEMORY;
    free(values);
    if (status != KOLO_OK) me->comm->kind->abort(me->comm);
    return status;
}

static void *measure_thread(void *argument)
{
    return measure_member(argument, false) == KOLO_OK ? NULL : argument;
}

static void print_seconds(const char *name, const timing *times)
{
    printf("\"%s\": {", name);
    for (int s = 0; s < SIZES; s++)
        printf("%s\"%lld\": [%.9f, %.9f]", s ? ", " : "", (long long)sizes[s], times[s].median, times[s].least);
    printf("}");
}

static void print_result(const member *me, bool beside_mpi)
{
    printf("{\"members\": %d, ", me->comm->size);
    print_seconds("kolo", me->kolo);
    if (beside_mpi) printf(", ");
    if (beside_mpi) print_seconds("mpi", me->mpi);
    printf("}\n");
}

static int measure_threads(int size)
{
    pthread_t threads[THREADS_MAX];
    kolo_comm *comms[THREADS_MAX];
    static member members[THREADS_MAX];
    int failed = 0;
    if (size < 1 || size > THREADS_MAX || kolo_comm_local_open(size, comms) != KOLO_OK) return 2;
    for (int i = 0; i < size; i++) {
        members[i].comm = comms[i];
        if (pthread_create(&threads[i], NULL, measure_thread, &members[i]) != 0) return 1;
    }
    for (int i = 0; i < size; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed |= result != NULL;
    }
    if (!failed) print_result(&members[0], false);
    for (int i = 0; i < size; i++) comms[i]->kind->close(comms[i]);
    return failed;
}

int main(int argc, char **argv)
{
    if (kolo_init(&argc, &argv) != KOLO_OK) return 1;
    if (kolo_size() == 1) return measure_threads(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 8);
    member me = {.comm = kolo_world_comm()};
    bool failed = measure_member(&me, true) != KOLO_OK;
    if (kolo_rank() == 0 && !failed) print_result(&me, true);
    return kolo_finish() || failed;
}
