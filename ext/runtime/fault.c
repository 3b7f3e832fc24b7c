/* See fault.h. Faults come from kolo_fault() and from the variable KOLO_FAULT, which kolorun --fault sets. */
#include "runtime/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/runtime.h"

#define FAULTS_MAX 32

typedef enum fault_kind { KILL, SEGV, EXIT, HANG, SLOW, FLIP } fault_kind;
static const char *const names[] = {"kill", "segv", "exit", "hang", "slow", "flip"};
#define KINDS "kill, segv, exit, hang, slow:5x or flip"

typedef struct fault {
    fault_kind kind;
    int rank;
    int64_t step;
    double factor; /* of SLOW */
} fault;

static struct {
    pthread_once_t read; /* the variable has been read */
    fault list[FAULTS_MAX];
    int count;
} faults = {.read = PTHREAD_ONCE_INIT};

/* ---------------------------------------------------------------- reading */

static kolo_status refuse(const char *what)
{
    return kolo_fail(KOLO_INVALID, ".what: wanted " KINDS ", got \"%.40s\"", what);
}

static kolo_status read_what(const char *what, fault *wanted)
{
    size_t length = strcspn(what, ":");
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (strlen(names[k]) != length || strncmp(names[k], what, length) != 0) continue;
        char *end = NULL;
        wanted->kind = (fault_kind)k;
        if (k != SLOW) return what[length] ? refuse(what) : KOLO_OK;
        wanted->factor = what[length] ? strtod(what + length + 1, &end) : 0;
        bool valid = wanted->factor >= 1 && wanted->factor <= 1e6 && (!*end || strcmp(end, "x") == 0);
        return valid ? KOLO_OK : refuse(what);
    }
    return refuse(what);
}

static kolo_status add(int rank, int64_t step, const char *what)
{
    fault wanted = {.rank = rank, .step = step};
    if (faults.count == FAULTS_MAX) return kolo_fail(KOLO_INVALID, "wanted at most %d faults, got more", FAULTS_MAX);
    if (rank < 0) return kolo_fail(KOLO_INVALID, ".rank: wanted at least 0, got %d", rank);
    if (step < 0) return kolo_fail(KOLO_INVALID, ".step: wanted at least 0, got %lld", (long long)step);
    KOLO_TRY(read_what(what ? what : "", &wanted));
    faults.list[faults.count++] = wanted;
    return KOLO_OK;
}

/* Reads a part like "rank=3". False: it is another, or has no number. */
static bool read_number(const char *part, const char *name, int64_t *number)
{
    size_t length = strlen(name);
    char *end;
    if (strncmp(part, name, length) != 0) return false;
    *number = strtoll(part + length, &end, 10);
    return end != part + length && !*end && *number <= INT32_MAX && *number >= INT32_MIN;
}

/* Reads one fault of the variable: "rank=3,step=10,what=slow:5x". */
static kolo_status read_fault(char *text)
{
    int64_t rank = 0, step = 0;
    char *rest, *what = NULL;
    for (char *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        if (strncmp(part, "what=", 5) == 0) what = part + 5;
        else if (!read_number(part, "rank=", &rank) && !read_number(part, "step=", &step))
            return kolo_fail(KOLO_INVALID, "wanted rank=N, step=N and what=" KINDS ", got \"%.40s\"", part);
    }
    return add((int)rank, step, what);
}

static void read_variable(void)
{
    const char *variable = getenv("KOLO_FAULT");
    char *copy = variable ? strdup(variable) : NULL, *rest;
    for (char *one = copy ? strtok_r(copy, ";", &rest) : NULL; one; one = strtok_r(NULL, ";", &rest)) {
        if (read_fault(one) == KOLO_OK) continue;
        kolo_failure why = kolo_failure_take();
        kolo_warn("KOLO_FAULT: %s: no such fault will happen", why.text);
    }
    free(copy);
}

bool kolo_faults_wanted(void)
{
    pthread_once(&faults.read, read_variable);
    return faults.count > 0;
}

kolo_status kolo_fault_at(const kolo_fault_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_fault", here);
    kolo_faults_wanted(); /* so that the variable's come first */
    return kolo_leave(scope, add(args->rank, args->step, args->what));
}

void kolo_clear_faults(void)
{
    kolo_faults_wanted();
    faults.count = 0;
}

/* ---------------------------------------------------------------- happening */

static void tell(int number, int64_t step, const char *what)
{
    fprintf(stderr, "fault: rank %d, step %lld: %s, as it was asked for\n", number, (long long)step, what);
    fflush(stderr);
}

static void strike(const fault *wanted, int number, int64_t step)
{
    if (wanted->kind >= SLOW) return;
    tell(number, step, names[wanted->kind]);
    if (wanted->kind == KILL) raise(SIGKILL);
    if (wanted->kind == EXIT) _exit(0);
    if (wanted->kind == HANG)
        for (;;) pause();
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

void kolo_fault_strike(int number, int64_t step)
{
    for (int i = 0; i < faults.count; i++)
        if (faults.list[i].rank == number && faults.list[i].step == step) strike(&faults.list[i], number, step);
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
    for (int i = 0; i < faults.count; i++) {
        const fault *wanted = &faults.list[i];
        if (wanted->rank != number) continue;
        if (wanted->kind == SLOW && step >= wanted->step) usleep((useconds_t)(seconds * (wanted->factor - 1) * 1e6));
        if (wanted->kind != FLIP || step != wanted->step) continue;
        tell(number, step, names[FLIP]);
        flip(weights, count);
        flipped = true;
    }
    return flipped;
}
