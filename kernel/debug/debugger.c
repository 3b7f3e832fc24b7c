/* The debugger's life, and what it does around each cell. See debugger.h. */
#define _GNU_SOURCE
#include "debug/state.h"
#include "print.h"

#include <stdlib.h>
#include <string.h>

debugger *debug_open(session *s)
{
    debugger *d = need_zeroed(sizeof *d);
    d->s = s;
    d->whole_cells = json_object();
    pthread_mutexattr_t again; /* what is compiled again may find the worker dead, and start another */
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&d->lock, &again);
    pthread_mutexattr_destroy(&again);
    places_open(&d->places, s->folder);
    return d;
}

void debug_close(debugger *d)
{
    if (!d) return;
    pthread_mutex_lock(&d->lock);
    d->on = false;
    detach(d);
    pthread_mutex_unlock(&d->lock);
    places_close(&d->places);
    json_decref(d->whole_cells);
    json_decref(d->inspected);
    free(d->problem);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void note_earlier_cells(debugger *d)
{
    for (size_t i = 0; i < d->s->source_count && !d->noted; i++) {
        places_add(&d->places, d->s->sources[i].name, d->s->sources[i].text);
    }
    d->noted = true;
}

static void tell_problem(debugger *d)
{
    if (!d->problem) return;
    print_error(d->s, d->problem);
    print_error(d->s, "\n");
    free(d->problem);
    d->problem = NULL;
}

void debug_cell_begins(debugger *d, const char *code, const char *name)
{
    compiler_for_debugging(&d->s->compiler, d->on);
    if (!d->on) return;
    pthread_mutex_lock(&d->lock);
    d->running = true;
    note_earlier_cells(d);
    tell_problem(d);
    bool recompile = !d->recompiled;
    d->recompiled = true;
    pthread_mutex_unlock(&d->lock);
    if (recompile) compile_again(d->s);
    pthread_mutex_lock(&d->lock);
    const cell_place *place = places_add(&d->places, name, code);
    if (json_object_get(d->places.breakpoints, place->path)) json_decref(set_breakpoints(d, place->path));
    pthread_mutex_unlock(&d->lock);
}

void debug_cell_ended(debugger *d)
{
    if (!d->running) return;
    pthread_mutex_lock(&d->lock);
    d->running = d->passing = d->fresh = false;
    if (d->stopped && adapter_gone(d->adapter)) {
        d->stopped = false;
        publish_event(d, "continued", json_pack("{s:I, s:b}", "threadId", d->thread, "allThreadsContinued", 1));
    }
    pthread_mutex_unlock(&d->lock);
}

/* A debugger that holds the worker and does not answer: both end. */
static void end_all(debugger *d)
{
    message sweep = {.token = d->s->worker.token, .kind = MESSAGE_SWEEP};
    message_send(d->s->worker.supervisor_socket, &sweep, NULL, 0, NULL, 0);
}

void debug_interrupt(debugger *d)
{
    if (!d->on) return;
    pthread_mutex_lock(&d->lock);
    if (d->running && d->adapter && !adapter_gone(d->adapter)) {
        d->passing = true;
        if (d->stopped) {
            json_t *went_on = adapter_ask(d->adapter, "continue", json_pack("{s:I}", "threadId", d->thread), 1);
            if (!went_on) end_all(d);
            json_decref(went_on);
        }
    }
    pthread_mutex_unlock(&d->lock);
}
