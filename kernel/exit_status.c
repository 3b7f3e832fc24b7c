#define _GNU_SOURCE
#include "exit_status.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static exit_status death_of(const worker_process *w)
{
    exit_status e = {.status = STATUS_SIGNAL};
    if (w->fatal_seen) {
        e.frames = w->payload;
        e.frames_size = w->payload_size;
        e.address = w->last.address;
    }
    if (w->forced) {
        e.status = STATUS_INTERRUPTED;
    } else if (w->fatal_seen) {
        e.status = w->last.number;
        e.thread = w->last.size == 1;
        e.code = w->last.code;
    } else if (WIFEXITED(w->status)) {
        e.status = STATUS_GONE;
        e.code = WEXITSTATUS(w->status);
    } else {
        e.code = w->stopped ? SIGSTOP : WTERMSIG(w->status);
    }
    e.before = w->ended_idle;
    e.reason = w->culled;
    return e;
}

exit_status exit_status_of(const worker_process *w, bool died)
{
    if (died) return death_of(w);
    return (exit_status){.status = w->last.number,
                         .code = w->last.code,
                         .address = w->last.address,
                         .size = w->last.size,
                         .frames = w->payload,
                         .frames_size = w->payload_size,
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
