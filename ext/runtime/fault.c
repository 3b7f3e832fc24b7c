/* See fault.h. Faults come from kolo_fault() and from the variable KOLO_FAULT, which kolorun --fault sets. */
#include "runtime/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fault_text.h"
#include "runtime/runtime.h"

static struct {
    pthread_once_t read; /* the variable has been read */
    kolo_fault_wishes wanted;
    atomic_bool happened[KOLO_FAULTS_MAX];
} faults = {.read = PTHREAD_ONCE_INIT};
static _Atomic kolo_fate fate; /* of the next message */

/* ---------------------------------------------------------------- asking for faults */

static void read_variable(void)
{
    char why[200];
    const char *text = getenv("KOLO_FAULT");
    if (text && !kolo_faults_read(&faults.wanted, text, why, sizeof why))
        kolo_warn("KOLO_FAULT: %s: no fault will happen", why);
}

kolo_status kolo_fault_check_environment(void)
{
    char why[200];
    kolo_fault_wishes wishes = {0};
    const char *text = getenv("KOLO_FAULT");
    if (!text || kolo_faults_read(&wishes, text, why, sizeof why)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "KOLO_FAULT: %s", why);
}

bool kolo_faults_wanted(void)
{
    pthread_once(&faults.read, read_variable);
    return faults.wanted.count > 0;
}

kolo_status kolo_fault_at(const kolo_fault_args *args, kolo_here here)
{
    char why[200];
    kolo_scope scope = kolo_enter("kolo_fault", here);
    kolo_faults_wanted(); /* so that the variable's come first */
    bool added = kolo_fault_add(&faults.wanted, args->rank, args->step, args->what, why, sizeof why);
    return kolo_leave(scope, added ? KOLO_OK : kolo_fail(KOLO_INVALID, "%s", why));
}

void kolo_clear_faults(void)
{
    kolo_faults_wanted();
    faults.wanted.count = 0;
    for (int i = 0; i < KOLO_FAULTS_MAX; i++) atomic_store(&faults.happened[i], false);
    atomic_store(&fate, KOLO_FATE_ARRIVES);
}

/* ---------------------------------------------------------------- happening */

static void tell(int i)
{
    const kolo_fault_wish *wish = &faults.wanted.wish[i];
    atomic_store(&faults.happened[i], true);
    fprintf(stderr, "fault: rank %d, step %lld: %s, as it was asked for\n", wish->rank, (long long)wish->step,
            kolo_fault_name(wish->kind));
    fflush(stderr);
}

/* Whether the fault comes before its step. */
static bool is_before(kolo_fault_kind kind)
{
    return kind < KOLO_FAULT_SLOW;
}

static bool loses_messages(kolo_fault_kind kind)
{
    return kind == KOLO_FAULT_SKIP || kind == KOLO_FAULT_DROP || kind == KOLO_FAULT_CUT;
}

static kolo_status check(kolo_fault_kind kind, bool workers)
{
    if (loses_messages(kind) && kolo_size() == 1)
        return kolo_fail(KOLO_INVALID, "fault %s: wanted several ranks, got one", kolo_fault_name(kind));
    if (kind == KOLO_FAULT_SKIP && workers)
        return kolo_fail(KOLO_INVALID,
                         "fault skip: wanted a strategy whose steps call collectives, got one of workers");
    return KOLO_OK;
}

kolo_status kolo_faults_check(bool workers)
{
    for (int i = 0; kolo_faults_wanted() && i < faults.wanted.count; i++)
        KOLO_TRY(check(faults.wanted.wish[i].kind, workers));
    return KOLO_OK;
}

/* A rank that hangs is ended by kolorun. A thread cannot be, so it hangs until the others have given it up, or the user
 * interrupts the training. */
static kolo_status hang(const kolo_fault_place *place)
{
    while (kolo_size() > 1) pause();
    while (!kolo_stop_is_set()) {
        if (place->is_called_off(place->argument)) return kolo_fail(KOLO_COMM, KOLO_COMM_CALLED_OFF);
        usleep(20000);
    }
    return KOLO_INTERRUPTED;
}

static kolo_status strike(kolo_fault_kind kind, const kolo_fault_place *place)
{
    switch (kind) {
    case KOLO_FAULT_KILL: raise(SIGKILL); break;
    case KOLO_FAULT_EXIT: _exit(0);
    case KOLO_FAULT_SEGV:
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        break;
    case KOLO_FAULT_HANG: return hang(place);
    case KOLO_FAULT_SKIP: atomic_store(&fate, KOLO_FATE_SKIPPED); break;
    case KOLO_FAULT_DROP: atomic_store(&fate, KOLO_FATE_DROPPED); break;
    case KOLO_FAULT_CUT: atomic_store(&fate, KOLO_FATE_CUT); break;
    case KOLO_FAULT_SLOW:
    case KOLO_FAULT_FLIP: break; /* these come after the step */
    }
    return KOLO_OK;
}

kolo_status kolo_fault_strike(const kolo_fault_place *place)
{
    for (int i = 0; i < faults.wanted.count; i++) {
        const kolo_fault_wish *wish = &faults.wanted.wish[i];
        if (wish->rank != place->number || wish->step != place->step || !is_before(wish->kind)) continue;
        KOLO_TRY(check(wish->kind, place->worker));
        tell(i);
        KOLO_TRY(strike(wish->kind, place));
    }
    return KOLO_OK;
}

void kolo_faults_end(void)
{
    for (int i = 0; kolo_faults_wanted() && i < faults.wanted.count; i++) {
        const kolo_fault_wish *wish = &faults.wanted.wish[i];
        if (atomic_load(&faults.happened[i]) || (kolo_size() > 1 && wish->rank != kolo_rank())) continue;
        fprintf(stderr, "fault: rank %d, step %lld: %s has not happened: there was no such step\n", wish->rank,
                (long long)wish->step, kolo_fault_name(wish->kind));
    }
}

/* Flips the highest bit of the fraction of the weight in the middle: a change that training may go on with. */
static void flip(float *weights, int64_t count)
{
    uint32_t bits;
    if (count == 0) return;
    memcpy(&bits, &weights[count / 2], sizeof bits);
    bits ^= 1u << 22;
    memcpy(&weights[count / 2], &bits, sizeof bits);
}

bool kolo_fault_follow(const kolo_fault_place *place, double seconds, float *weights, int64_t count)
{
    bool flipped = false;
    for (int i = 0; i < faults.wanted.count; i++) {
        const kolo_fault_wish *wish = &faults.wanted.wish[i];
        if (wish->rank != place->number || is_before(wish->kind) || place->step < wish->step) continue;
        if (place->step == wish->step) tell(i);
        if (wish->kind == KOLO_FAULT_SLOW) usleep((useconds_t)(seconds * (wish->factor - 1) * 1e6));
        if (wish->kind != KOLO_FAULT_FLIP || place->step != wish->step) continue;
        flip(weights, count);
        flipped = true;
    }
    return flipped;
}

/* Most messages are not lost, and only read. */
kolo_fate kolo_next_fate(void)
{
    kolo_fate now = atomic_load_explicit(&fate, memory_order_relaxed);
    if (now == KOLO_FATE_ARRIVES || now == KOLO_FATE_CUT) return now;
    return atomic_exchange(&fate, KOLO_FATE_ARRIVES);
}

bool kolo_link_is_cut(void)
{
    return atomic_load_explicit(&fate, memory_order_relaxed) == KOLO_FATE_CUT;
}
