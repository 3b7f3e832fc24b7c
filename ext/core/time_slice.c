#define _GNU_SOURCE 1 /* syscall */
#include "core/time_slice.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURN                                                                                                           \
    30000000 /* nanoseconds; the usual turns are of 1 to 4 ms, and the longest that the kernel allows of 100 ms */

/* The C library of Debian 12 has no function for these calls. */
void kolo_take_long_turns(void)
{
    struct sched_attr own = {0};
    if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0) return;
    if (own.sched_policy != SCHED_NORMAL && own.sched_policy != SCHED_BATCH) return;
    own.sched_runtime = TURN;
    own.sched_flags |= SCHED_FLAG_RESET_ON_FORK;
    syscall(SYS_sched_setattr, 0, &own, 0);
}
