/* Which ranks train together: those with kolo_distributed() or a strategy over ranks. Others train alone, and wait for
 * nobody. See fit.h.
 *
 * A kolo_fit() that trains together begins with a collective of all ranks, the opening. Where a rank has waited in it
 * for a moment, it sends a notice to the others: an empty message. A rank that trains alone looks for notices between
 * its steps. If it finds one, one of the two ranks may lack kolo_distributed(), and then the other would wait for ever,
 * since a rank that trains is alive. But it may also be right: rank 0 trains a first model alone, and the others are
 * ahead of it. So it waits until the stall limit, unless kolo_broadcast_variables() among its callbacks says that it
 * was to train together. Then it joins the opening, which fails on all ranks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/call.h"
#include "core/clock.h"
#include "core/signals.h"
#include "runtime/runtime.h"
#include "training/fit.h"

#define FIRST_NOTICE 300 /* milliseconds of waiting before it; twice as many until the next one, and so on */
#define LOOK_EVERY   0.2 /* seconds */

/* What a rank says of itself in the opening. */
typedef struct opening {
    int64_t together, sharded;
} opening;

static int openings; /* of this process, and so of all ranks, so far */

/* A notice that arrives after its opening is not one of the next. */
static int notice_tag(int number)
{
    return KOLO_TAG_NOTICE + number % KOLO_TAG_NOTICES;
}

/* ---------------------------------------------------------------- the ranks that wait */

typedef struct caller {
    pthread_t thread;
    bool running;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done; /* the opening is over */
} caller;

static void send_notices(void)
{
    kolo_comm *ranks = kolo_world_comm();
    for (int r = 0; r < ranks->size; r++)
        if (r != ranks->rank && ranks->kind->send(ranks, NULL, 0, r, notice_tag(openings)) != KOLO_OK)
            kolo_failure_take(); /* the opening itself finds out that a rank is gone */
}

static void *call_others(void *argument)
{
    caller *c = argument;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    pthread_mutex_lock(&c->lock);
    for (int pause = FIRST_NOTICE; !c->done; pause *= 2) {
        until.tv_sec += pause / 1000 + (until.tv_nsec + pause % 1000 * 1000000L) / 1000000000L;
        until.tv_nsec = (until.tv_nsec + pause % 1000 * 1000000L) % 1000000000L;
        while (!c->done && pthread_cond_timedwait(&c->changed, &c->lock, &until) == 0) {}
        if (c->done) break;
        pthread_mutex_unlock(&c->lock);
        send_notices();
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void start_calling(caller *c)
{
    sigset_t before;
    *c = (caller){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    kolo_hold_signals(&before);
    c->running = pthread_create(&c->thread, NULL, call_others, c) == 0; /* else there are no notices */
    kolo_release_signals(&before);
}

static void stop_calling(caller *c)
{
    pthread_mutex_lock(&c->lock);
    c->done = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    if (c->running) pthread_join(c->thread, NULL);
}

/* Whether a rank has sent a notice of this opening. */
static kolo_status look(bool *there)
{
    kolo_comm *ranks = kolo_world_comm();
    kolo_message message;
    return ranks->kind->probe(ranks, KOLO_ANY_RANK, notice_tag(openings), there, &message);
}

static kolo_status take_notices(void)
{
    kolo_comm *ranks = kolo_world_comm();
    kolo_message message;
    for (bool there = true;;) {
        KOLO_TRY(look(&there));
        if (!there) return KOLO_OK;
        KOLO_TRY(ranks->kind->receive(ranks, NULL, 0, KOLO_ANY_RANK, notice_tag(openings), &message));
    }
}

/* ---------------------------------------------------------------- the opening */

/* "rank 1", "ranks 0, 2": those that train together, or those that do not. */
static const char *ranks_text(const opening *all, int size, bool together)
{
    char list[160] = "";
    int count = 0;
    for (int r = 0; r < size; r++) {
        size_t length = strlen(list);
        if ((all[r].together != 0) != together || length + 8 > sizeof list) continue;
        snprintf(list + length, sizeof list - length, "%s%d", count++ ? ", " : "", r);
    }
    return kolo_phrase("rank%s %s", count > 1 ? "s" : "", list);
}

static kolo_status compare(const opening *all, int size)
{
    for (int r = 1; r < size; r++)
        if (all[r].together != all[0].together)
            return kolo_fail(KOLO_INVALID,
                             "wanted kolo_distributed() around the .optimizer (or a strategy over ranks) on all ranks "
                             "or "
                             "on none, got it on %s, not on %s",
                             ranks_text(all, size, true), ranks_text(all, size, false));
    for (int r = 1; r < size; r++)
        if (all[r].sharded != all[0].sharded)
            return kolo_fail(KOLO_INVALID, "wanted the same on all ranks, got .sharded: %d on rank 0, %d on rank %d",
                             (int)all[0].sharded, (int)all[r].sharded, r);
    return KOLO_OK;
}

/* If other ranks call something else, their sentence has the name `function` for this call. */
static kolo_status meet(opening mine, opening *all, const char *function)
{
    kolo_comm *ranks = kolo_world_comm();
    kolo_scope scope = kolo_scope_now(), named = scope;
    caller c;
    named.function = function;
    kolo_scope_take_over(named);
    if (mine.together) start_calling(&c);
    kolo_status status = ranks->kind->allgather(ranks, &mine, sizeof mine, all);
    if (mine.together) stop_calling(&c);
    kolo_scope_take_over(scope);
    if (status == KOLO_OK) status = take_notices();
    openings++;
    return status == KOLO_OK ? compare(all, ranks->size) : status;
}

static kolo_status open_together(opening mine, const char *function)
{
    size_t bytes = (size_t)kolo_size() * sizeof(opening);
    opening *all = malloc(bytes);
    if (!all) return kolo_fail_memory(bytes, "the ranks' settings");
    kolo_status status = meet(mine, all, function);
    free(all);
    return status;
}

kolo_status kolo_fit_open_ranks(const kolo_fit_state *state)
{
    bool distributed = state->model->settings.optimizer.distributed;
    opening mine = {.together = true, .sharded = state->args->sharded};
    return open_together(mine, distributed ? "kolo_fit with kolo_distributed" : "kolo_fit");
}

/* ---------------------------------------------------------------- a rank that trains alone */

static const char *useless_callback(const kolo_fit_state *state)
{
    if (kolo_fit_count_callbacks(state, "broadcast_variables")) return "kolo_broadcast_variables()";
    return kolo_fit_count_callbacks(state, "metric_average") ? "kolo_metric_average()" : NULL;
}

void kolo_fit_tell_alone(const kolo_fit_state *state)
{
    static bool told;
    const char *callback = useless_callback(state);
    if (state->ranks->size > 1 || kolo_size() == 1 || kolo_rank() != 0 || !callback || told) return;
    told = true;
    kolo_warn("%s among the .callbacks has no effect: without kolo_distributed() around the .optimizer each of the %d "
              "ranks trains a model of its own",
              callback, kolo_size());
}

kolo_status kolo_fit_look_for_ranks(kolo_fit_state *state)
{
    double now = kolo_now(), limit = kolo_stall_limit();
    bool there = false;
    if (state->ranks->size > 1 || kolo_size() == 1 || now - state->looked < LOOK_EVERY) return KOLO_OK;
    state->looked = now;
    KOLO_TRY(look(&there));
    if (!there) return KOLO_OK;
    if (state->called == 0) state->called = now;
    bool meant = kolo_fit_count_callbacks(state, "broadcast_variables") > 0;
    if (!meant && (limit == 0 || now - state->called < limit)) return KOLO_OK;
    return open_together((opening){.together = false}, "kolo_fit without kolo_distributed");
}
