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
    atomic_store(&fate, KOLO_FATE_ARRIVES);
}

/* ---------------------------------------------------------------- happening */

static void tell(int number, int64_t step, kolo_fault_kind kind)
{
    fprintf(stderr, "fault: rank %d, step %lld: %s, as it was asked for\n", number, (long long)step,
            kolo_fault_name(kind));
    fflush(stderr);
}

static kolo_status lose_message(kolo_fault_kind kind, bool worker)
{
    const char *name = kolo_fault_name(kind);
    if (kolo_size() == 1) return kolo_fail(KOLO_INVALID, "fault %s: wanted several ranks, got one", name);
    if (kind == KOLO_FAULT_SKIP && worker)
        return kolo_fail(KOLO_INVALID,
                         "fault skip: wanted a strategy whose steps call collectives, got one of workers");
    atomic_store(&fate, kind == KOLO_FAULT_SKIP   ? KOLO_FATE_SKIPPED
                        : kind == KOLO_FAULT_DROP ? KOLO_FATE_DROPPED
                                                  : KOLO_FATE_CUT);
    return KOLO_OK;
}

static kolo_status strike(kolo_fault_kind kind, bool worker)
{
    if (kind == KOLO_FAULT_KILL) raise(SIGKILL);
    if (kind == KOLO_FAULT_EXIT) _exit(0);
    if (kind == KOLO_FAULT_HANG)
        for (;;) pause();
    if (kind != KOLO_FAULT_SEGV) return lose_message(kind, worker);
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return KOLO_OK;
}

kolo_status kolo_fault_strike(int number, int64_t step, bool worker)
{
    for (int i = 0; i < faults.wanted.count; i++) {
        const kolo_fault_wish *wish = &faults.wanted.wish[i];
        if (wish->rank != number || wish->step != step || wish->kind >= KOLO_FAULT_SLOW) continue;
        tell(number, step, wish->kind);
        KOLO_TRY(strike(wish->kind, worker));
    }
    return KOLO_OK;
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

bool kolo_fault_follow(int number, int64_t step, double seconds, float *weights, int64_t count)
{
    bool flipped = false;
    for (int i = 0; i < faults.wanted.count; i++) {
        const kolo_fault_wish *wish = &faults.wanted.wish[i];
        if (wish->rank != number) continue;
        if (wish->kind == KOLO_FAULT_SLOW && step >= wish->step)
            usleep((useconds_t)(seconds * (wish->factor - 1) * 1e6));
        if (wish->kind != KOLO_FAULT_FLIP || step != wish->step) continue;
        tell(number, step, KOLO_FAULT_FLIP);
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
