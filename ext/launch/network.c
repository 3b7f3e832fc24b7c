/* Finding the network that connects the hosts. By default Open MPI tries every interface that is up, and waits for ever
 * on an interface that every host has but that does not connect them, such as docker0 (horovod issues 310, 2281, 2568).
 */
#include "launch/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* In network byte order, as in in_addr. */
struct subnet {
    in_addr_t address, mask;
};

static bool resolve(const char *name, struct sockaddr_in *address)
{
    struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    if (getaddrinfo(name, NULL, &wanted, &found)) return false;
    memcpy(address, found->ai_addr, sizeof *address);
    address->sin_port = htons(9); /* any: nothing is sent */
    freeaddrinfo(found);
    return true;
}

/* Finds the address of this host that packets to `to` are sent from: the address of a datagram socket that is connected
 * to `to`. */
static bool source_towards(const struct sockaddr_in *to, struct sockaddr_in *from)
{
    socklen_t size = sizeof *from;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && !connect(fd, (const struct sockaddr *)to, sizeof *to) &&
                 !getsockname(fd, (struct sockaddr *)from, &size);
    if (fd >= 0) close(fd);
    return found;
}

static bool subnet_of(const struct sockaddr_in *address, struct subnet *subnet)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all)) return false;
    for (struct ifaddrs *at = all; at && !found; at = at->ifa_next) {
        if (!at->ifa_addr || !at->ifa_netmask || at->ifa_addr->sa_family != AF_INET) continue;
        struct sockaddr_in here, mask;
        memcpy(&here, at->ifa_addr, sizeof here);
        memcpy(&mask, at->ifa_netmask, sizeof mask);
        found = here.sin_addr.s_addr == address->sin_addr.s_addr;
        *subnet = (struct subnet){here.sin_addr.s_addr & mask.sin_addr.s_addr, mask.sin_addr.s_addr};
    }
    freeifaddrs(all);
    return found;
}

/* Finds the subnet that contains both this host and `name`; of this host itself none: zeros. */
static bool subnet_towards(const char *name, struct subnet *subnet)
{
    struct sockaddr_in there, here;
    *subnet = (struct subnet){0};
    if (host_is_local(name)) return true;
    if (!resolve(name, &there) || !source_towards(&there, &here)) return false;
    if (here.sin_addr.s_addr == there.sin_addr.s_addr) return true;
    return subnet_of(&here, subnet) && (there.sin_addr.s_addr & subnet->mask) == subnet->address;
}

void network_common(const struct launch_hosts *hosts, char subnet[NETWORK_TEXT])
{
    struct subnet common = {0};
    subnet[0] = '\0';
    for (size_t i = 0; i < hosts->count; i++) {
        struct subnet one;
        if (!subnet_towards(hosts->host[i].name, &one)) return;
        if (!one.mask) continue;
        if (common.mask && (one.mask != common.mask || one.address != common.address)) return;
        common = one;
    }
    char address[INET_ADDRSTRLEN];
    if (common.mask && inet_ntop(AF_INET, &common.address, address, sizeof address))
        snprintf(subnet, NETWORK_TEXT, "%s/%d", address, __builtin_popcount(common.mask));
}
