/* One rank of a job whose ranks do not make the same calls, or of which one does not come: test_mismatch.py starts it
 * as `mismatch_ranks CASE`. The last rank is the odd one. A rank that goes on prints "went on". */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static float values[400000], all[64 * 400000];

typedef struct odd_case {
    const char *name;
    int usual, odd; /* numbers of calls, see make_call() */
} odd_case;

enum {
    SUM_500,
    SUM_1000,
    SUM_300000,
    SUM_200000,
    SUM_NONE,
    MAX_500,
    DOUBLES_500,
    MEAN_500,
    BROADCAST_24,
    BROADCAST_48,
    BROADCAST_LAST,
    GATHER_10,
    GATHER_20,
    BARRIER,
    SCATTER_10,
    SCATTER_20,
    SCATTER_MAX_10,
    ALLTOALL_10,
    ALLTOALL_5,
    ALLTOALLV_10,
    BROADCAST_12_DOUBLES,
    FINISH
};

/* What a program of the old interface could say, so that the test can be seen to fail with it. */
#ifdef KOLO_TYPE_OF
static void make_new_call(int which)
{
    if (which == MAX_500) kolo_allreduce(values, 500, .op = KOLO_REDUCE_MAX);
    if (which == MEAN_500) kolo_allreduce(values, 500, .op = KOLO_REDUCE_MEAN);
    if (which == DOUBLES_500) kolo_allreduce((double *)all, 500);
    if (which == SCATTER_10) kolo_reduce_scatter(values, 10, all);
    if (which == SCATTER_20) kolo_reduce_scatter(values, 20, all);
    if (which == SCATTER_MAX_10) kolo_reduce_scatter(values, 10, all, .op = KOLO_REDUCE_MAX);
    if (which == ALLTOALL_10) kolo_alltoall(values, 10, all);
    if (which == ALLTOALL_5) kolo_alltoall(values, 5, all);
    int64_t tens[64];
    for (int i = 0; i < 64; i++) tens[i] = 10;
    if (which == ALLTOALLV_10) kolo_alltoallv(values, tens, all, 64 * 10);
    if (which == BROADCAST_12_DOUBLES) kolo_broadcast((double *)all, 12, 0);
}
#else
static void make_new_call(int which)
{
    (void)which;
}
#endif

static void make_call(int which)
{
    if (which == SUM_500) kolo_allreduce(values, 500);
    if (which == SUM_1000) kolo_allreduce(values, 1000);
    if (which == SUM_300000) kolo_allreduce(values, 300000);
    if (which == SUM_200000) kolo_allreduce(values, 200000);
    if (which == SUM_NONE) kolo_allreduce(NULL, 0);
    if (which == BROADCAST_24) kolo_broadcast(values, 24, 0);
    if (which == BROADCAST_48) kolo_broadcast(values, 48, 0);
    if (which == BROADCAST_LAST) kolo_broadcast(values, 24, kolo_size() - 1);
    if (which == GATHER_10) kolo_allgather(values, 10, all);
    if (which == GATHER_20) kolo_allgather(values, 20, all);
    if (which == BARRIER) kolo_barrier();
    if (which == FINISH) exit(kolo_finish());
    make_new_call(which);
}

static const odd_case cases[] = {
    {"count", SUM_500, SUM_1000},
    {"large-count", SUM_300000, SUM_200000},
    {"nothing", SUM_500, SUM_NONE},
    {"reduction", SUM_500, MAX_500},
    {"mean", SUM_500, MEAN_500},
    {"type", SUM_500, DOUBLES_500},
    {"bytes", BROADCAST_24, BROADCAST_48},
    {"root", BROADCAST_24, BROADCAST_LAST},
    {"operation", SUM_500, BROADCAST_24},
    {"gather", GATHER_10, GATHER_20},
    {"gather-sum", GATHER_10, SUM_500},
    {"barrier", BARRIER, SUM_500},
    {"scatter", SCATTER_10, SUM_500},
    {"alltoall", ALLTOALL_10, GATHER_10},
    {"scatter-count", SCATTER_10, SCATTER_20},
    {"scatter-reduction", SCATTER_10, SCATTER_MAX_10},
    {"alltoall-count", ALLTOALL_10, ALLTOALL_5},
    {"alltoallv", ALLTOALL_10, ALLTOALLV_10},
    {"finish", SUM_500, FINISH},
    {"first-finishes", FINISH, SUM_500},
    {"element", BROADCAST_24, BROADCAST_12_DOUBLES},
    {"order", BROADCAST_24, SUM_500},
};

static int differ(const odd_case *odd)
{
    bool is_odd = kolo_rank() == kolo_size() - 1;
    for (int i = 0; i < 3; i++) kolo_allreduce(values, 100); /* they all agree at first */
    make_call(is_odd ? odd->odd : odd->usual);
    make_call(is_odd ? odd->usual : odd->odd);
    printf("rank %d went on\n", kolo_rank());
    return kolo_finish();
}

/* The rank `missing` does not come, in one of several ways. */
static int stall(const char *how, int missing)
{
    bool here = kolo_rank() != missing;
    kolo_barrier();
    if (!here && strcmp(how, "sleep") == 0) sleep(100);
    for (volatile int forever = 1; !here && forever && strcmp(how, "loop") == 0;) {}
    if (!here && strcmp(how, "skip") == 0) sleep(100);
    if (strcmp(how, "several") == 0 && kolo_rank() == 0) kolo_broadcast(values, 24, 0);
    else if (here) kolo_allreduce(values, 500);
    if (!here) sleep(100);
    printf("rank %d went on\n", kolo_rank());
    return kolo_finish();
}

/* The rank `busy` is at work in the library for three times the limit of 1 s, and asks there whether to stop. */
bool kolo_stop_requested(void);
static int work(int busy)
{
    for (int k = 0; k < 300 && kolo_rank() == busy; k++) usleep(kolo_stop_requested() ? 0 : 10000);
    kolo_allreduce(values, 500);
    return kolo_finish();
}

/* Every rank waits less than the limit for the next one, and longer in all. */
static int slow(void)
{
    for (int k = 0; k < 2; k++) {
        usleep((useconds_t)kolo_rank() * 700000);
        kolo_allreduce(values, 500);
    }
    return kolo_finish();
}

int main(int argc, char **argv)
{
    if (kolo_init(&argc, &argv) != KOLO_OK) return 1;
    if (argc > 3 && strcmp(argv[1], "stall") == 0) return stall(argv[2], (int)strtol(argv[3], NULL, 10));
    if (argc > 2 && strcmp(argv[1], "work") == 0) return work((int)strtol(argv[2], NULL, 10));
    if (argc > 1 && strcmp(argv[1], "slow") == 0) return slow();
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0) return differ(&cases[i]);
    return 3;
}
