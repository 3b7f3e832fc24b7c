/* The socket between kolorun and its ranks: see contact.h. */
#include "launch/contact.h"

#include "launch/environment.h"
#include "launch/say.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool random_digits(char *digits, size_t size)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return false;
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(digits + 2 * i, size - 2 * i, "%02x", bytes[i]);
    return true;
}

/* Makes an abstract address: a zero byte, then the name. Returns its length. */
static socklen_t unix_address(const char *name, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if (length > sizeof address->sun_path - 1) length = sizeof address->sun_path - 1;
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int listen_here(char *text, size_t size)
{
    char digits[CONTACT_TOKEN], name[64];
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || !random_digits(digits, sizeof digits)) return fd;
    snprintf(name, sizeof name, "kolorun-%s", digits);
    snprintf(text, size, "unix:%s", name);
    if (bind(fd, (struct sockaddr *)&address, unix_address(name, &address)) == 0) return fd;
    close(fd);
    return -1;
}

/* Writes this host's name and its addresses except loopback; a rank on another host tries them in turn. */
static void print_addresses(FILE *out)
{
    char name[256] = "";
    struct ifaddrs *all = NULL;
    if (gethostname(name, sizeof name - 1) == 0) fputs(name, out);
    if (getifaddrs(&all)) return;
    for (struct ifaddrs *at = all; at; at = at->ifa_next) {
        if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK)) continue;
        int family = at->ifa_addr->sa_family;
        socklen_t size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (family != AF_INET && family != AF_INET6) continue;
        if (getnameinfo(at->ifa_addr, size, name, sizeof name, NULL, 0, NI_NUMERICHOST) == 0) fprintf(out, ",%s", name);
    }
    freeifaddrs(all);
}

static int listen_everywhere(char *text, size_t size)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
    struct sockaddr_in address4 = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    struct sockaddr *any = (struct sockaddr *)&address;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), off = 0;
    if (fd >= 0) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off); /* serve IPv4 as well */
    if (fd < 0 || bind(fd, any, length)) { /* a host without IPv6 */
        if (fd >= 0) close(fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        any = (struct sockaddr *)&address4;
        length = sizeof address4;
        if (fd >= 0 && bind(fd, any, length)) {
            close(fd);
            return -1;
        }
    }
    FILE *out = fmemopen(text, size, "w");
    if (fd < 0 || !out || getsockname(fd, any, &length)) {
        if (out) fclose(out);
        if (fd >= 0) close(fd);
        return -1;
    }
    fprintf(out, "tcp:%d:",
            ntohs(any->sa_family == AF_INET6 ? ((struct sockaddr_in6 *)any)->sin6_port
                                             : ((struct sockaddr_in *)any)->sin_port));
    print_addresses(out);
    fclose(out);
    return fd;
}

bool contact_listen(bool all_local, struct contact *contact)
{
    char text[4096] = "";
    contact->fd = all_local ? listen_here(text, sizeof text) : listen_everywhere(text, sizeof text);
    if (contact->fd < 0 || listen(contact->fd, 1024) || !random_digits(contact->token, sizeof contact->token) ||
        setenv(KOLORUN_CONTACT, text, 1) || setenv(KOLORUN_TOKEN, contact->token, 1)) {
        launch_say(KOLORUN_FAILED, "no socket for the ranks to report to: %s", strerror(errno));
        return false;
    }
    return true;
}

/* TCP_USER_TIMEOUT would end a connection whose reader only waits, so it is not set. */
void contact_keep_alive(int fd)
{
    int on = 1, idle = 5, interval = 5, probes = 3; /* seconds, seconds, number: 5 + 3 × 5 seconds */
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on)) return;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static bool connected(int fd, const struct sockaddr *address, socklen_t length)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(fd, address, length) == 0) return true;
    if (errno != EINPROGRESS || poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 2000) != 1) return false;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size)) return false;
    errno = error;
    return !error;
}

static int reach_unix(const char *name)
{
    struct sockaddr_un address;
    socklen_t length = unix_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static int reach_address(const char *host, const char *port)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(host, port, &wanted, &found)) return -1;
    for (struct addrinfo *at = found; at; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd >= 0 && connected(fd, at->ai_addr, at->ai_addrlen)) {
            contact_keep_alive(fd);
            freeaddrinfo(found);
            return fd;
        }
        if (fd >= 0) close(fd);
    }
    freeaddrinfo(found);
    return -1;
}

int contact_reach(void)
{
    const char *contact = getenv(KOLORUN_CONTACT);
    char text[4096], *rest = NULL;
    snprintf(text, sizeof text, "%s", contact ? contact : "");
    if (!strncmp(text, "unix:", 5)) return reach_unix(text + 5);
    if (strncmp(text, "tcp:", 4)) {
        errno = EINVAL;
        return -1;
    }
    const char *port = strtok_r(text + 4, ":", &rest);
    for (char *host; port && (host = strtok_r(NULL, ",", &rest));) {
        int fd = reach_address(host, port);
        if (fd >= 0) return fd;
    }
    errno = EHOSTUNREACH;
    return -1;
}
