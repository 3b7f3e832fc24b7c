/* How fast ranks of this host sum in its memory, measured by an all-reduce between two threads: see what_if.h. */
#include <stdlib.h>
#include <string.h>

#include "backend/team.h"
#include "comm/shareable.h"
#include "comm/shared.h"
#include "core/clock.h"
#include "core/cores.h"
#include "core/median.h"
#include "whatif/what_if.h"

enum {
    MEMBERS = 2,
    COUNT = 1 << 20, /* floats: gradients of a small network */
    RUNS = 9,
    LOOKS = 1000 /* at a barrier before a thread yields: a few microseconds */
};

typedef struct measurement {
    kolo_shared shared[MEMBERS];
    float *values; /* [MEMBERS][COUNT] */
    double seconds[RUNS]; /* of member 0 */
} measurement;

static kolo_status sum(void *argument, int member)
{
    measurement *m = argument;
    for (int run = -1; run < RUNS; run++) { /* the first one begins when both have come */
        double begun = kolo_now();
        KOLO_TRY(kolo_shared_allreduce(&m->shared[member], m->values + (ptrdiff_t)member * COUNT, COUNT,
                                       KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
        if (member == 0 && run >= 0) m->seconds[run] = kolo_now() - begun;
    }
    return KOLO_OK;
}

static kolo_status sum_in(measurement *m, void *memory)
{
    kolo_team *team = NULL;
    int opened = 0;
    kolo_status status = kolo_team_open(MEMBERS, &team);
    for (; opened < MEMBERS && status == KOLO_OK; opened++) {
        status = kolo_shared_open(&m->shared[opened], memory, opened, MEMBERS);
        m->shared[opened].spins = kolo_cores_usable() >= MEMBERS ? LOOKS : 0;
    }
    if (status == KOLO_OK) status = kolo_team_run(team, sum, m);
    while (opened-- > 0) kolo_shared_close(&m->shared[opened]);
    kolo_team_close(&team);
    return status;
}

kolo_status kolo_measure_memory(double *rate)
{
    const size_t bytes = COUNT * sizeof(float), shared = kolo_shared_bytes(MEMBERS);
    measurement m = {.values = kolo_shareable_allocate(MEMBERS * bytes)}; /* as gradients are (replica/arrays.c) */
    void *memory = calloc(1, shared);
    bool fine = m.values && memory;
    if (fine) memset(m.values, 1, MEMBERS * bytes); /* touches the pages; small numbers */
    kolo_status status = fine ? sum_in(&m, memory) : kolo_fail_memory(MEMBERS * bytes + shared, "a measurement");
    kolo_shareable_deallocate(m.values);
    free(memory);
    if (status != KOLO_OK) return status;
    double turns = kolo_cores_usable() < MEMBERS ? MEMBERS : 1; /* on one core they take turns */
    *rate = KOLO_SUM_PASSES * (double)bytes * turns / kolo_median(m.seconds, RUNS);
    return KOLO_OK;
}
