/* Recovers from faults and interrupts of a cell. The handler jumps back to kolo_cell_enter() only where that leaves
 * nothing broken: every frame up to the cell's entry is the cell's own code, or a call of the C library that holds
 * nothing (or holds only a stream's lock, which is released). Otherwise an interrupt is tried again later, and a fault
 * ends the worker. Read first: worker.h, unwind.h. */
#define _GNU_SOURCE
#include "worker/checks.h"
#include "worker/clock.h"
#include "worker/heap.h"
#include "worker/overflow.h"
#include "worker/unwind.h"
#include "worker/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static uintptr_t program_counter(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
    return (uintptr_t)context->uc_mcontext.pc;
#endif
}

/* Code that a library wrote at run time (oneDNN's kernels) belongs to no file. */
static bool in_a_file(uintptr_t at)
{
    Dl_info info;
    return dladdr((void *)at, &info) != 0;
}

/* For faults alone, since it changes where the program would go on: a call through a bad pointer leaves a program
 * counter that is nowhere; its caller is where it would return to. */
static uintptr_t settle_program_counter(ucontext_t *context, const void *address)
{
    bool fetched = (uintptr_t)address != program_counter(context); /* else it is the jump that failed */
    if (fetched && in_a_file(program_counter(context))) return program_counter(context);
#if defined(__x86_64__)
    greg_t *pc = &context->uc_mcontext.gregs[REG_RIP], *sp = &context->uc_mcontext.gregs[REG_RSP];
    *pc = *(greg_t *)*sp - 1;
    *sp += (greg_t)sizeof(greg_t);
#else
    context->uc_mcontext.pc = context->uc_mcontext.regs[30] - 4;
#endif
    return program_counter(context);
}

static bool safe_to_leave(uintptr_t start)
{
    unwound w = unwind_stack(start);
    return may_leave(&w);
}

bool record_frames(void)
{
    return safe_to_leave(0);
}

void recover_from_call(int status, int code)
{
    if (!on_cell_thread() || !safe_to_leave(0)) return;
    running.status = status;
    running.code = code;
    siglongjmp(running.out, 1);
}

void leave_refused(int status)
{
    recover_from_call(status, 0);
    record_frames();
    die_refused(status, SIGABRT, NULL);
    _exit(128 + SIGABRT);
}

/* clang's checks end in ud1, on aarch64 in brk, with their kind in its operand; that of an index calls checks.c. */
enum { TRAP_NONE = -1, TRAP_UNREACHABLE = 1, TRAP_DIVISION = 3 };

static int trap_kind(int number, const ucontext_t *context)
{
#if defined(__x86_64__)
    const unsigned char *code = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
    bool trap = number == SIGILL && in_a_file((uintptr_t)code) && code[0] == 0x67 && code[1] == 0x0f &&
                code[2] == 0xb9 && code[3] == 0x40;
    return trap ? code[4] : TRAP_NONE;
#else
    uintptr_t at = program_counter(context);
    uint32_t code = number == SIGTRAP && in_a_file(at) ? *(const uint32_t *)at : 0;
    return (code & 0xffffe01f) == 0xd42aa000 ? (int)(code >> 5 & 0xff) : TRAP_NONE; /* brk #0x55KK */
#endif
}

/* A signal nearly always finds a cell that calls the C library in a loop within the library, where it must not be left.
 * So the page of code that the call returns to is made to fault: there the cell holds nothing of the library's. */
static _Atomic uintptr_t barred_page, unbarred_page; /* 0: none; the second: the last one that was barred */
static int barred_for; /* an `exit_kind` */
/* Faults on the page since then. More than there are threads are no late ones: the page is not code any more. */
static atomic_uint late_faults;
enum { MOST_LATE_FAULTS = 4096 };

static uintptr_t page_of(uintptr_t at)
{
    return at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

static void bar(uintptr_t at, int status)
{
    if (!at || barred_page || !signal_is_default(SIGSEGV)) return;
    barred_for = status;
    barred_page = page_of(at);
    if (syscall(SYS_mprotect, barred_page, 1, PROT_READ)) barred_page = 0;
}

/* Several threads may come here at once. */
static void unbar(void)
{
    uintptr_t page = barred_page;
    if (!page) return;
    unbarred_page = page;
    late_faults = 0;
    if (atomic_compare_exchange_strong(&barred_page, &page, 0)) syscall(SYS_mprotect, page, 1, PROT_READ | PROT_EXEC);
}

/* A fault on the barred page: the interrupt or overflow that had to wait is served now. True, too, for a thread that
 * faulted there before another one took the bar away: it tries again. False: it is another fault. */
static bool came_to_the_bar(const ucontext_t *context, const siginfo_t *info)
{
    uintptr_t at = program_counter(context), page = page_of(at);
    if (!page) return false; /* a call of NULL */
    if (page != barred_page)
        return page == unbarred_page && info->si_code == SEGV_ACCERR && (uintptr_t)info->si_addr == at &&
               late_faults++ < MOST_LATE_FAULTS;
    unbar();
    if (!on_cell_thread()) return true;
    unwound w = unwind_stack(at);
    if (!may_leave(&w)) return true;
    running.status = barred_for;
    running.address = (void *)w.cells;
    siglongjmp(running.out, 1);
}

/* Unwinding a stack that has been written over may never end. The first limit is the thread's own processor time, since
 * on a busy machine a sound stack may take long. A thread that waits for a lock uses no processor time: the second
 * limit is one of the clock. */
enum { UNWIND_LIMIT = 2, WAIT_LIMIT = 60 /* seconds */ };
static struct {
    volatile sig_atomic_t signal;
    clockid_t clock;
    double used, begun;
} unwinding;

static void look_in(int seconds)
{
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_sec = seconds}, NULL);
}

static void on_late(int number)
{
    (void)number;
    bool late = seconds_on(unwinding.clock) - unwinding.used >= UNWIND_LIMIT ||
                seconds_on(CLOCK_MONOTONIC) - unwinding.begun >= WAIT_LIMIT;
    if (!late) {
        look_in(1);
        return;
    }
    running.frames_size = 0;
    die_of(unwinding.signal, NULL);
}

static void limit_unwinding(int number)
{
    sigset_t alarm;
    unwinding.signal = number;
    if (pthread_getcpuclockid(pthread_self(), &unwinding.clock) != 0) unwinding.clock = CLOCK_PROCESS_CPUTIME_ID;
    unwinding.used = seconds_on(unwinding.clock);
    unwinding.begun = seconds_on(CLOCK_MONOTONIC);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    take_signal(SIGALRM, &(struct sigaction){.sa_handler = on_late, .sa_flags = SA_ONSTACK});
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    look_in(UNWIND_LIMIT);
}

/* The stack is full in a library's function, which must not be left: the stack grows by a reserve until it returns. */
static bool put_off(const unwound *w)
{
    if (!w->unsafe || w->foreign || barred_page || !on_cell_thread() || !overflow_reserve()) return false;
    bar(w->cell, STATUS_OVERFLOW);
    return barred_page != 0;
}

static _Atomic pid_t faulting;

/* Threads that fault at the same time are handled one after the other. False: the handler itself has faulted. */
static bool take_turn(void)
{
    pid_t self = gettid(), nobody = 0;
    if (faulting == self) return false;
    while (!atomic_compare_exchange_weak(&faulting, &nobody, self)) {
        nobody = 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

enum { NULL_PAGE = 4096 };

static bool writes(const ucontext_t *context)
{
#if defined(__x86_64__)
    return context->uc_mcontext.gregs[REG_ERR] & 2;
#else
    (void)context;
    return true;
#endif
}

static void on_fault(int number, siginfo_t *info, void *memory)
{
    ucontext_t *context = memory;
    void *address = info->si_addr;
    if (number == SIGSEGV && came_to_the_bar(context, info)) return;
    if (running.smashed) die_refused(STATUS_REFUSED, number, address);
    if (getpid() != running.process || !take_turn()) die_of(number, address);
    int kind = trap_kind(number, context), status = kind == TRAP_UNREACHABLE ? STATUS_REFUSED : STATUS_SIGNAL;
    if (kind == TRAP_DIVISION) number = SIGFPE;
    if (kind == TRAP_UNREACHABLE) running.missing = WORDS_UNREACHABLE;
    const char *of_heap = number == SIGSEGV ? heap_fault(address, writes(context)) : NULL;
    if (of_heap) {
        status = STATUS_REFUSED;
        running.missing = of_heap;
    }
    bool full = (number == SIGSEGV || number == SIGBUS) && overflow_happened(context, address);
    limit_unwinding(number);
    unwound w = unwind_stack(settle_program_counter(context, number == SIGSEGV ? address : NULL));
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    if (number == SIGSEGV && (uintptr_t)address < NULL_PAGE) add_null_words();
    if (full && put_off(&w)) {
        faulting = 0;
        return;
    }
    if (full) {
        status = STATUS_OVERFLOW;
        address = (void *)w.cells;
    }
    if (!on_cell_thread() || !may_leave(&w)) die_refused(status, number, address);
    faulting = 0;
    running.status = status;
    running.code = number;
    running.address = address;
    siglongjmp(running.out, 1);
}

/* Signals of other processes and of timers. Between cells they are ignored, but for SIGTERM, by which the supervisor
 * ends the worker. */
static void on_signal(int number, siginfo_t *info, void *memory)
{
    if (running.active || number == SIGTERM || getpid() != running.process) on_fault(number, info, memory);
}

/* The worker is about to be killed: it reports the line that it has come to. The supervisor, which queues the signal,
 * waits for that and sees the worker stop. */
static void on_last_words(int number, siginfo_t *info, void *memory)
{
    bool awaited = info->si_code == SI_QUEUE;
    if (getpid() != running.process) return;
    if (gettid() != running.process) {
        if (awaited) pthread_sigqueue(running.thread, number, info->si_value);
        else tgkill(running.process, running.process, number);
        return;
    }
    if (running.active) {
        safe_to_leave(program_counter(memory));
        last_words(STATUS_SIGNAL, SIGKILL, NULL);
    }
    if (awaited) kill(running.process, SIGSTOP);
}

static void interrupt_program(void)
{
    static volatile pid_t asked;
    static volatile double since;
    if (asked != running.program) {
        asked = running.program;
        since = seconds_on(CLOCK_MONOTONIC);
        running.status = STATUS_INTERRUPTED;
        kill(-asked, SIGINT);
    } else if (seconds_on(CLOCK_MONOTONIC) - since > 0.8) {
        kill(-asked, SIGKILL);
    }
}

/* libkolo's, looked up before a cell runs: a handler must not enter the loader, which it may have interrupted. */
static void (*volatile request_stop)(void);

static void on_interrupt(int number, siginfo_t *info, void *memory)
{
    (void)info;
    int saved = errno;
    if (getpid() != running.process) _exit(130);
    if (gettid() != running.process) {
        tgkill(running.process, running.process, number);
        return;
    }
    if (running.active && request_stop) request_stop();
    if (running.active && running.program) {
        interrupt_program();
    } else if (running.active && in_a_file(program_counter(memory))) {
        unwound w = unwind_stack(program_counter(memory));
        if (may_leave(&w)) {
            running.status = STATUS_INTERRUPTED;
            siglongjmp(running.out, 1);
        }
        if (number == SIGNAL_INTERRUPT) bar(w.cell, STATUS_INTERRUPTED);
    }
    errno = saved;
}

void recover_prepare(void)
{
    void *stop = dlsym(RTLD_DEFAULT, "kolo_request_stop");
    request_stop = (void (*)(void))(uintptr_t)stop;
    unwind_prepare();
    overflow_take_handler_stack();
    unbar();
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    static const int others[] = {SIGHUP,    SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGSTKFLT,
                                 SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ, SIGPOLL, SIGPWR};
    struct sigaction fault = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    struct sigaction other = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    struct sigaction interrupt = {.sa_sigaction = on_interrupt, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct sigaction words = {.sa_sigaction = on_last_words, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) keep_signal(faults[i], &fault);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) keep_signal(others[i], &other);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++) keep_signal(i, &other);
    keep_signal(SIGINT, &interrupt);
    keep_signal(SIGNAL_INTERRUPT, &interrupt); /* for a cell that has made SIGINT its own */
    keep_signal(SIGNAL_LAST_WORDS, &words);
    signal(SIGPIPE, SIG_IGN);
}
