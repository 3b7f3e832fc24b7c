/* Lesson 2.1, system topology: the checks of its exercises, the hints, the quiz. Included by the notebook's first cell.
 * What is said of a DGX-1 is in lesson_2_1_dgx.h. */
#ifndef COURSE_LESSON_2_1_H
#define COURSE_LESSON_2_1_H

#include "lesson_2_1_dgx.h"

enum { LESSON_RANKS = 4, LESSON_HOST = 16, LESSON_JOBS = 4 };

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
        "It is 0 on every rank. Did the names of all ranks arrive in the array, and does each part have 16 bytes? "
        "strcmp() compares names; == compares their addresses."};
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
        printf("Exercise 2.1.a wants four ranks, got %d: run the cells with %%ranks 4 and kolo_init() first.\n",
               kolo_size());
        return;
    }
    kolo_clear_error();
    bool fine = true;
    for (int job = 0; job < LESSON_JOBS && fine; job++) {
        mine[job] = local_rank(lesson_host(job, kolo_rank()));
        fine = kolo_last_error().code == KOLO_OK;
    }
    fine = fine && kolo_allgather(mine, LESSON_JOBS, &all[0][0]) == KOLO_OK;
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
    int n, order[LESSON_GPUS + 1]; /* the first n are in the ring; the last one is for an answer that reads order[n] */
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
        for (int j = 0; j < lesson_rings[ring].n; j++)
            if (j != i) least = fmin(least, bandwidth[order[i]][order[j]]);
    return least;
}

/* The slowest link if every device sent to the one before it. */
static inline double lesson_ring_backwards(int ring, const double bandwidth[LESSON_GPUS][LESSON_GPUS])
{
    const int *order = lesson_rings[ring].order, n = lesson_rings[ring].n;
    double least = INFINITY;
    for (int i = 0; i < n; i++) least = fmin(least, bandwidth[order[(i + 1) % n]][order[i]]);
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
        "The last device's neighbour is order[0]: the place after i is (i + 1) % n, not % 8 and not i + 1.",
        "You took the other direction. bandwidth[a][b] is that from a to b, and here a link is slower one way."};
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
                            lesson_ring_links(ring, n, false, LESSON_GPUS, bandwidth).least,
                            lesson_ring_backwards(ring, bandwidth)};
        for (int m = 0; m < count; m++) mistakes[m].result[ring] = results[m];
    }
    return count;
}

static inline void lesson_say_ring(int ring)
{
    printf("On a DGX-1 whose links are a tenth slower towards the GPU with the lower number, the ring of GPUs\n");
    for (int i = 0; i < lesson_rings[ring].n; i++) printf("%d, ", lesson_rings[ring].order[i]);
    printf("and back to %d:\n", lesson_rings[ring].order[0]);
}

static inline void lesson_check_ring(lesson_ring slowest_link)
{
    double bandwidth[LESSON_GPUS][LESSON_GPUS], got[LESSON_RINGS], wanted[LESSON_RINGS];
    lesson_mistake mistakes[9];
    int wrong = -1;
    if (!course_ready()) return;
    lesson_dgx1_bandwidth(bandwidth);
    for (int a = 0; a < LESSON_GPUS; a++)
        for (int b = 0; b < a; b++) bandwidth[a][b] *= 0.9; /* so that the direction counts */
    int count = lesson_ring_mistakes(mistakes, bandwidth);
    for (int ring = LESSON_RINGS - 1; ring >= 0; ring--) {
        int n = lesson_rings[ring].n;
        got[ring] = slowest_link(n, lesson_rings[ring].order, bandwidth);
        wanted[ring] = lesson_ring_links(ring, n, false, n, bandwidth).least;
        if (!lesson_equal(got[ring], wanted[ring])) wrong = ring;
    }
    if (wrong >= 0) lesson_say_ring(wrong);
    course_check("2.1.b", wrong < 0, "Expected %.2f GB/s, got %.2f. %s", wanted[wrong < 0 ? 0 : wrong],
                 got[wrong < 0 ? 0 : wrong],
                 lesson_name_mistake(mistakes, count, got, LESSON_RINGS,
                                     "Take the smallest bandwidth of the n links between neighbours."));
}

/* Whether the eight GPUs are in the ring, each once; prints a sentence if not. */
static inline bool lesson_is_ring(const int *order, size_t n)
{
    int seen[LESSON_GPUS] = {0}, all = n == LESSON_GPUS;
    for (size_t i = 0; i < n; i++)
        if (order[i] < 0 || order[i] >= LESSON_GPUS || seen[order[i]]++) all = 0;
    if (!all) printf("A ring of this DGX-1 has each of the GPUs 0 to 7 once.\n");
    return all;
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
     {"5", "2", "1", "0"},
     'c',
     "The second host has ranks 4, 5, 6 and 7. Their local ranks are 0, 1, 2 and 3."},
    {"A program starts with CUDA_VISIBLE_DEVICES=3,0. Which GPU of the machine is gpu:0 for it?",
     {"GPU 3", "GPU 0", "none, since the list must be sorted"},
     'a',
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
     {"computing took most of each step", "the fast link was not used", "both links have the same latency"},
     'a',
     "A faster link shortens only the communication, which was a small part of each step."}};

#endif
