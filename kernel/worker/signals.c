/* Three real-time signals are the worker's (protocol.h): a cell can neither block nor take them, and SIGRTMAX is below
 * them. A fault that is blocked would end the process without a word: faults cannot be blocked either.
 * Timers that a cell has made are known, so that the next cell does not hear them. Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/interposed.h"
#include "worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static bool is_ours(int number)
{
    return number >= SIGNAL_WHERE && number <= SIGNAL_LAST_WORDS;
}

static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP ||
           number == SIGSYS;
}

static sigset_t allowed(const sigset_t *set)
{
    static const int never[] = {SIGSEGV, SIGBUS,       SIGFPE,           SIGILL,           SIGTRAP,
                                SIGSYS,  SIGNAL_WHERE, SIGNAL_INTERRUPT, SIGNAL_LAST_WORDS};
    sigset_t reduced = *set;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) sigdelset(&reduced, never[i]);
    return reduced;
}

INTERPOSED(pthread_sigmask);

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t reduced;
    if (set && how != SIG_UNBLOCK) {
        reduced = allowed(set);
        set = &reduced;
    }
    return real_pthread_sigmask()(how, set, old);
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    int failed = pthread_sigmask(how, set, old);
    if (failed) errno = failed;
    return failed ? -1 : 0;
}

INTERPOSED(sigsuspend);

int sigsuspend(const sigset_t *set)
{
    sigset_t reduced = allowed(set);
    return real_sigsuspend()(&reduced);
}

INTERPOSED(sigaction);

enum { SIGNALS = 65 };
static struct sigaction defaults[SIGNALS]; /* in place of SIG_DFL: these report the line before the process ends */

static bool is_default(int number, const struct sigaction *action)
{
    return number > 0 && number < SIGNALS && defaults[number].sa_sigaction &&
           action->sa_sigaction == defaults[number].sa_sigaction;
}

bool signal_is_default(int number)
{
    struct sigaction now;
    return real_sigaction()(number, NULL, &now) == 0 && is_default(number, &now);
}

/* A fault that is ignored ends the process all the same; one that was only raised does not. */
static void on_ignored(int number, siginfo_t *info, void *memory)
{
    if (info->si_code > 0) defaults[number].sa_sigaction(number, info, memory);
}

static struct sigaction replaced(int number, const struct sigaction *action)
{
    struct sigaction result = *action;
    bool known = number > 0 && number < SIGNALS && defaults[number].sa_sigaction;
    if (known && action->sa_handler == SIG_DFL) return defaults[number];
    if (known && action->sa_handler == SIG_IGN && is_fault(number)) {
        result = defaults[number];
        result.sa_sigaction = on_ignored;
    }
    result.sa_mask = allowed(&result.sa_mask);
    return result;
}

int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction wanted;
    if (is_ours(number) && action) {
        errno = EINVAL;
        return -1;
    }
    if (action) wanted = replaced(number, action);
    int failed = real_sigaction()(number, action ? &wanted : NULL, old);
    if (failed || !old) return failed;
    bool ignored = old->sa_sigaction == on_ignored;
    if (ignored || is_default(number, old)) *old = (struct sigaction){.sa_handler = ignored ? SIG_IGN : SIG_DFL};
    return 0;
}

sighandler_t signal(int number, sighandler_t handler)
{
    struct sigaction wanted = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    return sigaction(number, &wanted, &old) ? SIG_ERR : old.sa_handler;
}

void keep_signal(int number, const struct sigaction *action)
{
    defaults[number] = *action;
    real_sigaction()(number, action, NULL);
}

void take_signal(int number, const struct sigaction *action)
{
    real_sigaction()(number, action, NULL);
}

void reserve_signals(void)
{
    extern int __libc_allocate_rtsig(int high);
    while (__libc_allocate_rtsig(0) > SIGNAL_WHERE) continue; /* SIGRTMAX is one less after each */
}

enum { TIMERS = 256 };
static timer_t timers[TIMERS];
static unsigned timer_count;

INTERPOSED(timer_create);

int timer_create(clockid_t clock, struct sigevent *event, timer_t *made)
{
    int failed = real_timer_create()(clock, event, made);
    if (!failed && timer_count < TIMERS && getpid() == running.process) timers[timer_count++] = *made;
    return failed;
}

INTERPOSED(timer_delete);

int timer_delete(timer_t timer)
{
    for (unsigned i = 0; i < timer_count; i++) {
        if (timers[i] == timer) timers[i] = timers[--timer_count];
    }
    return real_timer_delete()(timer);
}

void stop_timers(void)
{
    static const __itimer_which_t kinds[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) setitimer(kinds[i], &(struct itimerval){0}, NULL);
    while (timer_count) real_timer_delete()(timers[--timer_count]);
}
