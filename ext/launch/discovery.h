/* --host-discovery-script: a program that prints which hosts there are now, a line a host, as "name:slots" or as in a
 * hostfile. */
#ifndef KOLO_LAUNCH_DISCOVERY_H
#define KOLO_LAUNCH_DISCOVERY_H

#include "launch/hosts.h"
#include "launch/options.h"

#include <signal.h>

/* Chooses the hosts of this start: runs the script until it names enough slots for --min-np ranks, for --start-timeout
 * at most. A script that fails is run again, except at the first start. `signals` is kolorun's signalfd, or 0 before it
 * is opened; `mask` is then the script's signal mask. Returns as allocation_choose(), or 128 + signal if one came. */
int discovery_choose(const struct launch_options *options, int signals, const sigset_t *mask,
                     struct launch_hosts *hosts);

#endif
