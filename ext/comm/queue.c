/* A comm with a queue and a thread: see queue.h. */
#include "comm/queue.h"

#include <pthread.h>
#include <stdlib.h>

#include "comm/call.h"
#include "comm/front.h"
#include "core/clock.h"
#include "core/signals.h"
#include "core/timeline.h"

typedef struct queue {
    kolo_front front;
    struct queue
        *whole; /* of a part: the group's queue, whose requests and direct calls its own wait for. Else itself */
    kolo_status (*split)(kolo_comm *comm, int color, kolo_comm **part); /* of the front */
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
    kolo_status status = request->run(&q->front.comm, request->argument);
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

/* Takes the comm below for a direct call, after all requests. A request's own collectives do not wait for it. */
static kolo_status take(queue *whole)
{
    if (own == whole) return KOLO_OK;
    KOLO_TRY(check_process(whole));
    pthread_mutex_lock(&whole->lock);
    while (whole->busy || whole->first) pthread_cond_wait(&whole->changed, &whole->lock);
    whole->busy = true;
    pthread_mutex_unlock(&whole->lock);
    return KOLO_OK;
}

static void give_back(queue *whole)
{
    if (own == whole) return;
    pthread_mutex_lock(&whole->lock);
    whole->busy = false;
    pthread_cond_broadcast(&whole->changed);
    pthread_mutex_unlock(&whole->lock);
}

static bool enter(kolo_front *front, kolo_front_call *call, kolo_status *status)
{
    call->begun = kolo_timeline_begin();
    *status = take(((queue *)front)->whole);
    return *status == KOLO_OK;
}

static kolo_status leave(kolo_front *front, const kolo_front_call *call, kolo_status status)
{
    static const struct {
        kolo_timeline_span span;
        const char *name;
    } events[KOLO_FRONT_KINDS] = {
        [KOLO_FRONT_ALLREDUCE] = {KOLO_SPAN_REDUCE, "allreduce"},
        [KOLO_FRONT_BROADCAST] = {KOLO_SPAN_COLLECTIVE, "broadcast"},
        [KOLO_FRONT_ALLGATHER] = {KOLO_SPAN_COLLECTIVE, "allgather"},
        [KOLO_FRONT_ALLGATHERV] = {KOLO_SPAN_COLLECTIVE, "allgatherv"},
        [KOLO_FRONT_ALLTOALLV] = {KOLO_SPAN_COLLECTIVE, "alltoallv"},
        [KOLO_FRONT_BARRIER] = {KOLO_SPAN_WAIT, "ranks"},
        [KOLO_FRONT_MEET] = {KOLO_SPAN_WAIT, "ranks"},
        [KOLO_FRONT_JOIN] = {KOLO_SPAN_WAIT, "ranks that join"},
        [KOLO_FRONT_THREADS] = {KOLO_SPAN_WAIT, "threads"},
        [KOLO_FRONT_SPLIT] = {KOLO_SPAN_COLLECTIVE, "split"},
    };
    kolo_timeline_end_with(call->begun, events[call->kind].span, events[call->kind].name, -1, (int64_t)call->bytes);
    give_back(((queue *)front)->whole);
    return status;
}

static const kolo_front_hooks hooks = {enter, leave};

static kolo_status open_queue(kolo_comm *below, queue *whole, kolo_comm **comm);

static kolo_status queue_split(kolo_comm *comm, int color, kolo_comm **part)
{
    queue *whole = ((queue *)comm)->whole;
    kolo_comm *below = NULL;
    *part = NULL;
    KOLO_TRY(((queue *)comm)->split(comm, color, &below));
    return below ? open_queue(below, whole, part) : KOLO_OK;
}

/* ---------------------------------------------------------------- calls that do not wait for requests */

static kolo_status queue_send(kolo_comm *comm, const void *data, size_t bytes, int to, int tag)
{
    KOLO_TRY(check_process(((queue *)comm)->whole));
    kolo_comm *below = kolo_front_watched(comm);
    return below->kind->send(below, data, bytes, to, tag);
}

static kolo_status queue_receive(kolo_comm *comm, void *data, size_t room, int from, int tag, kolo_message *message)
{
    KOLO_TRY(check_process(((queue *)comm)->whole));
    kolo_comm *below = kolo_front_watched(comm);
    return below->kind->receive(below, data, room, from, tag, message);
}

static kolo_status queue_probe(kolo_comm *comm, int from, int tag, bool *there, kolo_message *message)
{
    KOLO_TRY(check_process(((queue *)comm)->whole));
    kolo_comm *below = kolo_front_watched(comm);
    return below->kind->probe(below, from, tag, there, message);
}

static void queue_give_up(kolo_comm *comm, int call, const char *why)
{
    kolo_comm *below = kolo_front_below(comm);
    if (!is_forked(((queue *)comm)->whole)) below->kind->give_up(below, call, why);
}

static void queue_abort(kolo_comm *comm)
{
    kolo_comm *below = kolo_front_below(comm);
    if (!is_forked(((queue *)comm)->whole)) below->kind->abort(below);
}

/* ---------------------------------------------------------------- opening and closing */

/* A part's comm below is closed with it, by all members of the part. */
static void close_part(queue *q)
{
    kolo_comm *below = q->front.below;
    if (!is_forked(q->whole) && take(q->whole) == KOLO_OK) {
        below->kind->close(below);
        give_back(q->whole);
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

static kolo_status open_queue(kolo_comm *below, queue *whole, kolo_comm **comm)
{
    queue *q = calloc(1, sizeof *q);
    if (!q) return kolo_fail_memory(sizeof *q, "a queue of collectives");
    kolo_front_open(&q->front, below, &hooks);
    kolo_comm_kind *kind = &q->front.kind;
    kind->send = queue_send;
    kind->receive = queue_receive;
    kind->probe = queue_probe;
    kind->abort = queue_abort;
    kind->close = queue_close;
    if (kind->give_up) kind->give_up = queue_give_up;
    q->split = kind->split;
    if (kind->split) kind->split = queue_split;
    q->whole = whole ? whole : q;
    q->forks = forks;
    *comm = &q->front.comm;
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
