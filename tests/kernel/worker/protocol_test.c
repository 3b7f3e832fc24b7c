/* Messages between kernel, supervisor and worker: whole ones arrive, cut and foreign ones are told apart, and too large
 * ones are refused by whoever sends. */
#define _GNU_SOURCE
#include "exit_status.h"
#include "worker/protocol.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { TOKEN = 77 };
static int ends[2];
static char payload[MESSAGE_LIMIT];

static int open_pair(void **state)
{
    (void)state;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int close_pair(void **state)
{
    (void)state;
    return close(ends[0]) | close(ends[1]);
}

static ssize_t receive(message *m)
{
    int descriptors[MESSAGE_DESCRIPTORS];
    return message_receive(ends[1], TOKEN, m, payload, descriptors);
}

static void a_message_arrives_whole(void **state)
{
    (void)state;
    message got;
    assert_true(message_send(ends[0], &(message){.token = TOKEN, .kind = MESSAGE_LOAD, .code = 5}, "abc", 4, NULL, 0));
    assert_int_equal(receive(&got), 4);
    assert_int_equal(got.code, 5);
    assert_string_equal(payload, "abc");
}

/* As a sender writes it that knows the token. */
static void send_raw(uint32_t version, uint32_t length, size_t size)
{
    static char packet[sizeof(message) + MESSAGE_LIMIT + 1000];
    message head = {.token = TOKEN, .kind = MESSAGE_LOAD, .version = version, .length = length};
    memcpy(packet, &head, sizeof head);
    assert_int_equal(send(ends[0], packet, sizeof head + size, 0), (ssize_t)(sizeof head + size));
}

static void a_cut_or_foreign_message_is_broken(void **state)
{
    (void)state;
    message got;
    send_raw(PROTOCOL_VERSION + 1, 8, 8);
    assert_int_equal(receive(&got), MESSAGE_BROKEN);
    send_raw(PROTOCOL_VERSION, 9, 8);
    assert_int_equal(receive(&got), MESSAGE_BROKEN);
    send_raw(PROTOCOL_VERSION, MESSAGE_LIMIT + 100, MESSAGE_LIMIT + 100); /* more than the receiver has room for */
    assert_int_equal(receive(&got), MESSAGE_BROKEN);
    assert_int_equal(got.kind, MESSAGE_LOAD);
    assert_string_equal(payload, "");
}

static void a_message_without_the_token_is_none(void **state)
{
    (void)state;
    message got;
    assert_true(message_send(ends[0], &(message){.token = TOKEN + 1}, "abc", 4, NULL, 0));
    assert_int_equal(receive(&got), MESSAGE_NONE);
    assert_int_equal(send(ends[0], "short", 5, 0), 5);
    assert_int_equal(receive(&got), MESSAGE_NONE);
}

static void what_is_too_large_is_not_sent(void **state)
{
    (void)state;
    static char large[MESSAGE_LIMIT + 1];
    message got, head = {.token = TOKEN};
    assert_false(message_send(ends[0], &head, large, sizeof large, NULL, 0));
    assert_int_equal(errno, EMSGSIZE);
    assert_true(message_send(ends[0], &head, large, MESSAGE_LIMIT - 1, NULL, 0));
    assert_int_equal(receive(&got), MESSAGE_LIMIT - 1);
}

static void the_other_sides_end_is_noticed(void **state)
{
    (void)state;
    message got;
    shutdown(ends[0], SHUT_RDWR);
    assert_int_equal(receive(&got), MESSAGE_GONE);
    assert_false(message_send(ends[0], &(message){.token = TOKEN}, NULL, 0, NULL, 0));
}

static void frames_that_are_cut_end_the_list(void **state)
{
    (void)state;
    static const char packed[] = "a.so\0"
                                 "1f\0"
                                 "f\0"
                                 "b.so\0"
                                 "2";
    const char *at = packed, *end = packed + sizeof packed - 1; /* the last string has no end */
    frame f;
    assert_true(frame_next(&at, end, &f));
    assert_string_equal(f.object, "a.so");
    assert_string_equal(f.symbol, "f");
    assert_false(frame_next(&at, end, &f));
    at = NULL;
    assert_false(frame_next(&at, NULL, &f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_arrives_whole, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(a_cut_or_foreign_message_is_broken, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(a_message_without_the_token_is_none, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(what_is_too_large_is_not_sent, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(the_other_sides_end_is_noticed, open_pair, close_pair),
        cmocka_unit_test(frames_that_are_cut_end_the_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
