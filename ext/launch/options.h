/* The options of the command line and of --config-file. */
#ifndef KOLO_LAUNCH_OPTIONS_H
#define KOLO_LAUNCH_OPTIONS_H

#include "launch/words.h"

#include <stdbool.h>

struct launch_options {
    int ranks;                 /* -np; 0 when not given */
    const char *hosts;         /* -H, NULL when not given */
    const char *hostfile;      /* --hostfile, NULL when not given */
    const char *mpi_args;      /* --mpi-args, NULL when not given */
    char *interfaces;          /* --network-interfaces, joined by commas; owned, NULL when not given */
    const char *output_folder; /* --output-filename, NULL when not given */
    int start_timeout;         /* seconds until all ranks must have started; default KOLO_START_TIMEOUT, else 30 */
    int stop_timeout;          /* seconds that the ranks have to end after a user's signal */
    int restarts;              /* how often a job that has failed is started again */
    int least;                 /* --min-np; 0 when not given */
    const char *discovery;     /* --host-discovery-script, NULL when not given */
    bool keep_going;           /* the others go on when a rank fails */
    int stall_limit;           /* seconds; -1 when not given */
    const char *fault;         /* --fault, NULL when not given */
    struct words variables;    /* -x: NAME=VALUE, or NAME for a variable of kolorun's environment */
    const char *config_file;   /* --config-file, NULL when not given */
    int ssh_port;              /* --ssh-port; 0 when not given */
    const char *ssh_key;       /* --ssh-identity-file, NULL when not given */
    const char *bind_to;       /* --bind-to, NULL when not given */
    const char *wdir;          /* --wdir, NULL when not given */
    const char *shown_ranks;   /* --local-ranks-filter: "0,3"; NULL when not given */
    bool timestamps;           /* each line of output begins with the time */
    bool merge_stderr;         /* a rank's stderr is its stdout */
    int hierarchical;          /* --[no-]hierarchical-allreduce; -1 when not given */
    const char *rdma;          /* --rdma: "ucx" or "verbs"; NULL when not given */
    bool tcp;                  /* the ranks exchange messages over TCP alone */
    const char *timeline;      /* --timeline, NULL when not given */
    int autotune;              /* --[no-]autotune; -1 when not given */
    const char *autotune_log;  /* --autotune-log-file, NULL when not given */
    bool verbose;
    bool check_build;
    bool version;
    bool help;
    char **command; /* the program and its arguments, ended by NULL; NULL: not given */
    struct words from_file; /* the words of --config-file, to which texts above may point, as to argv */
};

/* Reads argv and the file of --config-file, whose options argv overrides. Returns KOLORUN_GO_ON, or an exit code after
 * one sentence on stderr. Options after the command belong to the command. The caller calls options_free() in both
 * cases. */
int options_parse(int argc, char **argv, struct launch_options *options);
void options_free(struct launch_options *options);
/* Prints the text of --help. Returns an exit code. */
int options_help(void);

#endif
