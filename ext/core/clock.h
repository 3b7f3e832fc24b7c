/* The clock that durations are measured with. */
#ifndef KOLO_CORE_CLOCK_H
#define KOLO_CORE_CLOCK_H

/* Seconds since some fixed point in time, which setting the clock does not change. Any thread. */
double kolo_now(void);

#endif
