/* Keeps a cell from giving up what it could not get back: hard limits, which only the privileged may raise again, and
 * the memory of loaded code and variables. Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/interposed.h"
#include "worker/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* A cell that lowers a hard limit lowers the soft one, which has the same effect on it. */
INTERPOSED(prlimit);

int prlimit(pid_t process, __rlimit_resource_t which, const struct rlimit *wanted, struct rlimit *old)
{
    struct rlimit now, soft;
    bool lowers = wanted && (process == 0 || process == running.process) && getpid() == running.process;
    if (lowers && real_prlimit()(0, which, NULL, &now) == 0 && wanted->rlim_cur <= wanted->rlim_max &&
        wanted->rlim_max < now.rlim_max) {
        soft = (struct rlimit){wanted->rlim_cur, now.rlim_max};
        wanted = &soft;
    }
    return real_prlimit()(process, which, wanted, old);
}

int setrlimit(__rlimit_resource_t which, const struct rlimit *wanted)
{
    return prlimit(0, which, wanted, NULL);
}

/* glibc's names where off_t's size is asked for; the structures are the same. */
int prlimit64(pid_t process, __rlimit_resource_t which, const struct rlimit64 *wanted, struct rlimit64 *old)
{
    return prlimit(process, which, (const struct rlimit *)wanted, (struct rlimit *)old);
}

int setrlimit64(__rlimit_resource_t which, const struct rlimit64 *wanted)
{
    return prlimit(0, which, (const struct rlimit *)wanted, NULL);
}

_Static_assert(sizeof(struct rlimit) == sizeof(struct rlimit64), "a 64-bit machine is taken for granted");

typedef struct closed_range {
    void *address;
    size_t size;
} closed_range;

enum { CLOSED = 64 };
static closed_range closed[CLOSED];
static size_t closed_count;

static bool is_loaded(void *address)
{
    Dl_info info;
    return dladdr(address, &info) != 0;
}

INTERPOSED(mprotect);

/* A page of the cells' variables that was made unwritable is writable again in the next cell. */
int mprotect(void *address, size_t size, int protection)
{
    int failed = real_mprotect()(address, size, protection);
    bool shut = !failed && !(protection & PROT_WRITE) && getpid() == running.process && running.active;
    if (shut && closed_count < CLOSED && is_loaded(address)) closed[closed_count++] = (closed_range){address, size};
    return failed;
}

void open_memory(void)
{
    while (closed_count) {
        const closed_range *range = &closed[--closed_count];
        if (real_mprotect()(range->address, range->size, PROT_READ | PROT_WRITE | PROT_EXEC))
            real_mprotect()(range->address, range->size, PROT_READ | PROT_WRITE);
    }
}

INTERPOSED(munmap);

int munmap(void *address, size_t size)
{
    if (running.active && getpid() == running.process && is_loaded(address)) {
        errno = EINVAL;
        return -1;
    }
    return real_munmap()(address, size);
}
