/* One rank of test_messages.py: messages that nobody receives, or sends, or whose type is another one.
 * message_ranks both-send | both-receive | crossed | receive-finished | any-finished | send-finished | work | types */
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

enum { LARGE = 1 << 22 };
static float values[LARGE], got[LARGE];

static int fails(kolo_status status)
{
    printf("status %d\n", (int)status);
    return kolo_finish();
}

/* Two ranks wait for each other. */
static int wait_for_each_other(const char *how)
{
    int other = 1 - kolo_rank();
    if (strcmp(how, "both-send") == 0) kolo_send(values, LARGE, other);
    else if (strcmp(how, "crossed") == 0 && kolo_rank() == 1) kolo_barrier();
    else kolo_receive(got, LARGE, other, .tag = 5);
    printf("went on\n");
    return kolo_finish();
}

/* Rank 0 finishes; rank 1 wants a message of it, or sends it one. Before, it has sent a small one, which arrives. */
static int one_has_finished(const char *how)
{
    float small = 7;
    if (kolo_rank() == 0) kolo_send(&small, 1, 1, .tag = 3);
    if (kolo_rank() == 0) return kolo_finish();
    EXPECT(kolo_receive(got, 1, 0, .tag = 3) == KOLO_OK && got[0] == 7);
    if (strcmp(how, "receive-finished") == 0) return fails(kolo_receive(got, LARGE, 0));
    if (strcmp(how, "any-finished") == 0) return fails(kolo_receive(got, LARGE, KOLO_ANY_RANK, .tag = KOLO_ANY_TAG));
    return fails(kolo_send(values, LARGE, 0));
}

/* Rank 2 is in the library for twice the limit of 1.5 s before it sends what rank 1 passes on to rank 0. */
bool kolo_stop_requested(void);
static int work(void)
{
    int rank = kolo_rank();
    for (int k = 0; k < 300 && rank == 2; k++) usleep(kolo_stop_requested() ? 0 : 10000);
    if (rank < 2) EXPECT(kolo_receive(got, 1000, rank + 1) == KOLO_OK);
    if (rank > 0) EXPECT(kolo_send(values, 1000, rank - 1) == KOLO_OK);
    return kolo_finish();
}

static void send_some(void)
{
    int32_t numbers[] = {1, 2, 3};
    double doubles[] = {0.5, 1.5};
    EXPECT(kolo_send(numbers, 3, 1, .tag = 7) == KOLO_OK);
    EXPECT(kolo_send(doubles, 2, 1, .tag = 8) == KOLO_OK);
    EXPECT(kolo_send((const char *)numbers, sizeof numbers, 1, .tag = KOLO_TAG_MOST) == KOLO_OK);
    EXPECT(kolo_send((const float *)NULL, 0, 1, .tag = 9) == KOLO_OK);
}

static void receive_some(void)
{
    int32_t numbers[3] = {0};
    double doubles[2] = {0};
    kolo_message message;
    EXPECT(kolo_receive(doubles, 2, 0, .tag = 7) == KOLO_INVALID); /* it stays, and the next one is another one */
    printf("%s\n", kolo_last_error().text);
    kolo_clear_error();
    EXPECT(kolo_receive(doubles, 2, KOLO_ANY_RANK, .tag = KOLO_ANY_TAG) == KOLO_INVALID);
    kolo_clear_error();
    EXPECT(kolo_receive(doubles, 2, 0, .tag = 8) == KOLO_OK && doubles[0] == 0.5 && doubles[1] == 1.5);
    EXPECT(kolo_receive((int64_t *)numbers, 1, 0, .tag = 7) == KOLO_INVALID);
    kolo_clear_error();
    EXPECT(kolo_receive((char *)numbers, sizeof numbers, 0, .tag = 7, .message = &message) == KOLO_OK);
    EXPECT(numbers[2] == 3 && message.tag == 7 && message.bytes == sizeof numbers && message.from == 0);
    memset(numbers, 0, sizeof numbers);
    EXPECT(kolo_receive(numbers, 3, 0, .tag = KOLO_TAG_MOST) == KOLO_OK && numbers[1] == 2);
    EXPECT(kolo_receive(numbers, 3, 0, .tag = KOLO_ANY_TAG, .message = &message) == KOLO_OK && message.tag == 9);
}

int main(int argc, char **argv)
{
    if (kolo_init(&argc, &argv) != KOLO_OK || argc < 2) return 3;
    if (strstr(argv[1], "finished")) return one_has_finished(argv[1]);
    if (strcmp(argv[1], "work") == 0) return work();
    if (strcmp(argv[1], "types") != 0) return wait_for_each_other(argv[1]);
    (kolo_rank() == 0 ? send_some : receive_some)();
    return kolo_finish();
}
