/* How fast is an all-reduce: over the ranks that a launcher started, or else over threads of this process.
 *
 *     gcc -O2 -Iext/include -Iext tests/bench/allreduce.c -o allreduce -pthread -Lbuild/lib -lkolo
 * -Wl,-rpath,$PWD/build/lib
 *     ./allreduce [threads]                      build/bin/kolorun -np 8 ./allreduce
 *
 * Prints milliseconds a call, and the bus bandwidth of nccl-tests, which is what a member must send (and receive) at
 * least, whatever the algorithm: bytes · 2 (N − 1) / N / seconds.
 */
#include "runtime/runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS_MAX = 64, CALLS = 50, CALLS_BEFORE = 5 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* values are 1, so every call multiplies them by N; zeroed between, and looked at once. */
static kolo_status measure(kolo_comm *comm, float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) values[i] = 1;
    KOLO_TRY(comm->kind->allreduce(comm, values, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    for (int64_t i = 0; i < count; i++) {
        if (values[i] != (float)comm->size) return kolo_fail(KOLO_INTERNAL, "the sum is wrong");
        values[i] = 0;
    }
    double begin = 0;
    for (int call = 0; call < CALLS_BEFORE + CALLS; call++) {
        if (call == CALLS_BEFORE) {
            KOLO_TRY(comm->kind->barrier(comm));
            begin = seconds();
        }
        KOLO_TRY(comm->kind->allreduce(comm, values, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    }
    double each = (seconds() - begin) / CALLS, bytes = (double)count * sizeof(float);
    if (comm->rank == 0)
        printf("%-6s %2d members %12.0f bytes %9.3f ms  bus %7.2f GB/s\n", comm->kind->name, comm->size, bytes,
               each * 1e3, bytes * 2 * (comm->size - 1) / comm->size / each / 1e9);
    return KOLO_OK;
}

static void *measure_all(void *member)
{
    kolo_comm *comm = member;
    const int64_t counts[] = {1, 1000, 30000, 300000, 1200000, 6000000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *values = malloc((size_t)counts[i] * sizeof *values);
        kolo_status status = values ? measure(comm, values, counts[i]) : KOLO_MEMORY;
        free(values);
        if (status != KOLO_OK) {
            comm->kind->abort(comm);
            return comm;
        }
    }
    return NULL;
}

static int measure_threads(int size)
{
    pthread_t threads[THREADS_MAX];
    kolo_comm *members[THREADS_MAX];
    int failed = 0;
    if (size < 1 || size > THREADS_MAX || kolo_comm_local_open(size, members) != KOLO_OK) return 2;
    for (int i = 0; i < size; i++)
        if (pthread_create(&threads[i], NULL, measure_all, members[i]) != 0) return 1;
    for (int i = 0; i < size; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failed |= result != NULL;
        members[i]->kind->close(members[i]);
    }
    return failed;
}

int main(int argc, char **argv)
{
    if (kolo_init(&argc, &argv) != KOLO_OK) return 1;
    if (kolo_size() == 1) return measure_threads(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 8);
    bool failed = measure_all(kolo_world_comm()) != NULL;
    return kolo_finish() || failed;
}
