/* The network that connects the hosts of a job. */
#ifndef KOLO_LAUNCH_NETWORK_H
#define KOLO_LAUNCH_NETWORK_H

#include "launch/hosts.h"

enum { NETWORK_TEXT = 64 };

/* Writes the subnet that contains this host and all other hosts, as "10.0.7.0/24". Writes "" if there is no such subnet
 * (several subnets, hosts behind a router, names that do not resolve) or if the names of the hosts are unknown. */
void network_common(const struct launch_hosts *hosts, char subnet[NETWORK_TEXT]);

#endif
