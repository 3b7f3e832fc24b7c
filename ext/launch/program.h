/* Starting a rank's program with its own stdin, stdout and stderr. */
#ifndef KOLO_LAUNCH_PROGRAM_H
#define KOLO_LAUNCH_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct program {
    pid_t pid;
    int in;    /* to its stdin; -1: its stdin is /dev/null */
    int out;   /* from its stdout: a pseudo-terminal if possible, so that its lines are not buffered, else a pipe */
    int err;   /* from its stderr */
    int error; /* errno if it could not be started */
};

/* Starts `command` in a new process group, with the signal mask `mask`. The program is killed when this process dies.
 * All descriptors are non-blocking and close-on-exec. False, with `error`, if it cannot be started. */
bool program_start(char **command, bool with_stdin, const sigset_t *mask, struct program *program);

#endif
