/* One rank of the tests of mpi.c and of zmq_*.c: test_mpi.py starts it under mpirun, test_tf_config.py by TF_CONFIG, as
 * `mpi_ranks MODE`. It prints what went wrong and ends with 1, or with what the mode asks for. WITH_MPI: the program
 * uses MPI by itself, too. */
#include "conformance.h"

#ifdef WITH_MPI
#include <mpi.h>
#endif
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "runtime/runtime.h"

static bool everything(void)
{
    kolo_comm *comm = kolo_world_comm();
    const char *wanted = getenv("TF_CONFIG") ? "zmq" : "mpi";
    EXPECT(strcmp(comm->kind->name, wanted) == 0, "got %s", comm->kind->name);
    EXPECT(kolo_rank() == comm->rank && kolo_size() == comm->size, "%d of %d", kolo_rank(), kolo_size());
    EXPECT(kolo_local_rank() == comm->rank && kolo_local_size() == comm->size, "all ranks are of this host");
    EXPECT(kolo_cross_rank() == 0 && kolo_cross_size() == 1, "there is one host");
    return check_comm(comm, (uint64_t)comm->size, 2, 150000);
}

/* Four ranks, three of them on one host. The order of the additions shows who adds first: within a host 10⁸ + 1 − 10⁸
 * is 0 in floats, and the other host's 1 is added to that. In pairs of ranks, (10⁸ + 1) + (1 − 10⁸), all ones are lost.
 */
static bool over_hosts(void)
{
    static const float parts[] = {1e8F, 1, -1e8F, 1};
    const char *text = getenv("KOLO_HIERARCHICAL_ALLREDUCE");
    kolo_comm *comm = kolo_world_comm();
    EXPECT(kolo_cross_size() == 2 && kolo_local_size() == (kolo_cross_rank() == 0 ? 3 : 1), "three and one");
    float value = parts[kolo_rank()];
    EXPECT(kolo_allreduce(&value, 1) == KOLO_OK, "allreduce");
    EXPECT(value == (text && *text == '1' ? 1 : 0), "got %g", (double)value);
    return check_comm(comm, 3, 1, 150000);
}

/* What the public calls make of good and bad arguments. */
static bool public_calls(void)
{
    kolo_comm *comm = kolo_world_comm();
    float values[3] = {1, 2, (float)kolo_rank()}, all[64 * 3];
    int size = kolo_size(), last = size - 1;
    EXPECT(kolo_allreduce(values, 3) == KOLO_OK, "allreduce");
    EXPECT(values[0] == (float)size && values[2] == (float)(last * size / 2), "got %g", (double)values[2]);
    values[0] = (float)kolo_rank();
    EXPECT(kolo_allgather(values, 1, all) == KOLO_OK && all[last] == (float)last, "got %g", (double)all[last]);
    EXPECT(kolo_broadcast(values, 1, last) == KOLO_OK && values[0] == (float)last, "got %g", (double)values[0]);
    float same[2] = {1, -4}, own[64] = {0};
    own[kolo_rank()] = 2;
    EXPECT(kolo_allreduce(same, 2, .op = KOLO_REDUCE_ADASUM) == KOLO_OK && same[0] == 1 && same[1] == -4, "averaged");
    EXPECT(kolo_allreduce(own, size, .op = KOLO_REDUCE_ADASUM) == KOLO_OK, "Adasum");
    for (int r = 0; r < size; r++) EXPECT(own[r] == 2, "added: got %g", (double)own[r]);
    EXPECT(kolo_barrier() == KOLO_OK && kolo_allreduce(NULL, 0) == KOLO_OK, "nothing to move");
    EXPECT(kolo_allreduce(NULL, 3) == KOLO_INVALID, "NULL");
    EXPECT(kolo_allreduce(values, -1) == KOLO_INVALID, "a negative count");
    EXPECT(kolo_broadcast(values, 1, size) == KOLO_INVALID, "no such root");
    EXPECT(kolo_broadcast(values, 1, -1) == KOLO_INVALID, "no such root");
    EXPECT(kolo_allgather(values, 1, NULL) == KOLO_INVALID, "no room");
    kolo_clear_error();
    return true;
}

/* The calls whose parts have other sizes on each rank: rank r has r + 1 elements, which are 100 r, 100 r + 1, … */
static bool uneven_calls(void)
{
    kolo_comm *comm = kolo_world_comm();
    int size = kolo_size(), rank = kolo_rank(), at = 0;
    int64_t counts[64], sent[64];
    double mine[64], all[64 * 64];
    for (int i = 0; i <= rank; i++) mine[i] = 100 * rank + i;
    EXPECT(kolo_allgatherv(mine, rank + 1, all, size * (size + 1) / 2, .counts = counts) == KOLO_OK, "allgatherv");
    for (int r = 0; r < size; r++) {
        EXPECT(counts[r] == r + 1, "count of %d: got %d", r, (int)counts[r]);
        for (int i = 0; i <= r; i++, at++) EXPECT(all[at] == 100 * r + i, "element %d: got %g", at, all[at]);
    }
    int room = rank == size - 1 ? size * (size + 1) / 2 - 1 : 64 * 64; /* the last one has too little */
    EXPECT(kolo_allgatherv(mine, rank + 1, all, room) == KOLO_INVALID, "too little room on one rank fails on all");
    kolo_clear_error();
    at = 0;
    for (int r = 0; r < size; r++) { /* (rank + r) % 3 elements for rank r */
        sent[r] = (rank + r) % 3;
        for (int i = 0; i < sent[r]; i++) mine[at++] = 1000 * rank + 10 * r + i;
    }
    EXPECT(kolo_alltoallv(mine, sent, all, 64 * 64, .received_counts = counts) == KOLO_OK, "alltoallv");
    at = 0;
    for (int r = 0; r < size; r++) {
        EXPECT(counts[r] == (rank + r) % 3, "count from %d: got %d", r, (int)counts[r]);
        for (int i = 0; i < counts[r]; i++, at++)
            EXPECT(all[at] == 1000 * r + 10 * rank + i, "element %d: got %g", at, all[at]);
    }
    EXPECT(kolo_allgatherv((float *)NULL, 0, (float *)NULL, 0) == KOLO_OK, "nothing from anyone");
    return true;
}

static bool even_calls(void)
{
    kolo_comm *comm = kolo_world_comm();
    int size = kolo_size(), rank = kolo_rank(), pairs = size * (size - 1) / 2;
    int64_t longs[64 * 2], received[64 * 2], part[2];
    for (int r = 0; r < size; r++) {
        longs[2 * r] = 100 * rank + r;
        longs[2 * r + 1] = -rank;
    }
    EXPECT(kolo_alltoall(longs, 2, received) == KOLO_OK, "alltoall");
    for (int r = 0; r < size; r++)
        EXPECT(received[2 * r] == 100 * r + rank && received[2 * r + 1] == -r, "from %d: %d", r, (int)received[2 * r]);
    EXPECT(kolo_reduce_scatter(longs, 2, part) == KOLO_OK, "reduce-scatter");
    EXPECT(part[0] == 100 * pairs + size * rank && part[1] == -pairs, "got %d and %d", (int)part[0], (int)part[1]);
    EXPECT(kolo_reduce_scatter(longs, 2, part, .op = KOLO_REDUCE_MIN) == KOLO_OK, "reduce-scatter");
    EXPECT(part[0] == rank && part[1] == 1 - size, "got %d and %d", (int)part[0], (int)part[1]);
    int32_t least[2] = {rank + 5, -rank};
    EXPECT(kolo_allreduce(least, 2, .op = KOLO_REDUCE_MAX) == KOLO_OK, "maximum");
    EXPECT(least[0] == size + 4 && least[1] == 0, "got %d and %d", least[0], least[1]);
    double mean[1] = {rank};
    EXPECT(kolo_allreduce(mean, 1, .op = KOLO_REDUCE_MEAN) == KOLO_OK && mean[0] == (size - 1) / 2.0, "%g", mean[0]);
    float one[3] = {1, 2, (float)rank}, two[1] = {(float)rank};
    float *arrays[] = {one, NULL, two};
    EXPECT(kolo_grouped_allreduce(arrays, ((int64_t[]){3, 0, 1}), 3) == KOLO_OK, "a group");
    EXPECT(one[1] == 2 * (float)size && one[2] == (float)pairs && two[0] == (float)pairs, "got %g", (double)two[0]);
    char name[8] = "";
    if (rank == size - 1) memcpy(name, "kolo", 5);
    EXPECT(kolo_broadcast(name, 8, size - 1) == KOLO_OK && strcmp(name, "kolo") == 0, "got %s", name);
    return true;
}

/* Rank 0 asks nobody in particular, as a server does. */
static bool messages(void)
{
    kolo_comm *comm = kolo_world_comm();
    float values[4] = {0}, sum = 0;
    kolo_message message;
    for (int k = 1; k < kolo_size() && kolo_rank() == 0; k++) {
        EXPECT(kolo_receive(values, 4, KOLO_ANY_RANK, .tag = 3, .message = &message) == KOLO_OK, "request %d", k);
        EXPECT(message.bytes == 8 && message.tag == 3 && values[0] == (float)message.from, "from %d", message.from);
        sum += values[1];
        EXPECT(kolo_send(values, 2, message.from) == KOLO_OK, "answer %d", message.from);
    }
    if (kolo_rank() == 0) EXPECT(sum == (float)(10 * (kolo_size() - 1)), "got %g", (double)sum);
    if (kolo_rank() == 0) return true;
    EXPECT(kolo_send(((float[]){(float)kolo_rank(), 10}), 2, 0, .tag = 3) == KOLO_OK, "request");
    while (!kolo_probe(0, .message = &message)) usleep(100);
    EXPECT(message.bytes == 8 && message.tag == 0, "%d bytes", (int)message.bytes);
    EXPECT(kolo_receive(values, 1, 0) == KOLO_INVALID, "room for one");
    kolo_clear_error();
    EXPECT(kolo_receive(values, 4, 0) == KOLO_OK && values[0] == (float)kolo_rank(), "got %g", (double)values[0]);
    return true;
}

static bool bad_messages(void)
{
    kolo_comm *comm = kolo_world_comm();
    float value = 0;
    EXPECT(kolo_send(&value, 1, kolo_size()) == KOLO_INVALID, "no such rank");
    EXPECT(kolo_send(&value, 1, kolo_rank()) == KOLO_INVALID, "to itself");
    EXPECT(kolo_send(&value, 1, KOLO_ANY_RANK) == KOLO_INVALID, "to any");
    EXPECT(kolo_send(&value, -1, 1) == KOLO_INVALID, "a negative count");
    EXPECT(kolo_send((float *)NULL, 1, 1) == KOLO_INVALID, "NULL");
    EXPECT(kolo_receive(&value, 1, -2) == KOLO_INVALID, "no such rank");
    EXPECT(kolo_receive(&value, 1, KOLO_ANY_RANK, .tag = KOLO_TAG_MOST + 1) == KOLO_INVALID, "no such tag");
    EXPECT(!kolo_probe(KOLO_ANY_RANK, .tag = -2), "no such tag");
    kolo_clear_error();
    return true;
}

/* One, two or three threads of each rank as one group: every exchange goes through both comms. */
enum { RANKS_MAX = 16, THREADS_MAX = 3 };

typedef struct nested_thread {
    pthread_t thread;
    kolo_comm *inner;
    const int *threads; /* [ranks] */
    bool passed;
} nested_thread;

static void *nested_main(void *data)
{
    nested_thread *me = data;
    kolo_comm *comm = NULL;
    me->passed = kolo_comm_nested_open(me->inner, kolo_world_comm(), me->threads, &comm) == KOLO_OK &&
                 check_comm(comm, 5, 1, 20000);
    if (comm) comm->kind->close(comm);
    me->inner->kind->close(me->inner);
    return NULL;
}

static bool nested(void)
{
    int on_ranks[RANKS_MAX], mine = kolo_rank() % THREADS_MAX + 1;
    for (int r = 0; r < RANKS_MAX; r++) on_ranks[r] = r % THREADS_MAX + 1;
    nested_thread threads[THREADS_MAX];
    kolo_comm *members[THREADS_MAX];
    bool passed = kolo_size() <= RANKS_MAX && kolo_comm_local_open(mine, members) == KOLO_OK;
    for (int i = 0; passed && i < mine; i++) {
        threads[i] = (nested_thread){.inner = members[i], .threads = on_ranks};
        pthread_create(&threads[i].thread, NULL, nested_main, &threads[i]);
    }
    for (int i = 0; passed && i < mine; i++) pthread_join(threads[i].thread, NULL);
    for (int i = 0; i < mine; i++) passed = passed && threads[i].passed;
    return passed;
}

/* Calls that ranks under TF_CONFIG refuse. Refused calls leave the ranks as they were. */
static bool refused(void)
{
    const kolo_comm *comm = kolo_world_comm();
    const int ranks[] = {0};
    EXPECT(!kolo_add_process_set(ranks, 1), "a process set");
    EXPECT(kolo_join() == -1, "kolo_join");
    return public_calls();
}

/* The last rank fails while the others wait for it. */
static int fails(const char *how)
{
    if (kolo_rank() < kolo_size() - 1) {
        kolo_barrier();
        printf("rank %d went on\n", kolo_rank());
        return kolo_finish();
    }
    usleep(300000);
    if (strcmp(how, "abort") == 0) {
        kolo_fail(KOLO_MEMORY, "the reason that would be lost");
        kolo_world_comm()->kind->abort(kolo_world_comm());
    }
    if (strcmp(how, "exit") == 0) exit(3);
    if (strcmp(how, "stop") == 0) raise(SIGSTOP);
    if (strcmp(how, "forget") == 0) exit(0);
    if (strcmp(how, "finish") == 0) kolo_broadcast(NULL, 4, 0);
    return kolo_finish();
}

/* More than an int counts: 2.2 GB in each of two ranks, and one element of each end looked at. */
static bool huge(void)
{
    kolo_comm *comm = kolo_world_comm();
    int64_t count = 550000000;
    float *values = malloc((size_t)count * sizeof *values);
    EXPECT(values != NULL, "memory");
    for (int64_t i = 0; i < count; i++) values[i] = (float)(i % 1000) + (float)comm->rank;
    EXPECT(kolo_allreduce(values, count) == KOLO_OK, "allreduce");
    for (int64_t i = 0; i < count; i += 1 + i % 7) {
        float want = (float)(comm->size * (i % 1000) + comm->size * (comm->size - 1) / 2);
        EXPECT(values[i] == want, "element %lld: wanted %g, got %g", (long long)i, (double)want, (double)values[i]);
    }
    if (comm->rank == 0) values[count - 1] = 42;
    EXPECT(kolo_broadcast(values, count, 0) == KOLO_OK && values[count - 1] == 42, "broadcast");
    free(values);
    return true;
}

/* As a notebook's worker does it. */
static bool again_and_again(int *argc, char ***argv)
{
    bool passed = true;
    for (int i = 0; passed && i < 3; i++) {
        passed = kolo_init(argc, argv) == KOLO_OK && kolo_init(argc, argv) == KOLO_OK && public_calls();
        passed = kolo_finish() == 0 && passed && kolo_size() == 1;
    }
    return passed && kolo_init(argc, argv) == KOLO_OK && everything();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "check";
    bool passed = true;
    int code = 0;
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
    if (strcmp(mode, "late") == 0) MPI_Finalize();
#endif
    if (kolo_init(&argc, &argv) != KOLO_OK) return kolo_finish();
    if (strcmp(mode, "check") == 0)
        passed = everything() && public_calls() && even_calls() && uneven_calls() && messages() && bad_messages();
    if (strcmp(mode, "nested") == 0) passed = nested();
    if (strcmp(mode, "hosts") == 0) passed = over_hosts();
    if (strcmp(mode, "huge") == 0) passed = huge();
    if (strcmp(mode, "refused") == 0) passed = refused();
    if (strcmp(mode, "again") == 0) {
        kolo_finish();
        passed = again_and_again(&argc, &argv);
    }
    if (strcmp(mode, "fail") == 0) return fails(argv[2]);
    if (!passed) return 1;
    code = kolo_finish();
#ifdef WITH_MPI
    int running = 0;
    MPI_Finalized(&running);
    if (!running) MPI_Finalize();
#endif
    return code;
}
