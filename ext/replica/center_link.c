/* See center_link.h. */
#define _GNU_SOURCE /* pthread_cond_clockwait */
#include "replica/center_link.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/call.h"
#include "comm/channel.h"
#include "core/plugin.h"
#include "core/signals.h"
#include "runtime/fault.h"

#define HELLO_SECONDS 60 /* for a rank to answer after all have agreed to connect */

/* A request is this header and the arrays that `kind` names; a reply a status and what was asked for. */
typedef enum request_kind { HELLO = 1, NEXT, EXCHANGE, HEAR } request_kind;

typedef struct request {
    request_kind kind;
    int64_t number; /* NEXT: the epoch; HEAR: of the news */
    double samples; /* EXCHANGE: of the gradient */
    bool reports;   /* NEXT, EXCHANGE: `totals` are those of a batch */
    kolo_totals totals;
} request;

typedef struct reply {
    kolo_status status;
    bool again;     /* the centre is there, but others have to come first: ask again */
    char why[200]; /* the sentence of a failure */
    kolo_task task; /* NEXT */
} reply;

typedef struct news {
    int64_t number;
    void *data;
    size_t bytes;
    struct news *next;
} news;

/* A worker of another rank, on rank 0. */
typedef struct client {
    kolo_center_server *server;
    kolo_channel *channel;
    pthread_t thread;
    bool started;
    int worker;
    bool hears;    /* it is the one of its rank that hears news */
    int64_t heard; /* the number of the news that it heard last */
    bool gone;
    float *weights, *start, *gradient; /* [count], what it offers */
    int64_t epoch;
} client;

struct kolo_center_server {
    const kolo_channel_kind *channels;
    kolo_link_args args;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* news, or a client has heard them, or is gone */
    news *first;
    int64_t told; /* the number of the newest news */
    bool failed;
    double patience; /* seconds that a request may wait for others before it is answered; 0: no limit */
    int count;
    client *clients; /* [count] */
};

struct kolo_center_link {
    const kolo_channel_kind *channels;
    kolo_link_args args;
    kolo_channel *channel;
    int worker;
    double limit; /* seconds that an answer may take; 0: none */
    bool reports;
    kolo_totals totals;
};

/* ---------------------------------------------------------------- news on rank 0 */

kolo_status kolo_center_server_tell(kolo_center_server *server, int64_t number, const void *data, size_t bytes)
{
    news *added = calloc(1, sizeof *added);
    void *copy = malloc(bytes);
    if (!added || !copy) {
        free(added);
        free(copy);
        return kolo_fail_memory(bytes, "news for other ranks");
    }
    memcpy(copy, data, bytes);
    pthread_mutex_lock(&server->lock);
    *added = (news){number, copy, bytes, server->first};
    server->first = added;
    server->told = number;
    server->failed = false;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    return KOLO_OK;
}

void kolo_center_server_fail(kolo_center_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->failed = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
}

/* Whether everybody who is left has heard the news with this number. With the lock held. */
static bool all_heard(const kolo_center_server *server, int64_t number)
{
    for (int i = 0; i < server->count; i++) {
        const client *c = &server->clients[i];
        if (c->started && c->hears && !c->gone && c->heard < number) return false;
    }
    return true;
}

/* Frees news that all have heard. With the lock held. */
static void forget_news(kolo_center_server *server)
{
    for (news **at = &server->first; *at;) {
        news *old = *at;
        if (!all_heard(server, old->number)) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        free(old->data);
        free(old);
    }
}

static const news *find_news(const kolo_center_server *server, int64_t number)
{
    const news *found = server->first;
    while (found && found->number != number) found = found->next;
    return found;
}

static kolo_status send_reply(client *c, const reply *answer, const void *data, size_t bytes)
{
    const kolo_channel_part parts[] = {{answer, sizeof *answer}, {data, bytes}};
    if (kolo_next_fate() != KOLO_FATE_ARRIVES) return KOLO_OK; /* it is lost */
    return c->server->channels->send(c->channel, parts, 2);
}

/* Waits until the news are told, or the server's patience is over, or the epoch has failed. With the lock held. */
static void wait_for_news(kolo_center_server *server, int64_t number)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 1 + (time_t)server->patience;
    for (int late = 0; !late && server->told < number && !server->failed;)
        late = server->patience > 0 ? pthread_cond_clockwait(&server->changed, &server->lock, CLOCK_MONOTONIC, &until)
                                    : pthread_cond_wait(&server->changed, &server->lock);
}

/* Waits for news, and sends them. */
static kolo_status answer_hear(client *c, const request *r)
{
    kolo_center_server *server = c->server;
    pthread_mutex_lock(&server->lock);
    wait_for_news(server, r->number);
    const news *found = find_news(server, r->number); /* it stays until this client has heard it */
    bool again = !found && !server->failed;
    pthread_mutex_unlock(&server->lock);
    reply answer = {.status = found || again ? KOLO_OK : KOLO_COMM, .again = again};
    kolo_status status = send_reply(c, &answer, found ? found->data : NULL, found ? found->bytes : 0);
    pthread_mutex_lock(&server->lock);
    if (found) c->heard = r->number;
    forget_news(server);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    return status;
}

/* ---------------------------------------------------------------- a client's thread on rank 0 */

/* Moves a failure of the centre to the reply, for the worker's own rank to report. */
static void tell_why(reply *answer)
{
    if (answer->status == KOLO_OK) return;
    kolo_failure failure = kolo_failure_take();
    snprintf(answer->why, sizeof answer->why, "%.190s", failure.text);
}

static kolo_status answer_next(client *c, const request *r)
{
    reply answer = {0};
    c->epoch = r->number;
    answer.status = kolo_center_next(c->server->args.center, c->worker, r->number, c->server->patience, &answer.task);
    answer.again = answer.task.kind == KOLO_TASK_WAIT;
    tell_why(&answer);
    return send_reply(c, &answer, NULL, 0);
}

/* Takes the arrays from behind the header. False: the message is too short. */
static bool take_offer(client *c, const char *data, size_t bytes)
{
    const kolo_strategy_kind *kind = c->server->args.kind;
    size_t each = (size_t)c->server->args.count * sizeof(float);
    if (bytes != each * (1 + (size_t)kind->writes_start + (size_t)kind->updates_center)) return false;
    memcpy(c->weights, data, each);
    if (kind->writes_start) memcpy(c->start, data + each, each);
    if (kind->updates_center) memcpy(c->gradient, data + bytes - each, each);
    return true;
}

static kolo_status answer_exchange(client *c, const request *r, const char *data, size_t bytes)
{
    const kolo_link_args *args = &c->server->args;
    if (!take_offer(c, data, bytes)) return kolo_fail(KOLO_COMM, "a worker sent %zu bytes of weights", bytes);
    const kolo_offer offer = {.weights = c->weights,
                              .start = args->kind->writes_start ? c->start : NULL,
                              .gradient = c->gradient,
                              .samples = r->samples};
    bool done = true;
    reply answer = {.status = kolo_center_exchange(args->center, c->worker, &offer, c->server->patience, &done)};
    answer.again = answer.status == KOLO_OK && !done;
    tell_why(&answer);
    return send_reply(c, &answer, c->weights, (size_t)args->count * sizeof(float));
}

static kolo_status answer(client *c, const char *data, size_t bytes)
{
    request r;
    if (bytes < sizeof r) return kolo_fail(KOLO_COMM, "a worker sent a request of %zu bytes", bytes);
    memcpy(&r, data, sizeof r);
    if (r.reports) kolo_center_report(c->server->args.center, c->worker, c->epoch, &r.totals);
    switch (r.kind) {
    case HELLO: return send_reply(c, &(reply){0}, NULL, 0);
    case NEXT: return answer_next(c, &r);
    case EXCHANGE: return answer_exchange(c, &r, data + sizeof r, bytes - sizeof r);
    case HEAR: return answer_hear(c, &r);
    }
    return kolo_fail(KOLO_COMM, "a worker sent a request of kind %d", (int)r.kind);
}

static void lose(client *c)
{
    kolo_center_server *server = c->server;
    kolo_center_lose(server->args.center, c->worker);
    pthread_mutex_lock(&server->lock);
    c->gone = true;
    forget_news(server);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
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

/* ---------------------------------------------------------------- opening */

static const kolo_channel_kind *find_channels(void)
{
    const char *why;
    const kolo_plugin *plugin = kolo_plugin_load("zmq", &why);
    if (plugin && plugin->channels) return plugin->channels;
    kolo_fail(KOLO_UNSUPPORTED, "workers on several ranks need ZeroMQ: %s", plugin ? "it has no channels" : why);
    return NULL;
}

static kolo_status allocate_offer(client *c)
{
    const kolo_link_args *args = &c->server->args;
    size_t bytes = (size_t)args->count * sizeof(float);
    c->weights = malloc(bytes);
    c->start = args->kind->writes_start ? malloc(bytes) : NULL;
    c->gradient = args->kind->updates_center ? malloc(bytes) : NULL;
    bool lacks = !c->weights || (args->kind->writes_start && !c->start) || (args->kind->updates_center && !c->gradient);
    return lacks ? kolo_fail_memory(bytes, "the weights of a worker") : KOLO_OK;
}

static kolo_status open_server(const kolo_link_args *args, bool one_host, kolo_center_server **server,
                               char (*addresses)[KOLO_CHANNEL_ADDRESS])
{
    kolo_center_server *made = *server = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the centre's server");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    made->args = *args;
    made->patience = kolo_stall_limit() / 4;
    made->channels = find_channels();
    if (!made->channels) return KOLO_UNSUPPORTED;
    int count = (args->ranks->size - 1) * args->workers;
    made->clients = calloc((size_t)count, sizeof *made->clients);
    if (!made->clients) return kolo_fail_memory((size_t)count * sizeof *made->clients, "the centre's server");
    for (; made->count < count; made->count++) {
        client *c = &made->clients[made->count];
        *c = (client){.server = made, .worker = args->workers + made->count, .hears = made->count % args->workers == 0};
        KOLO_TRY(allocate_offer(c));
        KOLO_TRY(made->channels->listen(one_host, &c->channel, addresses[made->count]));
    }
    return KOLO_OK;
}

static kolo_status start_clients(kolo_center_server *server)
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
    return KOLO_OK;
}

static kolo_status lost_centre(const kolo_center_link *link, const char *why)
{
    return kolo_fail(KOLO_COMM, "worker %d has lost the centre on rank 0: %.800s", link->worker, why);
}

/* Sends the parts, and waits for the reply to them. */
static kolo_status send_and_wait(kolo_center_link *link, const kolo_channel_part *parts, int count, const void **data,
                                 size_t *bytes)
{
    kolo_fate fate = kolo_next_fate();
    if (fate == KOLO_FATE_CUT) return kolo_fail(KOLO_COMM, "its link is cut, as it was asked for");
    if (fate != KOLO_FATE_DROPPED) KOLO_TRY(link->channels->send(link->channel, parts, count));
    KOLO_TRY(link->channels->receive(link->channel, link->limit, data, bytes));
    return *bytes >= sizeof(reply) ? KOLO_OK : kolo_fail(KOLO_COMM, "a reply of %zu bytes", *bytes);
}

/* Sends a request until its reply is not "again". The reply's data are at *data. */
static kolo_status ask(kolo_center_link *link, request *header, const kolo_channel_part *arrays, int count,
                       reply *answer, const char **data, size_t *bytes)
{
    kolo_channel_part parts[4] = {{header, sizeof *header}};
    const void *received;
    for (int i = 0; i < count; i++) parts[i + 1] = arrays[i];
    do {
        if (send_and_wait(link, parts, count + 1, &received, bytes) != KOLO_OK) {
            kolo_failure why = kolo_failure_take();
            return lost_centre(link, why.text);
        }
        memcpy(answer, received, sizeof *answer);
        header->reports = false; /* once is enough */
    } while (answer->status == KOLO_OK && answer->again);
    *data = (const char *)received + sizeof *answer;
    *bytes -= sizeof *answer;
    if (answer->status == KOLO_OK) return KOLO_OK;
    return kolo_fail(answer->status, "%s", answer->why[0] ? answer->why : KOLO_COMM_CALLED_OFF);
}

static kolo_status open_link(const kolo_link_args *args, int number, const char *address, kolo_center_link **link)
{
    kolo_center_link *made = *link = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a link to the centre");
    made->args = *args;
    made->worker = args->ranks->rank * args->workers + number;
    made->channels = find_channels();
    if (!made->channels) return KOLO_UNSUPPORTED;
    KOLO_TRY(made->channels->connect(address, &made->channel));
    reply answer;
    const char *data;
    size_t bytes;
    made->limit = HELLO_SECONDS;
    KOLO_TRY(ask(made, &(request){.kind = HELLO}, NULL, 0, &answer, &data, &bytes));
    made->limit = kolo_stall_limit();
    return KOLO_OK;
}

static kolo_status open_links(const kolo_link_args *args, char (*addresses)[KOLO_CHANNEL_ADDRESS],
                              kolo_center_link ***links)
{
    *links = calloc((size_t)args->workers, sizeof **links);
    if (!*links) return kolo_fail_memory((size_t)args->workers * sizeof **links, "links to the centre");
    for (int i = 0; i < args->workers; i++) {
        int number = (args->ranks->rank - 1) * args->workers + i;
        KOLO_TRY(open_link(args, i, addresses[number], &(*links)[i]));
    }
    return KOLO_OK;
}

/* Fails on all ranks if it failed on one. */
static kolo_status agree(kolo_comm *ranks, kolo_status status)
{
    double failures = status != KOLO_OK;
    KOLO_TRY(ranks->kind->allreduce(ranks, &failures, 1, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM));
    if (status != KOLO_OK || failures == 0) return status;
    return kolo_fail(KOLO_COMM, "another rank could not open its workers");
}

static kolo_status link_all(const kolo_link_args *args, char (*addresses)[KOLO_CHANNEL_ADDRESS], size_t bytes,
                            kolo_center_server **server, kolo_center_link ***links)
{
    kolo_comm *ranks = args->ranks;
    bool one_host = kolo_cross_size() == 1;
    kolo_status status = ranks->rank == 0 ? open_server(args, one_host, server, addresses) : KOLO_OK;
    KOLO_TRY(agree(ranks, status));
    KOLO_TRY(ranks->kind->broadcast(ranks, addresses, bytes, 0));
    status = ranks->rank == 0 ? start_clients(*server) : open_links(args, addresses, links);
    return agree(ranks, status);
}

kolo_status kolo_center_link_open(const kolo_link_args *args, kolo_center_server **server, kolo_center_link ***links)
{
    size_t bytes = (size_t)(args->ranks->size - 1) * (size_t)args->workers * KOLO_CHANNEL_ADDRESS;
    char(*addresses)[KOLO_CHANNEL_ADDRESS] = calloc(1, bytes);
    kolo_status status = addresses ? KOLO_OK : kolo_fail_memory(bytes, "the addresses of the centre");
    status = agree(args->ranks, status);
    if (status == KOLO_OK) status = link_all(args, addresses, bytes, server, links);
    free(addresses);
    return status;
}

/* ---------------------------------------------------------------- closing */

static void wait_until_heard(kolo_center_server *server)
{
    pthread_mutex_lock(&server->lock);
    while (!server->failed && !all_heard(server, server->told)) pthread_cond_wait(&server->changed, &server->lock);
    pthread_mutex_unlock(&server->lock);
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
}

void kolo_center_server_close(kolo_center_server **server)
{
    kolo_center_server *closed = *server;
    *server = NULL;
    if (!closed) return;
    wait_until_heard(closed);
    kolo_center_fail(closed->args.center); /* threads that wait in the centre for others end */
    kolo_center_server_fail(closed);
    for (int i = 0; i < closed->count; i++) close_client(&closed->clients[i]);
    forget_news(closed); /* all clients are gone */
    free(closed->clients);
    pthread_cond_destroy(&closed->changed);
    pthread_mutex_destroy(&closed->lock);
    free(closed);
}

void kolo_center_link_close(kolo_center_link **link)
{
    kolo_center_link *closed = *link;
    *link = NULL;
    if (!closed) return;
    if (closed->channel) closed->channels->close(&closed->channel);
    free(closed);
}

/* ---------------------------------------------------------------- a worker's calls */

static request make_request(kolo_center_link *link, request_kind kind)
{
    request made = {.kind = kind, .reports = link->reports, .totals = link->totals};
    link->reports = false;
    return made;
}

void kolo_center_link_report(kolo_center_link *link, const kolo_totals *totals)
{
    link->totals = *totals;
    link->reports = true;
}

kolo_status kolo_center_link_next(kolo_center_link *link, int64_t epoch, kolo_task *task)
{
    request header = make_request(link, NEXT);
    reply answer;
    const char *data;
    size_t bytes;
    header.number = epoch;
    KOLO_TRY(ask(link, &header, NULL, 0, &answer, &data, &bytes));
    *task = answer.task;
    return KOLO_OK;
}

kolo_status kolo_center_link_exchange(kolo_center_link *link, const kolo_offer *offer)
{
    size_t each = (size_t)link->args.count * sizeof(float), bytes;
    kolo_channel_part arrays[3] = {{offer->weights, each}};
    request header = make_request(link, EXCHANGE);
    reply answer;
    const char *data;
    int count = 1;
    header.samples = offer->samples;
    if (link->args.kind->writes_start) arrays[count++] = (kolo_channel_part){offer->start, each};
    if (link->args.kind->updates_center) arrays[count++] = (kolo_channel_part){offer->gradient, each};
    KOLO_TRY(ask(link, &header, arrays, count, &answer, &data, &bytes));
    if (bytes != each) return kolo_fail(KOLO_COMM, "the centre sent %zu bytes of weights, wanted %zu", bytes, each);
    memcpy(offer->weights, data, each);
    return KOLO_OK;
}

void kolo_center_link_interrupt(kolo_center_link *link)
{
    if (link && link->channel) link->channels->interrupt(link->channel);
}

kolo_status kolo_center_link_hear(kolo_center_link *link, int64_t number, void *data, size_t bytes)
{
    request header = make_request(link, HEAR);
    reply answer;
    const char *received;
    size_t got;
    header.number = number;
    KOLO_TRY(ask(link, &header, NULL, 0, &answer, &received, &got));
    if (got != bytes) return kolo_fail(KOLO_COMM, "rank 0 told %zu bytes, wanted %zu", got, bytes);
    memcpy(data, received, bytes);
    return KOLO_OK;
}
