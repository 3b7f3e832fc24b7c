/* Lesson 2.1, system topology: a DGX-1's links and what was published about them, the checks, the hints, the quiz.
 * Included by the notebook's first cell. */
#ifndef COURSE_LESSON_2_1_H
#define COURSE_LESSON_2_1_H

#include "lesson_2.h"

enum { LESSON_GPUS = 8, LESSON_RANKS = 4, LESSON_HOST = 16, LESSON_JOBS = 4 };

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
    lesson_pair pair = lesson_dgx1(a, b, true);
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

/* ---------------------------------------------------------------- exercise 2.1.a: the local rank */

/* The host of a rank in one of four jobs of four ranks. The table is in the function, since a rank's process has the
 * functions of a notebook, but not the values of its variables. */
static inline const char *lesson_host(int job, int rank)
{
    static const char hosts[LESSON_JOBS][LESSON_RANKS][LESSON_HOST] = {{"node1", "node1", "node2", "node2"},
                                                                       {"node1", "node10", "node1", "node10"},
                                                                       {"node3", "node2", "node2", "node2"},
                                                                       {"node1", "node1", "node1", "node1"}};
    return hosts[job][rank];
}

/* The ranks from … to-1 that are on the rank's host. */
static inline double lesson_same_host(int job, int rank, int from, int to)
{
    int count = 0;
    for (int r = from; r < to; r++) count += strcmp(lesson_host(job, r), lesson_host(job, rank)) == 0;
    return count;
}

/* Fills in the results of typical mistakes, in 4 jobs of 4 ranks. Returns their number. */
static inline int lesson_local_rank_mistakes(lesson_mistake *mistakes)
{
    static const char *const sentences[] = {
        "It returns -1: the function is not written yet.",
        "That is the rank, or every host was taken for the same one. Count only ranks whose host has the same name.",
        "You counted all ranks of the host. That is the local size. Count only the ranks below your own.",
        "You counted yourself, too. Local ranks begin at 0.",
        "You counted the ranks above your own. Count those below.",
        "You counted the lower ranks of other hosts. strcmp() returns 0 if two names are equal.",
        "That is the rank modulo 2. It is right where ranks fill one host after the other, and wrong elsewhere.",
        "Only the beginnings of the names were compared. Compare whole names: node1 and node10 differ.",
        "It is 0 on every rank. Did the names of all ranks arrive in the array, and does each part have 16 bytes?"};
    int count = (int)(sizeof sentences / sizeof *sentences);
    for (int m = 0; m < count; m++) mistakes[m].sentence = sentences[m];
    for (int i = 0; i < LESSON_JOBS * LESSON_RANKS; i++) {
        int job = i / LESSON_RANKS, rank = i % LESSON_RANKS;
        double below = lesson_same_host(job, rank, 0, rank), size = lesson_same_host(job, rank, 0, LESSON_RANKS);
        double results[] = {-1,
                            rank,
                            size,
                            below + 1,
                            size - 1 - below,
                            rank - below,
                            rank % 2,
                            lesson_same_host(job % 2 ? 3 : job, rank, 0, rank),
                            0};
        for (int m = 0; m < count; m++) mistakes[m].result[i] = results[m];
    }
    return count;
}

/* Says whether got[4 jobs × 4 ranks] is right; if not, the first wrong answer and the mistake. */
static inline void lesson_judge_local_rank(const double *got)
{
    lesson_mistake mistakes[9];
    int count = lesson_local_rank_mistakes(mistakes), cases = LESSON_JOBS * LESSON_RANKS;
    for (int i = 0; i < cases; i++) {
        int job = i / LESSON_RANKS, rank = i % LESSON_RANKS;
        double wanted = lesson_same_host(job, rank, 0, rank);
        if (got[i] == wanted) continue;
        course_check("2.1.a", false,
                     "Ranks 0 to 3 are on %s, %s, %s and %s: expected the local rank %g of rank %d, got %g. %s",
                     lesson_host(job, 0), lesson_host(job, 1), lesson_host(job, 2), lesson_host(job, 3), wanted, rank,
                     got[i],
                     lesson_name_mistake(mistakes, count, got, cases,
                                         "Count the ranks below your own whose host has the same name."));
        return;
    }
    course_check("2.1.a", true, " ");
}

/* Calls the learner's function on four ranks, as if they were on the hosts of four jobs. In a %%ranks cell. */
static inline void lesson_check_local_rank(int (*local_rank)(const char *host))
{
    double mine[LESSON_JOBS], all[LESSON_RANKS][LESSON_JOBS], got[LESSON_JOBS * LESSON_RANKS];
    if (kolo_size() != LESSON_RANKS) {
        printf("Exercise 2.1.a wants four ranks, got %d: run the cell with %%ranks 4 first.\n", kolo_size());
        return;
    }
    lesson_limit_waiting(true);
    bool fine = true;
    for (int job = 0; job < LESSON_JOBS && fine; job++) {
        mine[job] = local_rank(lesson_host(job, kolo_rank()));
        fine = kolo_last_error().code == KOLO_OK;
    }
    fine = fine && kolo_allgather(mine, LESSON_JOBS, &all[0][0]) == KOLO_OK;
    lesson_limit_waiting(false);
    if (!fine) {
        if (kolo_rank() == 0)
            course_check("2.1.a", false,
                         "A collective failed. Every rank must make the same call, with the same count.");
        return;
    }
    for (int i = 0; i < LESSON_JOBS * LESSON_RANKS; i++) got[i] = all[i % LESSON_RANKS][i / LESSON_RANKS];
    if (kolo_rank() == 0) lesson_judge_local_rank(got);
}

/* ---------------------------------------------------------------- exercise 2.1.b: the slowest link of a ring */

typedef double (*lesson_ring)(int n, const int *order, const double bandwidth[LESSON_GPUS][LESSON_GPUS]);

enum { LESSON_RINGS = 5 };
static const struct {
    int n, order[LESSON_GPUS]; /* the first n are in the ring */
} lesson_rings[LESSON_RINGS] = {{4, {0, 3, 2, 1, 6, 5, 4, 7}},
                                {4, {0, 1, 2, 3, 7, 6, 5, 4}},
                                {8, {0, 1, 2, 3, 7, 6, 5, 4}},
                                {3, {6, 1, 5, 0, 2, 3, 4, 7}},
                                {2, {1, 7, 3, 0, 2, 4, 5, 6}}};

/* GB/s each way between all pairs of a DGX-1, half of both ways; 0 from a GPU to itself. */
static inline void lesson_dgx1_bandwidth(double bandwidth[LESSON_GPUS][LESSON_GPUS])
{
    for (int a = 0; a < LESSON_GPUS; a++)
        for (int b = 0; b < LESSON_GPUS; b++) bandwidth[a][b] = a == b ? 0 : lesson_dgx1(a, b, true).both_ways / 2;
}

typedef struct lesson_links {
    double least, most, sum;
} lesson_links;

/* Over so many links of a ring. by_place: of the devices whose numbers are the places. modulo: n, or what a mistake
 * has. */
static inline lesson_links lesson_ring_links(int ring, int links, bool by_place, int modulo,
                                             const double bandwidth[LESSON_GPUS][LESSON_GPUS])
{
    lesson_links all = {INFINITY, 0, 0};
    for (int i = 0; i < links; i++) {
        int next = (i + 1) % modulo, from = lesson_rings[ring].order[i], to = lesson_rings[ring].order[next];
        double link = by_place ? bandwidth[i][next] : bandwidth[from][to];
        all.least = fmin(all.least, link), all.most = fmax(all.most, link), all.sum += link;
    }
    return all;
}

static inline double lesson_slowest_pair(int ring, const double bandwidth[LESSON_GPUS][LESSON_GPUS])
{
    const int *order = lesson_rings[ring].order;
    double least = INFINITY;
    for (int i = 0; i < lesson_rings[ring].n; i++)
        for (int j = 0; j < i; j++) least = fmin(least, bandwidth[order[i]][order[j]]);
    return least;
}

static inline int lesson_ring_mistakes(lesson_mistake *mistakes, const double bandwidth[LESSON_GPUS][LESSON_GPUS])
{
    static const char *const sentences[] = {
        "It is 0: the function is not written yet, or its smallest value began at 0, and no link is below that.",
        "The link from the last device back to the first one is missing: a ring is closed.",
        "That is the fastest link. The slowest one sets the pace.",
        "That is the mean of the links. All devices wait for the slowest one.",
        "That is the sum of the links. All devices wait for the slowest one.",
        "You used the places in the ring as device numbers. The device at place i is order[i].",
        "You compared all pairs. Only neighbours in the ring send to each other.",
        "The last device's neighbour is order[0]: the place after i is (i + 1) % n, not % 8."};
    int count = (int)(sizeof sentences / sizeof *sentences);
    for (int m = 0; m < count; m++) mistakes[m].sentence = sentences[m];
    for (int ring = 0; ring < LESSON_RINGS; ring++) {
        int n = lesson_rings[ring].n;
        lesson_links right = lesson_ring_links(ring, n, false, n, bandwidth);
        double results[] = {0,
                            lesson_ring_links(ring, n - 1, false, n, bandwidth).least,
                            right.most,
                            right.sum / n,
                            right.sum,
                            lesson_ring_links(ring, n, true, n, bandwidth).least,
                            lesson_slowest_pair(ring, bandwidth),
                            lesson_ring_links(ring, n, false, LESSON_GPUS, bandwidth).least};
        for (int m = 0; m < count; m++) mistakes[m].result[ring] = results[m];
    }
    return count;
}

static inline void lesson_say_ring(int ring)
{
    printf("The ring of GPUs ");
    for (int i = 0; i < lesson_rings[ring].n; i++) printf("%d, ", lesson_rings[ring].order[i]);
    printf("and back to %d:\n", lesson_rings[ring].order[0]);
}

static inline void lesson_check_ring(lesson_ring slowest_link)
{
    double bandwidth[LESSON_GPUS][LESSON_GPUS], got[LESSON_RINGS], wanted[LESSON_RINGS];
    lesson_mistake mistakes[8];
    int wrong = -1;
    lesson_dgx1_bandwidth(bandwidth);
    int count = lesson_ring_mistakes(mistakes, bandwidth);
    for (int ring = LESSON_RINGS - 1; ring >= 0; ring--) {
        int n = lesson_rings[ring].n;
        got[ring] = slowest_link(n, lesson_rings[ring].order, bandwidth);
        wanted[ring] = lesson_ring_links(ring, n, false, n, bandwidth).least;
        if (!lesson_equal(got[ring], wanted[ring])) wrong = ring;
    }
    if (wrong >= 0) lesson_say_ring(wrong);
    course_check("2.1.b", wrong < 0, "expected %.2f GB/s, got %.2f. %s", wanted[wrong < 0 ? 0 : wrong],
                 got[wrong < 0 ? 0 : wrong],
                 lesson_name_mistake(mistakes, count, got, LESSON_RINGS,
                                     "Take the smallest bandwidth of the n links between neighbours."));
}

/* ---------------------------------------------------------------- hints and quiz */

static inline void lesson_begin(void)
{
    course_begin("2.1");
    course_hints("2.1.a", "A rank knows only its own host. Which collective gives every rank the values of all ranks?",
                 "kolo_allgather() puts the 16 bytes of rank r at all + 16 * r. Every rank must call it.",
                 "Go through the ranks below kolo_rank(), and count those whose name equals host.");
    course_hints("2.1.b", "A ring of n devices has n links. Which two devices does the last link connect?",
                 "The device at place i is order[i], and it sends to the device at place (i + 1) % n.",
                 "Begin with INFINITY as the smallest value, and go through all n places with fmin().");
}

static const course_question lesson_questions[COURSE_QUESTIONS] = {
    {"A job has two hosts with four ranks each. Ranks fill one host after the other. What is the local rank of rank 5?",
     {"5", "1", "2", "0"},
     'b',
     "The second host has ranks 4, 5, 6 and 7. Their local ranks are 0, 1, 2 and 3."},
    {"A program starts with CUDA_VISIBLE_DEVICES=3,0. Which GPU of the machine is gpu:0 for it?",
     {"GPU 0", "GPU 3", "none, since the list must be sorted"},
     'b',
     "The devices are renumbered in the order of the list, so gpu:0 is the machine's GPU 3."},
    {"Two devices have a latency of 2 µs and 50 GB/s. What decides how long a message of 4 bytes takes?",
     {"the bandwidth", "the latency", "both alike"},
     'b',
     "4 bytes take 0.00008 µs at 50 GB/s, so nearly all of the time is latency."},
    {"A DGX-1 trains with NCCL_P2P_LEVEL=LOC. How do GPUs 0 and 3 exchange gradients?",
     {"over two NVLinks", "over PCIe, from GPU to GPU", "through the memory of the host"},
     'c',
     "LOC never uses peer-to-peer transfers, so the host's memory stages the data."},
    {"GPUs 0 and 3 trained only 1.04 times as fast as GPUs 1 and 7, although their link is much faster. Why?",
     {"the fast link was not used", "computing took most of each step", "both links have the same latency"},
     'b',
     "A faster link shortens only the communication, which was a small part of each step."}};

#endif
