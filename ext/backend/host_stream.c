/* The host's stream: see stream.h. Its lanes are threads, and every call returns when its work is done. On a concurrent
 * stream for_each() and wait_event() return at once, and the thread of a sweeper runs them in order (sweeper.h). */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/sweeper.h"

typedef struct sweep sweep;

struct kolo_stream {
    const kolo_backend *backend;
    kolo_team *team; /* one member per lane */
    sem_t *gate; /* limits the microbatches that run at a time to the process's cores; NULL: no limit */
    kolo_sweeper *sweeper; /* of a concurrent stream; NULL: for_each() returns when it is done */
};

/* Only the sweeper may have unfinished work when an event is recorded. */
struct kolo_event {
    kolo_stream *stream;
    int64_t position; /* the end of the sweeper's queue when it was recorded; 0 without a sweeper */
};

/* Whether this thread is a lane. Calls of a lane do not wait for the sweeper, which waits for the lane. */
static _Thread_local bool in_lane;

/* ---------------------------------------------------------------- open and close */

static void close_stream(kolo_stream **stream)
{
    kolo_stream *closed = *stream;
    *stream = NULL;
    if (!closed) return;
    kolo_sweeper_close(&closed->sweeper);
    kolo_team_close(&closed->team);
    free(closed);
}

static kolo_status open_stream(const kolo_stream_place *place, kolo_stream **stream)
{
    kolo_stream *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a stream");
    made->backend = place->backend;
    made->gate = place->gate;
    kolo_status status = kolo_team_open(place->threads, &made->team);
    if (status == KOLO_OK && place->concurrent) status = kolo_sweeper_open(&made->sweeper);
    if (status == KOLO_OK) *stream = made;
    else close_stream(&made);
    return status;
}

/* Waits for the sweeper; called before work that does not go through it. */
static kolo_status settle(kolo_stream *stream)
{
    return stream->sweeper && !in_lane ? kolo_sweeper_wait(stream->sweeper, kolo_sweeper_end(stream->sweeper))
                                       : KOLO_OK;
}

/* ---------------------------------------------------------------- memory */

static kolo_status allocate(kolo_stream *stream, size_t bytes, const char *what, void **memory)
{
    (void)stream;
    *memory = kolo_host_allocate(bytes);
    return *memory ? KOLO_OK : kolo_fail_memory(bytes, what);
}

static void release(kolo_stream *stream, void *memory)
{
    (void)stream;
    kolo_host_deallocate(memory);
}

static kolo_status allocate_host(kolo_stream *stream, size_t bytes, void **memory)
{
    return allocate(stream, bytes, "memory of the host", memory);
}

static kolo_status import(kolo_stream *stream, const void *host, size_t bytes, const char *what, void **placed)
{
    (void)stream, (void)bytes, (void)what;
    *placed = (void *)(uintptr_t)host; /* it is only read */
    return KOLO_OK;
}

static void discard(kolo_stream *stream, const void *host, void *placed)
{
    (void)stream, (void)host, (void)placed;
}

static kolo_status copy(kolo_stream *stream, void *to, const void *from, size_t bytes)
{
    KOLO_TRY(settle(stream));
    if (bytes > 0 && to != from) memcpy(to, from, bytes);
    return KOLO_OK;
}

static kolo_status clear(kolo_stream *stream, void *memory, size_t bytes)
{
    KOLO_TRY(settle(stream));
    if (bytes > 0) memset(memory, 0, bytes);
    return KOLO_OK;
}

static kolo_status take_step_parameters(kolo_stream *stream, kolo_step_parameters *to, const kolo_step_parameters *ring,
                                        kolo_scaling *scaling, kolo_scaling *seen)
{
    KOLO_TRY(settle(stream));
    kolo_host_take_step_parameters(to, ring, scaling, seen);
    return KOLO_OK;
}

static kolo_status copy_to_ring(kolo_stream *stream, void *ring, size_t stride,
                                const kolo_step_parameters *step_parameters, const void *from, size_t bytes)
{
    KOLO_TRY(settle(stream));
    memcpy((char *)ring + (size_t)step_parameters->slot * stride, from, bytes);
    return KOLO_OK;
}

static kolo_status call(kolo_stream *stream, void (*work)(void *argument), void *argument)
{
    KOLO_TRY(settle(stream));
    work(argument);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- events */

static kolo_status record_event(kolo_stream *stream, kolo_event **event)
{
    if (!*event) *event = calloc(1, sizeof **event);
    if (!*event) return kolo_fail_memory(sizeof **event, "an event");
    **event = (kolo_event){stream, stream->sweeper ? kolo_sweeper_end(stream->sweeper) : 0};
    return KOLO_OK;
}

static kolo_status synchronize_event(kolo_stream *stream, kolo_event *event)
{
    (void)stream;
    return event->stream->sweeper ? kolo_sweeper_wait(event->stream->sweeper, event->position) : KOLO_OK;
}

static kolo_status wait_event(kolo_stream *stream, kolo_event *event)
{
    if (!event->stream->sweeper || event->stream == stream) return KOLO_OK;
    if (!stream->sweeper) return synchronize_event(stream, event);
    return kolo_sweeper_wait_for(stream->sweeper, event->stream->sweeper, event->position);
}

static void free_event(kolo_stream *stream, kolo_event *event)
{
    (void)stream;
    free(event);
}

static kolo_status synchronize(kolo_stream *stream)
{
    return settle(stream);
}

/* ---------------------------------------------------------------- microbatches */

static int lanes(const kolo_stream *stream)
{
    return kolo_team_size(stream->team);
}

struct sweep {
    kolo_stream *stream;
    int64_t first, end;
    bool backward;
    kolo_status (*body)(void *argument, int lane, int64_t number);
    void *argument;
    atomic_llong next; /* counts up to end - first in either direction */
};

static void enter_gate(sem_t *gate)
{
    while (gate && sem_wait(gate) != 0 && errno == EINTR) continue;
}

static void leave_gate(sem_t *gate)
{
    if (gate) sem_post(gate);
}

static kolo_status take_numbers(sweep *s, int lane)
{
    for (int64_t at; (at = atomic_fetch_add(&s->next, 1)) < s->end - s->first;) {
        enter_gate(s->stream->gate);
        kolo_status status = s->body(s->argument, lane, s->backward ? s->end - 1 - at : s->first + at);
        leave_gate(s->stream->gate);
        if (status != KOLO_OK) atomic_store(&s->next, s->end - s->first); /* the other lanes end, too */
        KOLO_TRY(status);
    }
    return KOLO_OK;
}

static kolo_status sweep_lane(void *argument, int member)
{
    sweep *s = argument;
    const kolo_backend *backend = s->stream->backend;
    bool outer = in_lane; /* body() may call for_each() of another stream, to compute scores */
    int entered = backend->enter_thread();
    in_lane = true;
    kolo_status status = take_numbers(s, member);
    in_lane = outer;
    backend->leave_thread(entered);
    return status;
}

static kolo_status do_sweep(void *argument)
{
    sweep *s = argument;
    atomic_store(&s->next, 0);
    return kolo_team_run(s->stream->team, sweep_lane, s);
}

static kolo_status for_each(kolo_stream *stream, int64_t first, int64_t end, bool backward,
                            kolo_status (*body)(void *argument, int lane, int64_t number), void *argument)
{
    sweep s = {stream, first, end, backward, body, argument, 0};
    if (first >= end) return KOLO_OK;
    return stream->sweeper ? kolo_sweeper_enqueue(stream->sweeper, do_sweep, &s, sizeof s) : do_sweep(&s);
}

static kolo_status run(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan, int op, void *kernel,
                       const kolo_call *made)
{
    KOLO_TRY(settle(stream));
    return kolo_host_run(backend, plan, op, kernel, made);
}

/* ---------------------------------------------------------------- arrays */

typedef struct conversions {
    const kolo_backend *backend;
    const kolo_plan *plan;
    const kolo_conversion *list;
    int count;
    atomic_int next;
} conversions;

static kolo_status convert_some(void *argument, int member)
{
    (void)member;
    conversions *c = argument;
    kolo_status status = KOLO_OK;
    int entered = c->backend->enter_thread();
    for (int i; status == KOLO_OK && (i = atomic_fetch_add(&c->next, 1)) < c->count;)
        status = kolo_host_convert(c->backend, c->plan, &c->list[i], 1);
    c->backend->leave_thread(entered);
    return status;
}

static kolo_status convert(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan,
                           const kolo_conversion *list, int count)
{
    conversions c = {backend, plan, list, count, 0};
    if (in_lane) return kolo_host_convert(backend, plan, list, count);
    KOLO_TRY(settle(stream));
    return count > 0 ? kolo_team_run(stream->team, convert_some, &c) : KOLO_OK;
}

static kolo_status add_gradient(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan, int value,
                                void *to, const void *from)
{
    KOLO_TRY(settle(stream));
    backend->add(plan, value, to, from);
    return KOLO_OK;
}

static kolo_status add(kolo_stream *stream, float *to, const float *from, int64_t count)
{
    KOLO_TRY(settle(stream));
    kolo_host_add(to, from, count);
    return KOLO_OK;
}

static kolo_status sum(kolo_stream *stream, double *to, const void *parts, size_t stride, int number, int64_t count)
{
    KOLO_TRY(settle(stream));
    kolo_host_sum(to, parts, stride, number, count);
    return KOLO_OK;
}

static kolo_status are_finite(kolo_stream *stream, const float *values, int64_t count, bool *finite)
{
    KOLO_TRY(settle(stream));
    *finite = kolo_host_are_finite(values, count);
    return KOLO_OK;
}

static kolo_status open_comm(kolo_stream *stream, kolo_comm *group, kolo_comm **comm)
{
    (void)stream;
    *comm = group;
    return KOLO_OK;
}

const kolo_stream_kind kolo_host_streams = {
    .steps_ahead = 0,
    .open = open_stream,
    .close = close_stream,
    .allocate = allocate,
    .release = release,
    .allocate_host = allocate_host,
    .release_host = release,
    .import = import,
    .discard = discard,
    .copy = copy,
    .clear = clear,
    .take_step_parameters = take_step_parameters,
    .copy_to_ring = copy_to_ring,
    .call = call,
    .record_event = record_event,
    .synchronize_event = synchronize_event,
    .wait_event = wait_event,
    .free_event = free_event,
    .synchronize = synchronize,
    .lanes = lanes,
    .for_each = for_each,
    .run = run,
    .convert = convert,
    .add_gradient = add_gradient,
    .add = add,
    .sum = sum,
    .are_finite = are_finite,
    .open_comm = open_comm,
};

/* ---------------------------------------------------------------- updates */

static kolo_status update(kolo_stream *stream, const kolo_update_job *job)
{
    KOLO_TRY(settle(stream));
    return kolo_host_update(job, stream->team);
}

static kolo_status penalty(kolo_stream *stream, const kolo_update_job *job, double *to)
{
    KOLO_TRY(settle(stream));
    *to = kolo_host_penalty(job->spans, job->span_count, job->weights);
    return KOLO_OK;
}

const kolo_update_kind kolo_host_updates = {.has_rule = kolo_host_has_rule,
                                            .expect = kolo_host_expect_update,
                                            .forget = kolo_host_forget_update,
                                            .update = update,
                                            .penalty = penalty};
