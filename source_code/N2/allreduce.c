/* How long an all-reduce takes: every member has an array of floats, and all get the sum of them.
 *
 *   kolorun -np 8 allreduce                               over eight ranks, by every algorithm, from 4 B to 64 MB
 *   allreduce --devices 4                                 over four CPU devices (default: all), which are threads
 *   kolorun -np 8 allreduce --algorithm ring --min-bytes 4800000 --max-bytes 4800000
 *   kolorun -np 8 allreduce --json run/allreduce.json     the same figures for other programs
 *
 * "library" is kolo_allreduce(), between ranks only. "shared" reads the others' memory, between threads only. The other
 * three send and receive messages: kolo_send() between ranks, and a copy from thread to thread. A result that is not
 * the sum ends the program. The bus bandwidth is that of NVIDIA's nccl-tests: bytes / seconds × 2(n−1)/n for n members.
 */
#include <kolo.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- the members, and their messages */

/* What the threads of this process share. A message is handed over: the sender waits until the receiver has copied it.
 */
typedef struct threads {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_barrier_t barrier;
    const float *message[KOLO_DEVICES_MAX][KOLO_DEVICES_MAX]; /* from, to; NULL: none */
    float *values[KOLO_DEVICES_MAX];
    double value[KOLO_DEVICES_MAX];
} threads;

typedef struct member {
    int rank, size;
    threads *threads; /* NULL: the member is a rank of a job */
    float *room;      /* for one array that is received */
    bool failed;
} member;

static void note(member *m, kolo_status status)
{
    m->failed = m->failed || status != KOLO_OK;
}

static void hand_over(threads *t, const float *values, int from, int to)
{
    pthread_mutex_lock(&t->lock);
    t->message[from][to] = values;
    pthread_cond_broadcast(&t->changed);
    while (t->message[from][to]) pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void take(threads *t, float *values, int64_t count, int from, int to)
{
    pthread_mutex_lock(&t->lock);
    while (!t->message[from][to]) pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    memcpy(values, t->message[from][to], (size_t)count * sizeof *values);
    pthread_mutex_lock(&t->lock);
    t->message[from][to] = NULL;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

static void send(member *m, const float *values, int64_t count, int to)
{
    if (m->threads) hand_over(m->threads, values, m->rank, to);
    else note(m, kolo_send(values, count, to));
}

static void receive(member *m, float *values, int64_t count, int from)
{
    if (m->threads) take(m->threads, values, count, from, m->rank);
    else note(m, kolo_receive(values, count, from));
}

static void receive_and_add(member *m, float *values, int64_t count, int from)
{
    receive(m, m->room, count, from);
    for (int64_t i = 0; i < count; i++) values[i] += m->room[i];
}

static void wait_for_all(member *m)
{
    if (m->threads) pthread_barrier_wait(&m->threads->barrier);
    else note(m, kolo_barrier());
}

static double largest(member *m, double value)
{
    if (!m->threads) {
        note(m, kolo_allreduce(&value, 1, .op = KOLO_REDUCE_MAX));
        return value;
    }
    m->threads->value[m->rank] = value;
    wait_for_all(m);
    for (int r = 0; r < m->size; r++) value = fmax(value, m->threads->value[r]);
    wait_for_all(m);
    return value;
}

/* Whether all members are well so far. All get the same answer, unless the question itself fails. */
static bool agree(member *m, bool well)
{
    bool all = largest(m, !well) == 0;
    m->failed = m->failed || !well || !all;
    return !m->failed;
}

/* ---------------------------------------------------------------- the algorithms */

/* Member 0 receives every array, adds it, and sends the sum to each: 2(n−1) messages of the whole array, one after the
 * other. */
static void gather(member *m, float *values, int64_t count)
{
    if (m->rank != 0) {
        send(m, values, count, 0);
        receive(m, values, count, 0);
        return;
    }
    for (int r = 1; r < m->size; r++) receive_and_add(m, values, count, r);
    for (int r = 1; r < m->size; r++) send(m, values, count, r);
}

/* A binomial tree with member 0 at its root. Sums go up in log2 n rounds: in the round of `step` a member whose number
 * is an odd multiple of it sends to the one that is `step` below, and is done. The result comes down the same way. */
static void tree(member *m, float *values, int64_t count)
{
    int step = 1;
    for (; step < m->size && m->rank % (2 * step) == 0; step *= 2)
        if (m->rank + step < m->size) receive_and_add(m, values, count, m->rank + step);
    if (m->rank != 0) {
        send(m, values, count, m->rank - step);
        receive(m, values, count, m->rank - step);
    }
    for (step /= 2; step >= 1; step /= 2)
        if (m->rank + step < m->size) send(m, values, count, m->rank + step);
}

static int64_t begin(const member *m, int64_t count, int chunk)
{
    return count * chunk / m->size;
}

/* Sends chunk `gives` to the next member and receives chunk `takes` from the one before. A large message is sent when
 * it is received, so even members send first and odd ones receive first, or all would wait for each other. */
static void pass_on(member *m, float *values, int64_t count, int gives, int takes, bool add)
{
    int next = (m->rank + 1) % m->size, before = (m->rank + m->size - 1) % m->size;
    int64_t out = begin(m, count, gives), in = begin(m, count, takes), length = begin(m, count, takes + 1) - in;
    if (m->rank % 2 == 0) send(m, values + out, begin(m, count, gives + 1) - out, next);
    if (add) receive_and_add(m, values + in, length, before);
    else receive(m, values + in, length, before);
    if (m->rank % 2 == 1) send(m, values + out, begin(m, count, gives + 1) - out, next);
}

/* A ring: the array is cut into n chunks. After n−1 rounds of adding, each member has the sum of one chunk; n−1 rounds
 * of copying give it to the others. Each member sends 2(n−1)/n of the array. Patarasuk and Yuan 2009. */
static void ring(member *m, float *values, int64_t count)
{
    int n = m->size;
    for (int round = 0; round < n - 1; round++)
        pass_on(m, values, count, (m->rank + n - round) % n, (m->rank + 2 * n - round - 1) % n, true);
    for (int round = 0; round < n - 1; round++)
        pass_on(m, values, count, (m->rank + 1 + n - round) % n, (m->rank + n - round) % n, false);
}

static void library(member *m, float *values, int64_t count)
{
    note(m, kolo_allreduce(values, count));
}

/* Threads need no messages: each adds up one chunk of all arrays, and writes the sums to all of them. */
static void shared(member *m, float *values, int64_t count)
{
    float **all = m->threads->values;
    all[m->rank] = values;
    wait_for_all(m);
    for (int64_t i = begin(m, count, m->rank); i < begin(m, count, m->rank + 1); i++) {
        float sum = 0;
        for (int r = 0; r < m->size; r++) sum += all[r][i];
        for (int r = 0; r < m->size; r++) all[r][i] = sum;
    }
    wait_for_all(m);
}

static const struct algorithm {
    const char *name;
    void (*run)(member *m, float *values, int64_t count);
} algorithms[] = {{"library", library}, {"shared", shared}, {"ring", ring}, {"tree", tree}, {"gather", gather}};
enum { ALGORITHMS = sizeof algorithms / sizeof *algorithms };

/* ---------------------------------------------------------------- measuring */

typedef struct request {
    const char *algorithm, *json;
    int min_bytes, max_bytes, factor;
    double seconds;
    int ranks, devices;
    FILE *out; /* of the JSON; NULL: none */
    bool first; /* row of the JSON */
} request;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Seconds of one all-reduce: those of the slowest member, over `times` of them. */
static double time_of(member *m, const struct algorithm *algorithm, float *values, int64_t count, int times)
{
    wait_for_all(m);
    double start = now();
    for (int i = 0; i < times && !m->failed; i++) algorithm->run(m, values, count);
    return largest(m, now() - start) / times;
}

/* Member r has r + 1 everywhere, so that each sum is n(n+1)/2. */
static bool is_right(member *m, const struct algorithm *algorithm, float *values, int64_t count)
{
    float wanted = (float)m->size * (float)(m->size + 1) / 2, got = wanted;
    for (int64_t i = 0; i < count; i++) values[i] = (float)(m->rank + 1);
    algorithm->run(m, values, count);
    for (int64_t i = 0; i < count; i++)
        if (values[i] != wanted) got = values[i];
    if (got != wanted)
        fprintf(stderr, "allreduce: %s: wanted the sum %g of %lld floats on member %d, got %g\n", algorithm->name,
                (double)wanted, (long long)count, m->rank, (double)got);
    return agree(m, !m->failed && got == wanted);
}

/* The best of three runs, which other programs on the machine have disturbed least. */
static double measure(member *m, const request *r, const struct algorithm *algorithm, float *values, int64_t count)
{
    if (!is_right(m, algorithm, values, count)) return NAN;
    memset(values, 0, (size_t)count * sizeof *values); /* sums of sums would overflow */
    double best = time_of(m, algorithm, values, count, 1);
    int times = (int)fmin(1e6, fmax(1, r->seconds / 3 / best));
    for (int run = 0; run < 3 && !m->failed; run++) best = fmin(best, time_of(m, algorithm, values, count, times));
    return m->failed ? NAN : best;
}

static void report(request *r, const member *m, const char *algorithm, int64_t bytes, double seconds)
{
    double bus = (double)bytes / seconds * 2 * (m->size - 1) / m->size / 1e9;
    printf("%-9s  %12lld  %12.2f  %8.3f\n", algorithm, (long long)bytes, 1e6 * seconds, bus);
    fflush(stdout);
    if (r->out)
        fprintf(r->out, "%s\n  {\"algorithm\": \"%s\", \"bytes\": %lld, \"seconds\": %.9g, \"bus_bandwidth\": %.6g}",
                r->first ? "" : ",", algorithm, (long long)bytes, seconds, bus);
    r->first = false;
}

/* Every algorithm that is asked for, but "library" between ranks only and "shared" between threads only. */
static bool is_wanted(const request *r, const struct algorithm *algorithm)
{
    if (algorithm->run == library && r->devices > 1) return false;
    if (algorithm->run == shared && r->devices == 1) return false;
    return strcmp(r->algorithm, "all") == 0 || strcmp(r->algorithm, algorithm->name) == 0;
}

/* All sizes, with every algorithm that is asked for. */
static void measure_all(member *m, request *r)
{
    float *values = malloc((size_t)r->max_bytes + sizeof *values);
    m->room = malloc((size_t)r->max_bytes + sizeof *values);
    if (!agree(m, values && m->room) && m->rank == 0)
        fprintf(stderr, "allreduce: out of memory: wanted twice %d bytes\n", r->max_bytes);
    if (m->rank == 0 && !m->failed) printf("algorithm         bytes  microseconds  bus GB/s\n");
    for (int64_t bytes = r->min_bytes; bytes <= r->max_bytes && !m->failed; bytes *= r->factor)
        for (int a = 0; a < ALGORITHMS && !m->failed; a++) {
            if (!is_wanted(r, &algorithms[a])) continue;
            double seconds = measure(m, r, &algorithms[a], values, bytes / (int64_t)sizeof *values);
            if (m->rank == 0 && !m->failed) report(r, m, algorithms[a].name, bytes, seconds);
        }
    free(values), free(m->room);
}

/* ---------------------------------------------------------------- threads */

typedef struct thread {
    pthread_t id;
    member member;
    request *request;
} thread;

static void *run_thread(void *argument)
{
    thread *t = argument;
    measure_all(&t->member, t->request);
    return NULL;
}

static void start_or_end(int error)
{
    if (error == 0) return;
    fprintf(stderr, "allreduce: a thread cannot be started: %s\n", strerror(error));
    exit(1);
}

/* A thread for each device; the first one is this thread. */
static bool measure_devices(request *r)
{
    static threads together = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    thread all[KOLO_DEVICES_MAX];
    pthread_barrier_init(&together.barrier, NULL, (unsigned)r->devices);
    for (int i = 0; i < r->devices; i++)
        all[i] = (thread){.member = {.rank = i, .size = r->devices, .threads = &together}, .request = r};
    for (int i = 1; i < r->devices; i++) start_or_end(pthread_create(&all[i].id, NULL, run_thread, &all[i]));
    run_thread(&all[0]);
    for (int i = 1; i < r->devices; i++) pthread_join(all[i].id, NULL);
    pthread_barrier_destroy(&together.barrier);
    return !all[0].member.failed;
}

/* ---------------------------------------------------------------- options */

/* Wrong use is one sentence, from rank 0. */
static void refuse(const char *wanted, const char *got)
{
    if (kolo_rank() == 0) fprintf(stderr, "allreduce: wanted %s, got %s\n", wanted, got);
    kolo_finish();
    exit(2);
}

static void check(const request *r)
{
    char got[64];
    snprintf(got, sizeof got, "--min-bytes %d and --max-bytes %d", r->min_bytes, r->max_bytes);
    if (r->min_bytes % 4 || r->max_bytes < r->min_bytes)
        refuse("--min-bytes in whole floats of 4 bytes, and at most --max-bytes", got);
    if (r->factor < 2) refuse("--factor of at least 2", "--factor 1");
    if (r->ranks == 1 && r->devices < 2) refuse("at least two members: kolorun -np N, or --devices N", "one");
    if (r->devices > 1 && strcmp(r->algorithm, "library") == 0)
        refuse("--algorithm library between ranks: kolorun -np N", "--devices");
    if (r->ranks > 1 && strcmp(r->algorithm, "shared") == 0)
        refuse("--algorithm shared between the threads of --devices N", "ranks");
    if (r->devices > 1 && strncmp(kolo_device_get(0).name, "cpu", 3) != 0)
        refuse("CPU devices with --devices (KOLO_DEVICES=cpu); between GPUs all_reduce_perf of nccl-tests measures",
               kolo_device_get(0).name);
}

static void read_request(int argc, char **argv, request *r)
{
    const kolo_program_option own[] = {
        {"algorithm", "all|library|shared|ring|tree|gather",
         "that sums: libkolo's between ranks; in the memory that threads share; or one made of messages",
         .choice = &r->algorithm},
        {"min-bytes", "N", "of the smallest array, a multiple of 4", .count = &r->min_bytes},
        {"max-bytes", "N", "that no array exceeds", .count = &r->max_bytes},
        {"factor", "N", "from one size to the next", .count = &r->factor},
        {"seconds", "X", "that one figure takes, or three all-reduces if these take longer", .number = &r->seconds},
        {"json", "FILE", "also write the figures to this file", .text = &r->json, .written = true},
        {0},
    };
    kolo_options options = {.trains_nothing = true, .own = own};
    kolo_parse_options(argc, argv, &options, "Measures how long an all-reduce of floats takes, by several algorithms.");
    r->ranks = kolo_size();
    if (r->ranks > 1 && options.devices) refuse("--devices in a program of one rank", "several ranks");
    r->devices = options.devices ? options.devices : r->ranks > 1 ? 1 : kolo_device_count();
    check(r);
}

/* Begins the file that .json asks for, as `path`.part: it gets its name when it is complete. */
static bool open_json(request *r, char *part, size_t size)
{
    if (!r->json || kolo_rank() != 0) return true;
    snprintf(part, size, "%s.part", r->json);
    r->out = fopen(part, "w");
    if (r->out) fprintf(r->out, "{\"ranks\": %d, \"devices\": %d, \"results\": [", r->ranks, r->devices);
    else perror(part);
    return r->out != NULL;
}

static bool close_json(request *r, const char *part, bool right)
{
    if (!r->out) return right;
    bool written = fprintf(r->out, "\n]}\n") > 0 && !ferror(r->out);
    if (fclose(r->out) != 0) written = false;
    if (right && written && rename(part, r->json) == 0) return true;
    if (right) perror(r->json);
    remove(part);
    return false;
}

int main(int argc, char **argv)
{
    request r = {.algorithm = "all", .min_bytes = 4, .max_bytes = 64 << 20, .factor = 4, .seconds = 0.1, .first = true};
    char part[4096];
    kolo_init(&argc, &argv);
    read_request(argc, argv, &r);
    member rank = {.rank = kolo_rank(), .size = kolo_size()};
    bool right = agree(&rank, open_json(&r, part, sizeof part));
    if (right && r.devices > 1) right = measure_devices(&r);
    else if (right) measure_all(&rank, &r), right = !rank.failed;
    right = close_json(&r, part, right);
    return kolo_finish() || !right;
}
