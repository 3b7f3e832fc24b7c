/* Channels by ZeroMQ, encrypted by CURVE: the plugin libkolo_zmq.so. Read channel.h first.
 *
 * A REQ socket of one process is connected to a REP socket of the other. ZeroMQ hides lost connections from its
 * sockets, since it connects again. Here a lost connection means that the process at the other end is gone, so
 * receive() also listens to the socket's monitor, which reports it.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "comm/channel.h"
#include "comm/zmq_addresses.h"
#include "comm/zmq_comm.h"
#include "core/clock.h"
#include "core/plugin.h"

enum { KEY = 41 }; /* bytes of a key in Z85, with the terminating 0 */
/* Between hosts: a host that vanishes closes no connection. Milliseconds between two signs of life, and after the last
 * one until the other end is taken for gone. */
enum { SIGN_OF_LIFE = 5000, SILENCE = 30000 };

struct kolo_channel {
    void *context, *socket, *monitor;
    zmq_msg_t message; /* the one that was received last */
    int interrupted;   /* an eventfd; -1: not open */
    int peer;          /* the file descriptor of the listening end's connection; -1: not known yet */
    bool listens;
    bool gone; /* the other end; the monitor reports it once */
    char far_end[KOLO_CHANNEL_ADDRESS]; /* " from tcp://HOST:PORT", of a connecting end between hosts */
};

static kolo_status failed(const char *what)
{
    return kolo_fail(KOLO_COMM, "%s: %s", what, zmq_strerror(zmq_errno()));
}

/* ---------------------------------------------------------------- opening */

static void channel_close(kolo_channel **channel)
{
    kolo_channel *closed = *channel;
    *channel = NULL;
    if (!closed) return;
    if (closed->monitor) zmq_close(closed->monitor);
    if (closed->socket) zmq_close(closed->socket);
    zmq_msg_close(&closed->message);
    if (closed->context) zmq_ctx_term(closed->context);
    if (closed->interrupted >= 0) close(closed->interrupted);
    free(closed);
}

static kolo_status open_sockets(kolo_channel *channel, bool one_host)
{
    int linger = 2000, never = -1, sign = SIGN_OF_LIFE, silence = SILENCE;
    channel->interrupted = eventfd(0, EFD_CLOEXEC);
    channel->context = zmq_ctx_new();
    if (channel->interrupted < 0 || !channel->context) return failed("cannot open a channel");
    channel->socket = zmq_socket(channel->context, channel->listens ? ZMQ_REP : ZMQ_REQ);
    channel->monitor = zmq_socket(channel->context, ZMQ_PAIR);
    if (!channel->socket || !channel->monitor) return failed("cannot open a channel");
    zmq_setsockopt(channel->socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(channel->socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    if (!one_host) {
        zmq_setsockopt(channel->socket, ZMQ_HEARTBEAT_IVL, &sign, sizeof sign);
        zmq_setsockopt(channel->socket, ZMQ_HEARTBEAT_TIMEOUT, &silence, sizeof silence);
    }
    if (zmq_socket_monitor(channel->socket, "inproc://monitor", ZMQ_EVENT_DISCONNECTED) != 0 ||
        zmq_connect(channel->monitor, "inproc://monitor") != 0)
        return failed("cannot watch a channel");
    return KOLO_OK;
}

static kolo_status make(bool listens, bool one_host, kolo_channel **channel)
{
    kolo_channel *made = *channel = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a channel");
    *made = (kolo_channel){.interrupted = -1, .peer = -1, .listens = listens};
    zmq_msg_init(&made->message);
    return open_sockets(made, one_host);
}

/* Binds a free port, and writes "PORT KEY HOSTS", where HOSTS are kolo_addresses_list()'s. */
static kolo_status bind_port(kolo_channel *channel, bool one_host, const char *key, char *address)
{
    char bound[128], hosts[KOLO_CHANNEL_ADDRESS - 64] = "127.0.0.1";
    size_t size = sizeof bound;
    if (!one_host) kolo_addresses_list(hosts, sizeof hosts);
    if (zmq_bind(channel->socket, one_host ? "tcp://127.0.0.1:*" : "tcp://*:*") != 0 ||
        zmq_getsockopt(channel->socket, ZMQ_LAST_ENDPOINT, bound, &size) != 0)
        return failed("cannot listen for other ranks");
    snprintf(address, KOLO_CHANNEL_ADDRESS, "%.7s %s %s", strrchr(bound, ':') + 1, key, hosts);
    return KOLO_OK;
}

static kolo_status listen_at(kolo_channel *channel, bool one_host, char *address)
{
    char public_key[KEY], secret_key[KEY];
    int server = 1;
    if (zmq_curve_keypair(public_key, secret_key) != 0 ||
        zmq_setsockopt(channel->socket, ZMQ_CURVE_SERVER, &server, sizeof server) != 0 ||
        zmq_setsockopt(channel->socket, ZMQ_CURVE_SECRETKEY, secret_key, KEY) != 0)
        return failed("cannot encrypt a channel");
    return bind_port(channel, one_host, public_key, address);
}

static kolo_status channel_listen(bool one_host, kolo_channel **channel, char address[KOLO_CHANNEL_ADDRESS])
{
    kolo_status status = make(true, one_host, channel);
    if (status == KOLO_OK) status = listen_at(*channel, one_host, address);
    if (status != KOLO_OK) channel_close(channel);
    return status;
}

static kolo_status connect_to(kolo_channel *channel, const char *endpoint, const char *server_key)
{
    char public_key[KEY], secret_key[KEY];
    if (zmq_curve_keypair(public_key, secret_key) != 0 ||
        zmq_setsockopt(channel->socket, ZMQ_CURVE_SERVERKEY, server_key, KEY) != 0 ||
        zmq_setsockopt(channel->socket, ZMQ_CURVE_PUBLICKEY, public_key, KEY) != 0 ||
        zmq_setsockopt(channel->socket, ZMQ_CURVE_SECRETKEY, secret_key, KEY) != 0)
        return failed("cannot encrypt a channel");
    return zmq_connect(channel->socket, endpoint) == 0 ? KOLO_OK : failed(endpoint);
}

static kolo_status channel_connect(const char *address, kolo_channel **channel)
{
    char port[8], key[KEY], hosts[KOLO_CHANNEL_ADDRESS], host[KOLO_CHANNEL_ADDRESS];
    char endpoint[KOLO_CHANNEL_ADDRESS + 16];
    *channel = NULL;
    if (sscanf(address, "%7s %40s %511s", port, key, hosts) != 3)
        return kolo_fail(KOLO_INVALID, "wanted the address of a channel, got \"%.60s\"", address);
    kolo_addresses_choose(hosts, host, sizeof host);
    snprintf(endpoint, sizeof endpoint, "tcp://%s:%s", host, port);
    bool one_host = strcmp(host, "127.0.0.1") == 0;
    kolo_status status = make(false, one_host, channel);
    if (status == KOLO_OK && !one_host)
        snprintf((*channel)->far_end, sizeof(*channel)->far_end, " from %.400s", endpoint);
    if (status == KOLO_OK) status = connect_to(*channel, endpoint, key);
    if (status != KOLO_OK) channel_close(channel);
    return status;
}

/* ---------------------------------------------------------------- messages */

/* Takes a report of the monitor, and notes whether it says that the other end is gone. A connection of a process
 * without the key does not count: its handshake fails. */
static void take_report(kolo_channel *channel)
{
    uint8_t report[6] = {0}; /* 16 bits: the event; 32 bits: the connection's file descriptor */
    uint8_t endpoint[KOLO_CHANNEL_ADDRESS];
    int32_t descriptor;
    if (zmq_recv(channel->monitor, report, sizeof report, ZMQ_DONTWAIT) < 0) return;
    zmq_recv(channel->monitor, endpoint, sizeof endpoint, 0);
    memcpy(&descriptor, report + 2, sizeof descriptor);
    if (!channel->listens || descriptor == channel->peer) channel->gone = true;
}

/* Waits until the socket is ready for `event`, at most so many seconds (0: for ever). */
static kolo_status wait_until_ready(kolo_channel *channel, short event, double seconds)
{
    zmq_pollitem_t items[] = {{.socket = channel->socket, .events = event},
                              {.socket = channel->monitor, .events = ZMQ_POLLIN},
                              {.fd = channel->interrupted, .events = ZMQ_POLLIN}};
    for (double until = kolo_now() + seconds;;) {
        long wait = seconds > 0 ? (long)((until - kolo_now()) * 1000) + 1 : -1;
        if (seconds > 0 && kolo_now() > until)
            return kolo_fail(KOLO_COMM, "no answer%s for %g s", channel->far_end, seconds);
        if (zmq_poll(items, 3, channel->gone ? 0 : wait) < 0 && zmq_errno() != EINTR)
            return failed("cannot wait for a message");
        if (items[0].revents) return KOLO_OK; /* also for a message from before the end went */
        if (items[2].revents) return kolo_fail(KOLO_COMM, "the channel was interrupted");
        if (channel->gone) return kolo_fail(KOLO_COMM, "the process at the other end is gone");
        if (items[1].revents)
            take_report(channel); /* then the last message may have come since the look at the socket */
    }
}

static kolo_status channel_send(kolo_channel *channel, const kolo_channel_part *parts, int count)
{
    size_t bytes = 0;
    zmq_msg_t message;
    for (int i = 0; i < count; i++) bytes += parts[i].bytes;
    if (zmq_msg_init_size(&message, bytes) != 0) return kolo_fail_memory(bytes, "a message");
    char *to = zmq_msg_data(&message);
    for (int i = 0; i < count; to += parts[i++].bytes)
        if (parts[i].bytes > 0) memcpy(to, parts[i].data, parts[i].bytes);
    /* A connecting end whose other end is gone would wait in zmq_msg_send() for ever. */
    kolo_status status = channel->listens ? KOLO_OK : wait_until_ready(channel, ZMQ_POLLOUT, 0);
    if (status == KOLO_OK && zmq_msg_send(&message, channel->socket, 0) >= 0) return KOLO_OK;
    if (status == KOLO_OK) status = failed("cannot send a message");
    zmq_msg_close(&message);
    return status;
}

static kolo_status take_message(kolo_channel *channel, const void **data, size_t *bytes)
{
    zmq_msg_close(&channel->message);
    zmq_msg_init(&channel->message);
    if (zmq_msg_recv(&channel->message, channel->socket, 0) < 0) return failed("cannot receive a message");
    channel->peer = zmq_msg_get(&channel->message, ZMQ_SRCFD);
    *data = zmq_msg_data(&channel->message);
    *bytes = zmq_msg_size(&channel->message);
    return KOLO_OK;
}

static kolo_status channel_receive(kolo_channel *channel, double seconds, const void **data, size_t *bytes)
{
    KOLO_TRY(wait_until_ready(channel, ZMQ_POLLIN, seconds));
    return take_message(channel, data, bytes);
}

static void channel_interrupt(kolo_channel *channel)
{
    const uint64_t one = 1;
    if (write(channel->interrupted, &one, sizeof one) < 0) return; /* it was interrupted before */
}

static const kolo_channel_kind channels = {
    .name = "zmq",
    .listen = channel_listen,
    .connect = channel_connect,
    .send = channel_send,
    .receive = channel_receive,
    .interrupt = channel_interrupt,
    .close = channel_close,
};

extern const kolo_plugin kolo_plugin_entry;
const kolo_plugin kolo_plugin_entry = {.version = KOLO_PLUGIN_VERSION, .channels = &channels, .world = &kolo_zmq_world};
