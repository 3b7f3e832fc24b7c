/* Where a job's hosts come from: the seam for batch systems.
 *
 * A kind answers two questions. For another batch system (PBS, LSF) fill in a struct launch_allocation and add it to
 * launch_allocations of allocation.c; CONTRIBUTING.md has an example. */
#ifndef KOLO_LAUNCH_ALLOCATION_H
#define KOLO_LAUNCH_ALLOCATION_H

#include "launch/hosts.h"
#include "launch/options.h"

#include <stdbool.h>

struct launch_allocation {
    const char *name; /* "SLURM", for sentences */
    /* Whether the hosts come from here: an option names them, or this process is inside such an allocation. */
    bool (*is_here)(const struct launch_options *options);
    /* Adds the hosts with hosts_add(). Sets hosts->ranks if it is 0 and the allocation has a number of ranks of its
     * own, and hosts->from_scheduler if mpirun reads the same allocation and starts its daemons there. Returns
     * KOLORUN_GO_ON, or an exit code after one sentence. */
    int (*read)(const struct launch_options *options, struct launch_hosts *hosts);
};

/* The kinds in the order in which they are asked: -H, --hostfile, SLURM, and this host; ended by NULL. */
extern const struct launch_allocation *const launch_allocations[];
extern const struct launch_allocation allocation_slurm;

/* Lets the first of `kinds` that is here choose the hosts, and checks that they have room for all ranks. Returns
 * KOLORUN_GO_ON, or an exit code after one sentence. The caller calls hosts_free() in both cases. */
int allocation_choose(const struct launch_allocation *const *kinds, const struct launch_options *options,
                      struct launch_hosts *hosts);

#endif
