/* One rank of test_process_sets.py, of four: process sets, with what each call must give written out.
 * set_ranks check | wrong | freed | differ | stall | leave. */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("line %d: not %s; %s\n", __LINE__, #condition, kolo_last_error().text);                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { LARGE = 70001 }; /* more than the ranks' shared memory takes at once */
static float large[LARGE];
static int large_count = LARGE;

/* All calls in a set of `size` members, of which this rank is number `me`; ranks[] are the members in order. */
static void check_members(const kolo_process_set *set, const int *ranks, int size)
{
    int me = kolo_process_set_rank(set), total = 0;
    for (int i = 0; i < size; i++) total += ranks[i];
    float value = (float)kolo_rank(), all[4], *arrays[2] = {&value, large};
    double mean = kolo_rank();
    int32_t least = kolo_rank(), parts[4], got[4];
    int64_t counts[4], varying[16], received[16];
    EXPECT(kolo_process_set_size(set) == size && me >= 0 && ranks[me] == kolo_rank());
    EXPECT(kolo_allreduce(&value, 1, .process_set = set) == KOLO_OK && value == (float)total);
    EXPECT(kolo_allreduce(&mean, 1, .op = KOLO_REDUCE_MEAN, .process_set = set) == KOLO_OK && mean * size == total);
    EXPECT(kolo_allreduce(&least, 1, .op = KOLO_REDUCE_MIN, .process_set = set) == KOLO_OK && least == ranks[0]);
    for (int i = 0; i < large_count; i++) large[i] = (float)(i % 7 + kolo_rank());
    value = 1;
    EXPECT(kolo_grouped_allreduce(arrays, ((int64_t[]){1, large_count}), 2, .process_set = set) == KOLO_OK);
    EXPECT(value == (float)size);
    for (int i = 0; i < large_count; i++) EXPECT(large[i] == (float)(size * (i % 7) + total));
    value = (float)(10 * kolo_rank());
    EXPECT(kolo_broadcast(&value, 1, ranks[size - 1], .process_set = set) == KOLO_OK);
    EXPECT(value == (float)(10 * ranks[size - 1]));
    value = (float)kolo_rank();
    EXPECT(kolo_allgather(&value, 1, all, .process_set = set) == KOLO_OK);
    for (int i = 0; i < size; i++) EXPECT(all[i] == (float)ranks[i]);
    for (int i = 0; i <= me; i++) varying[i] = 100 * kolo_rank() + i;
    EXPECT(kolo_allgatherv(varying, me + 1, received, 16, .counts = counts, .process_set = set) == KOLO_OK);
    for (int i = 0, at = 0; i < size; at += i + 1, i++)
        EXPECT(counts[i] == i + 1 && received[at] == 100 * ranks[i] && received[at + i] == 100 * ranks[i] + i);
    for (int i = 0; i < size; i++) parts[i] = 10 * kolo_rank() + i;
    EXPECT(kolo_reduce_scatter(parts, 1, got, .process_set = set) == KOLO_OK && got[0] == 10 * total + size * me);
    EXPECT(kolo_alltoall(parts, 1, got, .process_set = set) == KOLO_OK);
    for (int i = 0; i < size; i++) EXPECT(got[i] == 10 * ranks[i] + me);
    for (int i = 0; i < size; i++) counts[i] = 1;
    EXPECT(kolo_alltoallv(parts, counts, got, 4, .process_set = set) == KOLO_OK &&
           got[size - 1] == 10 * ranks[size - 1] + me);
    EXPECT(kolo_barrier(.process_set = set) == KOLO_OK);
}

/* Two sets at once, which overlap in rank 3 with a third one; calls of all ranks in between. */
static int check(void)
{
    const int odd[] = {1, 3}, even[] = {0, 2}, some[] = {0, 2, 3}, given[] = {3, 0, 2};
    for (int again = 0; again < 3; again++, large_count = 1001) {
        kolo_process_set *odds = kolo_add_process_set(odd, 2), *evens = kolo_add_process_set(even, 2);
        kolo_process_set *three = kolo_add_process_set(given, 3);
        bool is_odd = kolo_rank() % 2 == 1;
        float one = 1;
        EXPECT(odds && evens && three);
        EXPECT(kolo_process_set_rank(is_odd ? evens : odds) == -1 && kolo_process_set_size(is_odd ? evens : odds) == 2);
        check_members(is_odd ? odds : evens, is_odd ? odd : even, 2);
        EXPECT(kolo_allreduce(&one, 1) == KOLO_OK && one == 4);
        if (kolo_rank() != 1) check_members(three, some, 3);
        check_members(is_odd ? odds : evens, is_odd ? odd : even, 2);
        check_members(NULL, (const int[]){0, 1, 2, 3}, 4);
        if (again == 0) kolo_process_set_free(&odds);
        if (again == 0) EXPECT(odds == NULL);
        if (again == 1) kolo_process_set_free(&three);
    }
    for (int i = 0; i < 40; i++) { /* sets leave nothing behind that could run out */
        kolo_process_set *set = kolo_add_process_set(given, 3);
        EXPECT(set);
        if (kolo_rank() != 1) EXPECT(kolo_barrier(.process_set = set) == KOLO_OK);
        kolo_process_set_free(&set);
    }
    EXPECT(kolo_finish() == 0);
    printf("fine\n");
    return 0;
}

static void say(const char *what)
{
    printf("%s: %s\n", what, kolo_last_error().text);
    kolo_clear_error();
}

static int wrong(void)
{
    float value = 1;
    const int pair[] = {1, 3}, twice[] = {1, 3, 1}, far[] = {1, 4}, mine[] = {kolo_rank() == 2 ? 2 : 1};
    EXPECT(!kolo_add_process_set(twice, 3));
    say("twice");
    EXPECT(!kolo_add_process_set(kolo_rank() == 1 ? far : pair, 2));
    say("far");
    EXPECT(!kolo_add_process_set(pair, 0));
    say("none");
    EXPECT(!kolo_add_process_set(mine, 1));
    say("differ");
    kolo_process_set *set = kolo_add_process_set(pair, 2);
    bool member = kolo_process_set_rank(set) >= 0;
    EXPECT(member || kolo_allreduce(&value, 1, .process_set = set) == KOLO_INVALID);
    if (!member) say("no member");
    EXPECT(!member || kolo_broadcast(&value, 1, 0, .process_set = set) == KOLO_INVALID);
    if (member) say("root");
    return kolo_finish();
}

/* A set that is freed while asynchronous calls use it, and whose pointer is used again. */
static int freed(void)
{
    static float arrays[20][LARGE];
    kolo_process_set *set = kolo_add_process_set(((const int[]){1, 3}), 2), *copy = set;
    bool member = kolo_process_set_rank(set) >= 0;
    kolo_handle handles[20] = {0};
    for (int i = 0; i < 20; i++) arrays[i][LARGE - 1] = 1;
    for (int i = 0; i < 20 && member; i++)
        EXPECT((handles[i] = kolo_allreduce_async(arrays[i], LARGE, .process_set = set)));
    kolo_process_set_free(&set);
    for (int i = 0; i < 20 && member; i++) EXPECT(kolo_synchronize(handles[i]) == KOLO_OK && arrays[i][LARGE - 1] == 2);
    EXPECT(kolo_barrier(.process_set = copy) == KOLO_INVALID);
    say("freed");
    EXPECT(kolo_process_set_rank(copy) == -1 && kolo_process_set_size(copy) == 0);
    kolo_process_set_free(&copy);
    EXPECT(!copy && kolo_barrier() == KOLO_OK);
    return kolo_finish();
}

static int differ(void)
{
    const int pair[] = {1, 3};
    kolo_process_set *set = kolo_add_process_set(pair, 2);
    float values[20] = {0};
    if (kolo_rank() == 1) kolo_allreduce(values, 10, .process_set = set);
    if (kolo_rank() == 3) kolo_broadcast(values, 20, 1, .process_set = set);
    kolo_barrier();
    printf("went on\n");
    return kolo_finish();
}

/* Rank `missing` does not come to its set; the ranks outside of the set wait for all. */
static int stall(int missing)
{
    const int three[] = {0, 1, 3};
    setenv("KOLO_STALL_LIMIT", "1", 1); /* for the set, whose ranks have all started now */
    kolo_process_set *set = kolo_add_process_set(three, 3);
    float values[20] = {0};
    if (kolo_rank() == missing) sleep(100);
    if (kolo_rank() != 2) kolo_allreduce(values, 20, .process_set = set);
    if (kolo_rank() == 2) sleep(100);
    return kolo_finish();
}

/* Ranks 1 and 3 call two sets of them in different orders; or rank 3 calls all ranks while rank 1 calls their set. */
static int cross(bool all)
{
    const int pair[] = {1, 3};
    setenv("KOLO_STALL_LIMIT", "2", 1); /* for the sets, whose ranks have all started now */
    kolo_process_set *one = kolo_add_process_set(pair, 2), *other = kolo_add_process_set(pair, 2);
    float values[10] = {0};
    if (kolo_rank() == 1) kolo_allreduce(values, 10, .process_set = one);
    if (kolo_rank() == 3 && all) kolo_broadcast(values, 10);
    else if (kolo_rank() == 3) kolo_barrier(.process_set = other);
    if (kolo_rank() % 2 == 0) sleep(100);
    printf("went on\n");
    return kolo_finish();
}

/* The set is at work for twice the limit of 3 s, while the others wait for it. */
static int work(void)
{
    const int pair[] = {1, 3};
    kolo_process_set *set = kolo_add_process_set(pair, 2);
    for (int i = 0; i < 60 && kolo_rank() % 2 == 1; i++) {
        usleep(100000);
        kolo_barrier(.process_set = set);
    }
    kolo_barrier();
    return kolo_finish();
}

int main(int argc, char **argv)
{
    if (kolo_init(&argc, &argv) != KOLO_OK || argc < 2) return 3;
    if (strcmp(argv[1], "check") == 0) return check();
    if (strcmp(argv[1], "wrong") == 0) return wrong();
    if (strcmp(argv[1], "freed") == 0) return freed();
    if (strcmp(argv[1], "differ") == 0) return differ();
    if (strcmp(argv[1], "work") == 0) return work();
    if (strcmp(argv[1], "orders") == 0 || strcmp(argv[1], "all") == 0) return cross(strcmp(argv[1], "all") == 0);
    return stall((int)strtol(argv[1], NULL, 10));
}
