/* kolo_peer_bandwidth: the bandwidth and latency of copies between each pair of devices. See meter.h. */
#include "topology/topology.h"

#include <math.h>

#include "backend/device_information.h"
#include "runtime/runtime.h"

#define GPU_BYTES   64000000
#define CPU_BYTES   32000000 /* at least */
#define BYTES_MAX   ((int64_t)1 << 40)
#define SECONDS     0.03
#define SECONDS_MAX 60.0
#define RUNS        3
#define COPIES_MAX  64 /* per run: a GPU's queue has room for so many */

typedef struct measuring {
    const kolo_meter *meter;
    const kolo_topology_report *topology;
    kolo_bandwidth_report *report;
    kolo_side sides[KOLO_PEERS_MAX];
    double seconds;
} measuring;

/* ---------------------------------------------------------------- one pair */

/* Measures the fastest of several runs, since other activity only slows them down. A first copy warms up, and shows
 * how many copies there is time for. */
static kolo_status measure(const measuring *m, kolo_pair *pair, kolo_copies copies, double *speed)
{
    double seconds, fastest, bytes = (double)m->report->bytes * (copies.there + copies.back);
    copies.count = 1;
    KOLO_TRY(m->meter->time(pair, &copies, &fastest));
    double most = fmin(m->seconds / RUNS / fastest, COPIES_MAX); /* fmin: NaN gives COPIES_MAX */
    copies.count = most > 1 ? (int)most : 1;
    for (int run = 0; run < RUNS; run++) {
        KOLO_TRY(m->meter->time(pair, &copies, &seconds));
        fastest = fmin(fastest, seconds / copies.count);
    }
    *speed = bytes / fastest / 1e9;
    return KOLO_OK;
}

static kolo_status measure_latency(const measuring *m, kolo_pair *pair, bool back, bool direct, double *microseconds)
{
    double seconds, shortest = NAN;
    for (int run = 0; run < RUNS; run++) {
        KOLO_TRY(m->meter->latency(pair, back, direct, &seconds));
        shortest = fmin(shortest, seconds);
    }
    *microseconds = shortest * 1e6;
    return KOLO_OK;
}

static kolo_status measure_ways(const measuring *m, kolo_pair *pair, int a, int b, bool direct)
{
    kolo_peer_speeds *speeds = direct ? &m->report->direct : &m->report->staged;
    kolo_copies there = {.there = true, .direct = direct}, back = {.back = true, .direct = direct},
                both = {.there = true, .back = true, .direct = direct};
    KOLO_TRY(measure(m, pair, there, &speeds->one_way[a][b]));
    KOLO_TRY(measure(m, pair, both, &speeds->both_ways[a][b]));
    KOLO_TRY(measure_latency(m, pair, false, direct, &speeds->latency[a][b]));
    speeds->both_ways[b][a] = speeds->both_ways[a][b];
    if (a == b) return KOLO_OK;
    KOLO_TRY(measure(m, pair, back, &speeds->one_way[b][a]));
    return measure_latency(m, pair, true, direct, &speeds->latency[b][a]);
}

/* A copy within one GPU's memory reads and writes it, so its bytes count twice. */
static void count_twice(kolo_peer_speeds *speeds, int a, int b)
{
    speeds->one_way[a][b] *= 2;
    speeds->both_ways[a][b] *= 2;
    if (a == b) return;
    speeds->one_way[b][a] *= 2;
    speeds->both_ways[b][a] *= 2;
}

static void copy_figures(const kolo_peer_speeds *from, int a, int b, kolo_peer_speeds *to)
{
    to->one_way[a][b] = from->one_way[a][b];
    to->both_ways[a][b] = from->both_ways[a][b];
    to->latency[a][b] = from->latency[a][b];
}

/* Measures one pair. A pair without peer access has the same figures in report->direct as in report->staged. */
static kolo_status measure_pair(const measuring *m, int a, int b)
{
    const kolo_side sides[2] = {m->sides[a], m->sides[b]};
    kolo_bandwidth_report *report = m->report;
    kolo_pair *pair = NULL;
    bool one_memory = report->gpus && sides[0].device == sides[1].device;
    bool direct = !report->gpus || (!one_memory && m->topology->between[a][b].direct);
    if (kolo_stop_requested()) return kolo_fail(KOLO_INTERRUPTED, "stopped by request");
    KOLO_TRY(m->meter->open(sides, report->bytes, &pair));
    kolo_status status = report->gpus ? measure_ways(m, pair, a, b, false) : KOLO_OK;
    if (status == KOLO_OK && direct) status = measure_ways(m, pair, a, b, true);
    m->meter->close(&pair);
    if (one_memory) count_twice(&report->staged, a, b);
    if (direct) return status;
    copy_figures(&report->staged, a, b, &report->direct);
    copy_figures(&report->staged, b, a, &report->direct);
    return status;
}

/* ---------------------------------------------------------------- all of them */

static void forget(kolo_peer_speeds *speeds)
{
    for (int a = 0; a < KOLO_PEERS_MAX; a++)
        for (int b = 0; b < KOLO_PEERS_MAX; b++)
            speeds->one_way[a][b] = speeds->both_ways[a][b] = speeds->latency[a][b] = NAN;
}

static int64_t default_bytes(const kolo_machine *machine, bool gpus)
{
    if (gpus) return GPU_BYTES;
    return machine->cache_bytes > CPU_BYTES ? machine->cache_bytes : CPU_BYTES;
}

/* Checks that the host has memory for the copies. A system that overcommits memory would otherwise kill the process
 * when it writes to it. */
static kolo_status check_memory(const kolo_visible *visible, int64_t bytes)
{
    double left = (double)kolo_device_get(0).free_bytes * visible->count;
    if (4 * (double)bytes < left) return KOLO_OK;
    return kolo_fail(KOLO_MEMORY, "wanted four times %.3g GB of memory, got %.3g GB free: lower .bytes",
                     (double)bytes / 1e9, left / 1e9);
}

static kolo_status measure_all(const kolo_peer_bandwidth_args *args, const kolo_topology_report *topology,
                               kolo_bandwidth_report *report)
{
    kolo_visible visible = kolo_visible_now();
    kolo_machine machine = {.cache_bytes = 0};
    measuring m = {.meter = &kolo_cpu_meter, .topology = topology, .report = report, .seconds = args->seconds};
    if (visible.gpus) m.meter = kolo_gpu_information()->meter;
    else KOLO_TRY(kolo_machine_read(visible.count, topology->count, &machine));
    *report = (kolo_bandwidth_report){.count = topology->count, .gpus = visible.gpus > 0, .bytes = args->bytes};
    if (report->bytes == 0) report->bytes = default_bytes(&machine, report->gpus);
    if (!report->gpus) KOLO_TRY(check_memory(&visible, report->bytes));
    if (m.seconds == 0) m.seconds = SECONDS;
    forget(&report->staged), forget(&report->direct);
    int threads = kolo_threads() / visible.count;
    for (int i = 0; i < report->count; i++) {
        snprintf(report->name[i], sizeof report->name[i], "%s", topology->device[i].name);
        m.sides[i] = (kolo_side){i, &machine.spot[i], threads > 1 ? threads : 1};
        if (visible.gpus) m.sides[i].device = visible.device[i] % visible.gpus;
    }
    for (int a = 0; a < report->count; a++)
        for (int b = a; b < report->count; b++) KOLO_TRY(measure_pair(&m, a, b));
    return KOLO_OK;
}

static kolo_status check(const kolo_peer_bandwidth_args *args)
{
    if (args->bytes < 0 || args->bytes > BYTES_MAX)
        return kolo_fail(KOLO_INVALID, "bytes: wanted 1 to 2^40 of them, got %lld", (long long)args->bytes);
    if (!(args->seconds >= 0 && args->seconds <= SECONDS_MAX))
        return kolo_fail(KOLO_INVALID, "seconds: wanted more than 0, at most %g, got %g", SECONDS_MAX, args->seconds);
    return KOLO_OK;
}

static kolo_status measure_and_print(const kolo_peer_bandwidth_args *args, kolo_bandwidth_report *report)
{
    kolo_topology_report topology;
    KOLO_TRY(check(args));
    KOLO_TRY(kolo_topology_read(args->most, &topology));
    KOLO_TRY(measure_all(args, &topology, report));
    if (args->print && kolo_rank() == 0) return kolo_bandwidth_write(stdout, report);
    return KOLO_OK;
}

kolo_bandwidth_report kolo_peer_bandwidth_at(const kolo_peer_bandwidth_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_peer_bandwidth", here);
    kolo_bandwidth_report report = {.count = 0};
    kolo_status status = measure_and_print(args, &report);
    if (status == KOLO_INTERRUPTED) kolo_stop_obeyed();
    status = kolo_leave(scope, status);
    return status == KOLO_OK ? report : (kolo_bandwidth_report){.count = 0};
}
