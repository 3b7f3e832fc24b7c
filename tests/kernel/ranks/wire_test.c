/* Messages between the kernel and its ranks: one that is cut or of another version says so. */
#include "ranks/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <zmq.h>

static void *context, *kernel, *rank;

static int open_sockets(void **state)
{
    (void)state;
    context = zmq_ctx_new();
    kernel = zmq_socket(context, ZMQ_ROUTER);
    rank = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(rank, ZMQ_ROUTING_ID, "token:3", 7);
    return zmq_bind(kernel, "inproc://ranks") | zmq_connect(rank, "inproc://ranks");
}

static int close_sockets(void **state)
{
    (void)state;
    zmq_close(kernel);
    zmq_close(rank);
    return zmq_ctx_term(context);
}

static void a_message_arrives_whole(void **state)
{
    (void)state;
    char from[RANK_NAME];
    rank_message l;
    assert_false(rank_message_take(kernel, from, &l));
    assert_true(rank_message_send(rank, NULL, &(message){.kind = RANK_DONE, .code = 4}, "ab", 3, "object", 6));
    assert_true(rank_message_take(kernel, from, &l));
    assert_null(l.problem);
    assert_string_equal(from, "token:3");
    assert_int_equal(l.head.code, 4);
    assert_string_equal(l.payload, "ab");
    assert_int_equal(l.object_size, 6);
    rank_message_free(&l);
}

static void send_parts(const message *head, size_t head_size, const char *payload, size_t size)
{
    assert_true(zmq_send(rank, head, head_size, payload ? ZMQ_SNDMORE : 0) >= 0);
    if (payload) assert_true(zmq_send(rank, payload, size, 0) >= 0);
}

static void take_problem(const char *part)
{
    char from[RANK_NAME];
    rank_message l;
    assert_true(rank_message_take(kernel, from, &l));
    assert_string_equal(from, "token:3");
    assert_non_null(l.problem);
    assert_non_null(strstr(l.problem, part));
    rank_message_free(&l);
}

static void a_cut_or_foreign_message_says_so(void **state)
{
    (void)state;
    message head = {.kind = RANK_DONE, .version = PROTOCOL_VERSION, .length = 5};
    send_parts(&head, sizeof head, "ab", 3);
    take_problem("cut");
    send_parts(&head, 4, "ab", 3);
    take_problem("cut");
    send_parts(&head, sizeof head, NULL, 0);
    take_problem("cut");
    send_parts(&head, sizeof head - 8, "abcd", 5);
    take_problem("another version");
    head.version++;
    send_parts(&head, sizeof head, "abcd", 5);
    take_problem("another version");
}

static void a_message_to_nobody_is_not_sent(void **state)
{
    (void)state;
    int yes = 1;
    zmq_setsockopt(kernel, ZMQ_ROUTER_MANDATORY, &yes, sizeof yes);
    assert_false(rank_message_send(kernel, "token:9", &(message){.kind = RANK_RUN}, "", 1, NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_arrives_whole, open_sockets, close_sockets),
        cmocka_unit_test_setup_teardown(a_cut_or_foreign_message_says_so, open_sockets, close_sockets),
        cmocka_unit_test_setup_teardown(a_message_to_nobody_is_not_sent, open_sockets, close_sockets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
