/* The processes of TF_CONFIG meet: see zmq_comm.h.
 *
 * A rank greets all lower ranks, again and again until they answer, so the processes may be started in any order. It
 * has joined when all lower ranks have answered and all higher ranks have greeted. A process whose TF_CONFIG names
 * another job, or a rank that is there already, is refused. It gives up only when it is refused again and again: at
 * first the other one may be a rank of a job that is about to end. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "comm/zmq_comm.h"
#include "comm/zmq_curve.h"
#include "core/clock.h"
#include "core/plugin.h"

/* Seconds between two greetings, and until a rank says which ranks it waits for. */
#define AGAIN  1.0
#define MOMENT 5.0
enum { REFUSALS = 4 }; /* after which a rank gives up */
/* Milliseconds: how long the end of the process waits for its last letters to be sent; between two signs of life of a
 * connection, and after the last one until the other end is taken for gone (a host that vanishes closes none). */
enum { LINGER = 3000, SIGN_OF_LIFE = 5000, SILENCE = 30000 };

/* ---------------------------------------------------------------- sockets */

static kolo_status failed(const char *what)
{
    return kolo_fail(KOLO_COMM, "%s: %s", what, zmq_strerror(zmq_errno()));
}

/* Opens a socket and the monitor of its connections. */
static kolo_status open_socket(zmq_comm *me, int type, int number, void **socket, void **monitor)
{
    int linger = LINGER, unlimited = 0, sign = SIGN_OF_LIFE, silence = SILENCE;
    char reports[40];
    snprintf(reports, sizeof reports, "inproc://monitor-%d", number);
    *socket = zmq_socket(me->context, type);
    *monitor = zmq_socket(me->context, ZMQ_PAIR);
    if (!*socket || !*monitor) return failed("cannot open a socket");
    zmq_setsockopt(*socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(*socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(*socket, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    zmq_setsockopt(*socket, ZMQ_HEARTBEAT_IVL, &sign, sizeof sign);
    zmq_setsockopt(*socket, ZMQ_HEARTBEAT_TIMEOUT, &silence, sizeof silence);
    if (zmq_socket_monitor(*socket, reports, ZMQ_EVENT_DISCONNECTED) != 0 || zmq_connect(*monitor, reports) != 0)
        return failed("cannot watch a socket");
    return kolo_zmq_encrypt(*socket, type == ZMQ_ROUTER);
}

/* Whether the address is one of this host alone, at which no other host need reach the rank. */
static bool is_loopback(const char *address)
{
    return strncmp(address, "localhost:", 10) == 0 || strncmp(address, "127.", 4) == 0;
}

/* Listens at the port of this rank's address, on the loopback interface or on all. */
static kolo_status listen_at(zmq_comm *me)
{
    const char *address = me->cluster.addresses[me->comm.rank];
    char endpoint[KOLO_TASK_ADDRESS + 8];
    int mandatory = 1;
    KOLO_TRY(open_socket(me, ZMQ_ROUTER, me->comm.rank, &me->listener, &me->monitor));
    zmq_setsockopt(me->listener, ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
    snprintf(endpoint, sizeof endpoint, "tcp://%s%s", is_loopback(address) ? "127.0.0.1" : "*", strrchr(address, ':'));
    if (zmq_bind(me->listener, endpoint) == 0) return KOLO_OK;
    return kolo_fail(KOLO_COMM, "TF_CONFIG: rank %d cannot listen at %s: %s", me->comm.rank, address,
                     zmq_strerror(zmq_errno()));
}

static kolo_status connect_to(zmq_comm *me, int rank)
{
    peer *lower = &me->peers[rank];
    char endpoint[KOLO_TASK_ADDRESS + 8];
    KOLO_TRY(open_socket(me, ZMQ_DEALER, rank, &lower->link, &lower->monitor));
    zmq_setsockopt(lower->link, ZMQ_ROUTING_ID, me->identity, IDENTITY);
    snprintf(endpoint, sizeof endpoint, "tcp://%s", me->cluster.addresses[rank]);
    if (zmq_connect(lower->link, endpoint) == 0) return KOLO_OK;
    return kolo_fail(KOLO_COMM, "TF_CONFIG: cannot connect to rank %d at %s: %s", rank, me->cluster.addresses[rank],
                     zmq_strerror(zmq_errno()));
}

static void watch(zmq_comm *me, void *socket)
{
    me->items[me->item_count++] = (zmq_pollitem_t){.socket = socket, .events = ZMQ_POLLIN};
}

static kolo_status open_sockets(zmq_comm *me)
{
    me->context = zmq_ctx_new();
    me->items = calloc(2 * (size_t)me->comm.rank + 2, sizeof *me->items);
    if (!me->context || !me->items) return kolo_fail_memory(sizeof *me->items, "connections between ranks");
    zmq_ctx_set(me->context, ZMQ_MAX_SOCKETS, 4 * me->comm.size + 64);
    /* A first byte of 0 is ZeroMQ's own. */
    if (getrandom(me->identity, IDENTITY, 0) != IDENTITY) return kolo_fail(KOLO_COMM, "cannot draw a random number");
    me->identity[0] |= 1;
    KOLO_TRY(listen_at(me));
    watch(me, me->listener);
    watch(me, me->monitor);
    for (int r = 0; r < me->comm.rank; r++) {
        KOLO_TRY(connect_to(me, r));
        watch(me, me->peers[r].link);
        watch(me, me->peers[r].monitor);
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- greetings */

static kolo_status greet(zmq_comm *me, int rank)
{
    const greeting mine = {.job = me->job, .version = KOLO_PLUGIN_VERSION, .rank = me->comm.rank};
    return kolo_zmq_post(me, rank, (letter_head){LETTER_HELLO, 0}, &mine, sizeof mine);
}

/* Why a process cannot be a part of this job; NULL: it can. */
static const char *why_not(const zmq_comm *me, const unsigned char *identity, const greeting *from)
{
    if (from->version != KOLO_PLUGIN_VERSION) return "it has another version of Kolo";
    if (from->job != me->job || from->rank <= me->comm.rank || from->rank >= me->comm.size)
        return "its TF_CONFIG has another cluster";
    const peer *there = &me->peers[from->rank];
    bool other = there->present && memcmp(there->identity, identity, IDENTITY) != 0;
    return other ? "another process has the same task" : NULL;
}

void kolo_zmq_answer(zmq_comm *me, const unsigned char *identity, int descriptor, const greeting *from)
{
    const char *reason = why_not(me, identity, from);
    letter_head head = {reason ? LETTER_REFUSED : LETTER_WELCOME, 0};
    if (!reason) {
        peer *higher = &me->peers[from->rank];
        memcpy(higher->identity, identity, IDENTITY);
        higher->descriptor = descriptor;
        higher->present = true;
    }
    char answer[128];
    memcpy(answer, &head, sizeof head);
    size_t length = reason ? strlen(reason) + 1 : 0;
    kolo_copy_bytes(answer + sizeof head, reason, length);
    if (zmq_send(me->listener, identity, IDENTITY, ZMQ_SNDMORE) >= 0)
        zmq_send(me->listener, answer, sizeof head + length, 0); /* it greets again if this is lost */
}

/* Takes the answers of the lower ranks. */
static kolo_status take_answers(zmq_comm *me)
{
    for (int r = 0; r < me->comm.rank; r++) {
        letter *welcome = kolo_zmq_find(me, LETTER_WELCOME, r, KOLO_ANY_TAG);
        letter *refused = kolo_zmq_find(me, LETTER_REFUSED, r, KOLO_ANY_TAG);
        char reason[128] = "";
        if (welcome) me->peers[r].present = true;
        if (refused) snprintf(reason, sizeof reason, "%.*s", (int)refused->bytes, refused->data);
        kolo_zmq_free_letter(welcome);
        kolo_zmq_free_letter(refused);
        if (*reason && ++me->refusals >= REFUSALS)
            return kolo_fail(KOLO_COMM, "rank %d (%s) refuses this process, rank %d: %s", r, me->cluster.addresses[r],
                             me->comm.rank, reason);
    }
    return KOLO_OK;
}

/* Whether no address belongs to the name of the host. The look-up may take some seconds. */
static bool is_unknown(const char *address)
{
    char host[KOLO_TASK_ADDRESS];
    struct addrinfo *found = NULL;
    size_t length = (size_t)(strrchr(address, ':') - address);
    bool brackets = address[0] == '[' && length > 2;
    snprintf(host, sizeof host, "%.*s", (int)(brackets ? length - 2 : length), address + brackets);
    int result = getaddrinfo(host, NULL, NULL, &found);
    if (result == 0) freeaddrinfo(found);
    return result == EAI_NONAME || result == EAI_AGAIN || result == EAI_FAIL;
}

/* Adds which of the ranks that have not joined have a host whose name says nothing here. */
static void add_unknown(const zmq_comm *me, char *text, size_t room)
{
    for (int r = 0; r < me->comm.size; r++) {
        size_t used = strlen(text);
        const char *address = me->cluster.addresses[r];
        if (r != me->comm.rank && !me->peers[r].present && is_unknown(address))
            snprintf(text + used, room - used, "; no address is known for the host of %s", address);
    }
}

/* Writes "rank 1 (host:2222), rank 2 (host:2223)" of the ranks that have not joined; returns their number. The first of
 * them will be the reason if the job ends. */
static int list_missing(zmq_comm *me, char *text, size_t room)
{
    int missing = 0;
    size_t used = 0;
    me->culprit = me->comm.rank;
    *text = '\0';
    for (int r = 0; r < me->comm.size; r++) {
        if (r == me->comm.rank || me->peers[r].present) continue;
        if (missing == 0) me->culprit = r;
        const char *comma = missing++ ? ", " : "";
        if (used < room)
            used += (size_t)snprintf(text + used, room - used, "%srank %d (%s)", comma, r, me->cluster.addresses[r]);
    }
    return missing;
}

static kolo_status wait_for_all(zmq_comm *me)
{
    char missing[700];
    double begun = kolo_now(), greeted = 0;
    bool said = false;
    while (list_missing(me, missing, sizeof missing) > 0) {
        double now = kolo_now();
        bool again = greeted == 0 || now - greeted > AGAIN;
        for (int r = 0; again && r < me->comm.rank; r++)
            if (!me->peers[r].present) KOLO_TRY(greet(me, r));
        if (again) greeted = now;
        bool late = me->stall_limit > 0 && now - begun > me->stall_limit, tell = !said && now - begun > MOMENT;
        if (late || tell) add_unknown(me, missing, sizeof missing);
        if (tell) fprintf(stderr, "rank %d waits for %s\n", me->comm.rank, missing);
        said = said || tell;
        if (late)
            return kolo_fail(KOLO_COMM, "TF_CONFIG: after %g s (KOLO_STALL_LIMIT) rank %d still waits for %s%s",
                             me->stall_limit, me->comm.rank, missing,
                             kolo_zmq_encrypts() ? "; all ranks need the same KOLO_CLUSTER_KEY" : "");
        KOLO_TRY(kolo_zmq_pump(me, 100));
        KOLO_TRY(take_answers(me));
        KOLO_TRY(kolo_zmq_check_peers(me));
    }
    return KOLO_OK;
}

kolo_status kolo_zmq_join(zmq_comm *me)
{
    KOLO_TRY(open_sockets(me));
    return wait_for_all(me);
}
