/* How many cores this process may use. */
#ifndef KOLO_LAUNCH_CORES_H
#define KOLO_LAUNCH_CORES_H

/* The cores of its affinity mask, or fewer where the control group allows less time (docker run --cpus); at least 1. */
int cores_usable(void);
/* Cores that a control group's quota leaves, from the text of cpu.max ("200000 100000", "max 100000"), rounded up;
 * 0 when there is no limit. */
int cores_of_quota(const char *cpu_max);

#endif
