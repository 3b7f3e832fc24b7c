/* The requests and events between the debugger and lldb-dap, which a thread plays here. `make tsan` runs it too: what
 * the adapter's threads share is read by others while it changes. */
#define _GNU_SOURCE
#include "debug/adapter.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int ends[2];
static atomic_int events;

static void on_event(void *closure, adapter *from, json_t *event)
{
    (void)closure;
    (void)from;
    if (!strcmp(json_string_value(json_object_get(event, "event")), "initialized")) events++;
}

static void write_message(json_t *message)
{
    char *body = json_dumps(message, JSON_COMPACT);
    assert_true(dprintf(ends[1], "Content-Length: %zu\r\n\r\n%s", strlen(body), body) > 0);
    free(body);
    json_decref(message);
}

/* Reads one request, and returns its number. */
static json_int_t read_request(void)
{
    char head[64] = "", body[4096];
    for (size_t used = 0; used < sizeof head - 1 && !strstr(head, "\r\n\r\n"); used++) {
        if (recv(ends[1], head + used, 1, 0) != 1) return 0;
    }
    size_t size = strtoul(head + strlen("Content-Length: "), NULL, 10);
    if (size > sizeof body || recv(ends[1], body, size, MSG_WAITALL) != (ssize_t)size) return 0;
    json_t *request = json_loadb(body, size, 0, NULL);
    json_int_t number = json_integer_value(json_object_get(request, "seq"));
    json_decref(request);
    return number;
}

/* Answers one request after an event, and hangs up at the next. */
static void *play(void *unused)
{
    json_int_t number = read_request();
    write_message(json_pack("{s:s, s:s}", "type", "event", "event", "initialized"));
    write_message(json_pack("{s:s, s:I, s:b}", "type", "response", "request_seq", number, "success", 1));
    read_request();
    shutdown(ends[1], SHUT_RDWR);
    return unused;
}

static void an_answer_an_event_and_an_end(void **state)
{
    (void)state;
    pthread_t player;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(pthread_create(&player, NULL, play, NULL), 0);
    adapter *a = adapter_open(ends[0], on_event, NULL);
    assert_non_null(a);
    json_t *response = adapter_ask(a, "initialize", NULL, 100);
    assert_true(json_is_true(json_object_get(response, "success")));
    json_decref(response);
    while (!events) usleep(1000);
    assert_false(adapter_gone(a));
    assert_null(adapter_ask(a, "threads", NULL, 100));
    while (!adapter_gone(a)) usleep(1000);
    assert_null(adapter_ask(a, "threads", NULL, 100));
    pthread_join(player, NULL);
    adapter_close(a);
    close(ends[1]);
}

static void the_end_is_seen_by_a_thread_that_only_looks(void **state)
{
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    adapter *a = adapter_open(ends[0], on_event, NULL);
    assert_non_null(a);
    shutdown(ends[1], SHUT_RDWR);
    while (!adapter_gone(a)) usleep(1000);
    adapter_close(a);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_an_event_and_an_end),
        cmocka_unit_test(the_end_is_seen_by_a_thread_that_only_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
