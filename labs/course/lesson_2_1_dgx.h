/* Lesson 2.1: a DGX-1's links and what was published about them, measurements beside them, and the answers to the
 * lesson's predictions. Included by lesson_2_1.h. */
#ifndef COURSE_LESSON_2_1_DGX_H
#define COURSE_LESSON_2_1_DGX_H

#include "lesson_2.h"

enum { LESSON_GPUS = 8 };

/* ---------------------------------------------------------------- a DGX-1, published and modelled */

/* Row 0 of p2pBandwidthLatencyTest on a DGX-1V: from GPU 0 to GPUs 0 … 7, in GB/s both ways and in µs, without and with
 * peer access. Source: lesson 2.1 of "Distributed Deep Learning", OpenACC-Standard.org and NVIDIA, CC BY 4.0. */
static const double lesson_bandwidth_off[] = {783.95, 9.56, 14.43, 14.46, 14.47, 14.24, 14.51, 14.43},
                    lesson_bandwidth_on[] = {784.87, 48.49, 48.49, 96.85, 96.90, 14.25, 14.54, 14.49},
                    lesson_latency_off[] = {1.78, 17.52, 16.41, 16.43, 17.35, 16.88, 17.34, 16.85},
                    lesson_latency_on[] = {1.76, 1.62, 1.61, 2.01, 2.02, 18.44, 19.15, 19.34};

/* What nvidia-smi prints for a pair: NVLinks, or SYS on the way between the processors. (The model's kind is that of
 * the narrowest link of the way, which is PCIe there.) */
static inline const char *lesson_link(kolo_modelled_pair pair)
{
    static char name[sizeof pair.kind];
    snprintf(name, sizeof name, "%s", strncmp(pair.kind, "NV", 2) == 0 ? pair.kind : "SYS");
    return name;
}

/* Prints which link connects each pair of a machine's eight GPUs, as `nvidia-smi topo -m` does. */
static inline void lesson_print_links(const char *machine)
{
    kolo_link_model *model = kolo_link_model_open(machine);
    printf("%-9s", machine);
    for (int b = 0; b < LESSON_GPUS; b++) printf(" GPU%-2d", b);
    for (int a = 0; a < LESSON_GPUS; a++) {
        printf("\nGPU%-6d", a);
        for (int b = 0; b < LESSON_GPUS; b++)
            printf(" %-5s", a == b ? "X" : lesson_link(kolo_link_model_pair(model, a, b)));
    }
    printf("\n\n");
    kolo_link_model_free(&model);
}

/* Two GPUs of a DGX-1, with peer access or without. The figures of GPU 0 were published; the link model gives other
 * pairs those of the same kind of link. */
typedef struct lesson_pair {
    char link[12];
    double both_ways, latency; /* GB/s, µs */
    const char *origin; /* "published", "modelled", or "none" if there is no such pair */
} lesson_pair;

static inline lesson_pair lesson_dgx1(int a, int b, bool peer_access)
{
    lesson_pair pair = {"X", NAN, NAN, "none"};
    int other = a == 0 ? b : b == 0 ? a : 0;
    if (a < 0 || b < 0 || a >= LESSON_GPUS || b >= LESSON_GPUS || a == b) return pair;
    kolo_link_model *model = kolo_link_model_open("dgx-1v", .no_peer_access = !peer_access);
    kolo_modelled_pair modelled = kolo_link_model_pair(model, a, b);
    kolo_link_model_free(&model);
    snprintf(pair.link, sizeof pair.link, "%s", lesson_link(modelled));
    pair.both_ways = modelled.both_ways, pair.latency = modelled.latency, pair.origin = "modelled";
    if (other == 0) return pair;
    pair.both_ways = peer_access ? lesson_bandwidth_on[other] : lesson_bandwidth_off[other];
    pair.latency = peer_access ? lesson_latency_on[other] : lesson_latency_off[other];
    pair.origin = "published";
    return pair;
}

/* With peer access; says so if there is no such pair. */
static inline lesson_pair lesson_dgx1_pair(int a, int b)
{
    lesson_pair pair = {.both_ways = NAN};
    if (!course_ready()) return pair;
    pair = lesson_dgx1(a, b, true);
    if (isnan(pair.both_ways)) printf("Choose two different GPUs, each from 0 to 7; got %d and %d.\n", a, b);
    else
        printf("GPUs %d and %d: %s, %s: %.2f GB/s both ways, %.2f µs\n", a, b, pair.link, pair.origin, pair.both_ways,
               pair.latency);
    return pair;
}

/* A DGX-1 as a report that a notebook draws as heat maps. The published program copied 40,000,000 integers. */
static inline kolo_bandwidth_report lesson_dgx1_map(void)
{
    kolo_bandwidth_report map = {.count = LESSON_GPUS, .gpus = true, .bytes = 160000000};
    if (!course_ready()) return (kolo_bandwidth_report){0};
    for (int a = 0; a < LESSON_GPUS; a++) {
        snprintf(map.name[a], sizeof map.name[a], "gpu:%d", a);
        for (int b = 0; b < LESSON_GPUS; b++) {
            lesson_pair on = lesson_dgx1(a, b, true), off = lesson_dgx1(a, b, false);
            map.direct.one_way[a][b] = on.both_ways / 2, map.staged.one_way[a][b] = off.both_ways / 2;
            map.direct.both_ways[a][b] = on.both_ways, map.staged.both_ways[a][b] = off.both_ways;
            map.direct.latency[a][b] = on.latency, map.staged.latency[a][b] = off.latency;
        }
    }
    return map;
}

/* GB/s both ways between device 0 and devices 1 to 7; NaN for a device that is not there. */
static inline void lesson_first_row(const kolo_bandwidth_report *here, double row[7])
{
    for (int i = 0; i < 7; i++) row[i] = i + 1 < here->count ? here->direct.both_ways[0][i + 1] : NAN;
}

/* The largest figure between two different devices over the smallest; NaN if there are fewer than two. */
static inline double lesson_ratio(int count, const double figures[KOLO_PEERS_MAX][KOLO_PEERS_MAX])
{
    double least = INFINITY, most = 0;
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            if (a != b) least = fmin(least, figures[a][b]), most = fmax(most, figures[a][b]);
    return count > 1 ? most / least : NAN;
}

/* The fastest pair that was measured here over the slowest one, both ways at once. */
static inline double lesson_spread(const kolo_bandwidth_report *here)
{
    return lesson_ratio(here->count, here->direct.both_ways);
}
static inline double lesson_latency_spread(const kolo_bandwidth_report *here)
{
    return lesson_ratio(here->count, here->direct.latency);
}

/* The number of different connections in a table, without that of a device to itself. */
static inline int lesson_kinds(const kolo_topology_report *report)
{
    char seen[KOLO_PEERS_MAX * KOLO_PEERS_MAX][8];
    int kinds = 0;
    for (int a = 0; a < report->count; a++)
        for (int b = 0; b < report->count; b++) {
            int i = 0;
            while (i < kinds && strcmp(seen[i], report->between[a][b].name) != 0) i++;
            if (a != b && i == kinds) snprintf(seen[kinds++], sizeof seen[0], "%s", report->between[a][b].name);
        }
    return kinds;
}

/* ---------------------------------------------------------------- the answers to the lesson's predictions */

/* Of a rank, where each host has `ranks` and is filled before the next one. */
static inline double lesson_local_rank(int rank, int ranks)
{
    return rank % ranks;
}

/* KB whose transfer between GPUs 0 and 3 takes as long as the latency: latency × bandwidth each way. */
static inline double lesson_equal_kilobytes(void)
{
    return lesson_latency_on[3] * 1e-6 * lesson_bandwidth_on[3] / 2 * 1e9 / 1000;
}

/* The device that a list of visible devices makes device 0. */
static inline double lesson_first_of(const char *list)
{
    return atoi(list);
}

/* Prints what was published of training on two pairs of a DGX-1's GPUs, and returns by how much one was faster. The
 * calls of NCCL are the means of a profile; its picture of the second pair is named "2_7". */
static inline double lesson_print_trainings(void)
{
    const double rate[] = {101000, 97000}, call[] = {258.687, 560.119};
    printf("published  pair  images/s  one call of NCCL  step of 2 x 512 images\n");
    for (int i = 0; i < 2; i++)
        printf("           %s  %9.0f  %13.0f us  %19.1f ms\n", i ? "1,7" : "0,3", rate[i], call[i], 1024e3 / rate[i]);
    return rate[0] / rate[1];
}

/* Sets an environment variable, or gives it back the value that it had. */
static inline void lesson_variable(const char *name, const char *value, char kept[64], bool set)
{
    const char *before = getenv(name);
    if (set) {
        snprintf(kept, 64, "%s", before ? before : "");
        setenv(name, value, 1);
    } else if (*kept) setenv(name, kept, 1);
    else unsetenv(name);
}

/* Eight virtual CPU devices, whatever the machine has; false: the devices that there were. */
static inline void lesson_eight_devices(bool set)
{
    static char devices[64], count[64];
    lesson_variable("KOLO_DEVICES", "cpu", devices, set);
    lesson_variable("KOLO_CPU_DEVICES", "8", count, set);
}

#endif
