/* The part of kolorun that mpirun starts once a rank: `kolorun --as-rank COMMAND ...`. */
#ifndef KOLO_LAUNCH_RANK_H
#define KOLO_LAUNCH_RANK_H

#define RANK_OPTION "--as-rank"

/* Runs `command` as this rank and returns its exit code, or 128 + signal if a signal ended it.
 *
 * There are two processes. mpirun's child, the stand-in, only represents the rank. The watcher (after setsid()) starts
 * the program and sends its output and its end to kolorun. mpirun kills the stand-in without warning when any rank
 * fails, but not the watcher. If the stand-in or kolorun is gone, or if kolorun asks, the watcher ends the program and
 * all its descendants, and sends its last output. */
int rank_main(char **command);

#endif
