/* The network for ranks that srun has started itself; kolorun finds it for its own ranks (launch/network.h). */
#include "comm/mpi_comm.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define INCLUDE "OMPI_MCA_btl_tcp_if_include"
#define EXCLUDE "OMPI_MCA_btl_tcp_if_exclude"

static in_addr_t ipv4_of(const struct sockaddr *address)
{
    struct sockaddr_in found;
    memcpy(&found, address, sizeof found);
    return found.sin_addr.s_addr;
}

/* Writes the subnet of this node that contains `address`, as "10.0.7.0/24". False if there is none. */
static bool find_subnet(in_addr_t address, char *text, size_t size)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all)) return false;
    for (struct ifaddrs *at = all; at && !found; at = at->ifa_next) {
        if (!at->ifa_addr || !at->ifa_netmask || at->ifa_addr->sa_family != AF_INET) continue;
        in_addr_t mask = ipv4_of(at->ifa_netmask);
        struct in_addr subnet = {ipv4_of(at->ifa_addr) & mask};
        char digits[INET_ADDRSTRLEN];
        found = subnet.s_addr == (address & mask) && inet_ntop(AF_INET, &subnet, digits, sizeof digits);
        if (found) snprintf(text, size, "%s/%d", digits, __builtin_popcount(mask));
    }
    freeifaddrs(all);
    return found;
}

void kolo_mpi_choose_network(void)
{
    const char *launcher = getenv("SLURM_LAUNCH_NODE_IPADDR"), *nodes = getenv("SLURM_STEP_NUM_NODES");
    struct in_addr address;
    char subnet[INET_ADDRSTRLEN + 4];
    bool by_others = getenv("OMPI_COMM_WORLD_RANK") || getenv(INCLUDE) || getenv(EXCLUDE);
    if (by_others || !launcher || !nodes || strcmp(nodes, "1") == 0) return;
    if (inet_pton(AF_INET, launcher, &address) == 1 && find_subnet(address.s_addr, subnet, sizeof subnet))
        setenv(INCLUDE, subnet, 0);
}
