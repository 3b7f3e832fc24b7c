/* kolo_check_comm(): holds an all-reduce of a learner's own against sums that need no messages, and measures it.
 *
 * Every element of every rank is a function of its number and the rank, so each rank knows the sums. After each call
 * all ranks exchange what they have found, and fail with the same sentence. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/own.h"
#include "core/clock.h"
#include "runtime/runtime.h"

/* Floats beside the values; timed runs; floats that are timed; bytes of a sentence. */
enum { GUARD = 64, RUNS = 5, COUNT_USUAL = 1 << 20, TEXT = 400 };
#define SECONDS_USUAL 10.0
#define SECONDS_MOST  1e6
#define GUARD_VALUE   -7777.25f

/* A mistake that a rank has found in one call. */
typedef enum defect {
    RIGHT,
    CALL_FAILED, /* text says why */
    WRITES_OUTSIDE, /* element: relative to values[] */
    WRONG, /* wanted, got */
    OTHER_BITS, /* than rank 0 */
    MESSAGE_LEFT, /* message */
} defect;

typedef struct finding {
    defect defect;
    float wanted, got;
    int64_t element;
    kolo_message message;
    char text[TEXT];
} finding;

typedef struct check {
    const kolo_own_comm *own;
    kolo_comm *ranks;
    double seconds;
    float *room, *values; /* [count + 2 × GUARD], and where the values begin there */
    float *wanted, *sizes; /* [count] the sums in the order of the ranks, and Σ|xᵣ| */
    finding *all; /* [ranks] */
} check;

/* ---------------------------------------------------------------- values */

/* splitmix64 (Steele, Lea, Flood 2014): bits that look random, from a number. */
static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Whole numbers from −8 to 8, or numbers between −1 and 1 of several magnitudes, so that most additions round. */
static float value_of(int rank, int64_t element, bool whole)
{
    uint64_t bits = mix((uint64_t)element * 1024 + (uint64_t)rank);
    if (whole) return (float)(int)(bits % 17) - 8;
    return ldexpf((float)((int64_t)(bits >> 40) - (1 << 23)), -23 - (int)(bits % 8));
}

static void fill(const check *c, int64_t count, bool whole)
{
    for (int64_t i = 0; i < count + 2 * GUARD; i++) c->room[i] = GUARD_VALUE;
    for (int64_t i = 0; i < count; i++) {
        c->wanted[i] = c->sizes[i] = 0;
        for (int r = 0; r < c->ranks->size; r++) {
            float value = value_of(r, i, whole);
            c->wanted[i] += value;
            c->sizes[i] += fabsf(value);
            if (r == c->ranks->rank) c->values[i] = value;
        }
    }
}

/* ---------------------------------------------------------------- the check on one rank */

/* Of a sum of n summands in any order, in float, the error is at most (n−1) 2⁻²⁴ Σ|xᵣ| (Higham 2002, section 4.2, to
 * first order), and so is that of the sum in the order of the ranks. */
static bool is_near(const check *c, int64_t i, bool whole)
{
    float wanted = c->wanted[i], got = c->values[i];
    if (whole || c->own->in_rank_order) return wanted == got;
    return fabs((double)got - (double)wanted) <= (c->ranks->size - 1) * 0x1p-23 * (double)c->sizes[i];
}

static void look_outside(const check *c, int64_t count, finding *mine)
{
    for (int64_t i = 0; i < GUARD && mine->defect == RIGHT; i++) {
        int64_t before = -1 - i, behind = count + i;
        bool kept = c->values[before] == GUARD_VALUE;
        if (kept && c->values[behind] == GUARD_VALUE) continue;
        *mine = (finding){.defect = WRITES_OUTSIDE, .element = kept ? behind : before};
    }
}

static void look_at_values(const check *c, int64_t count, bool whole, finding *mine)
{
    for (int64_t i = 0; i < count && mine->defect == RIGHT; i++)
        if (!is_near(c, i, whole))
            *mine = (finding){.defect = WRONG, .element = i, .wanted = c->wanted[i], .got = c->values[i]};
}

static void call_own(const check *c, int64_t count, finding *mine)
{
    *mine = (finding){.defect = RIGHT};
    kolo_message_watch watch = {.limit = c->seconds, .copies = true};
    if (kolo_own_allreduce(c->own, c->ranks, watch, c->values, count) == KOLO_OK) return;
    kolo_failure failure = kolo_failure_take();
    mine->defect = CALL_FAILED;
    snprintf(mine->text, sizeof mine->text, "%.*s", TEXT - 1, failure.text);
}

/* ---------------------------------------------------------------- the findings of all ranks */

static const char *sentence_of(const check *c, const finding *found, int rank, int64_t count)
{
    const char *name = kolo_own_comm_name(c->own);
    long long element = (long long)found->element, of = (long long)count;
    switch (found->defect) {
    case WRITES_OUTSIDE:
        return kolo_phrase("comm %s: wanted %s, got a write to values[%lld] on rank %d", name,
                           of > 0 ? kolo_phrase("values[0 … %lld]", of - 1) : "no write to values[] of 0 floats",
                           element, rank);
    case WRONG:
        return kolo_phrase("comm %s: wanted %.9g in element %lld of %lld on rank %d, got %.9g", name,
                           (double)found->wanted, element, of, rank, (double)found->got);
    case OTHER_BITS:
        return kolo_phrase("comm %s: wanted the same bits on all ranks in element %lld of %lld, got %.9g on rank 0, "
                           "%.9g "
                           "on rank %d",
                           name, element, of, (double)found->wanted, (double)found->got, rank);
    default:
        return kolo_phrase("comm %s: after a sum of %lld floats rank %d has not received a message of %lld bytes from "
                           "rank %d with tag %d",
                           name, of, rank, (long long)found->message.bytes, found->message.from, found->message.tag);
    }
}

/* Fails on all ranks if one has found a mistake. A failed call comes first: it causes the mistakes that others find. */
static kolo_status agree(const check *c, const finding *mine, int64_t count)
{
    int first = -1;
    KOLO_TRY(c->ranks->kind->allgather(c->ranks, mine, sizeof *mine, c->all));
    for (int r = c->ranks->size - 1; r >= 0; r--) {
        defect found = c->all[r].defect;
        bool cause = found == CALL_FAILED || first < 0 || c->all[first].defect != CALL_FAILED;
        if (found != RIGHT && cause) first = r;
    }
    if (first < 0) return KOLO_OK;
    const finding *found = &c->all[first];
    if (found->defect == CALL_FAILED) return kolo_fail(KOLO_INVALID, "%s", found->text);
    return kolo_fail(KOLO_INVALID, "%s", sentence_of(c, found, first, count));
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Compares with the bits of rank 0, which overwrite `wanted`. */
static kolo_status compare_bits(const check *c, int64_t count)
{
    finding mine = {.defect = RIGHT};
    size_t bytes = (size_t)count * sizeof *c->wanted;
    kolo_copy_bytes(c->wanted, c->values, bytes);
    KOLO_TRY(c->ranks->kind->broadcast(c->ranks, c->wanted, bytes, 0));
    for (int64_t i = 0; i < count && mine.defect == RIGHT; i++)
        if (bits_of(c->wanted[i]) != bits_of(c->values[i]))
            mine = (finding){.defect = OTHER_BITS, .element = i, .wanted = c->wanted[i], .got = c->values[i]};
    return agree(c, &mine, count);
}

static kolo_status look_for_messages(const check *c, int64_t count)
{
    finding mine = {.defect = RIGHT};
    bool there = false;
    KOLO_TRY(c->ranks->kind->probe(c->ranks, KOLO_ANY_RANK, KOLO_ANY_TAG, &there, &mine.message));
    if (there) mine.defect = MESSAGE_LEFT;
    return agree(c, &mine, count);
}

static kolo_status check_call(const check *c, int64_t count, bool whole)
{
    finding mine;
    fill(c, count, whole);
    call_own(c, count, &mine);
    if (mine.defect == RIGHT) look_outside(c, count, &mine);
    if (mine.defect == RIGHT) look_at_values(c, count, whole, &mine);
    kolo_status status = agree(c, &mine, count);
    if (status == KOLO_OK) status = compare_bits(c, count);
    if (status == KOLO_OK) status = look_for_messages(c, count);
    if (status != KOLO_OK) kolo_drop_messages(c->ranks);
    return status;
}

/* ---------------------------------------------------------------- time */

/* Sets *seconds to those of the slowest rank, if they are fewer. */
static kolo_status time_call(const check *c, int64_t count, bool own, double *seconds)
{
    for (int64_t i = 0; i < count; i++) c->values[i] = 1; /* a time does not depend on the values */
    KOLO_TRY(c->ranks->kind->barrier(c->ranks));
    double started = kolo_now(), took;
    KOLO_TRY(own ? kolo_own_allreduce(c->own, c->ranks, (kolo_message_watch){.limit = c->seconds}, c->values, count)
                 : c->ranks->kind->allreduce(c->ranks, c->values, count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    took = kolo_now() - started;
    KOLO_TRY(c->ranks->kind->allreduce(c->ranks, &took, 1, KOLO_TYPE_DOUBLE, KOLO_REDUCE_MAX));
    if (took < *seconds) *seconds = took;
    return KOLO_OK;
}

static kolo_status measure(const check *c, int64_t count, kolo_comm_scores *scores)
{
    double own = INFINITY, built_in = INFINITY;
    for (int i = 0; i < RUNS; i++) {
        KOLO_TRY(time_call(c, count, true, &own));
        KOLO_TRY(time_call(c, count, false, &built_in));
    }
    double moved = (double)count * sizeof(float) * 2 * (c->ranks->size - 1) / c->ranks->size;
    *scores = (kolo_comm_scores){.bus_bandwidth = moved / own, .built_in = moved / built_in, .share = built_in / own};
    return KOLO_OK;
}

/* ---------------------------------------------------------------- the call */

static kolo_status check_arguments(const kolo_check_comm_args *args, int64_t count)
{
    if (!args->comm) return kolo_fail(KOLO_INVALID, "wanted a kolo_own_comm, got NULL");
    KOLO_TRY(kolo_own_comm_check(args->comm));
    if (kolo_size() < 2)
        return kolo_fail(KOLO_INVALID,
                         "comm %s: wanted at least 2 ranks, got 1: start the program with kolorun -np 4, "
                         "or ranks in a notebook with %%ranks 4",
                         kolo_own_comm_name(args->comm));
    if (count < 1 || count > INT64_MAX / (int64_t)(4 * sizeof(float)))
        return kolo_fail(KOLO_INVALID, ".count: wanted at least 1 float, got %lld", (long long)args->count);
    if (args->seconds >= 0 && args->seconds <= SECONDS_MOST) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".seconds: wanted 0 to %g, got %g", SECONDS_MOST, args->seconds);
}

static kolo_status open_check(check *c, int64_t count)
{
    size_t floats = (size_t)count * 3 + 2 * GUARD;
    c->room = malloc(floats * sizeof *c->room);
    c->all = calloc((size_t)c->ranks->size, sizeof *c->all);
    if (!c->room || !c->all) return kolo_fail_memory(floats * sizeof *c->room, "the arrays that are summed");
    c->values = c->room + GUARD;
    c->wanted = c->values + count + GUARD;
    c->sizes = c->wanted + count;
    return KOLO_OK;
}

static kolo_status check_comm(const kolo_check_comm_args *args, kolo_comm_scores *scores)
{
    int64_t count = args->count ? args->count : COUNT_USUAL, ranks = kolo_size();
    const int64_t counts[] = {0, 1, ranks - 1, ranks + 1, 1009, 1000 * ranks, 1000 * ranks + 1, 262147, count};
    enum { COUNTS = sizeof counts / sizeof *counts };
    int64_t most = count;
    KOLO_TRY(check_arguments(args, count));
    check c = {
        .own = args->comm, .ranks = kolo_world_comm(), .seconds = args->seconds > 0 ? args->seconds : SECONDS_USUAL};
    for (int i = 0; i < COUNTS; i++) most = counts[i] > most ? counts[i] : most;
    kolo_status status = open_check(&c, most);
    for (int i = 0; i < 2 * COUNTS && status == KOLO_OK; i++) status = check_call(&c, counts[i / 2], i % 2 == 0);
    if (status == KOLO_OK) status = measure(&c, count, scores);
    free(c.room);
    free(c.all);
    if (status != KOLO_OK || args->quiet || c.ranks->rank != 0) return status;
    printf("comm %s: right on %d ranks. Bus bandwidth with %lld floats: %.3g GB/s, %.0f %% of the built-in "
           "all-reduce's "
           "%.3g GB/s\n",
           kolo_own_comm_name(c.own), c.ranks->size, (long long)count, scores->bus_bandwidth / 1e9, 100 * scores->share,
           scores->built_in / 1e9);
    fflush(stdout);
    return KOLO_OK;
}

kolo_comm_scores kolo_check_comm_at(const kolo_check_comm_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_check_comm", here);
    kolo_comm_scores scores = {NAN, NAN, NAN};
    if (kolo_leave(scope, check_comm(args, &scores)) != KOLO_OK) scores = (kolo_comm_scores){NAN, NAN, NAN};
    return scores;
}
