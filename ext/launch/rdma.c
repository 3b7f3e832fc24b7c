/* Looking for RDMA devices: see rdma.h. */
#include "launch/rdma.h"

#include "launch/say.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "/sys/class/infiniband"

bool rdma_device(char *name, size_t size)
{
    DIR *folder = opendir(DEVICES);
    bool found = false;
    if (!folder) return false;
    for (const struct dirent *entry; !found && (entry = readdir(folder));) {
        found = entry->d_name[0] != '.';
        if (found) snprintf(name, size, "%s", entry->d_name);
    }
    closedir(folder);
    return found;
}

static bool has_ranks_here(const struct launch_hosts *hosts)
{
    for (size_t i = 0; i < hosts->count; i++)
        if (host_is_local(hosts->host[i].name)) return true;
    return hosts->all_local;
}

int rdma_check(const struct launch_options *options, const struct launch_hosts *hosts)
{
    char name[64];
    bool told = getenv("OMPI_MCA_opal_common_ucx_devices") ||
                (options->mpi_args && strstr(options->mpi_args, "opal_common_ucx_devices"));
    if (!options->rdma || told || !has_ranks_here(hosts) || rdma_device(name, sizeof name)) return KOLORUN_GO_ON;
    return launch_say(KOLORUN_FAILED, "--rdma: this host has no RDMA device (" DEVICES
                                      " has none); kolorun --check-build tells what there is");
}
