/* Limits that stretch with the load, so that a process without a core does not lose what it holds. */
#ifndef KERNEL_PATIENCE_H
#define KERNEL_PATIENCE_H

/* Zeroed at first. */
typedef struct patience {
    double since, looked, passed;
} patience;

/* The seconds from `since` (a moment of seconds_now()) as they would have passed on an idle machine. A second counts
 * for less the more processes wait for a core. Only time during which this is called often counts in full. */
double patience_passed(patience *p, double since);

#endif
