/* The worker that runs the session's cells: starting it, replacing it after a crash, and running a program in it. Read
 * first: session_worker.h, worker_process.h. */
#define _GNU_SOURCE
#include "session_worker.h"
#include "colours.h"
#include "debug/debugger.h"
#include "exit_status.h"
#include "loads.h"
#include "lock.h"
#include "memory_hint.h"
#include "outs.h"
#include "print.h"
#include "report.h"
#include "widgets/widgets.h"

#include <string.h>

static bool read_worker(void *closure, uint64_t address, size_t size, void *into)
{
    session *s = closure;
    if (worker_peek(&s->worker, address, size) != OUTCOME_ANSWER || s->worker.last.code ||
        s->worker.payload_size < size)
        return false;
    memcpy(into, s->worker.payload, size);
    return true;
}

/* "f" for f$1, which is what the linker knows a cell's function as. */
static char *function_of_worker(void *closure, uint64_t address)
{
    session *s = closure;
    if (worker_ask(&s->worker, MESSAGE_NAME, &address, sizeof address) != OUTCOME_ANSWER || s->worker.last.code)
        return NULL;
    return copy_of_bytes(s->worker.payload, strcspn(s->worker.payload, "$"));
}

memory worker_memory(session *s)
{
    return (memory){.read = read_worker, .function_at = function_of_worker, .closure = s};
}

static void add_variable(entity *e, void *closure)
{
    text *into = closure;
    if (!e->lost || into->size > 600 || outs_name(e->name)) return;
    text_addf(into, "%s%s", into->size ? ", " : "", into->size > 560 ? "…" : e->name);
}

static void mark_lost(entity *e, void *closure)
{
    (void)closure;
    e->lost = e->kind == ENTITY_VARIABLE && e->link;
}

void add_loss(session *s, text *into)
{
    text lost = {0};
    symbols_each(s->symbols, mark_lost, NULL);
    bool up = replace_worker(s, false);
    symbols_each(s->symbols, add_variable, &lost); /* one with a slider has its value again */
    text_addf(into, "\nThe process that ran the cells is gone%s; functions, types and includes are kept.",
              up ? " and a new one has taken its place" : "");
    if (lost.size) text_addf(into, "\nLost, and zero until their cells are run again: %s", lost.data);
    text_free(&lost);
}

result worker_exit_result(session *s, bool survived)
{
    exit_status e = exit_status_of(&s->worker, !survived);
    result r = exit_status_result(s, &e);
    const char *hint = memory_hint(s, &e);
    if (!survived) add_loss(s, &r.traceback);
    if (hint) text_addf(&r.traceback, "\n" CYAN "hint: " PLAIN "%s", hint);
    s->worker.forced = s->worker.stopped = false;
    return r;
}

bool ensure_worker(session *s)
{
    if (worker_is_up(&s->worker)) return true;
    if (s->worker.unreported) {
        s->worker.unreported = false;
        result r = worker_exit_result(s, false);
        print_error(s, r.traceback.data);
        print_error(s, "\n");
        result_free(&r);
        return worker_is_up(&s->worker);
    }
    bool up = worker_start(&s->worker) && loads_again(s);
    headers_lost(s->symbols);
    if (up) debug_worker_started(s->debugger);
    if (up) widgets_worker_started(s);
    return up;
}

bool replace_worker(session *s, bool gently)
{
    worker_stop(&s->worker, gently);
    s->worker.process = 0;
    s->worker.starting = s->worker.unreported = false;
    return ensure_worker(s);
}

result run_program_in_worker(session *s, char *const *arguments, int *status)
{
    text payload = {0};
    for (; *arguments; arguments++) text_add_bytes(&payload, *arguments, strlen(*arguments) + 1);
    *status = 0;
    result r = {0};
    bool up = ensure_worker(s);
    outcome o = OUTCOME_ENDED;
    cell_waits(s);
    if (up) o = worker_run(&s->worker, MESSAGE_SHELL, payload.data, payload.size, s->allow_stdin);
    cell_goes_on(s);
    if (!up) {
        r = error_result("WorkerError", "the process that runs cells cannot be started");
    } else if (o == OUTCOME_ENDED) {
        r = worker_exit_result(s, false);
    } else if (s->worker.last.number != STATUS_PROGRAM) {
        r = worker_exit_result(s, true);
    } else if (s->worker.culled) {
        r = error_result("ResourceError", "%s", s->worker.culled);
    } else {
        *status = s->worker.last.code;
    }
    text_free(&payload);
    return r;
}
