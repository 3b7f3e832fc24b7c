/* See center_link.h. */
#include "replica/center_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/call.h"
#include "core/plugin.h"
#include "replica/center_message.h"
#include "runtime/fault.h"

/* For a rank to answer after all have agreed to connect; less than the stall limit, after which the others would tell
 * that this rank has not come. */
#define HELLO_SECONDS 30
#define HELLO_SHARE   0.75 /* of the stall limit */

#define DEATH_IS_NOTED 300000 /* microseconds */

struct kolo_center_link {
    const kolo_channel_kind *channels;
    kolo_server_args args;
    kolo_channel *channel;
    int worker;
    double limit; /* seconds that an answer may take; 0: none */
    bool reports, exchanged;
    kolo_totals totals;
};

/* ---------------------------------------------------------------- requests */

/* The links of a process that dies are closed before its launcher learns of its death. The launcher takes the rank that
 * ended first for the cause, and reports it at once under --keep-going: a rank that fails for want of the centre waits.
 */
static kolo_status lost(const kolo_center_link *link, const char *why)
{
    usleep(DEATH_IS_NOTED);
    if (link->args.root > 0) return kolo_fail_lost_server(link->args.root, why);
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
    return *bytes >= sizeof(kolo_reply) ? KOLO_OK : kolo_fail(KOLO_COMM, "a reply of %zu bytes", *bytes);
}

/* A request and the arrays behind it, and the reply and the bytes behind it. */
typedef struct exchange_of_messages {
    kolo_request request;
    kolo_channel_part arrays[3];
    int count;
    kolo_reply reply;
    const char *data; /* valid until the next request */
    size_t bytes;
} exchange_of_messages;

static exchange_of_messages make_request(kolo_center_link *link, kolo_request_kind kind)
{
    exchange_of_messages made = {.request.kind = kind};
    if (link->args.root > 0) return made;
    made.request.reports = link->reports;
    made.request.exchanged = link->exchanged;
    made.request.totals = link->totals;
    link->reports = link->exchanged = false;
    return made;
}

/* Sends a request once, and takes its reply, which may be "again". */
static kolo_status ask_once(kolo_center_link *link, exchange_of_messages *with)
{
    kolo_channel_part parts[4] = {{&with->request, sizeof with->request}};
    const void *received;
    for (int i = 0; i < with->count; i++) parts[i + 1] = with->arrays[i];
    if (send_and_wait(link, parts, with->count + 1, &received, &with->bytes) != KOLO_OK) {
        kolo_failure why = kolo_failure_take();
        return lost(link, why.text);
    }
    memcpy(&with->reply, received, sizeof with->reply);
    with->request.reports = with->request.exchanged = false; /* once is enough */
    with->data = (const char *)received + sizeof with->reply;
    with->bytes -= sizeof with->reply;
    if (with->reply.status == KOLO_OK) return KOLO_OK;
    return kolo_fail(with->reply.status, "%s", with->reply.why[0] ? with->reply.why : KOLO_COMM_CALLED_OFF);
}

static kolo_status ask(kolo_center_link *link, exchange_of_messages *with)
{
    do KOLO_TRY(ask_once(link, with));
    while (with->reply.again);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- opening and closing */

static const kolo_channel_kind *find_channels(void)
{
    const char *why;
    const kolo_plugin *plugin = kolo_plugin_load("zmq", &why);
    if (plugin && plugin->channels) return plugin->channels;
    kolo_fail(KOLO_UNSUPPORTED, "workers on several ranks need ZeroMQ: %s", plugin ? "it has no channels" : why);
    return NULL;
}

static double hello_limit(void)
{
    double limit = HELLO_SHARE * kolo_stall_limit();
    return limit > 0 && limit < HELLO_SECONDS ? limit : HELLO_SECONDS;
}

static kolo_status open_link(const kolo_server_args *args, int number, const char *address, kolo_center_link **link)
{
    kolo_center_link *made = *link = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a link to the centre");
    made->args = *args;
    made->worker = args->ranks->rank * args->workers + number;
    made->channels = find_channels();
    if (!made->channels) return KOLO_UNSUPPORTED;
    KOLO_TRY(made->channels->connect(address, &made->channel));
    made->limit = hello_limit();
    exchange_of_messages hello = make_request(made, KOLO_REQUEST_HELLO);
    KOLO_TRY(ask(made, &hello));
    made->limit = kolo_stall_limit();
    return KOLO_OK;
}

static kolo_status open_links(const kolo_server_args *args, char (*addresses)[KOLO_CHANNEL_ADDRESS],
                              kolo_center_link ***links)
{
    int rank = args->ranks->rank - (args->ranks->rank > args->root); /* among the ranks without the server */
    *links = calloc((size_t)args->workers, sizeof **links);
    if (!*links) return kolo_fail_memory((size_t)args->workers * sizeof **links, "links to the centre");
    for (int i = 0; i < args->workers; i++)
        KOLO_TRY(open_link(args, i, addresses[rank * args->workers + i], &(*links)[i]));
    return KOLO_OK;
}

static kolo_status open_server(const kolo_server_args *args, kolo_center_server **server,
                               char (*addresses)[KOLO_CHANNEL_ADDRESS])
{
    const kolo_channel_kind *channels = find_channels();
    if (!channels) return KOLO_UNSUPPORTED;
    return kolo_center_server_open(args, channels, kolo_cross_size() == 1, server, addresses);
}

/* Fails on all ranks if it failed on one. */
static kolo_status agree(kolo_comm *ranks, kolo_status status)
{
    double failures = status != KOLO_OK;
    KOLO_TRY(ranks->kind->allreduce(ranks, &failures, 1, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM));
    if (status != KOLO_OK || failures == 0) return status;
    return kolo_fail(KOLO_COMM, "another rank could not open its workers");
}

static kolo_status link_all(const kolo_server_args *args, char (*addresses)[KOLO_CHANNEL_ADDRESS], size_t bytes,
                            kolo_center_server **server, kolo_center_link ***links)
{
    kolo_comm *ranks = args->ranks;
    bool serves = ranks->rank == args->root;
    kolo_status status = serves ? open_server(args, server, addresses) : KOLO_OK;
    KOLO_TRY(agree(ranks, status));
    KOLO_TRY(ranks->kind->broadcast(ranks, addresses, bytes, args->root));
    status = serves ? kolo_center_server_start(*server) : open_links(args, addresses, links);
    return agree(ranks, status);
}

kolo_status kolo_center_link_open(const kolo_server_args *args, kolo_center_server **server, kolo_center_link ***links)
{
    size_t bytes = (size_t)(args->ranks->size - 1) * (size_t)args->workers * KOLO_CHANNEL_ADDRESS;
    char(*addresses)[KOLO_CHANNEL_ADDRESS] = calloc(1, bytes);
    kolo_status status = addresses ? KOLO_OK : kolo_fail_memory(bytes, "the addresses of the centre");
    status = agree(args->ranks, status);
    if (status == KOLO_OK) status = link_all(args, addresses, bytes, server, links);
    free(addresses);
    return status;
}

void kolo_center_link_close(kolo_center_link **link)
{
    kolo_center_link *closed = *link;
    *link = NULL;
    if (!closed) return;
    if (closed->channel) closed->channels->close(&closed->channel);
    free(closed);
}

void kolo_center_link_interrupt(kolo_center_link *link)
{
    if (link && link->channel) link->channels->interrupt(link->channel);
}

/* ---------------------------------------------------------------- calls of the centre */

void kolo_center_link_report(kolo_center_link *link, const kolo_totals *totals)
{
    link->totals = *totals;
    link->reports = true;
}

void kolo_center_link_exchanged(kolo_center_link *link)
{
    link->exchanged = true;
}

kolo_status kolo_center_link_next(kolo_center_link *link, int64_t epoch, kolo_task *task)
{
    exchange_of_messages next = make_request(link, KOLO_REQUEST_NEXT);
    next.request.number = epoch;
    KOLO_TRY(ask(link, &next));
    *task = next.reply.task;
    return KOLO_OK;
}

kolo_status kolo_center_link_admit(kolo_center_link *link, double samples, kolo_admission *admission)
{
    exchange_of_messages admit = make_request(link, KOLO_REQUEST_ADMIT);
    admit.request.samples = samples;
    KOLO_TRY(ask(link, &admit));
    *admission = admit.reply.admission;
    return KOLO_OK;
}

kolo_status kolo_center_link_check(kolo_center_link *link)
{
    exchange_of_messages check = make_request(link, KOLO_REQUEST_CHECK);
    return ask(link, &check);
}

/* Adds a range of the offer's arrays. */
static void add_offer(const kolo_center_link *link, const kolo_offer *offer, int64_t first, int64_t end,
                      exchange_of_messages *with)
{
    size_t each = (size_t)(end - first) * sizeof(float);
    with->request.samples = offer->samples;
    with->arrays[with->count++] = (kolo_channel_part){offer->weights + first, each};
    if (link->args.kind->writes_start) with->arrays[with->count++] = (kolo_channel_part){offer->start + first, each};
    if (link->args.kind->updates_center)
        with->arrays[with->count++] = (kolo_channel_part){offer->gradient + first, each};
}

/* Copies the reply's bytes to room[bytes]. */
static kolo_status take(const exchange_of_messages *with, void *room, size_t bytes)
{
    if (with->bytes != bytes) return kolo_fail(KOLO_COMM, "a server sent %zu bytes, wanted %zu", with->bytes, bytes);
    if (bytes > 0) memcpy(room, with->data, bytes);
    return KOLO_OK;
}

kolo_status kolo_center_link_exchange(kolo_center_link *link, const kolo_offer *offer)
{
    exchange_of_messages exchange = make_request(link, KOLO_REQUEST_EXCHANGE);
    add_offer(link, offer, 0, link->args.count, &exchange);
    KOLO_TRY(ask(link, &exchange));
    return take(&exchange, offer->weights, (size_t)link->args.count * sizeof(float));
}

kolo_status kolo_center_link_hear(kolo_center_link *link, int64_t number, void *data, size_t bytes)
{
    exchange_of_messages hear = make_request(link, KOLO_REQUEST_HEAR);
    hear.request.number = number;
    KOLO_TRY(ask(link, &hear));
    KOLO_TRY(take(&hear, data, bytes));
    exchange_of_messages heard = make_request(link, KOLO_REQUEST_HEARD);
    heard.request.number = number;
    if (ask(link, &heard) != KOLO_OK) kolo_failure_take(); /* rank 0 may close now: the next call will notice */
    return KOLO_OK;
}

kolo_status kolo_center_link_record(kolo_center_link *link, const kolo_worker_record *record, size_t bytes)
{
    exchange_of_messages send = make_request(link, KOLO_REQUEST_RECORD);
    send.arrays[send.count++] = (kolo_channel_part){record, bytes};
    return ask(link, &send);
}

/* ---------------------------------------------------------------- calls of a part */

kolo_status kolo_center_link_part(kolo_center_link *link, int part, const kolo_ticket *ticket, int batches,
                                  const kolo_offer *offer, bool *done)
{
    const kolo_part_range *range = &link->args.ranges[part];
    exchange_of_messages exchange = make_request(link, KOLO_REQUEST_PART);
    exchange.request.part = part;
    exchange.request.batches = batches;
    exchange.request.ticket = *ticket;
    add_offer(link, offer, range->first, range->end, &exchange);
    KOLO_TRY(ask_once(link, &exchange));
    *done = !exchange.reply.again;
    if (!*done) return KOLO_OK;
    return take(&exchange, offer->weights + range->first, (size_t)(range->end - range->first) * sizeof(float));
}

kolo_status kolo_center_link_get(kolo_center_link *link, int part, const kolo_ticket *ticket, void *bytes, size_t room,
                                 bool *done)
{
    exchange_of_messages get = make_request(link, KOLO_REQUEST_GET);
    get.request.part = part;
    get.request.ticket = *ticket;
    KOLO_TRY(ask_once(link, &get));
    *done = !get.reply.again;
    return *done ? take(&get, bytes, room) : KOLO_OK;
}
