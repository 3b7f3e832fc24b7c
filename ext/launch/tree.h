/* A process and all that it started, however deep, in whatever session or process group. */
#ifndef KOLO_LAUNCH_TREE_H
#define KOLO_LAUNCH_TREE_H

#include <sys/types.h>

/* From here on, orphans below this process become its children (and are found by the calls below). */
void tree_adopt_orphans(void);
/* Sends `signal` (0: none) to every living descendant of `root`, not to `root`; zombies do not count. Returns how many
 * there were. */
int tree_signal(pid_t root, int signal);
/* Kills every descendant of this process and reaps it, until none is left; gives up after about two seconds (a process
 * stuck in the kernel). Returns how many are left. */
int tree_end(void);

#endif
