#define _GNU_SOURCE
#include "ranks/contact.h"
#include "ranks/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

enum { KEY = 41 /* a key as Z85 text */, PROBE = 1500 /* ms for a connection to an address */ };

static void set_number(void *socket, int option, int value)
{
    zmq_setsockopt(socket, option, &value, sizeof value);
}

static void *open_socket(void *context, int type)
{
    void *socket = zmq_socket(context, type);
    set_number(socket, ZMQ_LINGER, 300);
    set_number(socket, ZMQ_SNDHWM, 0); /* what a cell prints is capped before it comes here */
    set_number(socket, ZMQ_RCVHWM, 0);
    return socket;
}

static void add_variable(names *environment, const char *name, const char *value)
{
    char *line = format_text("%s=%s", name, value);
    names_add(environment, line);
    free(line);
}

/* Every address of this host's, the loopback's last: a rank tries them in turn. */
static char *all_addresses(const char *port)
{
    text list = {0}, last = {0};
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all)) all = NULL;
    for (struct ifaddrs *at = all; at; at = at->ifa_next) {
        char name[NI_MAXHOST];
        if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || at->ifa_addr->sa_family != AF_INET) continue;
        if (getnameinfo(at->ifa_addr, sizeof(struct sockaddr_in), name, sizeof name, NULL, 0, NI_NUMERICHOST)) continue;
        text_addf(at->ifa_flags & IFF_LOOPBACK ? &last : &list, "tcp://%s:%s ", name, port);
    }
    freeifaddrs(all);
    if (last.size) text_add(&list, last.data);
    text_free(&last);
    return text_take(&list);
}

static bool listen_everywhere(void *socket, names *environment)
{
    char public[KEY], secret[KEY], bound[256] = "";
    size_t size = sizeof bound;
    if (zmq_curve_keypair(public, secret)) return false;
    set_number(socket, ZMQ_CURVE_SERVER, 1);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, KEY);
    explicit_bzero(secret, sizeof secret);
    if (zmq_bind(socket, "tcp://*:*") || zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, bound, &size)) return false;
    char *addresses = all_addresses(strrchr(bound, ':') + 1);
    add_variable(environment, RANKS_ENDPOINT, addresses);
    add_variable(environment, RANKS_KEY, public);
    free(addresses);
    return true;
}

static bool listen_here(void *socket, const char *folder, names *environment)
{
    char *endpoint = format_text("ipc://%s/ranks", folder);
    bool bound = zmq_bind(socket, endpoint) == 0;
    add_variable(environment, RANKS_ENDPOINT, endpoint);
    free(endpoint);
    return bound;
}

void *contact_listen(void *context, const char *folder, const char *token, names *environment, char **problem)
{
    void *socket = open_socket(context, ZMQ_ROUTER);
    set_number(socket, ZMQ_ROUTER_MANDATORY, 1);
    add_variable(environment, RANKS_TOKEN, token);
    if (folder ? listen_here(socket, folder, environment) : listen_everywhere(socket, environment)) return socket;
    *problem = format_text("the ranks have nowhere to report to: %s", zmq_strerror(errno));
    zmq_close(socket);
    return NULL;
}

/* Does somebody listen there? A plain connection: ZeroMQ itself would go on trying for ever. */
static bool answers(const char *endpoint)
{
    char host[128], *port = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) || !port) return true;
    snprintf(host, sizeof host, "%.*s", (int)(port - endpoint - 6), endpoint + 6);
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found = NULL;
    if (getaddrinfo(host, port + 1, &wanted, &found)) return false;
    int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
    socklen_t size = sizeof error;
    bool there = file >= 0 && connect(file, found->ai_addr, found->ai_addrlen) == 0;
    if (file >= 0 && !there && errno == EINPROGRESS) {
        struct pollfd ready = {file, POLLOUT, 0};
        there = poll(&ready, 1, PROBE) == 1 && !getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &size) && !error;
    }
    if (file >= 0) close(file);
    freeaddrinfo(found);
    return there;
}

static bool speak_curve(void *socket, const char *server)
{
    char public[KEY], secret[KEY];
    if (zmq_curve_keypair(public, secret)) return false;
    bool set = !zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, KEY) &&
               !zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, KEY) &&
               !zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, KEY);
    explicit_bzero(secret, sizeof secret);
    return set;
}

void *contact_reach(void *context, const char *name, char **problem)
{
    const char *given = getenv(RANKS_ENDPOINT), *key = getenv(RANKS_KEY);
    char *endpoints = copy_of(given ? given : ""), *rest, *at = strtok_r(endpoints, " ", &rest);
    void *socket = open_socket(context, ZMQ_DEALER);
    zmq_setsockopt(socket, ZMQ_ROUTING_ID, name, strlen(name));
    bool reached = !key || (strlen(key) == KEY - 1 && speak_curve(socket, key));
    while (at && !answers(at)) at = strtok_r(NULL, " ", &rest);
    reached = reached && at && zmq_connect(socket, at) == 0;
    free(endpoints);
    if (reached) return socket;
    *problem = format_text("the kernel cannot be reached at any of its addresses: %s", given ? given : "none is known");
    zmq_close(socket);
    return NULL;
}
