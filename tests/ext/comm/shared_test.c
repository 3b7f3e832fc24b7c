/* shared.c: processes that share memory, without MPI: forked ones, more of them than cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/shared.h"

enum { ROUNDS = 3 };

/* Around a chunk of 2¹⁸ bytes, and several of them. */
static const int64_t counts[] = {0, 1, 7, 1003, 65535, 65536, 65537, 32768, 200003};

static bool check_floats(kolo_shared *shared, int64_t count, int round)
{
    float *values = malloc((size_t)count * sizeof *values + 1);
    for (int64_t i = 0; i < count; i++) values[i] = (float)(i % 1000 + shared->rank * round);
    bool right = kolo_shared_allreduce(shared, values, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_OK;
    int pairs = shared->size * (shared->size - 1) / 2;
    float ranks = (float)(pairs * round);
    for (int64_t i = 0; i < count; i++) right = right && values[i] == (float)(i % 1000 * shared->size) + ranks;
    free(values);
    return right;
}

static bool check_doubles(kolo_shared *shared, int64_t count)
{
    double *values = malloc((size_t)count * sizeof *values + 1);
    for (int64_t i = 0; i < count; i++) values[i] = 0.5 * (double)i;
    bool right = kolo_shared_allreduce(shared, values, count, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM) == KOLO_OK;
    for (int64_t i = 0; i < count; i++) right = right && values[i] == 0.5 * (double)i * shared->size;
    free(values);
    return right;
}

static bool check_bytes(kolo_shared *shared, size_t bytes, int root)
{
    unsigned char *data = malloc(bytes + 1);
    memset(data, shared->rank, bytes + 1);
    bool right = kolo_shared_broadcast(shared, data, bytes, root) == KOLO_OK;
    right = right && data[bytes] == shared->rank;
    for (size_t i = 0; i < bytes; i++) right = right && data[i] == root;
    free(data);
    return right;
}

static bool check_all(void *memory, int rank, int size)
{
    kolo_shared shared;
    if (kolo_shared_open(&shared, memory, rank, size) != KOLO_OK) return false;
    bool right = true;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            right = right && check_floats(&shared, counts[k], round);
            right = right && check_bytes(&shared, (size_t)counts[k] * 5, (round + (int)k) % size);
            right = right && check_doubles(&shared, counts[k]);
            kolo_collective call = kolo_call_make(KOLO_CALL_BARRIER, 0);
            right = right && kolo_shared_meet(&shared, &call) == KOLO_OK;
        }
    }
    kolo_shared_close(&shared);
    return right;
}

static void processes_agree(void **state)
{
    (void)state;
    for (int size = 1; size <= 8; size += size < 3 ? 1 : 5) {
        void *memory = mmap(NULL, kolo_shared_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(memory, MAP_FAILED);
        for (int rank = 0; rank < size; rank++) {
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) _exit(check_all(memory, rank, size) ? 0 : 1);
        }
        for (int rank = 0; rank < size; rank++) {
            int status;
            assert_true(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
        munmap(memory, kolo_shared_bytes(size));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(processes_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
