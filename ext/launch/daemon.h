/* The part of kolorun that SLURM starts on another node: `kolorun --as-daemon orted ...`. */
#ifndef KOLO_LAUNCH_DAEMON_H
#define KOLO_LAUNCH_DAEMON_H

#define DAEMON_OPTION "--as-daemon"

/* Becomes `command`, Open MPI's daemon orted, with SIGTERM and SIGHUP blocked: scancel sends SIGTERM to all processes
 * of a job step, and the ranks of a node end at once without its daemon. Open MPI unblocks signals in the ranks.
 * Returns an exit code if that fails. */
int daemon_main(char **command);

#endif
