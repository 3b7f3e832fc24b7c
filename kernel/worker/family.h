/* Processes below this one, found in /proc by their parents: for the supervisor, which ends what a cell has left and
 * sees what it uses, and for the kernel, which ends what a supervisor has left. */
#ifndef KERNEL_WORKER_FAMILY_H
#define KERNEL_WORKER_FAMILY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct relative {
    pid_t process, parent, session;
    pid_t branch;     /* the caller's own child that it descends from, or is */
    char state;       /* as in /proc: 'Z' has ended and waits for its parent */
    unsigned threads;
    uint64_t resident; /* bytes, what it shares with others included */
} relative;

/* Calls `visit` for each process that descends from the caller. True when one of the calls was. */
bool family_each(bool (*visit)(const relative *r, void *closure), void *closure);

/* The same for each process of this process's user, itself included. */
bool everyone_of_user(bool (*visit)(const relative *r, void *closure), void *closure);

#endif
