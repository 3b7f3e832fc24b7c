/* Which network joins the hosts of a job. */
#ifndef KOLO_LAUNCH_NETWORK_H
#define KOLO_LAUNCH_NETWORK_H

#include "launch/hosts.h"

#include <stddef.h>

enum { NETWORK_TEXT = 64 };

/* Writes the subnet, as "10.0.7.0/24", in which this host and all others of `hosts` are neighbours; "" when there is no
 * such one (several subnets, hosts behind a router, names that do not resolve), or hosts are not known by name. */
void network_common(const struct launch_hosts *hosts, char subnet[NETWORK_TEXT]);

#endif
