/* --rdma: ranks on different hosts write into each other's memory through their network cards, by Open MPI's UCX or its
 * older verbs. */
#ifndef KOLO_LAUNCH_RDMA_H
#define KOLO_LAUNCH_RDMA_H

#include "launch/hosts.h"
#include "launch/options.h"

#include <stdbool.h>
#include <stddef.h>

/* Writes the name of this host's first RDMA device, such as mlx5_0. False if it has none. */
bool rdma_device(char *name, size_t size);
/* Refuses --rdma if this host has ranks and no RDMA device, unless the user has told UCX which devices to take
 * (opal_common_ucx_devices). Returns KOLORUN_GO_ON, or an exit code after one sentence. */
int rdma_check(const struct launch_options *options, const struct launch_hosts *hosts);

#endif
