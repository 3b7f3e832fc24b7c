/* How long a sum over N devices takes: see what_if.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/sum.h"
#include "core/clock.h"
#include "whatif/what_if.h"

/* ---------------------------------------------------------------- the memory of a host */

/* Array lengths that a rank works through: it copies what others read, adds its share of all, and copies the others'
 * sums back. */
static double passes(int ranks)
{
    return 1 + 2 * (double)(ranks - 1) / ranks;
}

enum {
    CHUNK = 1 << 16, /* floats: the chunk of the ranks' all-reduce (comm/shared.c) */
    CHUNKS = 16,
    RUNS = 9
};

/* What the first of two ranks does for one chunk. */
static void sum_chunk(float *values, float *slots)
{
    void *const from[] = {values, slots + CHUNK}, *const to[] = {slots, values};
    const size_t half = CHUNK / 2 * sizeof *values;
    kolo_copy_bytes(slots + CHUNK / 2, values + CHUNK / 2, half);
    kolo_sum_slice(KOLO_TYPE_FLOAT, from, 2, to, 2, 0, CHUNK / 2);
    kolo_copy_bytes(values + CHUNK / 2, slots + CHUNK + CHUNK / 2, half);
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

/* Measures one core, with the arithmetic of an all-reduce. */
static kolo_status measure_memory(double *rate)
{
    const size_t bytes = (CHUNKS + 2) * CHUNK * sizeof(float);
    double seconds[RUNS];
    float *values = calloc(1, bytes), *slots = values ? values + (ptrdiff_t)CHUNKS * CHUNK : NULL;
    if (!values) return kolo_fail_memory(bytes, "a measurement");
    memset(values, 0, bytes); /* touches the pages */
    for (int run = -1; run < RUNS; run++) {
        double begun = kolo_now();
        for (ptrdiff_t c = 0; c < CHUNKS; c++) sum_chunk(values + c * CHUNK, slots);
        if (run >= 0) seconds[run] = kolo_now() - begun;
    }
    free(values);
    qsort(seconds, RUNS, sizeof *seconds, compare);
    *rate = passes(2) * CHUNKS * CHUNK * sizeof(float) / seconds[RUNS / 2];
    return KOLO_OK;
}

static kolo_status find_memory(const kolo_what_if_args *args, const kolo_recording *recording, double recorded_share,
                               kolo_replay_links *links)
{
    const char *origin = "given";
    links->memory = args->memory * 1e9;
    if (args->memory == 0 && !isnan(recording->sum_rate)) {
        links->memory = recording->sum_rate * passes(recording->ranks) * recorded_share;
        origin = "as recorded";
    } else if (args->memory == 0) {
        KOLO_TRY(measure_memory(&links->memory));
        origin = "measured on this one";
    }
    snprintf(links->name, sizeof links->name, "the memory of a host at %.3g GB/s, %s", links->memory / 1e9, origin);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- a machine */

static kolo_link_model *open_machine(const kolo_what_if_args *args, int hosts)
{
    return kolo_link_model_open(args->machine, .hosts = hosts, .network = args->network, .link = args->link);
}

/* Opens as many hosts as the devices need, unless the call or the file says how many. */
static kolo_status find_machine(const kolo_what_if_args *args, int most, kolo_replay_links *links)
{
    links->model = args->model;
    if (args->machine) links->model = links->opened = open_machine(args, args->hosts);
    int each = links->opened ? kolo_link_model_devices(links->opened) / kolo_link_model_hosts(links->opened) : 0;
    if (links->opened && args->hosts == 0 && kolo_link_model_hosts(links->opened) == 1 && most > each) {
        kolo_link_model_free(&links->opened);
        links->model = links->opened = open_machine(args, (most + each - 1) / each);
    }
    if (!links->model) return kolo_last_error().code ? kolo_last_error().code : KOLO_INVALID;
    snprintf(links->name, sizeof links->name, "%s", kolo_link_model_name(links->model));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- both */

kolo_status kolo_replay_links_open(const kolo_what_if_args *args, const kolo_recording *recording,
                                   double recorded_share, int most, kolo_replay_links *links)
{
    *links = (kolo_replay_links){.algorithm = args->algorithm};
    if (args->model || args->machine) return find_machine(args, most, links);
    return find_memory(args, recording, recorded_share, links);
}

void kolo_replay_links_close(kolo_replay_links *links)
{
    kolo_link_model_free(&links->opened);
    *links = (kolo_replay_links){0};
}

kolo_status kolo_replay_links_sum(const kolo_replay_links *links, int devices, double bytes, double *seconds)
{
    *seconds = bytes * passes(devices) / links->memory;
    if (!links->model) return KOLO_OK;
    kolo_modelled_time time =
        kolo_link_model_time(links->model, bytes, .devices = devices, .algorithm = links->algorithm);
    *seconds = time.seconds;
    return isnan(time.seconds) ? KOLO_INVALID : KOLO_OK;
}
