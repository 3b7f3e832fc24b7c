/* A comm with a queue and a thread: see queue.h. */
#include "comm/queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "comm/call.h"
#include "core/clock.h"
#include "core/signals.h"
#include "core/timeline.h"

typedef struct queue {
    kolo_comm comm;
    kolo_comm_kind kind; /* as this comm's; without the calls that `below` does not have */
    kolo_comm *below;
    struct queue
        *whole; /* of a part: the group's queue, whose requests and direct calls its own wait for. Else itself */
    int forks; /* of this process's line when the queue was opened */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started; /* the thread runs */
    bool closing;
    bool busy; /* a request or a direct call is running below */
    kolo_request *first, *last; /* requests that have not begun */
} queue;

static _Thread_local const queue *own; /* in the thread of a queue: that queue */

/* ---------------------------------------------------------------- fork */

/* The ranks know only the process that joined them. A child of fork() has copies of its connections and of the memory
 * that ranks share: used by both, they would mix up calls and numbers. So a child's calls fail before they reach the
 * comm below. */
static int forks; /* since the first process of this one's line opened a queue; only fork() changes it */

static void count_fork(void)
{
    forks++;
    kolo_life_count_at(NULL); /* a child at work is no sign of life of its parent */
    kolo_life_tell(NULL);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

static bool is_forked(const queue *q)
{
    return q->forks != forks;
}

static kolo_status check_process(const queue *q)
{
    if (!is_forked(q)) return KOLO_OK;
    return kolo_fail(KOLO_UNSUPPORTED,
                     "wanted a call by the process that has joined the ranks, got one by a child that "
                     "it has forked: end the child with _exit()");
}

/* ---------------------------------------------------------------- the thread */

/* The caller holds the lock. It is released while the request runs. */
static void run_next(queue *q)
{
    kolo_request *request = q->first;
    q->first = request->next;
    q->busy = true;
    pthread_mutex_unlock(&q->lock);
    kolo_scope_take_over(request->scope);
    kolo_timeline_enter("communication", -1, 0, -1);
    double begun = kolo_now();
    kolo_status status = request->run(&q->comm, request->argument);
    request->seconds = kolo_now() - begun;
    request->failure = kolo_failure_take();
    request->failure.code = status;
    pthread_mutex_lock(&q->lock);
    q->busy = false;
    atomic_store(&request->done, true);
    pthread_cond_broadcast(&q->changed);
}

static void *run_requests(void *argument)
{
    queue *q = argument;
    own = q;
    kolo_call_in_background(true);
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->busy || (!q->first && !q->closing)) pthread_cond_wait(&q->changed, &q->lock);
        if (!q->first) break;
        run_next(q);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* The caller holds the lock. */
static kolo_status start_thread(queue *q)
{
    sigset_t before;
    if (q->started) return KOLO_OK;
    kolo_hold_signals(&before);
    q->started = pthread_create(&q->thread, NULL, run_requests, q) == 0;
    kolo_release_signals(&before);
    if (q->started) return KOLO_OK;
    return kolo_fail(KOLO_MEMORY, "cannot start a thread for communication: the system allows no more");
}

/* ---------------------------------------------------------------- direct calls */

/* Takes *below, the comm below, for a direct call, after all requests. A request's own collectives do not wait for it.
 */
static kolo_status enter(kolo_comm *comm, kolo_comm **below)
{
    queue *q = ((queue *)comm)->whole;
    *below = ((queue *)comm)->below;
    if (own == q) return KOLO_OK;
    KOLO_TRY(check_process(q));
    pthread_mutex_lock(&q->lock);
    while (q->busy || q->first) pthread_cond_wait(&q->changed, &q->lock);
    q->busy = true;
    pthread_mutex_unlock(&q->lock);
    return KOLO_OK;
}

static kolo_status leave(kolo_comm *comm, kolo_status status)
{
    queue *q = ((queue *)comm)->whole;
    if (own == q) return status;
    pthread_mutex_lock(&q->lock);
    q->busy = false;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return status;
}

/* An event of the timeline. */
typedef struct event {
    kolo_timeline_span span;
    const char *name;
    int64_t bytes, begun;
} event;

static event begin(kolo_timeline_span span, const char *name, size_t bytes)
{
    return (event){span, name, (int64_t)bytes, kolo_timeline_begin()};
}

static kolo_status end(kolo_comm *comm, const event *call, kolo_status status)
{
    kolo_timeline_end_with(call->begun, call->span, call->name, -1, call->bytes);
    return leave(comm, status);
}

static size_t sum_of(const size_t *bytes, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += bytes[i];
    return sum;
}

static kolo_status queue_allreduce(kolo_comm *comm, void *values, int64_t count, kolo_type type,
                                   kolo_reduce_op reduction)
{
    event made = begin(KOLO_SPAN_REDUCE, "allreduce", (size_t)count * kolo_type_bytes(type));
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->allreduce(below, values, count, type, reduction));
}

static kolo_status queue_broadcast(kolo_comm *comm, void *data, size_t bytes, int root)
{
    event made = begin(KOLO_SPAN_COLLECTIVE, "broadcast", bytes);
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->broadcast(below, data, bytes, root));
}

static kolo_status queue_allgather(kolo_comm *comm, const void *data, size_t bytes, void *all)
{
    event made = begin(KOLO_SPAN_COLLECTIVE, "allgather", bytes);
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->allgather(below, data, bytes, all));
}

static kolo_status queue_allgatherv(kolo_comm *comm, const void *data, void *all, const size_t *bytes,
                                    const size_t *offsets)
{
    event made = begin(KOLO_SPAN_COLLECTIVE, "allgatherv", bytes[comm->rank]);
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->allgatherv(below, data, all, bytes, offsets));
}

static kolo_status queue_alltoallv(kolo_comm *comm, const void *send, const size_t *send_bytes,
                                   const size_t *send_offsets, void *receive, const size_t *receive_bytes,
                                   const size_t *receive_offsets)
{
    event made = begin(KOLO_SPAN_COLLECTIVE, "alltoallv", sum_of(send_bytes, comm->size));
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made,
               below->kind->alltoallv(below, send, send_bytes, send_offsets, receive, receive_bytes, receive_offsets));
}

static kolo_status queue_barrier(kolo_comm *comm)
{
    event made = begin(KOLO_SPAN_WAIT, "ranks", 0);
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->barrier(below));
}

static kolo_status queue_meet(kolo_comm *comm, const kolo_collective *call)
{
    event made = begin(KOLO_SPAN_WAIT, "ranks", 0);
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->meet(below, call));
}

static kolo_status queue_wait_for_threads(kolo_comm *comm)
{
    event made = begin(KOLO_SPAN_WAIT, "threads", 0);
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->wait_for_threads(below));
}

static kolo_status queue_join(kolo_comm *comm, int *last)
{
    event made = begin(KOLO_SPAN_WAIT, "ranks that join", 0);
    kolo_comm *below;
    KOLO_TRY(enter(comm, &below));
    return end(comm, &made, below->kind->join(below, last));
}

static kolo_status open_queue(kolo_comm *below, queue *whole, kolo_comm **comm);

static kolo_status queue_split(kolo_comm *comm, int color, kolo_comm **part)
{
    event made = begin(KOLO_SPAN_COLLECTIVE, "split", 0);
    kolo_comm *below, *part_below = NULL;
    KOLO_TRY(enter(comm, &below));
    KOLO_TRY(end(comm, &made, below->kind->split(below, color, &part_below)));
    *part = NULL;
    return part_below ? open_queue(part_below, ((queue *)comm)->whole, part) : KOLO_OK;
}

/* ---------------------------------------------------------------- calls that do not wait for requests */

/* Sets *below to the comm below of a message, with the caller's watch. */
static kolo_status find_below(kolo_comm *comm, kolo_comm **below)
{
    KOLO_TRY(check_process(((queue *)comm)->whole));
    *below = ((queue *)comm)->below;
    (*below)->watch = comm->watch;
    return KOLO_OK;
}

static kolo_status queue_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    kolo_comm *below;
    KOLO_TRY(find_below(comm, &below));
    return below->kind->send(below, data, bytes, to, tag);
}

static kolo_status queue_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    kolo_comm *below;
    KOLO_TRY(find_below(comm, &below));
    return below->kind->receive(below, data, room, from, tag, message);
}

static kolo_status queue_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    kolo_comm *below;
    KOLO_TRY(find_below(comm, &below));
    return below->kind->probe(below, from, tag, there, message);
}

static void queue_give_up(kolo_comm *comm, int call, const char *why)
{
    kolo_comm *below = ((queue *)comm)->below;
    if (!is_forked(((queue *)comm)->whole)) below->kind->give_up(below, call, why);
}

static void queue_abort(kolo_comm *comm)
{
    kolo_comm *below = ((queue *)comm)->below;
    if (!is_forked(((queue *)comm)->whole)) below->kind->abort(below);
}

static void queue_abort_threads(kolo_comm *comm)
{
    kolo_comm *below = ((queue *)comm)->below;
    below->kind->abort_threads(below);
}

static bool queue_aborted(const kolo_comm *comm)
{
    const kolo_comm *below = ((const queue *)comm)->below;
    return below->kind->aborted(below);
}

static void queue_lose(kolo_comm *comm)
{
    kolo_comm *below = ((queue *)comm)->below;
    below->kind->lose(below);
}

/* ---------------------------------------------------------------- opening and closing */

/* A part's comm below is closed with it, by all members of the part. */
static void close_part(queue *q)
{
    kolo_comm *below;
    if (!is_forked(q->whole) && enter(&q->comm, &below) == KOLO_OK) {
        below->kind->close(below);
        leave(&q->comm, KOLO_OK);
    }
    free(q);
}

static void queue_close(kolo_comm *comm)
{
    queue *q = (queue *)comm;
    if (q->whole != q) {
        close_part(q);
        return;
    }
    if (!is_forked(q)) { /* otherwise the thread stayed with the parent */
        pthread_mutex_lock(&q->lock);
        q->closing = true;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->lock);
        if (q->started) pthread_join(q->thread, NULL);
        pthread_mutex_destroy(&q->lock);
        pthread_cond_destroy(&q->changed);
    }
    free(q);
}

static const kolo_comm_kind all_calls = {
    .allreduce = queue_allreduce,
    .broadcast = queue_broadcast,
    .allgather = queue_allgather,
    .allgatherv = queue_allgatherv,
    .alltoallv = queue_alltoallv,
    .barrier = queue_barrier,
    .meet = queue_meet,
    .send = queue_send,
    .receive = queue_receive,
    .probe = queue_probe,
    .split = queue_split,
    .join = queue_join,
    .wait_for_threads = queue_wait_for_threads,
    .give_up = queue_give_up,
    .abort = queue_abort,
    .abort_threads = queue_abort_threads,
    .aborted = queue_aborted,
    .lose = queue_lose,
    .close = queue_close,
};

static kolo_status open_queue(kolo_comm *below, queue *whole, kolo_comm **comm)
{
    queue *q = calloc(1, sizeof *q);
    if (!q) return kolo_fail_memory(sizeof *q, "a queue of collectives");
    q->kind = all_calls;
    q->kind.name = below->kind->name;
    if (!below->kind->split) q->kind.split = NULL;
    if (!below->kind->join) q->kind.join = NULL;
    if (!below->kind->wait_for_threads) q->kind.wait_for_threads = NULL;
    if (!below->kind->give_up) q->kind.give_up = NULL;
    if (!below->kind->abort_threads) q->kind.abort_threads = NULL;
    if (!below->kind->aborted) q->kind.aborted = NULL;
    if (!below->kind->lose) q->kind.lose = NULL;
    q->comm = (kolo_comm){.kind = &q->kind, .rank = below->rank, .size = below->size};
    q->below = below;
    q->whole = whole ? whole : q;
    q->forks = forks;
    *comm = &q->comm;
    if (whole) return KOLO_OK;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    return KOLO_OK;
}

kolo_status kolo_comm_queue_open(kolo_comm *below, kolo_comm **comm)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return open_queue(below, NULL, comm);
}

/* ---------------------------------------------------------------- requests */

static bool is_queue(const kolo_comm *comm)
{
    return comm->kind->close == queue_close;
}

static kolo_status enqueue(queue *q, kolo_request *request)
{
    KOLO_TRY(check_process(q));
    pthread_mutex_lock(&q->lock);
    kolo_status status = start_thread(q);
    if (status == KOLO_OK) {
        if (q->first) q->last->next = request;
        else q->first = request;
        q->last = request;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return status;
}

kolo_status kolo_request_start(kolo_comm *comm, kolo_request *request,
                               kolo_status (*run)(kolo_comm *comm, void *argument), void *argument)
{
    *request = (kolo_request){.run = run, .argument = argument, .comm = comm, .scope = kolo_scope_now()};
    if (is_queue(comm)) return enqueue(((queue *)comm)->whole, request);
    double begun = kolo_now();
    kolo_failure before = kolo_failure_take();
    kolo_status status = run(comm, argument);
    request->failure = kolo_failure_take();
    request->failure.code = status;
    request->seconds = kolo_now() - begun;
    if (before.code != KOLO_OK) kolo_failure_give(&before);
    atomic_store(&request->done, true);
    return KOLO_OK;
}

bool kolo_request_is_done(const kolo_request *request)
{
    return atomic_load(&request->done);
}

kolo_status kolo_comm_queue_check(const kolo_comm *comm)
{
    return is_queue(comm) ? check_process(((const queue *)comm)->whole) : KOLO_OK;
}

/* Takes the lock even where the request is done: its thread may still hold it, and the caller may free the request. */
kolo_status kolo_request_wait(kolo_request *request)
{
    if (is_queue(request->comm)) {
        queue *q = ((queue *)request->comm)->whole;
        KOLO_TRY(check_process(q));
        pthread_mutex_lock(&q->lock);
        while (!atomic_load(&request->done)) pthread_cond_wait(&q->changed, &q->lock);
        pthread_mutex_unlock(&q->lock);
    }
    if (request->failure.code != KOLO_OK) kolo_failure_give(&request->failure);
    return request->failure.code;
}

void kolo_comm_queue_drop(kolo_comm *comm)
{
    if (!is_queue(comm)) return;
    queue *q = ((queue *)comm)->whole;
    if (is_forked(q)) return;
    pthread_mutex_lock(&q->lock);
    for (kolo_request *request = q->first; request; request = request->next) {
        request->failure = (kolo_failure){.code = KOLO_COMM, .text = KOLO_COMM_CALLED_OFF};
        atomic_store(&request->done, true);
    }
    q->first = NULL;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}
