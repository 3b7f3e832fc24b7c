/* The hosts that options name, and the choice between the kinds: see allocation.h. */
#include "launch/allocation.h"

#include "launch/say.h"

static bool is_list(const struct launch_options *options)
{
    return options->hosts;
}

static int read_list(const struct launch_options *options, struct launch_hosts *hosts)
{
    return hosts_from_list(options->hosts, hosts);
}

static bool is_file(const struct launch_options *options)
{
    return options->hostfile;
}

static int read_file(const struct launch_options *options, struct launch_hosts *hosts)
{
    return hosts_from_file(options->hostfile, hosts);
}

static bool is_this_host(const struct launch_options *options)
{
    (void)options;
    return true;
}

/* This host has room for all ranks. */
static int read_this_host(const struct launch_options *options, struct launch_hosts *hosts)
{
    return options->ranks ? hosts_add(hosts, "localhost", options->ranks) : KOLORUN_GO_ON;
}

static const struct launch_allocation list = {"-H", is_list, read_list}, file = {"--hostfile", is_file, read_file},
                                      this_host = {"localhost", is_this_host, read_this_host};

const struct launch_allocation *const launch_allocations[] = {&list, &file, &allocation_slurm, &this_host, NULL};

int allocation_choose(const struct launch_allocation *const *kinds, const struct launch_options *options,
                      struct launch_hosts *hosts)
{
    *hosts = (struct launch_hosts){.ranks = options->ranks};
    while (!(*kinds)->is_here(options)) kinds++;
    int code = (*kinds)->read(options, hosts);
    if (code != KOLORUN_GO_ON) return code;
    if (!hosts->ranks && hosts->from_scheduler)
        return launch_say(KOLORUN_WRONG_USE, "the %s allocation does not say how many tasks: wanted -np N",
                          (*kinds)->name);
    if (!hosts->ranks)
        return launch_say(KOLORUN_WRONG_USE, "how many ranks? wanted -np N, as in kolorun -np 8 ./program");
    return hosts->from_scheduler ? KOLORUN_GO_ON : hosts_check(hosts);
}
