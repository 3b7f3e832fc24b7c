/* The worker's own descriptors, and the calls of the C library that could close or replace them: for a cell they are
 * not open (EBADF). They lie beyond the limit that cells have: loops over all descriptors do not reach them.
 * fclose() of a standard stream closes its descriptor and leaves the stream, which the next cell needs.
 * Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/interposed.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SPARE = 16, HIGHEST = 16384 }; /* HIGHEST: a table of descriptors is copied at each fork */

static int own[OWN_DESCRIPTORS];
static unsigned own_count;

rlim_t place_descriptors(struct rlimit *limit)
{
    rlim_t place = limit->rlim_cur;
    if (place > HIGHEST) return HIGHEST;
    if (limit->rlim_max >= place + SPARE) return place;
    if (place > 4 * SPARE) limit->rlim_cur = place - SPARE;
    return limit->rlim_cur;
}

int keep_descriptor(int descriptor, rlim_t place)
{
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, (int)place);
    if (moved < 0) return descriptor;
    syscall(SYS_close, descriptor);
    own[own_count++] = moved; /* in ascending order: each is the lowest that is free */
    return moved;
}

static bool is_own(int descriptor)
{
    for (unsigned i = 0; i < own_count; i++) {
        if (own[i] == descriptor) return true;
    }
    return false;
}

static int refuse(void)
{
    errno = EBADF;
    return -1;
}

int close(int descriptor)
{
    return is_own(descriptor) ? refuse() : (int)syscall(SYS_close, descriptor);
}

int dup2(int from, int to)
{
    if (is_own(to)) return refuse();
    if (from == to) return fcntl(from, F_GETFD) < 0 ? -1 : to;
    return (int)syscall(SYS_dup3, from, to, 0);
}

int dup3(int from, int to, int flags)
{
    return is_own(to) ? refuse() : (int)syscall(SYS_dup3, from, to, flags);
}

/* The ranges between our own. */
int close_range(unsigned first, unsigned last, int flags)
{
    int result = 0;
    if (first > last) return (int)syscall(SYS_close_range, first, last, flags);
    for (unsigned i = 0; i < own_count && first <= last; i++) {
        unsigned mine = (unsigned)own[i];
        if (mine < first || mine > last) continue;
        if (mine > first) result = (int)syscall(SYS_close_range, first, mine - 1, flags);
        first = mine + 1;
    }
    return first <= last ? (int)syscall(SYS_close_range, first, last, flags) : result;
}

void closefrom(int first)
{
    close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0);
}

INTERPOSED(fclose);

int fclose(FILE *stream)
{
    if (getpid() != running.process || !is_standard_stream(stream)) return real_fclose()(stream);
    int failed = fflush(stream);
    return close(fileno(stream)) || failed ? EOF : 0;
}
