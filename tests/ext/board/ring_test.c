/* ring.c: who gets which place in a ring, under which addresses, and who is forgotten. */
#include "board/ring.h"
#include "board/board.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

int board_say(int code, const char *format, ...)
{
    (void)format;
    return code;
}

static const ring_path here = {"127.0.0.1", "127.0.0.1"}, there = {"10.0.0.7", "10.0.0.2"};

static json_t *opened(int size)
{
    json_t *ring = NULL, *wanted = json_pack("{s:i, s:s}", "size", size, "command", "cnn_mnist --epochs 2");
    assert_null(ring_open(&ring, wanted));
    json_decref(wanted);
    return ring;
}

/* What the board answers to a learner who has the letter `who` as name and ticket. */
static json_t *ask_with(json_t *ring, char who, const ring_path *path, long now, bool leave)
{
    char ticket[33], name[2] = {who, '\0'}, why[1200];
    memset(ticket, who, 32);
    ticket[32] = '\0';
    json_t *reply = NULL, *request = json_pack("{s:s, s:s, s:i, s:s, s:b}", "learner", name, "ticket", ticket, "port",
                                               2000 + who, "command", "cnn_mnist --epochs 2", "leave", leave);
    const char *refused = ring_take(ring, request, path, now, &reply, why);
    json_decref(request);
    if (refused) fail_msg("%s", refused);
    return reply;
}

static json_t *ask(json_t *ring, char who, const ring_path *path, long now)
{
    return ask_with(ring, who, path, now, false);
}

static void assert_there(json_t *reply, size_t count)
{
    assert_int_equal(json_array_size(json_object_get(reply, "there")), count);
    assert_null(json_object_get(reply, "rank"));
    json_decref(reply);
}

static void assert_rank(json_t *reply, int rank, const char *first, const char *second)
{
    json_t *addresses = json_object_get(reply, "addresses");
    assert_int_equal(json_integer_value(json_object_get(reply, "rank")), rank);
    assert_string_equal(json_string_value(json_array_get(addresses, 0)), first);
    assert_string_equal(json_string_value(json_array_get(addresses, 1)), second);
    assert_int_equal(strlen(json_string_value(json_object_get(reply, "key"))), 64);
    json_decref(reply);
}

static void a_place_each_and_the_same_list(void **state)
{
    (void)state;
    json_t *ring = opened(2);
    assert_there(ask(ring, 'a', &here, 100), 1);
    assert_there(ask(ring, 'a', &here, 101), 1);
    assert_rank(ask(ring, 'b', &here, 102), 1, "127.0.0.1:2097", "127.0.0.1:2098");
    assert_rank(ask(ring, 'a', &here, 103), 0, "127.0.0.1:2097", "127.0.0.1:2098");
    /* An answer that was lost is given again. */
    assert_rank(ask(ring, 'b', &here, 104), 1, "127.0.0.1:2097", "127.0.0.1:2098");
    json_decref(ring);
}

static void others_form_the_next_ring(void **state)
{
    (void)state;
    json_t *ring = opened(2);
    assert_there(ask(ring, 'a', &here, 100), 1);
    json_t *first = ask(ring, 'b', &here, 100);
    assert_there(ask(ring, 'c', &here, 100), 1);
    json_t *second = ask(ring, 'd', &here, 100);
    assert_string_not_equal(json_string_value(json_object_get(first, "key")),
                            json_string_value(json_object_get(second, "key")));
    json_decref(first);
    json_decref(second);
    json_t *shown = ring_shown(ring, 100);
    assert_int_equal(json_integer_value(json_object_get(shown, "started")), 2);
    assert_int_equal(json_array_size(json_object_get(shown, "there")), 0);
    json_decref(shown);
    json_decref(ring);
}

/* A learner on the board's machine reaches the board over loopback, and is no rank at 127.0.0.1 to another machine. */
static void the_boards_machine_has_the_address_that_others_see(void **state)
{
    (void)state;
    json_t *ring = opened(2);
    assert_there(ask(ring, 'a', &here, 100), 1);
    assert_rank(ask(ring, 'b', &there, 100), 1, "10.0.0.2:2097", "10.0.0.7:2098");
    json_decref(ring);
}

static void who_leaves_or_is_silent_is_not_waited_with(void **state)
{
    (void)state;
    json_t *ring = opened(3);
    assert_there(ask(ring, 'a', &here, 100), 1);
    assert_there(ask(ring, 'b', &here, 100 + RING_SILENCE_SECONDS), 2);
    assert_there(ask(ring, 'b', &here, 101 + RING_SILENCE_SECONDS), 1);
    assert_there(ask_with(ring, 'b', &here, 102 + RING_SILENCE_SECONDS, true), 0);
    json_decref(ring);
}

static const char *sentence(const char *request, bool open)
{
    static char why[1200];
    json_t *ring = open ? opened(2) : NULL, *reply = NULL, *sent = json_loads(request, 0, NULL);
    const char *said = ring_take(ring, sent, &here, 100, &reply, why);
    json_decref(sent);
    json_decref(reply);
    json_decref(ring);
    return said;
}

#define TICKET "\"ticket\": \"00112233445566778899aabbccddeeff\""
static void bad_requests_are_refused(void **state)
{
    (void)state;
    assert_string_equal(sentence("[]", true), "a learner's name has 1 to 40 bytes");
    assert_string_equal(sentence("{\"learner\": \"a\"}", true), "a ticket has 32 characters");
    assert_string_equal(sentence("{\"learner\": \"a\", " TICKET ", \"port\": 0}", true),
                        "a port is a number from 1 to 65535");
    assert_string_equal(sentence("{\"learner\": \"a\", " TICKET ", \"port\": 1}", false),
                        "no ring is open: wait until the instructor opens one");
    assert_string_equal(sentence("{\"learner\": \"a\", " TICKET ", \"port\": 1, \"command\": \"gpt\"}", true),
                        "all learners of the ring run the same: !kolo-board ring cnn_mnist --epochs 2");
}

static const char *open_with(const char *wanted)
{
    json_t *ring = NULL, *value = json_loads(wanted, 0, NULL);
    const char *why = ring_open(&ring, value);
    json_decref(value);
    json_decref(ring);
    return why;
}

static void bad_rings_are_refused(void **state)
{
    (void)state;
    assert_string_equal(open_with("[]"), "a ring has 2 to 64 learners");
    assert_string_equal(open_with("{\"size\": 65, \"command\": \"a\"}"), "a ring has 2 to 64 learners");
    assert_string_equal(open_with("{\"size\": 2}"), "a ring's command has 1 to 1000 bytes");
    assert_non_null(strstr(open_with("{\"size\": 2, \"command\": \"a; b\"}"), "only letters, digits, spaces"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_each_and_the_same_list),
        cmocka_unit_test(others_form_the_next_ring),
        cmocka_unit_test(the_boards_machine_has_the_address_that_others_see),
        cmocka_unit_test(who_leaves_or_is_silent_is_not_waited_with),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(bad_rings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
