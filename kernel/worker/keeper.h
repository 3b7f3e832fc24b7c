/* The guard's own parent: ends what the guard left behind when somebody has killed it together with the kernel. While
 * the kernel lives it sees to that itself (worker_process.c). Read first: guard.c. */
#ifndef KERNEL_WORKER_KEEPER_H
#define KERNEL_WORKER_KEEPER_H

/* Forks: returns in the child, which is the guard. `socket`, to the kernel, is the guard's alone. `folder`, the
 * session's, goes too once the kernel is gone. */
void keep_guard(int socket, const char *folder);

#endif
