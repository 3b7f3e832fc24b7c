/* A full stack: the end of the cell's own, which grows as far as its limit says, and those of the threads that cells
 * start (threads.c), which end at a page that may not be touched. Read first: overflow.h. */
#define _GNU_SOURCE
#include "worker/overflow.h"
#include "worker/worker.h"

#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    HANDLER_STACK = 256 * 1024,
    RESERVE = 1 << 20,
    BELOW = 64 * 1024, /* the stack pointer, where what is called next writes at most */
    LARGEST_FRAME = 1 << 30
};

static uintptr_t stack_pointer(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#else
    return (uintptr_t)context->uc_mcontext.sp;
#endif
}

/* Where the main thread's stack ends at most; 0: it has no limit. The program's own name is the first thing on it. */
static uintptr_t lowest(void)
{
    struct rlimit limit;
    uintptr_t top = (uintptr_t)getauxval(AT_EXECFN);
    if (!top || getrlimit(RLIMIT_STACK, &limit) || limit.rlim_cur >= top) return 0;
    return top - (uintptr_t)limit.rlim_cur;
}

bool overflow_happened(const ucontext_t *context, const void *address)
{
    enum { PAGES = 16 * 1024 }; /* the top is known to some pages */
    uintptr_t sp = stack_pointer(context), at = (uintptr_t)address, end = lowest();
    bool in_frame = at + BELOW >= sp && at < sp + LARGEST_FRAME;
    if (gettid() == running.process) return in_frame && at < end + PAGES && sp + LARGEST_FRAME > end;
    unsigned char present;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    bool alive = mincore((void *)(at & ~(page - 1)), page, &present) == 0; /* a guard page: there, and forbidden */
    return alive && at + BELOW >= sp && at < sp + RESERVE;
}

bool overflow_reserve(void)
{
    struct rlimit limit;
    static uintptr_t given; /* the end that it was given at */
    uintptr_t end = lowest();
    if (!end || gettid() != running.process || given == end || getrlimit(RLIMIT_STACK, &limit)) return false;
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < limit.rlim_cur + RESERVE) return false;
    limit.rlim_cur += RESERVE;
    if (setrlimit(RLIMIT_STACK, &limit)) return false;
    given = end - RESERVE;
    return true;
}

void overflow_take_handler_stack(void)
{
    static char *stack;
    if (!stack) stack = mmap(NULL, HANDLER_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = HANDLER_STACK}, NULL);
}
