#include "patience.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"

static const double TICK = 0.05; /* the most that counts between two calls: the caller itself may have had no core */

/* The number of processes that share a core now, from 1 to 10. */
static double slowness(void)
{
    char line[128];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    FILE *file = fopen("/proc/loadavg", "re");
    bool read = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    char *all = read ? strchr(line, '/') : NULL; /* "0.20 0.18 0.12 ready/all newest" */
    while (all && all > line && all[-1] != ' ') all--;
    double each = all && cores > 0 ? strtod(all, NULL) / (double)cores : 1;
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
