/* The hosts of the ranks, and how many ranks each host may have; allocation.h says where they come from. */
#ifndef KOLO_LAUNCH_HOSTS_H
#define KOLO_LAUNCH_HOSTS_H

#include <stdbool.h>
#include <stddef.h>

struct launch_host {
    char *name;
    char *user; /* the name to log in with, as in user@host; NULL: ssh decides */
    int slots;
};

struct launch_hosts {
    struct launch_host *host;
    size_t count;
    int ranks;           /* number of ranks to start */
    bool all_local;      /* all ranks run on this host */
    bool from_scheduler; /* mpirun reads the hosts from the allocation of a batch system; `host` may be empty */
    int file;            /* of hosts_file(); 0: none */
};

/* Adds slots on a host, "name" or "user@name", which is added if it is new. Returns KOLORUN_GO_ON, or an exit code
 * after one sentence. So do the calls below, and the caller calls hosts_free() in both cases. */
int hosts_add(struct launch_hosts *hosts, const char *name, int slots);
/* Parses "h1:4,user@h2" (without a number: one slot). The slots of a host that is named twice are added. */
int hosts_from_list(const char *list, struct launch_hosts *hosts);
/* Parses a hostfile: "name", "user@name slots=4", "name:4", comments after '#'. */
int hosts_from_file(const char *path, struct launch_hosts *hosts);
/* Parses text like a hostfile's, and changes it; `where` names its source. */
int hosts_from_text(char *text, const char *where, struct launch_hosts *hosts);
/* Finds out whether all hosts are this one, and whether they have slots for all ranks. */
int hosts_check(struct launch_hosts *hosts);
/* True for "name:4", with a number after the colon: the rest of a -H list that was split by a space. */
bool hosts_looks_like_host(const char *word);
/* True for the names of this host. */
bool host_is_local(const char *name);
/* Whether any host has a user. */
bool hosts_have_users(const struct launch_hosts *hosts);
/* "h1:4,h2:4" for mpirun's -H. The caller frees it; NULL if memory is out. */
char *hosts_argument(const struct launch_hosts *hosts);
/* Makes a hostfile, which can name users, as -H of Open MPI 4 cannot. It is a file in memory that mpirun inherits, and
 * hosts_free() closes it. Returns its path for --hostfile, which the caller frees; NULL with errno. */
char *hosts_file(struct launch_hosts *hosts);
void hosts_free(struct launch_hosts *hosts);

#endif
