/* Copies between CPU devices, which share one memory: the threads of one device, bound to its processors, read what
 * the threads of the other have written. These also touch that memory first, which places it on their NUMA node. See
 * meter.h. */
#define _GNU_SOURCE
#include "topology/topology.h"
#include "core/cores.h"
#include "core/clock.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/team.h"

#define PAGE          ((size_t)2 << 20) /* a huge page: to touch small ones takes longer than to copy them */
#define ROUNDS        16   /* round trips that are timed together */
#define TIMED_SECONDS 2e-3 /* of one measurement */
#define SPINS         2000 /* before a waiting thread yields, if the two threads have different processors */

/* Two threads pass this back and forth: a turn number and a payload, each on a separate cache line. */
typedef struct mailbox {
    _Alignas(128) atomic_int turn; /* even: the first thread's turn; odd: the second's; -1: the end */
    _Alignas(128) char payload[16];
} mailbox;

struct kolo_pair {
    kolo_side sides[2];
    size_t bytes;
    bool same_device, take_turns; /* take_turns: both sides may run on the same processor */
    kolo_team *team; /* member 0 measures; the next are the second side's threads, then the first's */
    char *source[2], *target[2]; /* [bytes], of each side */
    const kolo_copies *copies; /* of the current run */
    mailbox *mailbox;
    double round_trips; /* the fewest seconds that ROUNDS round trips took */
};

/* The side to which a member of the team belongs, and its part of that side's arrays. */
typedef struct part {
    int side;
    size_t begin, size;
} part;

static part part_of(const kolo_pair *pair, int member)
{
    int second = pair->sides[1].threads;
    part own = {.side = member <= second};
    int number = own.side ? member - 1 : member - 1 - second, threads = pair->sides[own.side].threads;
    own.begin = pair->bytes * (size_t)number / (size_t)threads;
    own.size = pair->bytes * (size_t)(number + 1) / (size_t)threads - own.begin;
    return own;
}

/* ---------------------------------------------------------------- a pair */

/* Binds this thread to processors. If that fails (the system forbids it, or they are another machine's, by
 * HWLOC_XMLFILE), it stays unbound. */
static void bind_thread(const kolo_spot *spot)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    memcpy(&cpus, spot->cpus, sizeof cpus < sizeof spot->cpus ? sizeof cpus : sizeof spot->cpus);
    if (CPU_COUNT(&cpus) > 0) pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
}

static kolo_status settle(void *argument, int member)
{
    const kolo_pair *pair = argument;
    if (member == 0) return KOLO_OK;
    part own = part_of(pair, member);
    bind_thread(pair->sides[own.side].spot);
    memset(pair->source[own.side] + own.begin, 1, own.size);
    memset(pair->target[own.side] + own.begin, 0, own.size);
    return KOLO_OK;
}

static char *take_pages(size_t bytes)
{
    char *memory = aligned_alloc(PAGE, bytes);
    if (memory) madvise(memory, bytes, MADV_HUGEPAGE); /* ignored if the system has none */
    return memory;
}

static kolo_status take_memory(kolo_pair *pair)
{
    size_t rounded = (pair->bytes + PAGE - 1) / PAGE * PAGE;
    bool whole = (pair->mailbox = aligned_alloc(_Alignof(mailbox), sizeof *pair->mailbox)) != NULL;
    for (int side = 0; side < 2 && whole; side++) {
        pair->source[side] = take_pages(rounded);
        pair->target[side] = take_pages(rounded);
        whole = pair->source[side] && pair->target[side];
    }
    return whole ? KOLO_OK : kolo_fail_memory(4 * rounded, "copies between two devices");
}

static void close_pair(kolo_pair **pair)
{
    kolo_pair *closed = *pair;
    *pair = NULL;
    if (!closed) return;
    kolo_team_close(&closed->team);
    for (int side = 0; side < 2; side++) free(closed->source[side]), free(closed->target[side]);
    free(closed->mailbox);
    free(closed);
}

static bool share_a_processor(const kolo_spot *a, const kolo_spot *b)
{
    unsigned long shared = 0;
    for (int word = 0; word < KOLO_CPU_WORDS; word++) shared |= a->cpus[word] & b->cpus[word];
    return shared != 0;
}

static kolo_status open_pair(const kolo_side sides[2], int64_t bytes, kolo_pair **pair)
{
    kolo_pair *made = calloc(1, sizeof *made);
    kolo_status status;
    if (!made) return kolo_fail_memory(sizeof *made, "copies between two devices");
    memcpy(made->sides, sides, sizeof made->sides);
    made->bytes = (size_t)bytes;
    made->same_device = sides[0].device == sides[1].device;
    made->take_turns = share_a_processor(sides[0].spot, sides[1].spot);
    KOLO_GO(fail, take_memory(made));
    KOLO_GO(fail, kolo_team_open(1 + sides[0].threads + sides[1].threads, &made->team));
    KOLO_GO(fail, kolo_team_run(made->team, settle, made));
    *pair = made;
    return KOLO_OK;
fail:
    close_pair(&made);
    return status;
}

/* ---------------------------------------------------------------- bandwidth */

/* The threads of the side that receives the bytes copy them. */
static kolo_status fetch(void *argument, int member)
{
    const kolo_pair *pair = argument;
    if (member == 0) return KOLO_OK;
    part own = part_of(pair, member);
    if (!(own.side ? pair->copies->there : pair->copies->back)) return KOLO_OK;
    for (int i = 0; i < pair->copies->count; i++)
        memcpy(pair->target[own.side] + own.begin, pair->source[!own.side] + own.begin, own.size);
    return KOLO_OK;
}

static kolo_status time_copies(kolo_pair *pair, const kolo_copies *copies, double *seconds)
{
    pair->copies = copies;
    double began = kolo_now();
    KOLO_TRY(kolo_team_run(pair->team, fetch, pair));
    *seconds = kolo_now() - began;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- latency */

/* Waits until it is that turn, or the end; returns the turn. */
static int wait_for(kolo_pair *pair, int wanted)
{
    int turn, spins = 0;
    while ((turn = atomic_load_explicit(&pair->mailbox->turn, memory_order_acquire)) != wanted && turn >= 0) {
        if (pair->take_turns || ++spins > SPINS) sched_yield();
        else kolo_pause_core();
    }
    return turn;
}

static void pass(kolo_pair *pair, char payload[16], int turn)
{
    memcpy(pair->mailbox->payload, payload, 16);
    atomic_store_explicit(&pair->mailbox->turn, turn, memory_order_release);
}

/* Makes ROUNDS round trips from that turn on; returns the next turn. */
static int round_trips(kolo_pair *pair, int turn)
{
    char payload[16] = "there and back";
    for (int end = turn + 2 * ROUNDS; turn < end; turn += 2) {
        pass(pair, payload, turn + 1);
        if (!pair->same_device) wait_for(pair, turn + 2);
        memcpy(payload, pair->mailbox->payload, sizeof payload);
    }
    return turn;
}

/* Times ROUNDS round trips many times and keeps the fastest time: then neither thread was preempted. */
static void first_side(kolo_pair *pair)
{
    double first = kolo_now(), began, ended = first;
    int turn = 0;
    pair->round_trips = INFINITY;
    while (ended < first + TIMED_SECONDS) {
        began = ended;
        turn = round_trips(pair, turn);
        ended = kolo_now();
        pair->round_trips = fmin(pair->round_trips, ended - began);
    }
    atomic_store(&pair->mailbox->turn, -1);
}

static void second_side(kolo_pair *pair)
{
    char payload[16];
    for (int turn = 1; wait_for(pair, turn) == turn; turn += 2) {
        memcpy(payload, pair->mailbox->payload, sizeof payload);
        pass(pair, payload, turn + 1);
    }
}

/* Run by the first thread of each side. If both sides are the same device, only one thread takes part, which reads
 * what it has written. */
static kolo_status pass_back_and_forth(void *argument, int member)
{
    kolo_pair *pair = argument;
    if (member == 1 + pair->sides[1].threads) first_side(pair);
    if (member == 1 && !pair->same_device) second_side(pair);
    return KOLO_OK;
}

/* The latency is half a round trip, and so the same in both directions. */
static kolo_status latency(kolo_pair *pair, bool back, bool direct, double *seconds)
{
    (void)back, (void)direct;
    memset(pair->mailbox, 0, sizeof *pair->mailbox);
    KOLO_TRY(kolo_team_run(pair->team, pass_back_and_forth, pair));
    *seconds = pair->round_trips / ROUNDS / 2;
    return KOLO_OK;
}

const kolo_meter kolo_cpu_meter = {.open = open_pair, .time = time_copies, .latency = latency, .close = close_pair};
