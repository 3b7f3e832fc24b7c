/* Growing the stack: see stack.h. */
#define _GNU_SOURCE
#include "core/stack.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define NEEDED ((size_t)5 << 20)      /* the partial sums of a reduction tree, and some nested calls */
#define LIMIT  ((rlim_t)6 << 20)      /* a stack with a smaller limit is not grown */

/* Writes one byte at the far end: the system grows the stack up to it, but allocates only that page. */
__attribute__((noinline)) static void touch(void)
{
    volatile char room[NEEDED];
    room[0] = 0;
    (void)room[0];
}

kolo_status kolo_stack_grow(void)
{
    struct rlimit limit;
    if (gettid() != getpid()) return KOLO_OK; /* the stacks of other threads do not grow */
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < LIMIT))
        return KOLO_OK;
    void *room = mmap(NULL, NEEDED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return kolo_fail_memory(NEEDED, "the stack");
    munmap(room, NEEDED);
    touch();
    return KOLO_OK;
}
