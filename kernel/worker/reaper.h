/* The supervisor's own parent: ends what the supervisor left behind when somebody has killed it together with the
 * kernel. While the kernel lives it sees to that itself (worker_process.c). Read first: supervisor.c. */
#ifndef KERNEL_WORKER_REAPER_H
#define KERNEL_WORKER_REAPER_H

/* Forks: returns in the child, which is the supervisor. `socket`, to the kernel, is the supervisor's alone. `folder`,
 * the session's, goes too once the kernel is gone. */
void fork_supervisor(int socket, const char *folder);

#endif
