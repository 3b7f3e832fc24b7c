/* The worker exports functions of the C library under their own names: cells and the libraries they load find the
 * worker's first. INTERPOSED(name) makes real_name(), the function behind it. That is looked up before any cell runs: a
 * lookup in a signal handler or in a forked child could wait for a lock for ever. */
#ifndef KERNEL_WORKER_INTERPOSED_H
#define KERNEL_WORKER_INTERPOSED_H

#include <dlfcn.h>

#define INTERPOSED(name)                                                                                               \
    static __typeof__(&name) real_##name(void)                                                                         \
    {                                                                                                                  \
        static __typeof__(&name) found;                                                                                \
        if (!found) *(void **)&found = dlsym(RTLD_NEXT, #name);                                                        \
        return found;                                                                                                  \
    }                                                                                                                  \
    __attribute__((constructor)) static void find_##name(void)                                                         \
    {                                                                                                                  \
        (void)real_##name();                                                                                           \
    }                                                                                                                  \
    _Static_assert(1, "")

#endif
