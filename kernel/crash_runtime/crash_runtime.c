/* Linked into a program that %%run builds. Its output is seen line by line, though it goes through a pipe. When a fault
 * ends it, a note beside the program's file tells where. The program dies of the fault all the same, and handlers of
 * its own, or of a sanitizer's, stay in place. Read first: crash_runtime/crash_runtime.h. */
#define _GNU_SOURCE
#include "crash_runtime/crash_runtime.h"
#include "worker/checks.h"
#include "worker/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

enum { STACK = 64 * 1024, PAGE = 4096, NEAR = 128 * 1024, FRAMES = 48, MOST_FRAMES = 10000000 };

static char path[4096]; /* of the note */
static char object[256]; /* the name of the program's file, without its folder */
static const char smashed[] = WORDS_SMASHED;
static uintptr_t base, first, last; /* of the program itself: where it was loaded, and its own code */
static uintptr_t stack_end; /* of the main thread, about; 0: it has none */

#if defined(__x86_64__)
#define PROGRAM_COUNTER(context) ((context)->uc_mcontext.gregs[REG_RIP])
#define STACK_POINTER(context)   ((context)->uc_mcontext.gregs[REG_RSP])
#else
#define PROGRAM_COUNTER(context) ((context)->uc_mcontext.pc)
#define STACK_POINTER(context)   ((context)->uc_mcontext.sp)
#endif

static int find_program(struct dl_phdr_info *info, size_t size, void *closure)
{
    (void)size;
    (void)closure;
    base = info->dlpi_addr;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        first = base + part->p_vaddr;
        last = first + part->p_memsz;
    }
    return 1; /* the program comes before its libraries */
}

static bool is_own(uintptr_t at)
{
    return at >= first && at < last;
}

/* Is the stack full, or was memory just beyond it touched? */
static bool stack_is_full(uintptr_t address, uintptr_t stack)
{
    bool ended = stack_end && stack < stack_end + NEAR && stack + ((uintptr_t)1 << 30) > stack_end;
    return ended || (address < stack + PAGE && address + NEAR > stack);
}

typedef struct unwound {
    int file;
    uintptr_t start; /* the frames before this program counter are the runtime's own */
    uint64_t count; /* the program's own frames */
} unwound;

/* dprintf() would ask for memory, which is perhaps what is broken. */
static void write_frame(int file, uintptr_t at)
{
    char offset[24];
    int size = snprintf(offset, sizeof offset, "%lx", (unsigned long)(at - base));
    struct iovec parts[] = {{object, strlen(object) + 1}, {offset, (size_t)size + 1}, {(char[]){0}, 1}};
    if (writev(file, parts, 3) < 0) errno = 0;
}

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *closure)
{
    unwound *u = closure;
    int before = 0;
    uintptr_t at = _Unwind_GetIPInfo(context, &before);
    if (at == u->start) u->start = 0;
    if (at && !u->start && is_own(at) && u->count++ < FRAMES)
        write_frame(u->file, before ? at : at - 1); /* a return address is behind its call */
    return at && u->count < MOST_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* Only the first process that dies writes the note: one of several ranks, or of a program and its children. The head is
 * written last, so that a note that was cut has none. */
static void take_note(int number, int status, const char *why, uintptr_t address, uintptr_t start)
{
    message head = {.version = PROTOCOL_VERSION, .number = status, .code = number, .address = address};
    unwound u = {.file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), .start = start};
    if (u.file < 0) return;
    lseek(u.file, sizeof head, SEEK_SET);
    if (why && write(u.file, why, strlen(why) + 1) < 0) errno = 0;
    if (why == smashed) write_frame(u.file, start - 1); /* the frames above cannot be unwound */
    else _Unwind_Backtrace(visit, &u);
    if (status == STATUS_OVERFLOW) head.address = u.count;
    head.length = (uint32_t)lseek(u.file, 0, SEEK_CUR) - (uint32_t)sizeof head;
    if (pwrite(u.file, &head, sizeof head, 0) < 0) errno = 0;
    close(u.file);
}

/* Sets where unwinding begins. A call through a bad pointer has left a program counter outside of any function, and the
 * caller's address is on the stack. */
static void settle(ucontext_t *context, uintptr_t address)
{
#if defined(__x86_64__)
    if ((uintptr_t)PROGRAM_COUNTER(context) != address) return;
    PROGRAM_COUNTER(context) = *(greg_t *)STACK_POINTER(context) - 1;
    STACK_POINTER(context) += (greg_t)sizeof(greg_t);
#else
    if (PROGRAM_COUNTER(context) == address) PROGRAM_COUNTER(context) = context->uc_mcontext.regs[30] - 4;
#endif
}

static void print_what_waits(void)
{
    if (ftrylockfile(stdout)) return;
    fflush_unlocked(stdout);
    funlockfile(stdout);
}

static void end(int number, int status, const char *why, uintptr_t address, uintptr_t start)
{
    take_note(number, status, why, address, start);
    signal(number, SIG_DFL);
    print_what_waits();
    raise(number);
}

/* Called once: the signal has its former action again by then (SA_RESETHAND). */
static void on_fault(int number, siginfo_t *info, void *memory)
{
    ucontext_t *context = memory;
    bool fault = info->si_code > 0 && (number == SIGSEGV || number == SIGBUS);
    uintptr_t address = fault ? (uintptr_t)info->si_addr : 0;
    bool full = fault && stack_is_full(address, (uintptr_t)STACK_POINTER(context));
    if (fault && !full) settle(context, address);
    end(number, full ? STATUS_OVERFLOW : STATUS_SIGNAL, NULL, address, (uintptr_t)PROGRAM_COUNTER(context));
}

/* clang's checks call these. A call has a line of its own, whereas several checks share one trap. The functions are
 * weak, since a sanitizer that the user asks for brings its own. */
__attribute__((weak)) _Noreturn void __stack_chk_fail(void);
__attribute__((weak)) _Noreturn void __ubsan_handle_out_of_bounds_abort(const checked_index *check, uintptr_t index);
__attribute__((weak)) _Noreturn void __ubsan_handle_divrem_overflow_abort(void);
__attribute__((weak)) _Noreturn void __ubsan_handle_builtin_unreachable(void);

_Noreturn void __stack_chk_fail(void)
{
    end(SIGABRT, STATUS_REFUSED, smashed, 0, (uintptr_t)__builtin_return_address(0));
    _exit(128 + SIGABRT);
}

_Noreturn void __ubsan_handle_out_of_bounds_abort(const checked_index *check, uintptr_t index)
{
    static char words[400];
    describe_index(words, sizeof words, check, index);
    end(SIGABRT, STATUS_REFUSED, words, 0, (uintptr_t)__builtin_return_address(0));
    _exit(128 + SIGABRT);
}

_Noreturn void __ubsan_handle_divrem_overflow_abort(void)
{
    raise(SIGFPE); /* a handler of the program's own has it as from the processor */
    _exit(128 + SIGFPE);
}

_Noreturn void __ubsan_handle_builtin_unreachable(void)
{
    end(SIGABRT, STATUS_REFUSED, WORDS_UNREACHABLE, 0, (uintptr_t)__builtin_return_address(0));
    _exit(128 + SIGABRT);
}

static void take_faults(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction now,
        ours = {.sa_sigaction = on_fault, .sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESETHAND)};
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack != MAP_FAILED) sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK}, NULL);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        if (sigaction(faults[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) sigaction(faults[i], &ours, NULL);
    }
}

__attribute__((constructor)) static void begin(int count, char **words, char **environment)
{
    static char name[] = "program";
    struct rlimit limit;
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - sizeof CRASH_NOTE);
    const char *slash = size > 0 ? strrchr(path, '/') : NULL;
    if (slash) snprintf(object, sizeof object, "%s", slash + 1);
    if (size > 0) memcpy(path + size, CRASH_NOTE, sizeof CRASH_NOTE);
    if (count > 0) words[0] = program_invocation_name = program_invocation_short_name = name;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        stack_end = (uintptr_t)environment - limit.rlim_cur;
    dl_iterate_phdr(find_program, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IOLBF, 0); /* then a read from it prints the question that stands before it */
    take_faults();
}
