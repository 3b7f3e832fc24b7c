/* The descendants of a process, also those that have left its process group. */
#ifndef KOLO_LAUNCH_TREE_H
#define KOLO_LAUNCH_TREE_H

#include <sys/types.h>

/* Makes orphaned descendants of this process its children, so that the calls below find them. */
void tree_adopt_orphans(void);
/* Sends `signal` (0: none) to every descendant of `root` that is not a zombie, but not to `root`. Returns their number.
 */
int tree_signal(pid_t root, int signal);
/* The milliseconds that these descendants have computed, with those of their children that have ended. */
long tree_computed(pid_t root);
/* Kills and reaps the descendants of this process until none is left. Gives up after about two seconds, because a
 * process may be stuck in the kernel. Returns the number that is left. */
int tree_end(void);

#endif
