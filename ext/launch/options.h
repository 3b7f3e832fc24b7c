/* What the command line asked for. Everything points into argv: nothing to free. */
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
    int start_timeout;         /* seconds until all ranks must have started; 30 by default, or KOLO_START_TIMEOUT */
    bool verbose;
    bool check_build;
    bool version;
    bool help;
    char **command; /* the program and its own arguments, ends in NULL; NULL when none was given */
};

/* Reads argv. Returns KOLORUN_GO_ON, or the exit code after saying one sentence on stderr.
 * Options that follow the command are the command's. */
int options_parse(int argc, char **argv, struct launch_options *options);
/* Prints what --help prints; returns an exit code. */
int options_help(void);

#endif
