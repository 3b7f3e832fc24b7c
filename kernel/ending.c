#define _GNU_SOURCE
#include "ending.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static ended death_of(const machine *m)
{
    ended e = {.ending = ENDING_SIGNAL};
    if (m->fatal_seen) {
        e.frames = m->payload;
        e.frames_size = m->payload_size;
        e.address = m->last.address;
    }
    if (m->forced) {
        e.ending = ENDING_INTERRUPTED;
    } else if (m->fatal_seen) {
        e.ending = m->last.number;
        e.thread = m->last.size == 1;
        e.code = m->last.code;
    } else if (WIFEXITED(m->status)) {
        e.ending = ENDING_GONE;
        e.code = WEXITSTATUS(m->status);
    } else {
        e.code = m->stopped ? SIGSTOP : WTERMSIG(m->status);
    }
    e.before = m->ended_idle;
    e.reason = m->culled;
    return e;
}

ended ending_of(const machine *m, bool died)
{
    if (died) return death_of(m);
    return (ended){.ending = m->last.number,
                   .code = m->last.code,
                   .address = m->last.address,
                   .size = m->last.size,
                   .frames = m->payload,
                   .frames_size = m->payload_size,
                   .survived = true};
}

static const char *string_next(const char **at, const char *end)
{
    const char *here = *at, *last = here && here < end ? memchr(here, 0, (size_t)(end - here)) : NULL;
    if (last) *at = last + 1;
    return last ? here : NULL;
}

bool frame_next(const char **at, const char *end, frame *f)
{
    f->object = string_next(at, end);
    f->offset = f->object ? string_next(at, end) : NULL;
    f->symbol = f->offset ? string_next(at, end) : NULL;
    return f->symbol != NULL;
}
