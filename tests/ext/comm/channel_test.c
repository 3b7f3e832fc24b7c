/* zmq.c: requests and replies between two ends, and an end that goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "comm/channel.h"
#include "core/plugin.h"

/* The thread sanitizer calls it: libzmq is not built with the sanitizer, which does not see how its threads agree. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "ignore_noninstrumented_modules=1";
}

static const double LONG = 60; /* seconds; what is expected comes at once */

typedef struct ends {
    const kolo_channel_kind *kind;
    kolo_channel *server, *client;
} ends;

static ends open_ends(void)
{
    const char *why;
    char address[KOLO_CHANNEL_ADDRESS];
    const kolo_plugin *plugin = kolo_plugin_load("zmq", &why);
    assert_non_null(plugin);
    ends made = {.kind = plugin->channels};
    assert_int_equal(made.kind->listen(true, &made.server, address), KOLO_OK);
    assert_int_equal(made.kind->connect(address, &made.client), KOLO_OK);
    return made;
}

static void send_text(const ends *e, kolo_channel *from, const char *text)
{
    kolo_channel_part parts[] = {{text, strlen(text)}, {"", 1}};
    assert_int_equal(e->kind->send(from, parts, 2), KOLO_OK);
}

static void expect_text(const ends *e, kolo_channel *at, const char *text)
{
    const void *data;
    size_t bytes;
    assert_int_equal(e->kind->receive(at, LONG, &data, &bytes), KOLO_OK);
    assert_int_equal(bytes, strlen(text) + 1);
    assert_string_equal(data, text);
}

static void expect_failure(kolo_status status, const char *why)
{
    assert_int_equal(status, KOLO_COMM);
    assert_non_null(strstr(kolo_failure_take().text, why));
}

static kolo_status receive(const ends *e, kolo_channel *at)
{
    const void *data;
    size_t bytes;
    return e->kind->receive(at, LONG, &data, &bytes);
}

static void close_ends(ends *e)
{
    e->kind->close(&e->client);
    e->kind->close(&e->server);
}

static void requests_get_replies(void **state)
{
    (void)state;
    ends e = open_ends();
    for (int i = 0; i < 3; i++) {
        send_text(&e, e.client, "request");
        expect_text(&e, e.server, "request");
        send_text(&e, e.server, "reply");
        expect_text(&e, e.client, "reply");
    }
    close_ends(&e);
}

/* Each call fails, not only the first. */
static void a_client_notices_each_time_that_its_server_is_gone(void **state)
{
    (void)state;
    ends e = open_ends();
    kolo_channel_part part = {"more", 5};
    send_text(&e, e.client, "request");
    expect_text(&e, e.server, "request");
    e.kind->close(&e.server);
    expect_failure(receive(&e, e.client), "the process at the other end is gone");
    expect_failure(receive(&e, e.client), "the process at the other end is gone");
    expect_failure(e.kind->send(e.client, &part, 1), "the process at the other end is gone");
    expect_failure(e.kind->send(e.client, &part, 1), "the process at the other end is gone");
    close_ends(&e);
}

static void a_server_notices_each_time_that_its_client_is_gone(void **state)
{
    (void)state;
    ends e = open_ends();
    send_text(&e, e.client, "request");
    expect_text(&e, e.server, "request");
    send_text(&e, e.server, "reply");
    expect_text(&e, e.client, "reply");
    e.kind->close(&e.client);
    expect_failure(receive(&e, e.server), "the process at the other end is gone");
    expect_failure(receive(&e, e.server), "the process at the other end is gone");
    close_ends(&e);
}

static void an_interrupted_end_receives_no_more(void **state)
{
    (void)state;
    ends e = open_ends();
    e.kind->interrupt(e.server);
    expect_failure(receive(&e, e.server), "interrupted");
    expect_failure(receive(&e, e.server), "interrupted");
    close_ends(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_get_replies),
                                       cmocka_unit_test(a_client_notices_each_time_that_its_server_is_gone),
                                       cmocka_unit_test(a_server_notices_each_time_that_its_client_is_gone),
                                       cmocka_unit_test(an_interrupted_end_receives_no_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
