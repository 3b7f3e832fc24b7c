/* Faults and interrupts of a cell. The handler steps out of the cell, back to enter(), only where nothing is left
 * broken behind: every frame up to the cell's entry is the cell's own code, or a call of the C library that holds
 * nothing (or holds only a stream's lock, which is released). Otherwise an interrupt tries again later, and a fault
 * ends the worker. Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/overflow.h"
#include "worker/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

enum { SHOWN_FRAMES = 48, FRAMES_SIZE = 24 * 1024, SMALLEST_FRAME = 16 };

typedef enum owner { OWNER_CELL, OWNER_OURS, OWNER_LIBRARY, OWNER_ENTRY, OWNER_OTHER } owner;

typedef struct walk {
    uintptr_t start; /* frames before this program counter are the handler's own; 0: they are skipped by `skip` */
    bool started;
    size_t depth, library_depth;
    bool library_named, library_allowed;
    bool in_cell; /* a frame of the cell's has been seen: the handler's own come before */
    bool unsafe, foreign, reached_entry; /* foreign: code that may not know how to be walked */
    uintptr_t cell; /* where the innermost frame of the cell's will go on */
    uintptr_t last; /* the last place that was seen to be the cell's: a recursion comes through it again and again */
    size_t cells;   /* frames of the cell's */
} walk;

static const char *cells_folder(void)
{
    static char folder[256];
    if (!*folder) {
        const char *from = getenv("KOLO_KERNEL_CELLS");
        snprintf(folder, sizeof folder, "%s", from ? from : "/nowhere");
    }
    return folder;
}

/* The C library has its functions under several names, and the loader tells any of them: _IO_printf, __libc_malloc. */
static const char *plain_name(const char *name)
{
    static const char *const before[] = {"_IO_", "__libc_", "__GI_", "__", NULL};
    for (const char *const *b = before; *b; b++) {
        if (!strncmp(name, *b, strlen(*b))) return name + strlen(*b);
    }
    return name;
}

static bool one_of(const char *name, const char *const *list)
{
    for (; *list; list++) {
        if (!strcmp(name, *list)) return true;
    }
    return false;
}

/* Calls that may be abandoned when a cell made them directly: they wait, or only write, or are pure, or end the cell.
 */
/* clang-format off */
static const char *const abandonable[] = {
    "sleep", "usleep", "nanosleep", "clock_nanosleep", "pause", "sigsuspend", "poll", "ppoll", "select", "pselect",
    "read", "write", "readv", "writev", "recv", "recvfrom", "send", "sendto", "accept", "connect", "wait", "waitpid",
    "wait4", "waitid", "pthread_join", "pthread_cond_wait", "pthread_cond_timedwait", "pthread_mutex_lock",
    "sem_wait", "pthread_barrier_wait", "raise", "abort", "__assert_fail", "kill", "killpg", "pthread_kill", "exit", "scanf",
    "__isoc99_scanf", "__isoc99_fscanf", "__isoc99_sscanf", "fgets", "fgetc", "getc", "getchar", "gets", "fread",
    "printf", "fprintf", "vprintf", "vfprintf", "dprintf", "puts", "fputs", "putchar", "putc", "fputc", "fwrite",
    "snprintf", "sprintf", "fflush", "qsort", "bsearch", "epoll_wait", "system", "__printf_chk", "__fprintf_chk",
    "strtol", "atoi", "atof", "strtod", "sched_yield", "msgrcv", "flock", "fcntl", "open", "getline", "getdelim",
    "_IO_getc", "putchar_unlocked", "__sched_yield", "tgkill", "__stack_chk_fail", "syscall", "clock_gettime", "gettimeofday",
    "time", "rand", "random", "strtok", "strcasecmp", "strncasecmp", "memmem", "perror", "strsep", "strerror",
    "ungetc", "vsnprintf", "vsprintf", NULL
};
/* clang-format on */

/* The C library has several names for one place, and the loader tells any of them: places are compared too. */
static uintptr_t abandonable_places[sizeof abandonable / sizeof *abandonable];

static void find_places(void)
{
    for (size_t i = 0; abandonable[i]; i++) {
        if (!abandonable_places[i]) abandonable_places[i] = (uintptr_t)dlsym(RTLD_NEXT, abandonable[i]);
    }
}

static bool may_be_abandoned(const char *name, const void *place)
{
    for (size_t i = 0; place && abandonable[i]; i++) {
        if (abandonable_places[i] == (uintptr_t)place) return true;
    }
    return one_of(name, abandonable) || one_of(plain_name(name), abandonable);
}

static bool holds_the_heap(const char *name)
{
    static const char *const list[] = {"malloc",         "free",          "calloc", "realloc",
                                       "posix_memalign", "aligned_alloc", "fork",   NULL};
    return one_of(plain_name(name), list);
}

static const char *exact_symbol(uintptr_t at, Dl_info *info)
{
    const ElfW(Sym) *symbol = NULL;
    if (!dladdr1((void *)at, info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT)) {
        info->dli_fname = NULL;
        return NULL;
    }
    if (!symbol || !info->dli_sname) return NULL;
    return at < (uintptr_t)info->dli_saddr + symbol->st_size ? info->dli_sname : NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static owner owner_of(const Dl_info *info, const char *symbol)
{
    const char *file = info->dli_fname ? info->dli_fname : "";
    if (!strncmp(file, cells_folder(), strlen(cells_folder()))) return OWNER_CELL;
    const char *base = base_name(file);
    if (!strncmp(base, "libm.so", 7) || !strncmp(base, "linux-vdso", 10)) return OWNER_CELL;
    if (!strncmp(base, "libc.so", 7)) return OWNER_LIBRARY;
    if (!strncmp(base, "kolo-worker", 11))
        return symbol && !strcmp(symbol, "kolo_cell_enter") ? OWNER_ENTRY : OWNER_OURS;
    return OWNER_OTHER;
}

/* What the call before this return address calls: through the cell's PLT, whose slots are all filled. The C library's
 * own frames do not tell: its functions leave theirs by tail calls. 0 when it is another kind of call. */
static uintptr_t called_from(uintptr_t back)
{
#if defined(__x86_64__)
    const unsigned char *code = (const unsigned char *)back;
    int32_t offset;
    memcpy(&offset, code - 4, sizeof offset);
    if (code[-6] == 0xff && code[-5] == 0x15) return *(const uintptr_t *)(back + (uintptr_t)(intptr_t)offset);
    if (code[-5] != 0xe8) return 0;
    const unsigned char *plt = (const unsigned char *)(back + (uintptr_t)(intptr_t)offset);
    if (plt[0] == 0xf3 && plt[1] == 0x0f) plt += 4; /* endbr64 */
    if (plt[0] == 0xf2) plt++;                      /* bnd */
    if (plt[0] != 0xff || plt[1] != 0x25) return 0;
    memcpy(&offset, plt + 2, sizeof offset);
    return *(const uintptr_t *)((uintptr_t)plt + 6 + (uintptr_t)(intptr_t)offset);
#else
    (void)back;
    return 0;
#endif
}

/* The run of library frames that ends at this frame of the cell's. A callee without a name is a string function's
 * variant for this CPU, which holds nothing. */
static void end_library_run(walk *w, uintptr_t at)
{
    if (!w->library_depth) return;
    uintptr_t callee = called_from(at + 1);
    if (callee) {
        Dl_info info;
        const char *name = exact_symbol(callee, &info);
        if (name && !may_be_abandoned(name, info.dli_saddr)) w->unsafe = true;
    } else if (!w->library_allowed && (w->library_named || w->library_depth > 1)) {
        w->unsafe = true;
    }
    w->library_depth = 0;
}

static void judge(walk *w, uintptr_t at)
{
    Dl_info info;
    if (at == w->last && !w->library_depth) {
        w->cells++;
        return;
    }
    const char *symbol = exact_symbol(at, &info);
    switch (owner_of(&info, symbol)) {
    case OWNER_LIBRARY:
        if (symbol && holds_the_heap(symbol)) w->unsafe = true;
        w->library_depth++;
        w->library_named = symbol != NULL;
        w->library_allowed = symbol && may_be_abandoned(symbol, info.dli_saddr);
        break;
    case OWNER_CELL:
        if (!w->in_cell) w->cell = at;
        w->in_cell = true;
        w->last = at;
        w->cells++;
        end_library_run(w, at);
        break;
    case OWNER_OURS: w->library_depth = 0; break;
    case OWNER_ENTRY: w->reached_entry = w->in_cell; break;
    default: w->unsafe = true; w->foreign |= !info.dli_fname;
    }
}

static void remember(uintptr_t at)
{
    Dl_info info;
    const char *symbol = exact_symbol(at, &info);
    if (!info.dli_fname || running.frames_size > FRAMES_SIZE - 1024) return;
    running.frames_size += (size_t)snprintf(running.frames + running.frames_size, 700, "%.400s", info.dli_fname) + 1;
    running.frames_size += (size_t)snprintf(running.frames + running.frames_size, 32, "%lx",
                                            (unsigned long)(at - (uintptr_t)info.dli_fbase)) +
                           1;
    running.frames_size +=
        (size_t)snprintf(running.frames + running.frames_size, 200, "%.150s", symbol ? symbol : "") + 1;
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *closure)
{
    walk *w = closure;
    int before = 0;
    uintptr_t at = _Unwind_GetIPInfo(context, &before);
    if (!w->started) {
        if (w->start && at != w->start) return _URC_NO_REASON;
        w->started = true;
    }
    if (!at) return _URC_END_OF_STACK;
    uintptr_t inside = before ? at : at - 1; /* a return address points behind its call */
    if (w->depth < SHOWN_FRAMES) remember(inside);
    judge(w, inside);
    w->depth++;
    bool enough = w->unsafe && (w->foreign || w->depth >= SHOWN_FRAMES);
    bool endless = w->depth > 10000 + running.stack_size / SMALLEST_FRAME;
    return w->reached_entry || enough || endless ? _URC_END_OF_STACK : _URC_NO_REASON;
}

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

static walk look_back(uintptr_t start)
{
    walk w = {.start = start, .started = !start};
    running.frames_size = 0;
    _Unwind_Backtrace(visit, &w);
    return w;
}

static bool safe_to_leave(uintptr_t start)
{
    walk w = look_back(start);
    return w.reached_entry && !w.unsafe;
}

bool record_frames(void)
{
    return safe_to_leave(0);
}

void step_out_of_call(int ending, int code)
{
    if (!on_cell_thread() || !safe_to_leave(0)) return;
    running.ending = ending;
    running.code = code;
    siglongjmp(running.out, 1);
}

void leave_refused(int ending)
{
    step_out_of_call(ending, 0);
    record_frames();
    die_refused(ending, SIGABRT, NULL);
    _exit(128 + SIGABRT);
}

/* clang's checks end in ud1 with their kind in its operand. */
enum { TRAP_NONE = -1, TRAP_UNREACHABLE = 1, TRAP_DIVISION = 3, TRAP_INDEX = 18 };

static int trap_kind(int number, const ucontext_t *context)
{
#if defined(__x86_64__)
    const unsigned char *code = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
    bool trap = number == SIGILL && in_a_file((uintptr_t)code) && code[0] == 0x67 && code[1] == 0x0f &&
                code[2] == 0xb9 && code[3] == 0x40;
    return trap ? code[4] : TRAP_NONE;
#else
    (void)number;
    (void)context;
    return TRAP_NONE;
#endif
}

static const char *trap_sentence(int kind)
{
    if (kind == TRAP_INDEX) return "an index is outside of its array";
    if (kind == TRAP_UNREACHABLE)
        return "__builtin_unreachable() was reached, or a function declared noreturn has returned";
    return NULL;
}

/* A cell that calls the C library in a loop is hardly ever met outside of it: each signal comes as a system call ends.
 * So the code that the call returns to is made to fault, and there nothing is held. */
static uintptr_t barred_page;
static int barred_for; /* an `ending` */

static uintptr_t page_of(uintptr_t at)
{
    return at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
}

static void bar(uintptr_t at, int ending)
{
    if (!at || barred_page || !signal_is_default(SIGSEGV)) return;
    barred_page = page_of(at);
    barred_for = ending;
    if (syscall(SYS_mprotect, barred_page, 1, PROT_READ)) barred_page = 0;
}

static void unbar(void)
{
    if (barred_page) syscall(SYS_mprotect, barred_page, 1, PROT_READ | PROT_EXEC);
    barred_page = 0;
}

/* A fault there is what could not be served before; another thread's is none. True: it was one. */
static bool came_to_the_bar(const ucontext_t *context)
{
    uintptr_t at = program_counter(context);
    if (!barred_page || page_of(at) != barred_page) return false;
    unbar();
    if (!on_cell_thread()) return true;
    walk w = look_back(at);
    if (!w.reached_entry || w.unsafe) return true;
    running.ending = barred_for;
    running.address = (void *)w.cells;
    siglongjmp(running.out, 1);
}

enum { WALK_LIMIT = 2 /* seconds */ };
static volatile sig_atomic_t walked_for;

static void on_late(int number)
{
    (void)number;
    running.frames_size = 0;
    die_of(walked_for, NULL);
}

/* In a memory that has been written over, to look for the line may never end. */
static void limit_walk(int number)
{
    sigset_t alarm;
    walked_for = number;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    take_signal(SIGALRM, &(struct sigaction){.sa_handler = on_late, .sa_flags = SA_ONSTACK});
    pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_sec = WALK_LIMIT}, NULL);
}

/* The stack is full in a library's function, which must not be left: it finishes on a reserve. */
static bool put_off(const walk *w)
{
    if (!w->unsafe || w->foreign || barred_page || !on_cell_thread() || !overflow_reserve()) return false;
    bar(w->cell, ENDING_OVERFLOW);
    return barred_page != 0;
}

static void on_fault(int number, siginfo_t *info, void *memory)
{
    static volatile sig_atomic_t nested;
    ucontext_t *context = memory;
    void *address = info->si_addr;
    if (number == SIGSEGV && came_to_the_bar(context)) return;
    if (running.smashed) die_refused(ENDING_REFUSED, number, address);
    if (nested++ || getpid() != running.process) die_of(number, address);
    int kind = trap_kind(number, context), ending = trap_sentence(kind) ? ENDING_REFUSED : ENDING_SIGNAL;
    if (kind == TRAP_DIVISION) number = SIGFPE;
    if (ending == ENDING_REFUSED) running.missing = trap_sentence(kind);
    bool full = (number == SIGSEGV || number == SIGBUS) && overflow_happened(context, address);
    limit_walk(number);
    walk w = look_back(settle_program_counter(context, number == SIGSEGV ? address : NULL));
    nested = 0;
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    if (full && put_off(&w)) return;
    if (full) {
        ending = ENDING_OVERFLOW;
        address = (void *)w.cells;
    }
    if (!on_cell_thread() || !w.reached_entry || w.unsafe) die_refused(ending, number, address);
    running.ending = ending;
    running.code = number;
    running.address = address;
    siglongjmp(running.out, 1);
}

/* What others send, and what timers do: between cells it is nobody's, but for the guard's wish to end. */
static void on_signal(int number, siginfo_t *info, void *memory)
{
    if (running.active || number == SIGTERM || getpid() != running.process) on_fault(number, info, memory);
}

/* The worker is about to be killed: where is it? */
static void on_last_words(int number, siginfo_t *info, void *memory)
{
    (void)info;
    if (getpid() != running.process || !running.active) return;
    if (gettid() != running.process) {
        tgkill(running.process, running.process, number);
        return;
    }
    safe_to_leave(program_counter(memory));
    last_words(ENDING_SIGNAL, SIGKILL, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void interrupt_program(void)
{
    static volatile pid_t asked;
    static volatile double since;
    if (asked != running.program) {
        asked = running.program;
        since = now();
        running.ending = ENDING_INTERRUPTED;
        kill(-asked, SIGINT);
    } else if (now() - since > 0.8) {
        kill(-asked, SIGKILL);
    }
}

static void on_interrupt(int number, siginfo_t *info, void *memory)
{
    (void)info;
    int saved = errno;
    if (getpid() != running.process) _exit(130);
    if (gettid() != running.process) {
        tgkill(running.process, running.process, number);
        return;
    }
    void (*request_stop)(void) = NULL;
    *(void **)&request_stop = dlsym(RTLD_DEFAULT, "kolo_request_stop");
    if (running.active && request_stop) request_stop();
    if (running.active && running.program) {
        interrupt_program();
    } else if (running.active && in_a_file(program_counter(memory))) {
        walk w = look_back(program_counter(memory));
        if (w.reached_entry && !w.unsafe) {
            running.ending = ENDING_INTERRUPTED;
            siglongjmp(running.out, 1);
        }
        if (number == SIGNAL_INTERRUPT) bar(w.cell, ENDING_INTERRUPTED);
    }
    errno = saved;
}

void step_out_prepare(void)
{
    if (!running.frames) running.frames = malloc(FRAMES_SIZE);
    overflow_take_handler_stack();
    cells_folder();
    find_places();
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
