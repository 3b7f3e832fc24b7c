#define _GNU_SOURCE
#include "debug/adapter.h"
#include "cells/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct waiting_event {
    struct waiting_event *next;
    json_t *event;
} waiting_event;

struct adapter {
    int socket;
    adapter_event deliver;
    void *closure;
    pthread_t reader, deliverer;
    pthread_mutex_t lock, sending;
    pthread_cond_t news;
    json_int_t sequence;
    json_t *responses; /* that nobody has taken yet, by the request's number */
    waiting_event *first, **last;
    bool frozen, froze; /* stop events are ours; one has come */
    json_int_t thread;  /* of the last stop */
    atomic_bool gone;
};

static bool read_exactly(int socket, char *into, size_t size)
{
    while (size) {
        ssize_t got = recv(socket, into, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        into += got;
        size -= (size_t)got;
    }
    return true;
}

/* "Content-Length: 123", other fields, an empty line; then that many bytes. NULL when the other side has gone. */
static json_t *read_message(int socket)
{
    char head[1024];
    size_t used = 0;
    while (used < sizeof head - 1) {
        if (!read_exactly(socket, head + used, 1)) return NULL;
        head[++used] = 0;
        if (used >= 4 && !strcmp(head + used - 4, "\r\n\r\n")) break;
    }
    const char *field = strstr(head, "Content-Length:");
    size_t size = field ? strtoul(field + strlen("Content-Length:"), NULL, 10) : 0;
    if (!size || size > (256u << 20)) return NULL;
    char *body = need(malloc(size));
    json_t *message = read_exactly(socket, body, size) ? json_loadb(body, size, JSON_ALLOW_NUL, NULL) : NULL;
    free(body);
    return message ? message : json_object();
}

/* A stop or a continuation of ours is nobody else's. */
static bool ours(adapter *a, const char *event)
{
    if (!a->frozen) return false;
    if (!strcmp(event, "stopped")) a->froze = true;
    return !strcmp(event, "stopped") || !strcmp(event, "continued");
}

static void take_event(adapter *a, json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    if (!name || !strcmp(name, "output") || ours(a, name)) return;
    json_int_t thread = json_integer_value(json_object_get(json_object_get(event, "body"), "threadId"));
    if (!strcmp(name, "stopped") && thread) a->thread = thread;
    waiting_event *w = need_zeroed(sizeof *w);
    w->event = json_incref(event);
    *a->last = w;
    a->last = &w->next;
}

static void take_response(adapter *a, json_t *response)
{
    char key[32];
    snprintf(key, sizeof key, "%lld", (long long)json_integer_value(json_object_get(response, "request_seq")));
    if (json_object_get(a->responses, key)) json_object_set(a->responses, key, response); /* it is awaited */
}

static void *read_all(void *closure)
{
    adapter *a = closure;
    for (json_t *message; (message = read_message(a->socket));) {
        const char *type = json_string_value(json_object_get(message, "type"));
        pthread_mutex_lock(&a->lock);
        if (type && !strcmp(type, "response")) take_response(a, message);
        if (type && !strcmp(type, "event")) take_event(a, message);
        json_decref(message); /* with the lock: jansson reads the count of references without an atomic operation */
        pthread_cond_broadcast(&a->news);
        pthread_mutex_unlock(&a->lock);
    }
    pthread_mutex_lock(&a->lock);
    a->gone = true;
    pthread_cond_broadcast(&a->news);
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void *deliver_all(void *closure)
{
    adapter *a = closure;
    pthread_mutex_lock(&a->lock);
    while (!a->gone) {
        waiting_event *w = a->first;
        if (!w) {
            pthread_cond_wait(&a->news, &a->lock);
            continue;
        }
        a->first = w->next;
        if (!a->first) a->last = &a->first;
        pthread_mutex_unlock(&a->lock);
        a->deliver(a->closure, a, w->event);
        json_decref(w->event);
        free(w);
        pthread_mutex_lock(&a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static void adapter_free(adapter *a)
{
    for (waiting_event *w = a->first, *next; w; w = next) {
        next = w->next;
        json_decref(w->event);
        free(w);
    }
    json_decref(a->responses);
    pthread_cond_destroy(&a->news);
    pthread_mutex_destroy(&a->lock);
    pthread_mutex_destroy(&a->sending);
    close(a->socket);
    free(a);
}

adapter *adapter_open(int socket, adapter_event deliver, void *closure)
{
    adapter *a = need_zeroed(sizeof *a);
    *a = (adapter){.socket = socket, .deliver = deliver, .closure = closure, .responses = json_object()};
    a->last = &a->first;
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->sending, NULL);
    pthread_cond_init(&a->news, NULL);
    if (pthread_create(&a->reader, NULL, read_all, a)) {
        adapter_free(a);
        return NULL;
    }
    if (pthread_create(&a->deliverer, NULL, deliver_all, a)) {
        shutdown(socket, SHUT_RDWR);
        pthread_join(a->reader, NULL);
        adapter_free(a);
        return NULL;
    }
    return a;
}

void adapter_close(adapter *a)
{
    if (!a) return;
    a->gone = true;
    shutdown(a->socket, SHUT_RDWR);
    pthread_join(a->reader, NULL);
    pthread_join(a->deliverer, NULL);
    adapter_free(a);
}

bool adapter_gone(const adapter *a)
{
    return a->gone;
}

static bool send_all(adapter *a, const char *bytes, size_t size)
{
    while (size) {
        ssize_t sent = send(a->socket, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool send_request(adapter *a, json_int_t number, const char *command, json_t *arguments)
{
    json_t *request = json_pack("{s:I, s:s, s:s, s:o}", "seq", number, "type", "request", "command", command,
                                "arguments", arguments ? arguments : json_object());
    char *body = request ? json_dumps(request, JSON_COMPACT) : NULL;
    char *head = body ? format_text("Content-Length: %zu\r\n\r\n", strlen(body)) : NULL;
    pthread_mutex_lock(&a->sending);
    bool sent = body && send_all(a, head, strlen(head)) && send_all(a, body, strlen(body));
    pthread_mutex_unlock(&a->sending);
    json_decref(request);
    free(body);
    free(head);
    return sent;
}

static struct timespec in_seconds(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    long nanoseconds = t.tv_nsec + (long)((seconds - (double)(long)seconds) * 1e9);
    return (struct timespec){t.tv_sec + (long)seconds + nanoseconds / 1000000000, nanoseconds % 1000000000};
}

json_t *adapter_ask(adapter *a, const char *command, json_t *arguments, double seconds)
{
    char key[32];
    struct timespec limit = in_seconds(seconds);
    pthread_mutex_lock(&a->lock);
    json_int_t number = ++a->sequence;
    snprintf(key, sizeof key, "%lld", (long long)number);
    json_object_set_new(a->responses, key, json_null());
    pthread_mutex_unlock(&a->lock);
    bool waits = send_request(a, number, command, arguments) && !a->gone;
    pthread_mutex_lock(&a->lock);
    while (waits && !a->gone && json_is_null(json_object_get(a->responses, key)))
        waits = pthread_cond_timedwait(&a->news, &a->lock, &limit) == 0;
    json_t *response = json_incref(json_object_get(a->responses, key));
    json_object_del(a->responses, key);
    bool answered = json_is_object(response);
    if (!answered) a->gone = true; /* nobody is to wait for it again */
    pthread_cond_broadcast(&a->news);
    pthread_mutex_unlock(&a->lock);
    if (answered) return response;
    shutdown(a->socket, SHUT_RDWR);
    json_decref(response);
    return NULL;
}

/* Waits for our stop; lock held. */
static bool await_stop(adapter *a, double seconds)
{
    struct timespec limit = in_seconds(seconds);
    bool waits = true;
    while (waits && !a->froze && !a->gone) waits = pthread_cond_timedwait(&a->news, &a->lock, &limit) == 0;
    return a->froze;
}

/* A process that has only just been let go may miss the first call. */
bool adapter_freeze(adapter *a)
{
    pthread_mutex_lock(&a->lock);
    a->frozen = true;
    a->froze = false;
    json_int_t thread = a->thread;
    for (int i = 0; i < 5 && !a->froze && !a->gone; i++) {
        pthread_mutex_unlock(&a->lock);
        json_decref(adapter_ask(a, "pause", json_pack("{s:I}", "threadId", thread), 3));
        pthread_mutex_lock(&a->lock);
        await_stop(a, 0.6);
    }
    bool froze = a->froze;
    if (!froze) a->frozen = false;
    pthread_mutex_unlock(&a->lock);
    return froze;
}

void adapter_thaw(adapter *a)
{
    json_decref(adapter_ask(a, "continue", json_pack("{s:I}", "threadId", a->thread), 3));
    pthread_mutex_lock(&a->lock);
    a->frozen = false;
    pthread_mutex_unlock(&a->lock);
}
