/* shared.c: processes that share memory, without MPI: forked ones, more of them than cores. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/shareable.h"
#include "comm/shared.h"

enum { ROUNDS = 3 };

/* Floats. Around a chunk of 8, of 3 and of 2 members, and several chunks. */
static const int64_t counts[] = {0,      1,      7,      1003,   32768,  65535,  65536, 65537,
                                 174751, 174752, 174753, 262143, 262144, 262145, 600011};

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

typedef bool process_function(void *memory, int rank, int size);

/* Runs a function in `size` processes that share memory. */
static void run_processes(int size, process_function *function)
{
    size_t bytes = 2 * kolo_shared_bytes(size); /* for two groups, one after the other */
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    for (int rank = 0; rank < size; rank++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(function(memory, rank, size) ? 0 : 1);
    }
    for (int rank = 0; rank < size; rank++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    munmap(memory, bytes);
}

static void processes_agree(void **state)
{
    (void)state;
    for (int size = 1; size <= 8; size += size < 3 ? 1 : 5) run_processes(size, check_all);
}

/* Whether the call has failed with this sentence, which the member of rank 0 tells. */
static bool differs(const kolo_shared *shared, kolo_status status, const char *sentence)
{
    kolo_failure failure = kolo_failure_take();
    bool right = status == KOLO_COMM && strstr(failure.text, sentence) && shared->speaks == (shared->rank == 0);
    if (!right) fprintf(stderr, "rank %d: wanted \"%s\", got \"%s\"\n", shared->rank, sentence, failure.text);
    return right;
}

static bool check_differing(void *memory, int rank, int size)
{
    enum { MOST = 200000 };
    static float values[MOST];
    kolo_shared shared;
    if (kolo_shared_open(&shared, memory, rank, size) != KOLO_OK) return false;
    bool odd = rank == 3, right = true;
    for (int round = 0; round < 20; round++) {
        int64_t count = odd ? MOST - 100000 : MOST;
        right =
            right && differs(&shared, kolo_shared_allreduce(&shared, values, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM),
                             "rank 0 called allreduce of 200000 floats, rank 3 allreduce of 100000 floats");
        kolo_status status = odd ? kolo_shared_broadcast(&shared, values, 12, 2)
                                 : kolo_shared_allreduce(&shared, values, 3, KOLO_TYPE_FLOAT, KOLO_REDUCE_MAX);
        right =
            right && differs(&shared, status,
                             "all ranks must make the same call: rank 0 called allreduce of 3 floats, maximum, rank "
                             "3 broadcast of 12 bytes from rank 2");
        right = right && differs(&shared, kolo_shared_broadcast(&shared, values, 12, odd ? 1 : 0),
                                 "broadcast of 12 bytes from rank 0, rank 3 broadcast of 12 bytes from rank 1");
        right = right && check_floats(&shared, 70000, round); /* the group still works */
    }
    kolo_shared_close(&shared);
    return right;
}

static void calls_that_differ_fail_in_every_process(void **state)
{
    (void)state;
    run_processes(5, check_differing);
}

/* After a call that was ended in the middle. */
static bool later_calls_fail(kolo_shared *shared)
{
    float value = 1;
    kolo_status status = kolo_shared_allreduce(shared, &value, 1, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
    kolo_failure failure = kolo_failure_take();
    bool right = status == KOLO_COMM && strstr(failure.text, "was ended in the middle") && !shared->speaks;
    if (!right) fprintf(stderr, "rank %d: status %d, \"%s\"\n", shared->rank, (int)status, failure.text);
    return right;
}

/* Counts the processes that get here, behind the memory of the group. */
static void wait_for(void *memory, int size, int count, bool comes)
{
    _Atomic int *here = (_Atomic int *)((char *)memory + kolo_shared_bytes(size));
    if (comes) atomic_fetch_add(here, 1);
    while (atomic_load(here) < count) usleep(1000);
}

/* Rank 1 gives signs of life for three times the limit, and then does not come. */
static bool check_stalled(void *memory, int rank, int size)
{
    kolo_shared shared;
    float value = 1;
    if (kolo_shared_open(&shared, memory, rank, size) != KOLO_OK) return false;
    shared.stall_limit = 0.5;
    for (int k = 0; k < 150 && rank == 1; k++) {
        kolo_show_life();
        usleep(10000);
    }
    bool right = kolo_shared_allreduce(&shared, &value, 1, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_OK;
    if (rank == 1) {
        wait_for(memory, size, 2, false);
        return right && later_calls_fail(&shared);
    }
    kolo_status status = kolo_shared_allreduce(&shared, &value, 1, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
    kolo_failure failure = kolo_failure_take();
    wait_for(memory, size, 2, true);
    const char *wanted = shared.speaks
                             ? "rank 1 has not come for 0.5 s (KOLO_STALL_LIMIT): ranks 0, 2 wait in allreduce "
                               "of 1 float"
                             : KOLO_COMM_CALLED_OFF;
    right = right && status == KOLO_COMM && strcmp(failure.text, wanted) == 0 && value == (float)size;
    if (!right) fprintf(stderr, "rank %d: wanted \"%s\", got \"%s\"\n", rank, wanted, failure.text);
    return right && later_calls_fail(&shared);
}

static void a_process_that_does_not_come_is_named(void **state)
{
    (void)state;
    run_processes(3, check_stalled);
}

static sigjmp_buf out_of_the_call;

static void leave_the_call(int number)
{
    siglongjmp(out_of_the_call, number);
}

/* Rank 0 is taken out of its call, as by an interrupt in a notebook. Rank 2 waits in the same call. */
static bool check_interrupted(void *memory, int rank, int size)
{
    kolo_shared shared;
    float value = 1;
    setenv("KOLO_KERNEL_CELLS", "", 1);
    if (kolo_shared_open(&shared, memory, rank, size) != KOLO_OK) return false;
    if (rank == 2) return later_calls_fail(&shared);
    if (rank == 0 && sigsetjmp(out_of_the_call, 1) == 0) {
        signal(SIGALRM, leave_the_call);
        alarm(1);
        kolo_shared_allreduce(&shared, &value, 1, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
        return false;
    }
    bool right = rank == 1 || later_calls_fail(&shared);
    wait_for(memory, size, 1, rank == 0);
    return right && later_calls_fail(&shared);
}

static void after_an_interrupted_call_no_process_waits(void **state)
{
    (void)state;
    run_processes(3, check_interrupted);
}

/* ---------------------------------------------------------------- values that others can map */

enum { LARGE = 300011, LARGEST = 600011 }; /* floats, several chunks; and the last of counts[] */

/* Numbers whose sum depends on the order of additions. */
static void draw(float *values, int64_t count, int rank, int round)
{
    unsigned state = (unsigned)(rank * 100 + round + 1);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)state / 0x1p20f - 1000;
    }
}

typedef enum how { IN_PLACE, COPIED } how;

/* Sums values[count], and compares each bit with what an all-reduce of plain memory gives. An all-reduce of several
 * chunks in place takes one turn. */
static bool sums_alike(kolo_shared *shared, float *values, int64_t count, int round, how wanted)
{
    float *plain = malloc((size_t)count * sizeof *plain + 1);
    draw(plain, count, shared->rank, round);
    draw(values, count, shared->rank, round);
    bool right = kolo_shared_allreduce(shared, plain, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_OK;
    unsigned before = shared->turn;
    right = right && kolo_shared_allreduce(shared, values, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM) == KOLO_OK;
    bool large = count >= LARGE - 1000, in_place = shared->turn == before + 1;
    if (large && in_place != (wanted == IN_PLACE)) right = false;
    right = right && memcmp(plain, values, (size_t)count * sizeof *plain) == 0;
    if (!right) fprintf(stderr, "rank %d: %lld values, in place: %d\n", shared->rank, (long long)count, in_place);
    free(plain);
    return right;
}

static float *allocate_values(void)
{
    return kolo_shareable_allocate(LARGE * sizeof(float));
}

/* Places in the middle of a block, which differ between the members, too. */
static bool check_places(kolo_shared *shared)
{
    float *values = kolo_shareable_allocate(LARGEST * sizeof *values);
    bool right = values != NULL;
    for (size_t k = 0; k < sizeof counts / sizeof *counts && right; k++)
        right = sums_alike(shared, values, counts[k], (int)k, IN_PLACE);
    right = right && sums_alike(shared, values + 1 + 3 * shared->rank, LARGE - 1000, 50, IN_PLACE);
    double *doubles = (double *)values;
    for (int64_t i = 0; i < LARGE / 2; i++) doubles[i] = (double)(i + shared->rank);
    kolo_status status = kolo_shared_allreduce(shared, doubles, LARGE / 2, KOLO_TYPE_DOUBLE, KOLO_REDUCE_MAX);
    right = right && status == KOLO_OK;
    for (int64_t i = 0; i < LARGE / 2; i++) right = right && doubles[i] == (double)(i + shared->size - 1);
    return kolo_shareable_deallocate(values) && right;
}

/* More models than blocks are kept. */
static bool check_models_in_turn(kolo_shared *shared)
{
    enum { MODELS = KOLO_MAPPINGS_KEPT + 2 };
    float *models[MODELS];
    bool right = true;
    for (int m = 0; m < MODELS; m++) right = (models[m] = allocate_values()) && right;
    for (int step = 0; step < 2 * MODELS && right; step++)
        right = sums_alike(shared, models[step * step % MODELS], LARGE, step, IN_PLACE);
    for (int m = 0; m < MODELS; m++) right = kolo_shareable_deallocate(models[m]) && right;
    return right;
}

/* A block that is freed while another of the same size comes, often at the same address. */
static bool check_moves(kolo_shared *shared)
{
    bool right = true;
    for (int step = 0; step < 2 * KOLO_MAPPINGS_KEPT && right; step++) {
        float *values = allocate_values();
        right = values && sums_alike(shared, values, LARGE, step, IN_PLACE);
        if (step % 3 != shared->rank) kolo_shareable_deallocate(values);
    }
    return right;
}

/* One member has plain memory, and in the next call memory whose file the others cannot open. */
static bool check_unshared(kolo_shared *shared)
{
    bool odd = shared->rank == shared->size - 1;
    float *values = odd ? malloc(LARGE * sizeof *values) : allocate_values();
    bool right = sums_alike(shared, values, LARGE, 1, COPIED) && sums_alike(shared, values, 30000, 2, COPIED);
    float *hidden = allocate_values();
    if (odd) close(kolo_shareable_find(hidden, 1).file.number);
    for (int round = 0; round < 3; round++) right = right && sums_alike(shared, hidden, LARGE, round, COPIED);
    float *next = allocate_values(); /* may get the number of the closed file */
    right = right && sums_alike(shared, next, LARGE, 3, IN_PLACE);
    return right;
}

static bool check_mapped(void *memory, int rank, int size)
{
    kolo_shared shared;
    if (kolo_shared_open(&shared, memory, rank, size) != KOLO_OK) return false;
    bool right = check_places(&shared) && check_models_in_turn(&shared) && check_moves(&shared);
    right = right && (size == 1 || check_unshared(&shared));
    kolo_shared_close(&shared);
    return right;
}

static void shareable_values_are_summed_in_place(void **state)
{
    (void)state;
    for (int size = 2; size <= 8; size += size < 3 ? 1 : 5) run_processes(size, check_mapped);
}

/* Rank 1 dies. The others name it; then they sum the same values in a new group, with a new process in its place. */
static bool check_death(void *memory, int rank, int size)
{
    kolo_shared shared;
    float *values = allocate_values();
    if (kolo_shared_open(&shared, memory, rank, size) != KOLO_OK) return false;
    bool right = sums_alike(&shared, values, LARGE, 1, IN_PLACE);
    if (rank == 1) _exit(right ? 0 : 1);
    shared.stall_limit = 0.5;
    kolo_status status = kolo_shared_allreduce(&shared, values, LARGE, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
    kolo_failure failure = kolo_failure_take();
    right = right && status == KOLO_COMM;
    if (shared.speaks) right = right && strstr(failure.text, "rank 1 has not come");
    kolo_shared_close(&shared);
    char *next = (char *)memory + kolo_shared_bytes(size);
    if (kolo_shared_open(&shared, next, rank, size) != KOLO_OK) return false;
    pid_t heir = rank == 0 ? fork() : 1;
    if (heir == 0) { /* what it has of rank 0 is a copy */
        kolo_shared joined;
        float *own = allocate_values();
        right = kolo_shared_open(&joined, next, 1, size) == KOLO_OK && sums_alike(&joined, own, LARGE, 2, IN_PLACE);
        _exit(right && kolo_shareable_deallocate(values) ? 0 : 1);
    }
    right = right && sums_alike(&shared, values, LARGE, 2, IN_PLACE);
    int ended = 0;
    if (rank == 0) right = waitpid(heir, &ended, 0) == heir && ended == 0 && right;
    kolo_shared_close(&shared);
    return right;
}

static void a_dead_process_is_named_and_replaced(void **state)
{
    (void)state;
    run_processes(3, check_death);
}

/* ---------------------------------------------------------------- members that have joined */

static float *make_values(int64_t count, bool shareable)
{
    size_t bytes = (size_t)count * sizeof(float) + 1;
    return shareable ? kolo_shareable_allocate(bytes) : malloc(bytes);
}

static void free_values(float *values)
{
    if (!kolo_shareable_deallocate(values)) free(values);
}

static bool check_sums_of_two(kolo_shared *shared, bool shareable)
{
    bool right = true;
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        float *values = make_values(counts[k], shareable);
        for (int64_t i = 0; i < counts[k]; i++) values[i] = (float)(i % 1000 + shared->rank);
        kolo_status status = kolo_shared_allreduce(shared, values, counts[k], KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
        right = right && status == KOLO_OK;
        for (int64_t i = 0; i < counts[k]; i++) right = right && values[i] == (float)(2 * (i % 1000) + 1 + 3);
        free_values(values);
    }
    return right;
}

/* Members 0 and 2 have joined: they do their part of the others' sums, and add nothing. They are threads, so that a
 * thread sanitizer sees them. */
static bool check_joined(kolo_shared *shared)
{
    bool right = true, joins = shared->rank % 2 == 0;
    for (int64_t answered = 0; right && joins; answered++) {
        kolo_collective call = kolo_call_make(KOLO_CALL_JOIN, answered);
        right = kolo_shared_meet(shared, &call) == KOLO_OK;
        if (shared->made.operation == KOLO_CALL_JOIN) return right && shared->made.root == 3;
        kolo_shared_answer_allreduce(shared);
    }
    right = check_sums_of_two(shared, false) && check_sums_of_two(shared, true);
    kolo_collective call = kolo_call_make(KOLO_CALL_JOIN, 0);
    return kolo_shared_meet(shared, &call) == KOLO_OK && right && shared->made.root == 3;
}

typedef struct thread {
    pthread_t id;
    kolo_shared shared;
    bool right;
} thread;

static void *run_thread(void *argument)
{
    thread *me = argument;
    me->right = check_joined(&me->shared);
    return NULL;
}

static bool check_joined_process(void *memory, int rank, int size)
{
    kolo_shared shared;
    if (kolo_shared_open(&shared, memory, rank, size) != KOLO_OK) return false;
    bool right = check_joined(&shared);
    kolo_shared_close(&shared);
    return right;
}

static void a_process_that_has_joined_adds_nothing(void **state)
{
    (void)state;
    run_processes(4, check_joined_process);
}

static void a_member_that_has_joined_adds_nothing(void **state)
{
    enum { SIZE = 4 };
    (void)state;
    void *memory = calloc(kolo_shared_bytes(SIZE), 1);
    thread threads[SIZE];
    for (int i = 0; i < SIZE; i++) {
        assert_int_equal(kolo_shared_open(&threads[i].shared, memory, i, SIZE), KOLO_OK);
        threads[i].shared.spins = 100;
    }
    for (int i = 0; i < SIZE; i++) assert_int_equal(pthread_create(&threads[i].id, NULL, run_thread, &threads[i]), 0);
    for (int i = 0; i < SIZE; i++) assert_int_equal(pthread_join(threads[i].id, NULL), 0);
    for (int i = 0; i < SIZE; i++) {
        assert_true(threads[i].right);
        kolo_shared_close(&threads[i].shared);
    }
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_agree),
        cmocka_unit_test(calls_that_differ_fail_in_every_process),
        cmocka_unit_test(a_process_that_does_not_come_is_named),
        cmocka_unit_test(after_an_interrupted_call_no_process_waits),
        cmocka_unit_test(a_member_that_has_joined_adds_nothing),
        cmocka_unit_test(a_process_that_has_joined_adds_nothing),
        cmocka_unit_test(shareable_values_are_summed_in_place),
        cmocka_unit_test(a_dead_process_is_named_and_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
