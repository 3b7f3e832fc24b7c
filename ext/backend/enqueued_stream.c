/* A stream that is asynchronous like a GPU's but computes on the host, for the engine's tests: see stream.h.
 *
 * Work that is enqueued becomes a list of commands. The commands run as late as the contract allows: when the host
 * synchronizes, when another stream waits for them, or when memory is released. New memory is filled with bytes of
 * 0xff, which are NaN as floats. So the tests detect on any machine that a result was read too early, that the source
 * of a copy was changed before the copy, or that memory was read before it was written. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "core/clock.h"
#include "core/grow.h"
#include "optimizers/optimizer.h"

#define PAYLOAD 384 /* bytes of arguments that a command holds */

typedef struct command {
    kolo_status (*run)(void *arguments);
    _Alignas(16) char arguments[PAYLOAD];
} command;

typedef struct command_list {
    command *commands;
    int64_t count;
    size_t room;
} command_list;

struct kolo_captured_graph {
    command_list list;
    kolo_stream *joined[KOLO_DEVICES_MAX]; /* streams that joined the capture by waiting for a captured event */
    int joined_count;
};

struct kolo_stream {
    const kolo_backend *backend;
    pid_t process;
    command_list list;
    int64_t done;    /* commands that have run, removed ones included */
    int64_t removed; /* commands that were removed from the beginning of the list */
    kolo_captured_graph *capture; /* commands are added to this graph; NULL: to the list */
    kolo_status failed;           /* the first failure of a command; afterwards every call fails */
};

/* Complete when the commands of `stream` up to `position` have run. */
struct kolo_event {
    kolo_stream *stream;
    int64_t position;
    kolo_captured_graph *capture; /* the capture in which it was recorded, which a waiting stream joins; or NULL */
    double time; /* of record_time(): when the stream came to it last */
    bool timed; /* a command of the stream may still note the time */
};

/* ---------------------------------------------------------------- commands */

static kolo_status append(command_list *list, const command *added)
{
    KOLO_TRY(kolo_make_room(&list->commands, &list->room, (size_t)list->count + 1, sizeof *added,
                            "work that is enqueued"));
    list->commands[list->count++] = *added;
    return KOLO_OK;
}

static kolo_status check(const kolo_stream *stream)
{
    if (stream->process != getpid())
        return kolo_fail(KOLO_UNSUPPORTED, "the stream stayed with the process that was forked; wanted a model of the "
                                           "child's own");
    return stream->failed == KOLO_OK ? KOLO_OK : kolo_fail(stream->failed, "the stream failed at earlier work");
}

static kolo_status enqueue(kolo_stream *stream, kolo_status (*run)(void *), const void *arguments, size_t bytes)
{
    command added = {.run = run};
    KOLO_TRY(check(stream));
    if (bytes > PAYLOAD) return kolo_fail(KOLO_INTERNAL, "a command's arguments take %zu bytes", bytes);
    memcpy(added.arguments, arguments, bytes);
    return append(stream->capture ? &stream->capture->list : &stream->list, &added);
}
#define ENQUEUE(stream_, run_, ...) enqueue(stream_, run_, &(run_##_arguments){__VA_ARGS__}, sizeof(run_##_arguments))

/* Runs commands until `position` of them have run. A command may flush another stream, which at most waits for commands
 * of this stream that have already run. */
static kolo_status flush(kolo_stream *stream, int64_t position)
{
    KOLO_TRY(check(stream));
    while (stream->done < position) {
        command next = stream->list.commands[stream->done++ - stream->removed];
        kolo_status status = next.run(next.arguments);
        if (status != KOLO_OK) return stream->failed = status;
    }
    if (stream->done == stream->removed + stream->list.count) {
        stream->removed = stream->done;
        stream->list.count = 0;
    }
    return KOLO_OK;
}

static int64_t end_of(const kolo_stream *stream)
{
    return stream->removed + stream->list.count;
}

static kolo_status synchronize(kolo_stream *stream)
{
    return flush(stream, end_of(stream));
}

/* ---------------------------------------------------------------- open and close */

static kolo_status open_stream(const kolo_stream_place *place, kolo_stream **stream)
{
    kolo_stream *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "a stream");
    made->backend = place->backend;
    made->process = getpid();
    *stream = made;
    return KOLO_OK;
}

/* Runs all commands. A failure is dropped, because the caller cannot report it. */
static void settle(kolo_stream *stream)
{
    if (stream->process != getpid() || stream->failed != KOLO_OK) return;
    kolo_failure before = kolo_failure_take();
    synchronize(stream);
    kolo_failure_take();
    if (before.code != KOLO_OK) kolo_failure_give(&before);
}

static void close_stream(kolo_stream **stream)
{
    kolo_stream *closed = *stream;
    *stream = NULL;
    if (!closed) return;
    settle(closed);
    free(closed->list.commands);
    free(closed);
}

/* ---------------------------------------------------------------- memory */

static kolo_status allocate(kolo_stream *stream, size_t bytes, const char *what, void **memory)
{
    KOLO_TRY(check(stream));
    *memory = kolo_host_allocate(bytes);
    if (!*memory) return kolo_fail_memory(bytes, what);
    memset(*memory, 0xff, bytes);
    return KOLO_OK;
}

static void release(kolo_stream *stream, void *memory)
{
    if (!memory) return;
    settle(stream);
    kolo_host_deallocate(memory);
}

static kolo_status allocate_host(kolo_stream *stream, size_t bytes, void **memory)
{
    return allocate(stream, bytes, "memory of the host", memory);
}

typedef struct copy_arguments {
    char *to;
    const void *from;
    size_t bytes;
    const kolo_step_parameters *step_parameters; /* it copies to element number .slot of `to`; NULL: to `to` itself */
    size_t stride;
} do_copy_arguments;

static kolo_status do_copy(void *arguments)
{
    const do_copy_arguments *a = arguments;
    size_t slot = a->step_parameters ? (size_t)a->step_parameters->slot : 0;
    memmove(a->to + slot * a->stride, a->from, a->bytes);
    return KOLO_OK;
}

static kolo_status copy(kolo_stream *stream, void *to, const void *from, size_t bytes)
{
    return bytes > 0 ? ENQUEUE(stream, do_copy, to, from, bytes, NULL, 0) : check(stream);
}

static kolo_status import(kolo_stream *stream, const void *host, size_t bytes, const char *what, void **placed)
{
    if (!*placed) KOLO_TRY(allocate(stream, bytes, what, placed));
    return copy(stream, *placed, host, bytes);
}

static void discard(kolo_stream *stream, const void *host, void *placed)
{
    (void)host;
    release(stream, placed);
}

typedef struct clear_arguments {
    void *memory;
    size_t bytes;
} do_clear_arguments;

static kolo_status do_clear(void *arguments)
{
    const do_clear_arguments *a = arguments;
    memset(a->memory, 0, a->bytes);
    return KOLO_OK;
}

static kolo_status clear(kolo_stream *stream, void *memory, size_t bytes)
{
    return bytes > 0 ? ENQUEUE(stream, do_clear, memory, bytes) : check(stream);
}

typedef struct take_step_parameters_arguments {
    kolo_step_parameters *to;
    const kolo_step_parameters *ring;
    kolo_scaling *scaling, *seen;
} do_take_step_parameters_arguments;

static kolo_status do_take_step_parameters(void *arguments)
{
    const do_take_step_parameters_arguments *a = arguments;
    kolo_host_take_step_parameters(a->to, a->ring, a->scaling, a->seen);
    return KOLO_OK;
}

static kolo_status take_step_parameters(kolo_stream *stream, kolo_step_parameters *to, const kolo_step_parameters *ring,
                                        kolo_scaling *scaling, kolo_scaling *seen)
{
    return ENQUEUE(stream, do_take_step_parameters, to, ring, scaling, seen);
}

static kolo_status copy_to_ring(kolo_stream *stream, void *ring, size_t stride,
                                const kolo_step_parameters *step_parameters, const void *from, size_t bytes)
{
    return ENQUEUE(stream, do_copy, ring, from, bytes, step_parameters, stride);
}

typedef struct call_arguments {
    void (*work)(void *argument);
    void *argument;
} do_call_arguments;

static kolo_status do_call(void *arguments)
{
    const do_call_arguments *a = arguments;
    a->work(a->argument);
    return KOLO_OK;
}

static kolo_status call(kolo_stream *stream, void (*work)(void *argument), void *argument)
{
    return ENQUEUE(stream, do_call, work, argument);
}

/* ---------------------------------------------------------------- events */

static kolo_status record_event(kolo_stream *stream, kolo_event **event)
{
    KOLO_TRY(check(stream));
    if (!*event) *event = calloc(1, sizeof **event);
    if (!*event) return kolo_fail_memory(sizeof **event, "an event");
    **event = (kolo_event){
        .stream = stream, .position = end_of(stream), .capture = stream->capture, .timed = (*event)->timed};
    return KOLO_OK;
}

static kolo_status synchronize_event(kolo_stream *stream, kolo_event *event)
{
    KOLO_TRY(check(stream));
    if (event->capture) return kolo_fail(KOLO_INTERNAL, "the host waits for an event of a captured graph");
    return flush(event->stream, event->position);
}

static kolo_status do_wait(void *arguments)
{
    const kolo_event *event = arguments;
    return flush(event->stream, event->position);
}

static kolo_status join_capture(kolo_stream *stream, kolo_captured_graph *graph)
{
    if (stream->capture == graph) return KOLO_OK;
    if (graph->joined_count == KOLO_DEVICES_MAX) return kolo_fail(KOLO_INTERNAL, "too many streams in one graph");
    graph->joined[graph->joined_count++] = stream;
    stream->capture = graph;
    return KOLO_OK;
}

/* A graph has the commands of all its streams in the order in which they were enqueued, so it needs no waits. */
static kolo_status wait_event(kolo_stream *stream, kolo_event *event)
{
    KOLO_TRY(check(stream));
    if (event->capture) return join_capture(stream, event->capture);
    if (event->stream == stream || stream->capture) return KOLO_OK;
    return enqueue(stream, do_wait, event, sizeof *event);
}

static kolo_status do_note_time(void *arguments)
{
    (*(kolo_event **)arguments)->time = kolo_now();
    return KOLO_OK;
}

static kolo_status record_time(kolo_stream *stream, kolo_event **event)
{
    KOLO_TRY(record_event(stream, event)); /* before the command, so that the event exists */
    KOLO_TRY(enqueue(stream, do_note_time, event, sizeof *event));
    (*event)->position = end_of(stream);
    (*event)->timed = true;
    return KOLO_OK;
}

static kolo_status elapsed(kolo_stream *stream, kolo_event *first, kolo_event *last, double *seconds)
{
    KOLO_TRY(synchronize_event(stream, first));
    KOLO_TRY(synchronize_event(stream, last));
    *seconds = last->time - first->time;
    return KOLO_OK;
}

static void free_event(kolo_stream *stream, kolo_event *event)
{
    (void)stream;
    if (event && event->timed) settle(event->stream);
    free(event);
}

/* ---------------------------------------------------------------- captured graphs */

static kolo_status begin_capture(kolo_stream *stream)
{
    KOLO_TRY(check(stream));
    stream->capture = calloc(1, sizeof *stream->capture);
    return stream->capture ? KOLO_OK : kolo_fail_memory(sizeof *stream->capture, "a captured graph");
}

static kolo_status end_capture(kolo_stream *stream, kolo_captured_graph **graph)
{
    *graph = stream->capture;
    stream->capture = NULL;
    for (int i = 0; *graph && i < (*graph)->joined_count; i++) (*graph)->joined[i]->capture = NULL;
    return *graph ? KOLO_OK : kolo_fail(KOLO_INTERNAL, "no capture has begun");
}

static kolo_status launch(kolo_stream *stream, kolo_captured_graph *graph)
{
    KOLO_TRY(check(stream));
    for (int64_t i = 0; i < graph->list.count; i++) KOLO_TRY(append(&stream->list, &graph->list.commands[i]));
    return KOLO_OK;
}

static void free_graph(kolo_stream *stream, kolo_captured_graph *graph)
{
    if (!graph) return;
    settle(stream);
    free(graph->list.commands);
    free(graph);
}

/* ---------------------------------------------------------------- microbatches and kernels */

static int lanes(const kolo_stream *stream)
{
    (void)stream;
    return 1;
}

static kolo_status for_each(kolo_stream *stream, int64_t first, int64_t end, bool backward,
                            kolo_status (*body)(void *argument, int lane, int64_t number), void *argument)
{
    KOLO_TRY(check(stream));
    return kolo_for_each_in_order(first, end, backward, body, argument);
}

typedef struct run_arguments {
    const kolo_backend *backend;
    const kolo_plan *plan;
    void *kernel;
    int op;
    kolo_call call;
    void *in[KOLO_OP_INS], *out[KOLO_OP_OUTS]; /* call.memory may be bound to another microbatch when it runs */
} do_run_arguments;

static kolo_status do_run(void *arguments)
{
    do_run_arguments *a = arguments;
    void **memory = calloc((size_t)a->plan->value_count, sizeof *memory);
    if (!memory) return kolo_fail_memory((size_t)a->plan->value_count * sizeof *memory, "an operation's operands");
    const kolo_op *op = &a->plan->ops[a->op];
    for (int i = 0; i < KOLO_OP_INS; i++)
        if (op->in[i] >= 0) memory[op->in[i]] = a->in[i];
    for (int i = 0; i < KOLO_OP_OUTS; i++)
        if (op->out[i] >= 0) memory[op->out[i]] = a->out[i];
    a->call.memory = memory;
    int entered = a->backend->enter_thread();
    kolo_status status = kolo_host_run(a->backend, a->plan, a->op, a->kernel, &a->call);
    a->backend->leave_thread(entered);
    free(memory);
    return status;
}

static kolo_status run(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan, int op, void *kernel,
                       const kolo_call *made)
{
    do_run_arguments arguments = {backend, plan, kernel, op, *made, {NULL}, {NULL}};
    const kolo_op *o = &plan->ops[op];
    for (int i = 0; i < KOLO_OP_INS; i++) arguments.in[i] = o->in[i] < 0 ? NULL : made->memory[o->in[i]];
    for (int i = 0; i < KOLO_OP_OUTS; i++) arguments.out[i] = o->out[i] < 0 ? NULL : made->memory[o->out[i]];
    return enqueue(stream, do_run, &arguments, sizeof arguments);
}

typedef struct add_gradient_arguments {
    const kolo_backend *backend;
    const kolo_plan *plan;
    void *to;
    const void *from;
    int value;
} do_add_gradient_arguments;

static kolo_status do_add_gradient(void *arguments)
{
    const do_add_gradient_arguments *a = arguments;
    a->backend->add(a->plan, a->value, a->to, a->from);
    return KOLO_OK;
}

static kolo_status add_gradient(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan, int value,
                                void *to, const void *from)
{
    return ENQUEUE(stream, do_add_gradient, backend, plan, to, from, value);
}

typedef struct convert_arguments {
    const kolo_backend *backend;
    const kolo_plan *plan;
    kolo_conversion one;
} do_convert_arguments;

static kolo_status do_convert(void *arguments)
{
    const do_convert_arguments *a = arguments;
    return kolo_host_convert(a->backend, a->plan, &a->one, 1);
}

static kolo_status convert(kolo_stream *stream, const kolo_backend *backend, const kolo_plan *plan,
                           const kolo_conversion *list, int count)
{
    for (int i = 0; i < count; i++) KOLO_TRY(ENQUEUE(stream, do_convert, backend, plan, list[i]));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- updates */

static kolo_status do_update(void *arguments)
{
    return kolo_host_update(arguments, NULL);
}

static kolo_status update(kolo_stream *stream, const kolo_update_job *job)
{
    return enqueue(stream, do_update, job, sizeof *job);
}

typedef struct penalty_arguments {
    const kolo_span *spans;
    const float *weights;
    double *to;
    int span_count;
} do_penalty_arguments;

static kolo_status do_penalty(void *arguments)
{
    const do_penalty_arguments *a = arguments;
    *a->to = kolo_host_penalty(a->spans, a->span_count, a->weights);
    return KOLO_OK;
}

static kolo_status penalty(kolo_stream *stream, const kolo_update_job *job, double *to)
{
    return ENQUEUE(stream, do_penalty, job->spans, job->weights, to, job->span_count);
}

/* As on a GPU, a custom optimizer that has only a function of the host is updated by the host. */
static bool has_rule(const kolo_optimizer *optimizer)
{
    return optimizer->kind->rule != NULL;
}

const kolo_update_kind kolo_enqueued_updates = {.has_rule = has_rule,
                                                .expect = kolo_host_expect_update,
                                                .forget = kolo_host_forget_update,
                                                .update = update,
                                                .penalty = penalty};

/* ---------------------------------------------------------------- arrays */

typedef struct gather_arguments {
    kolo_sources from;
    const kolo_step_parameters *step_parameters;
    int64_t first;
    kolo_gathered to;
    int microbatch;
} do_gather_arguments;

static kolo_status do_gather(void *arguments)
{
    const do_gather_arguments *a = arguments;
    kolo_host_gather(&a->from, a->step_parameters, a->first, a->microbatch, &a->to);
    return KOLO_OK;
}

static kolo_status gather(kolo_stream *stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                          int64_t first, int microbatch, const kolo_gathered *to)
{
    return ENQUEUE(stream, do_gather, *from, step_parameters, first, *to, microbatch);
}

typedef struct add_arguments {
    float *to;
    const float *from;
    int64_t count;
} do_add_arguments;

static kolo_status do_add(void *arguments)
{
    const do_add_arguments *a = arguments;
    kolo_host_add(a->to, a->from, a->count);
    return KOLO_OK;
}

static kolo_status add(kolo_stream *stream, float *to, const float *from, int64_t count)
{
    return ENQUEUE(stream, do_add, to, from, count);
}

typedef struct sum_arguments {
    double *sum;
    const void *parts;
    size_t stride;
    int64_t count;
    int number;
} do_sum_arguments;

static kolo_status do_sum(void *arguments)
{
    const do_sum_arguments *a = arguments;
    kolo_host_sum(a->sum, a->parts, a->stride, a->number, a->count);
    return KOLO_OK;
}

static kolo_status sum(kolo_stream *stream, double *to, const void *parts, size_t stride, int number, int64_t count)
{
    return ENQUEUE(stream, do_sum, to, parts, stride, count, number);
}

static kolo_status are_finite(kolo_stream *stream, const float *values, int64_t count, bool *finite)
{
    KOLO_TRY(synchronize(stream));
    *finite = kolo_host_are_finite(values, count);
    return KOLO_OK;
}

const kolo_stream_kind kolo_enqueued_streams = {
    .steps_ahead = KOLO_STEPS_AHEAD,
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
    .record_time = record_time,
    .elapsed = elapsed,
    .synchronize = synchronize,
    .begin_capture = begin_capture,
    .end_capture = end_capture,
    .launch = launch,
    .free_graph = free_graph,
    .lanes = lanes,
    .for_each = for_each,
    .run = run,
    .convert = convert,
    .add_gradient = add_gradient,
    .gather = gather,
    .add = add,
    .sum = sum,
    .are_finite = are_finite,
};
