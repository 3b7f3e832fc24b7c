/* Starting a rank's program with its own stdin, stdout and stderr. */
#ifndef KOLO_LAUNCH_PROGRAM_H
#define KOLO_LAUNCH_PROGRAM_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct program {
    pid_t pid;
    int in;    /* to its stdin; -1 when that is /dev/null */
    int out;   /* from its stdout: a pseudo-terminal where there is one, so that its lines are not held back */
    int err;   /* from its stderr */
    int error; /* errno when it could not be started */
};

/* Starts `command` in a process group of its own, with the signal mask `mask`, killed when this process dies. All
 * descriptors are non-blocking and close-on-exec. False with `error` when it cannot be started. */
bool program_start(char **command, bool with_stdin, const sigset_t *mask, struct program *program);

#endif
