/* One rank of test_asynchronous.py: asynchronous_ranks MODE. It prints what went wrong and ends with 1, or what the
 * mode asks for. */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 20000, RANKS_MAX = 16, CALLS = 6 };

#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: rank %d: %s: ", __FILE__, __LINE__, kolo_rank(), #condition);                      \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static float sums[COUNT], all[COUNT], part[COUNT], sent[COUNT], received[COUNT], one[300], other[700];
static double told[500];
static const int64_t lengths[] = {300, 700};

/* What rank r has at i in a round. */
static float number(int round, int r, int i)
{
    return (float)((round * 31 + r * 7 + i) % 101);
}

static kolo_handle start(int which, int round)
{
    int size = kolo_size(), r = kolo_rank(), each = COUNT / RANKS_MAX;
    float *arrays[] = {one, other};
    switch (which) {
    case 0:
        for (int i = 0; i < COUNT; i++) sums[i] = number(round, r, i);
        return kolo_allreduce_async(sums, COUNT);
    case 1:
        for (int i = 0; i < each; i++) part[i] = number(round, r, i);
        return kolo_allgather_async(part, each, all);
    case 2:
        for (int i = 0; i < 500; i++) told[i] = (double)number(round, r, i);
        return kolo_broadcast_async(told, 500, round % size);
    case 3:
        for (int i = 0; i < 300; i++) one[i] = number(round, r, i);
        for (int i = 0; i < 700; i++) other[i] = number(round + 1, r, i);
        return kolo_grouped_allreduce_async(arrays, lengths, 2, .op = KOLO_REDUCE_MAX);
    case 4:
        for (int i = 0; i < size * 100; i++) sent[i] = number(round, r, i);
        return kolo_alltoall_async(sent, 100, received);
    default:
        for (int i = 0; i < size * 10; i++) sent[2000 + i] = number(round, r, i);
        return kolo_reduce_scatter_async(sent + 2000, 10, received + 2000);
    }
}

static float most(int round, int i)
{
    float largest = number(round, 0, i);
    for (int r = 1; r < kolo_size(); r++) largest = number(round, r, i) > largest ? number(round, r, i) : largest;
    return largest;
}

static float total(int round, int i)
{
    float sum = 0;
    for (int r = 0; r < kolo_size(); r++) sum += number(round, r, i);
    return sum;
}

static int check(int which, int round)
{
    int size = kolo_size(), each = COUNT / RANKS_MAX, me = kolo_rank();
    for (int i = 0; which == 0 && i < COUNT; i++) EXPECT(sums[i] == total(round, i), "%d: got %g", i, (double)sums[i]);
    for (int i = 0; which == 1 && i < size * each; i++)
        EXPECT(all[i] == number(round, i / each, i % each), "%d: got %g", i, (double)all[i]);
    for (int i = 0; which == 2 && i < 500; i++)
        EXPECT(told[i] == (double)number(round, round % size, i), "%d: got %g", i, told[i]);
    for (int i = 0; which == 3 && i < 300; i++) EXPECT(one[i] == most(round, i), "%d: got %g", i, (double)one[i]);
    for (int i = 0; which == 3 && i < 700; i++)
        EXPECT(other[i] == most(round + 1, i), "%d: got %g", i, (double)other[i]);
    for (int i = 0; which == 4 && i < size * 100; i++)
        EXPECT(received[i] == number(round, i / 100, me * 100 + i % 100), "%d: got %g", i, (double)received[i]);
    for (int i = 0; which == 5 && i < 10; i++)
        EXPECT(received[2000 + i] == total(round, me * 10 + i), "%d: got %g", i, (double)received[2000 + i]);
    return 0;
}

/* Every operation, in another order in each round, with direct calls among them. */
static int everything(void)
{
    for (int round = 0; round < 4; round++) {
        kolo_handle handles[CALLS];
        if (round % kolo_size() == kolo_rank()) usleep(2000);
        for (int k = 0; k < CALLS; k++) {
            int which = (k * 5 + round) % CALLS, direct = 1;
            handles[which] = start(which, round);
            EXPECT(handles[which] > 0, "call %d has no handle", which);
            if (k != round % CALLS) continue;
            EXPECT(kolo_allreduce(&direct, 1) == KOLO_OK && direct == kolo_size(), "got %d", direct);
            EXPECT(kolo_poll(handles[which]), "call %d was overtaken", which);
        }
        for (int which = 0; which < CALLS; which++) {
            EXPECT(kolo_synchronize(handles[which]) == KOLO_OK, "call %d", which);
            if (check(which, round) != 0) return 1;
        }
    }
    return kolo_finish();
}

/* Handles are waited for out of order, and their numbers are not used again. */
static int many(void)
{
    enum { MANY = 3000 };
    static int values[MANY];
    static kolo_handle handles[MANY];
    for (int i = 0; i < MANY; i++) {
        values[i] = i;
        handles[i] = kolo_allreduce_async(&values[i], 1);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        EXPECT(kolo_synchronize(handles[i]) == KOLO_OK, "handle %d", i);
        EXPECT(values[i] == i * kolo_size(), "handle %d: got %d", i, values[i]);
    }
    kolo_handle again = kolo_allreduce_async(&values[0], 1);
    for (int i = 0; i < MANY; i++) EXPECT(again != handles[i], "handle %d again", i);
    EXPECT(kolo_synchronize(again) == KOLO_OK, "again");
    EXPECT(!kolo_poll(again) && kolo_synchronize(again) == KOLO_INVALID, "it was freed");
    EXPECT(strstr(kolo_last_error().text, "nobody has waited for yet, got "), "%s", kolo_last_error().text);
    kolo_clear_error();
    return kolo_finish();
}

/* A message is received before its receiver starts the collective that its sender has started. */
static int message(void)
{
    int value = 5;
    kolo_handle handle = 0;
    if (kolo_rank() == 0) handle = kolo_allreduce_async(sums, COUNT);
    if (kolo_rank() == 0) EXPECT(kolo_send(&value, 1, 1) == KOLO_OK, "send");
    if (kolo_rank() == 1) EXPECT(kolo_receive(&value, 1, 0) == KOLO_OK && value == 5, "got %d", value);
    if (kolo_rank() != 0) handle = kolo_allreduce_async(sums, COUNT);
    EXPECT(kolo_synchronize(handle) == KOLO_OK, "wait");
    return kolo_finish();
}

/* kolo_finish() completes what nobody has waited for. */
static int forgotten(void)
{
    for (int i = 0; i < COUNT; i++) sums[i] = 1;
    one[0] = (float)kolo_rank();
    kolo_allreduce_async(sums, COUNT);
    kolo_allreduce_async(one, 1);
    int size = kolo_size(), code = kolo_finish();
    EXPECT(code == 0 && sums[COUNT - 1] == (float)size && one[0] == (float)(size * (size - 1) / 2), "got %d, %g, %g",
           code, (double)sums[COUNT - 1], (double)one[0]);
    return code;
}

/* Invalid arguments fail at once, on this rank alone, and start nothing. */
static int invalid(void)
{
    EXPECT(kolo_allreduce_async((float *)NULL, 3) == 0, "NULL");
    EXPECT(strstr(kolo_last_error().text, "wanted 3 values, got NULL"), "%s", kolo_last_error().text);
    EXPECT(kolo_synchronize(0) == KOLO_INVALID && !kolo_poll(0), "the call that failed has no handle");
    kolo_clear_error();
    EXPECT(kolo_broadcast_async(told, 1, kolo_size()) == 0 && kolo_allgather_async(sums, -1, all) == 0 &&
               kolo_alltoall_async(sums, 1, (float *)NULL) == 0 &&
               kolo_reduce_scatter_async((char *)sums, 1, (char *)all) == 0 &&
               kolo_grouped_allreduce_async((float *const *)NULL, lengths, 2) == 0,
           "other arguments");
    kolo_clear_error();
    EXPECT(kolo_synchronize(77) == KOLO_INVALID && kolo_synchronize(-1) == KOLO_INVALID, "no handles");
    kolo_clear_error();
    EXPECT(kolo_synchronize(kolo_allreduce_async(sums, 4)) == KOLO_OK, "the next call is fine");
    return kolo_finish();
}

/* The last rank does something else. */
static int differ(const char *mode)
{
    bool odd = kolo_rank() == kolo_size() - 1;
    kolo_handle handle = 0;
    if (strcmp(mode, "count") == 0) handle = kolo_allreduce_async(sums, odd ? 600 : 500);
    if (strcmp(mode, "operation") == 0)
        handle = odd ? kolo_broadcast_async(sums, 500, 0) : kolo_allreduce_async(sums, 500);
    if (strcmp(mode, "direct") == 0 && odd) kolo_allreduce(sums, 500);
    else if (strcmp(mode, "direct") == 0) handle = kolo_allreduce_async(sums, 500);
    if (strcmp(mode, "overtake") == 0) {
        handle = kolo_allreduce_async(sums, 500);
        if (!odd) kolo_synchronize(kolo_allreduce_async(one, 1));
        else kolo_barrier();
    }
    if (strcmp(mode, "stall") == 0 && odd) pause();
    else if (strcmp(mode, "stall") == 0) handle = kolo_allreduce_async(sums, 500);
    kolo_synchronize(handle);
    printf("went on\n");
    return kolo_finish();
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    const char *mode = argv[1];
    if (strcmp(mode, "everything") == 0) return everything();
    if (strcmp(mode, "many") == 0) return many();
    if (strcmp(mode, "message") == 0) return message();
    if (strcmp(mode, "forgotten") == 0) return forgotten();
    if (strcmp(mode, "invalid") == 0) return invalid();
    return differ(mode);
}
