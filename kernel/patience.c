#include "patience.h"

#include <stdio.h>
#include <unistd.h>

#include "output.h"

static const double TICK = 0.05; /* the most that counts between two calls: the caller itself may have had no core */

/* The number of processes that share a core now, from 1 to 10. */
static double slowness(void)
{
    double ready = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    FILE *file = fopen("/proc/loadavg", "re");
    if (!file) return 1;
    bool known = fscanf(file, "%*f %*f %*f %lf/", &ready) == 1;
    fclose(file);
    double each = known && cores > 0 ? ready / (double)cores : 1;
    return each < 1 ? 1 : each > 10 ? 10 : each;
}

double patience_passed(patience *p, double since)
{
    double now = seconds_now();
    if (p->since != since) *p = (patience){.since = since, .looked = since};
    double passed = now - p->looked;
    p->passed += (passed < TICK ? passed : TICK) / slowness();
    p->looked = now;
    return p->passed;
}
