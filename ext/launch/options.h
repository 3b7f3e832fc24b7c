/* The options of the command line. All texts point into argv and are not freed. */
#ifndef KOLO_LAUNCH_OPTIONS_H
#define KOLO_LAUNCH_OPTIONS_H

#include <stdbool.h>

struct launch_options {
    int ranks;                 /* -np; 0 when not given */
    const char *hosts;         /* -H, NULL when not given */
    const char *hostfile;      /* --hostfile, NULL when not given */
    const char *mpi_args;      /* --mpi-args, NULL when not given */
    const char *interfaces;    /* --network-interfaces, NULL when not given */
    const char *output_folder; /* --output-filename, NULL when not given */
    int start_timeout;         /* seconds until all ranks must have started; default KOLO_START_TIMEOUT, else 30 */
    int stop_timeout;          /* seconds that the ranks have to end after a user's signal */
    int restarts;              /* how often a job that has failed is started again */
    int least;                 /* --min-np; 0 when not given */
    const char *discovery;     /* --host-discovery-script, NULL when not given */
    bool keep_going;           /* the others go on when a rank fails */
    int stall_limit;           /* seconds; -1 when not given */
    const char *fault;         /* --fault, NULL when not given */
    const char *timeline;      /* --timeline, NULL when not given */
    bool verbose;
    bool check_build;
    bool version;
    bool help;
    char **command; /* the program and its arguments, ended by NULL; NULL: not given */
};

/* Reads argv. Returns KOLORUN_GO_ON, or an exit code after one sentence on stderr. Options after the command belong to
 * the command. */
int options_parse(int argc, char **argv, struct launch_options *options);
/* Prints the text of --help. Returns an exit code. */
int options_help(void);

#endif
