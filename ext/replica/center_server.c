/* See center_server.h. */
#include "replica/center_server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/call.h"
#include "core/signals.h"
#include "replica/center_message.h"
#include "replica/center_news.h"
#include "runtime/fault.h"

#define PART_SECONDS 1 /* that a request waits for its turn at a part before the worker asks the centre again */

/* A worker of another rank. */
typedef struct client {
    kolo_center_server *server;
    kolo_channel *channel;
    pthread_t thread;
    bool started;
    int worker;
    int listener; /* its number among those that hear news; -1: it is not the first of its rank */
    float *weights, *start, *gradient; /* [count], what it offers */
    char *bytes;                       /* of the largest part, for a GET */
    int64_t epoch;
} client;

struct kolo_center_server {
    const kolo_channel_kind *channels;
    kolo_server_args args;
    kolo_news *news;
    double patience; /* seconds that a request may wait for others before it is answered; 0: no limit */
    int count;
    client *clients; /* [count] */
};

/* ---------------------------------------------------------------- replies */

static kolo_status send_reply(client *c, const kolo_reply *answer, const kolo_channel_part *arrays)
{
    const kolo_channel_part parts[] = {{answer, sizeof *answer}, arrays ? *arrays : (kolo_channel_part){NULL, 0}};
    if (kolo_next_fate() != KOLO_FATE_ARRIVES) return KOLO_OK; /* it is lost */
    return c->server->channels->send(c->channel, parts, 2);
}

/* Moves a failure of the centre to the reply, for the worker's own rank to report. */
static void tell_why(kolo_reply *answer)
{
    if (answer->status == KOLO_OK) return;
    kolo_failure failure = kolo_failure_take();
    snprintf(answer->why, sizeof answer->why, "%.190s", failure.text);
}

static kolo_status answer_next(client *c, const kolo_request *r)
{
    kolo_reply answer = {0};
    c->epoch = r->number;
    answer.status = kolo_center_next(c->server->args.center, c->worker, r->number, c->server->patience, &answer.task);
    answer.again = answer.task.kind == KOLO_TASK_WAIT;
    tell_why(&answer);
    return send_reply(c, &answer, NULL);
}

static kolo_status answer_admit(client *c, const kolo_request *r)
{
    kolo_reply answer = {0};
    answer.status =
        kolo_center_admit(c->server->args.center, c->worker, r->samples, c->server->patience, &answer.admission);
    answer.again = answer.status == KOLO_OK && !answer.admission.done;
    tell_why(&answer);
    return send_reply(c, &answer, NULL);
}

static kolo_status answer_check(client *c)
{
    kolo_reply answer = {.status = kolo_center_check(c->server->args.center)};
    tell_why(&answer);
    return send_reply(c, &answer, NULL);
}

/* Takes a range of the arrays from behind the header. */
static kolo_status take_offer(client *c, const kolo_request *r, int64_t first, int64_t end, const char *data,
                              size_t bytes, kolo_offer *offer)
{
    const kolo_strategy_kind *kind = c->server->args.kind;
    size_t each = (size_t)(end - first) * sizeof(float), wanted = each * (size_t)kolo_offer_arrays(kind);
    if (bytes != wanted) return kolo_fail(KOLO_COMM, "a worker sent %zu bytes of weights, wanted %zu", bytes, wanted);
    memcpy(c->weights + first, data, each);
    if (kind->writes_start) memcpy(c->start + first, data + each, each);
    if (kind->updates_center) memcpy(c->gradient + first, data + bytes - each, each);
    *offer = (kolo_offer){.weights = c->weights,
                          .start = kind->writes_start ? c->start : NULL,
                          .gradient = c->gradient,
                          .samples = r->samples};
    return KOLO_OK;
}

static kolo_status answer_exchange(client *c, const kolo_request *r, const char *data, size_t bytes)
{
    const kolo_server_args *args = &c->server->args;
    kolo_offer offer;
    KOLO_TRY(take_offer(c, r, 0, args->count, data, bytes, &offer));
    bool done = true;
    kolo_reply answer = {.status = kolo_center_exchange(args->center, c->worker, &offer, c->server->patience, &done)};
    answer.again = answer.status == KOLO_OK && !done;
    tell_why(&answer);
    return send_reply(c, &answer, &(kolo_channel_part){c->weights, (size_t)args->count * sizeof(float)});
}

/* The range of a part that a request names, if it is kept here. */
static kolo_status find_range(const client *c, const kolo_request *r, kolo_part_range *range)
{
    const kolo_center_parts *parts = c->server->args.parts;
    const kolo_parts_args *args = parts ? kolo_center_parts_args(parts) : NULL;
    if (!args || r->part < args->first || r->part >= args->end)
        return kolo_fail(KOLO_COMM, "a worker wanted part %d of the weights, which is not here", r->part);
    *range = args->ranges[r->part];
    return KOLO_OK;
}

static kolo_status answer_part(client *c, const kolo_request *r, const char *data, size_t bytes)
{
    kolo_part_range range;
    kolo_offer offer;
    bool done;
    KOLO_TRY(find_range(c, r, &range));
    KOLO_TRY(take_offer(c, r, range.first, range.end, data, bytes, &offer));
    kolo_reply answer = {.status = kolo_center_parts_exchange(c->server->args.parts, r->part, &r->ticket, c->worker,
                                                              r->batches, &offer, PART_SECONDS, &done)};
    answer.again = answer.status == KOLO_OK && !done;
    tell_why(&answer);
    size_t each = (size_t)(range.end - range.first) * sizeof(float);
    return send_reply(c, &answer, &(kolo_channel_part){c->weights + range.first, each});
}

static kolo_status answer_get(client *c, const kolo_request *r)
{
    kolo_part_range range;
    KOLO_TRY(find_range(c, r, &range));
    kolo_center_parts *parts = c->server->args.parts;
    bool comes = kolo_center_parts_pack(parts, r->part, &r->ticket, PART_SECONDS, c->bytes);
    size_t bytes = comes ? kolo_center_parts_bytes(parts, r->part) : 0;
    return send_reply(c, &(kolo_reply){.again = !comes}, &(kolo_channel_part){c->bytes, bytes});
}

static kolo_status answer_hear(client *c, const kolo_request *r)
{
    kolo_center_server *server = c->server;
    kolo_channel_part found;
    bool goes_on = kolo_news_wait(server->news, r->number, server->patience, &found.data, &found.bytes);
    kolo_reply answer = {.status = goes_on ? KOLO_OK : KOLO_COMM, .again = goes_on && !found.data};
    return send_reply(c, &answer, &found);
}

/* A reply that was sent need not arrive if this end closes soon after, so the worker says when it has the news. */
static kolo_status answer_heard(client *c, const kolo_request *r)
{
    kolo_news_heard(c->server->news, c->listener, r->number);
    return send_reply(c, &(kolo_reply){0}, NULL);
}

static kolo_status answer_record(client *c, const char *data, size_t bytes)
{
    const kolo_server_args *args = &c->server->args;
    if (bytes != args->record_bytes)
        return kolo_fail(KOLO_COMM, "a worker sent a state of %zu bytes, wanted %zu", bytes, args->record_bytes);
    memcpy(args->records[c->worker], data, bytes);
    return send_reply(c, &(kolo_reply){0}, NULL);
}

static kolo_status answer(client *c, const char *data, size_t bytes)
{
    const kolo_server_args *args = &c->server->args;
    kolo_request r;
    if (bytes < sizeof r) return kolo_fail(KOLO_COMM, "a worker sent a request of %zu bytes", bytes);
    memcpy(&r, data, sizeof r);
    if (r.kind >= KOLO_REQUEST_NEXT && !args->center) return kolo_fail(KOLO_COMM, "the centre is not on this rank");
    if (r.reports && args->center) kolo_center_report(args->center, c->worker, c->epoch, &r.totals);
    if (r.exchanged && args->center) kolo_center_exchanged(args->center, c->worker);
    switch (r.kind) {
    case KOLO_REQUEST_HELLO: return send_reply(c, &(kolo_reply){0}, NULL);
    case KOLO_REQUEST_PART: return answer_part(c, &r, data + sizeof r, bytes - sizeof r);
    case KOLO_REQUEST_GET: return answer_get(c, &r);
    case KOLO_REQUEST_NEXT: return answer_next(c, &r);
    case KOLO_REQUEST_ADMIT: return answer_admit(c, &r);
    case KOLO_REQUEST_CHECK: return answer_check(c);
    case KOLO_REQUEST_EXCHANGE: return answer_exchange(c, &r, data + sizeof r, bytes - sizeof r);
    case KOLO_REQUEST_HEAR: return answer_hear(c, &r);
    case KOLO_REQUEST_HEARD: return answer_heard(c, &r);
    case KOLO_REQUEST_RECORD: return answer_record(c, data + sizeof r, bytes - sizeof r);
    }
    return kolo_fail(KOLO_COMM, "a worker sent a request of kind %d", (int)r.kind);
}

/* ---------------------------------------------------------------- a client's thread */

/* A rank without parts is a worker that the others go on without. */
static void lose(client *c)
{
    const kolo_server_args *args = &c->server->args;
    int rank = c->worker / args->workers;
    if (args->parts) kolo_center_parts_lose(args->parts, c->worker);
    if (args->center && args->keeps && args->keeps[rank]) kolo_center_lose_server(args->center, rank);
    else if (args->center) kolo_center_lose(args->center, c->worker);
    if (c->listener >= 0) kolo_news_leave(c->server->news, c->listener);
}

static void *serve(void *argument)
{
    client *c = argument;
    const void *data;
    size_t bytes;
    for (kolo_status status = KOLO_OK; status == KOLO_OK;) {
        status = c->server->channels->receive(c->channel, 0, &data, &bytes);
        if (status == KOLO_OK) status = answer(c, data, bytes);
    }
    kolo_failure_take();
    lose(c);
    return NULL;
}

/* Under kolorun --keep-going the others go on without a worker that does not come. Its thread then loses it. */
static bool give_up(void *owner, int worker, double limit)
{
    kolo_center_server *server = owner;
    int rank = worker / server->args.workers;
    for (int i = 0; i < server->count && getenv("KOLO_KEEP_GOING"); i++) {
        if (server->clients[i].worker != worker || (server->args.keeps && server->args.keeps[rank])) continue;
        kolo_warn("worker %d on rank %d has not come for %.0f s (KOLO_STALL_LIMIT): it is given up", worker, rank,
                  limit);
        server->channels->interrupt(server->clients[i].channel);
        return true;
    }
    return false;
}

/* ---------------------------------------------------------------- opening and closing */

static kolo_status allocate_offer(client *c)
{
    const kolo_server_args *args = &c->server->args;
    size_t bytes = (size_t)args->count * sizeof(float) + 1, most = 0;
    const kolo_parts_args *parts = args->parts ? kolo_center_parts_args(args->parts) : NULL;
    for (int i = parts ? parts->first : 0; parts && i < parts->end; i++)
        if (kolo_center_parts_bytes(args->parts, i) > most) most = kolo_center_parts_bytes(args->parts, i);
    c->weights = malloc(bytes);
    c->start = args->kind->writes_start ? malloc(bytes) : NULL;
    c->gradient = args->kind->updates_center ? malloc(bytes) : NULL;
    c->bytes = args->keeps ? malloc(most + 1) : NULL;
    bool lacks = !c->weights || (args->kind->writes_start && !c->start) ||
                 (args->kind->updates_center && !c->gradient) || (args->keeps && !c->bytes);
    return lacks ? kolo_fail_memory(bytes, "the weights of a worker") : KOLO_OK;
}

kolo_status kolo_center_server_open(const kolo_server_args *args, const kolo_channel_kind *channels, bool one_host,
                                    kolo_center_server **server, char (*addresses)[KOLO_CHANNEL_ADDRESS])
{
    kolo_center_server *made = *server = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the centre's server");
    made->args = *args;
    made->patience = kolo_stall_limit() / 4;
    made->channels = channels;
    int count = (args->ranks->size - 1) * args->workers;
    KOLO_TRY(kolo_news_open(args->ranks->size - 1, &made->news));
    made->clients = calloc((size_t)count, sizeof *made->clients);
    if (!made->clients) return kolo_fail_memory((size_t)count * sizeof *made->clients, "the centre's server");
    for (; made->count < count; made->count++) {
        int other = made->count / args->workers, own = made->count % args->workers;
        client *c = &made->clients[made->count];
        *c = (client){.server = made,
                      .worker = (other + (other >= args->root)) * args->workers + own,
                      .listener = own == 0 ? other : -1};
        KOLO_TRY(allocate_offer(c));
        KOLO_TRY(channels->listen(one_host, &c->channel, addresses[made->count]));
    }
    return KOLO_OK;
}

kolo_status kolo_center_server_start(kolo_center_server *server)
{
    for (int i = 0; i < server->count; i++) {
        sigset_t before;
        kolo_hold_signals(&before);
        server->clients[i].started = pthread_create(&server->clients[i].thread, NULL, serve, &server->clients[i]) == 0;
        kolo_release_signals(&before);
        if (!server->clients[i].started)
            return kolo_fail(KOLO_MEMORY, "cannot start a thread for worker %d: the system allows no more",
                             server->clients[i].worker);
    }
    if (server->args.center) kolo_center_may_give_up(server->args.center, give_up, server);
    return KOLO_OK;
}

static void close_client(client *c)
{
    const kolo_channel_kind *channels = c->server->channels;
    if (c->started) {
        channels->interrupt(c->channel);
        pthread_join(c->thread, NULL);
    }
    if (c->channel) channels->close(&c->channel);
    free(c->weights);
    free(c->start);
    free(c->gradient);
    free(c->bytes);
}

/* Listeners without a thread will hear nothing. */
static void leave_unstarted(kolo_center_server *server)
{
    for (int i = 0; i < server->args.ranks->size - 1; i++) {
        int first = i * server->args.workers;
        if (first >= server->count || !server->clients[first].started) kolo_news_leave(server->news, i);
    }
}

void kolo_center_server_close(kolo_center_server **server)
{
    kolo_center_server *closed = *server;
    *server = NULL;
    if (!closed) return;
    if (closed->news) leave_unstarted(closed);
    if (closed->news) kolo_news_wait_until_heard(closed->news, 0);
    /* Threads that wait for others end. */
    if (closed->args.center) kolo_center_may_give_up(closed->args.center, NULL, NULL);
    if (closed->args.center) kolo_center_fail(closed->args.center);
    if (closed->args.parts) kolo_center_parts_fail(closed->args.parts);
    if (closed->news) kolo_news_fail(closed->news);
    for (int i = 0; i < closed->count; i++) close_client(&closed->clients[i]);
    kolo_news_close(&closed->news);
    free(closed->clients);
    free(closed);
}

/* ---------------------------------------------------------------- news */

kolo_status kolo_center_server_tell(kolo_center_server *server, int64_t number, const void *data, size_t bytes)
{
    return kolo_news_tell(server->news, number, data, bytes);
}

void kolo_center_server_fail(kolo_center_server *server)
{
    kolo_news_fail(server->news);
}

kolo_status kolo_center_server_wait(kolo_center_server *server)
{
    double limit = kolo_stall_limit();
    if (kolo_news_wait_until_heard(server->news, limit)) return KOLO_OK;
    return kolo_fail(KOLO_COMM, "a rank has not asked for what the epoch gave for %g s (KOLO_STALL_LIMIT)", limit);
}
