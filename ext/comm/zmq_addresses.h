/* Where processes of other hosts reach this host: its IPv4 addresses, from which the other end chooses. */
#ifndef KOLO_COMM_ZMQ_ADDRESSES_H
#define KOLO_COMM_ZMQ_ADDRESSES_H

#include <stddef.h>

/* Writes "NAME,ADDRESS,…": this host's name and its addresses except loopback. Those for which there is no room are
 * left out. */
void kolo_addresses_list(char *list, size_t size);

/* Chooses one word of another host's list, to connect to: "127.0.0.1" if the name is this host's own; else an address
 * in a subnet of this host; else one that this host does not have itself, as each host has that of a bridge such as
 * docker0; else the name. */
void kolo_addresses_choose(const char *list, char *chosen, size_t size);

#endif
