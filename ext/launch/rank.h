/* The part of kolorun that mpirun starts once a rank: `kolorun --as-rank COMMAND ...`. */
#ifndef KOLO_LAUNCH_RANK_H
#define KOLO_LAUNCH_RANK_H

#define RANK_OPTION "--as-rank"

/* Runs `command` as this rank and returns its exit code, 128 + signal when a signal ended it.
 *
 * Two processes: mpirun's child only stands in for the rank. The watcher, in a session of its own, starts the program,
 * sends what it prints and how it ends to kolorun, and outlives the stand-in: when mpirun kills that (it does so
 * without warning once any rank fails), when kolorun is gone, or when kolorun asks, the watcher ends the program and
 * all that the program started, and still delivers its last output. */
int rank_main(char **command);

#endif
