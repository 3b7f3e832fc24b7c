/* Calls that would end the thread on which cells run, jump to a stack frame that is gone, or share the cell's stack
 * with a child process. Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/interposed.h"
#include "worker/worker.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIGNAL_STACK = 64 * 1024 };
static pthread_key_t signal_stack;

typedef struct beginning {
    void *(*function)(void *);
    void *argument;
} beginning;

static void release_stack(void *stack)
{
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    syscall(SYS_munmap, stack, (size_t)SIGNAL_STACK);
}

__attribute__((constructor)) static void make_key(void)
{
    pthread_key_create(&signal_stack, release_stack);
}

static void *begin(void *memory)
{
    beginning b = *(beginning *)memory;
    void *stack = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    free(memory);
    if (stack != MAP_FAILED && pthread_setspecific(signal_stack, stack) == 0)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = SIGNAL_STACK}, NULL);
    return b.function(b.argument);
}

INTERPOSED(pthread_create);

/* Each thread gets a second stack, on which its handlers run when its own is full. */
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*function)(void *), void *argument)
{
    beginning *b = malloc(sizeof *b);
    if (!b) return EAGAIN;
    *b = (beginning){function, argument};
    int failed = real_pthread_create()(thread, how, begin, b);
    if (failed) free(b);
    return failed;
}

INTERPOSED(pthread_exit);

/* At the end of main() it lets the other threads go on. It does the same at the end of a cell. */
void pthread_exit(void *result)
{
    if (on_cell_thread()) recover_from_call(STATUS_RETURNED, 0);
    real_pthread_exit()(result);
    __builtin_unreachable();
}

INTERPOSED(pthread_cancel);

int pthread_cancel(pthread_t thread)
{
    if (getpid() != running.process || !pthread_equal(thread, running.thread)) return real_pthread_cancel()(thread);
    if (on_cell_thread()) recover_from_call(STATUS_RETURNED, 0);
    return EPERM; /* from another thread: the cell's own is needed for the next cell */
}

/* A child of vfork() that reaches the end of the cell would have taken the parent's stack apart; POSIX lets vfork() be
 * fork(). */
pid_t vfork(void)
{
    return fork();
}

/* The stack pointer that a jump would set; 0 when it cannot be told. */
static uintptr_t destination(const struct __jmp_buf_tag *place)
{
#if defined(__x86_64__)
    uintptr_t at = (uintptr_t)place->__jmpbuf[6], guard;
    __asm__("mov %%fs:0x30, %0" : "=r"(guard)); /* the C library's pointer guard */
    return ((at >> 17) | (at << 47)) ^ guard;
#else
    (void)place;
    return 0;
#endif
}

/* `here`: the caller's stack pointer. The frame of setjmp() must still be there: further out than here, and within the
 * cell. Another stack than the cell's (of coroutines, of a handler) need only exist. */
static bool can_jump(const struct __jmp_buf_tag *place, uintptr_t here)
{
    uintptr_t to = destination(place), entry = (uintptr_t)running.entry;
    if (!to || !on_cell_thread()) return true;
    bool here_on_stack = here <= entry && entry - here < running.stack_size;
    bool there_on_stack = to <= entry && entry - to < running.stack_size;
    unsigned char present;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!there_on_stack) return mincore((void *)(to & ~(page - 1)), 1, &present) == 0;
    return !here_on_stack || to >= here;
}

static _Noreturn void jump(struct __jmp_buf_tag *place, int value, void *here, const char *name,
                           void (*real)(struct __jmp_buf_tag *, int))
{
    static char sentence[120];
    if (can_jump(place, (uintptr_t)here)) real(place, value);
    snprintf(sentence, sizeof sentence, "%s() to a place that setjmp() has not saved, or whose function has returned",
             name);
    running.missing = sentence;
    leave_refused(STATUS_REFUSED);
}

#undef longjmp
#undef _longjmp
#undef siglongjmp
INTERPOSED(longjmp);

void longjmp(struct __jmp_buf_tag place[1], int value)
{
    jump(place, value, __builtin_dwarf_cfa(), "longjmp", real_longjmp());
}

void _longjmp(struct __jmp_buf_tag place[1], int value)
{
    jump(place, value, __builtin_dwarf_cfa(), "_longjmp", real_longjmp());
}

void siglongjmp(struct __jmp_buf_tag place[1], int value)
{
    jump(place, value, __builtin_dwarf_cfa(), "siglongjmp", real_longjmp());
}
