/* See zmq_addresses.h. */
#include "comm/zmq_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAME = 256 };

/* In network byte order, as in in_addr. mask: of its subnet. */
typedef struct place {
    in_addr_t address, mask;
} place;

/* The address of an interface that is up, and no loopback. */
static bool place_of(const struct ifaddrs *at, place *found)
{
    struct sockaddr_in address, mask;
    if (!at->ifa_addr || !at->ifa_netmask || at->ifa_addr->sa_family != AF_INET) return false;
    if (!(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK)) return false;
    memcpy(&address, at->ifa_addr, sizeof address);
    memcpy(&mask, at->ifa_netmask, sizeof mask);
    *found = (place){address.sin_addr.s_addr, mask.sin_addr.s_addr};
    return true;
}

static bool own_name(char name[NAME])
{
    return gethostname(name, NAME) == 0 && memchr(name, 0, NAME);
}

void kolo_addresses_list(char *list, size_t size)
{
    char name[NAME] = "";
    struct ifaddrs *all = NULL;
    size_t used = (size_t)snprintf(list, size, "%s", own_name(name) ? name : "");
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        char text[INET_ADDRSTRLEN];
        place here;
        if (!place_of(at, &here) || !inet_ntop(AF_INET, &here.address, text, sizeof text)) continue;
        if (used + 1 + strlen(text) < size) used += (size_t)snprintf(list + used, size - used, ",%s", text);
    }
    freeifaddrs(all);
}

/* How good an address of another host is, seen from this one: 2: in a common subnet; 1; 0: this host has it itself. */
static int rate(in_addr_t address, const struct ifaddrs *all)
{
    int best = 1;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        place here;
        if (!place_of(at, &here)) continue;
        if (here.address == address) return 0;
        if ((here.address & here.mask) == (address & here.mask)) best = 2;
    }
    return best;
}

static void choose_address(char *words, char *chosen, size_t size)
{
    struct ifaddrs *all = NULL;
    int best = 0;
    char *rest;
    if (getifaddrs(&all) != 0) return;
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        struct in_addr address;
        int rating = inet_pton(AF_INET, word, &address) == 1 ? rate(address.s_addr, all) : 0;
        if (rating <= best) continue;
        best = rating;
        snprintf(chosen, size, "%s", word);
    }
    freeifaddrs(all);
}

void kolo_addresses_choose(const char *list, char *chosen, size_t size)
{
    char name[NAME] = "";
    size_t length = strcspn(list, ",");
    snprintf(chosen, size, "%.*s", (int)length, list);
    if (own_name(name) && strcmp(name, chosen) == 0) {
        snprintf(chosen, size, "127.0.0.1");
        return;
    }
    char *words = list[length] ? strdup(list + length + 1) : NULL;
    if (words) choose_address(words, chosen, size);
    free(words);
}
