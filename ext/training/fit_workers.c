/* The epochs of a kolo_fit() whose strategy has workers: the order in which they exchange, its record, and what worker
 * 0 reports while all of them train. See fit.h and replica/workers.h. */
#include <stdlib.h>

#include "core/file.h"
#include "replica/workers.h"
#include "training/fit.h"

static const kolo_strategy *strategy_of(const kolo_fit_state *state)
{
    return &state->model->settings.strategy;
}

static int workers_of(const kolo_fit_state *state)
{
    return kolo_model_replicas(state->model) * state->ranks->size;
}

/* A window of an epoch is a worker's share of the epoch's batches. */
static int window_of(const kolo_fit_state *state)
{
    int workers = workers_of(state), window = strategy_of(state)->window;
    if (window == 0) window = kolo_model_strategy(state->model)->window;
    return window ? window : (state->steps + workers - 1) / workers;
}

static kolo_shards shards_of(const kolo_fit_state *state)
{
    return (kolo_shards){
        .first = state->first_batch, .count = state->ranks->size, .workers = kolo_model_replicas(state->model)};
}

static kolo_order_head head_of(const kolo_fit_state *state)
{
    return (kolo_order_head){.strategy = kolo_model_strategy(state->model)->name,
                             .workers = workers_of(state),
                             .window = window_of(state),
                             .steps = state->steps,
                             .at_once = kolo_model_strategy(state->model)->exchange_all,
                             .shards = shards_of(state)};
}

/* ---------------------------------------------------------------- before and after the epochs */

static kolo_status read_replay(kolo_fit_state *state, const char *path)
{
    kolo_order_head head = head_of(state);
    int epochs = state->epochs - state->args->initial_epoch;
    KOLO_TRY(kolo_order_read(path, &head, &state->replay));
    if (state->args->resume || state->replay.count >= epochs) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted the exchanges of %d epochs, got those of %d", path, epochs,
                     state->replay.count);
}

/* A worker without a turn would never train. The script has numbers of workers only. */
static kolo_status check_named(const char *script, int workers)
{
    bool named[KOLO_DEVICES_MAX] = {false};
    char *end = NULL;
    for (long worker = strtol(script, &end, 10); end != script; script = end, worker = strtol(script, &end, 10))
        named[worker] = true;
    for (int w = 0; w < workers; w++)
        if (!named[w])
            return kolo_fail(KOLO_INVALID, ".turns: wanted each of the workers 0 to %d, got a script without worker %d",
                             workers - 1, w);
    return KOLO_OK;
}

/* Makes an epoch's turns once, so that a wrong script fails before the training. */
static kolo_status check_script(const kolo_fit_state *state)
{
    kolo_order_head head = head_of(state);
    kolo_turns turns = {0};
    const char *script = strategy_of(state)->turns;
    kolo_status status = kolo_turns_by_script(script, &head, &turns);
    kolo_turns_clear(&turns);
    return status == KOLO_OK ? check_named(script, head.workers) : status;
}

kolo_status kolo_fit_open_workers(kolo_fit_state *state)
{
    const kolo_strategy *strategy = strategy_of(state);
    if (!kolo_strategy_has_workers(kolo_model_strategy(state->model))) return KOLO_OK;
    if (state->args->feed > KOLO_FEED_SYNCHRONOUS)
        return kolo_fail(KOLO_INVALID,
                         ".feed: wanted KOLO_FEED_SYNCHRONOUS, since the workers of strategy %s take "
                         "batches as it comes, got another feed",
                         strategy->kind->name);
    if (state->ranks->rank != 0) return KOLO_OK; /* the centre is on rank 0 */
    if (strategy->record) KOLO_TRY(kolo_check_writable(strategy->record));
    if (strategy->turns) KOLO_TRY(check_script(state));
    return strategy->replay ? read_replay(state, strategy->replay) : KOLO_OK;
}

/* A record without epochs replaces a file of an earlier fit, which would be taken for this one's. */
kolo_status kolo_fit_close_workers(kolo_fit_state *state, kolo_status status)
{
    const char *path = state->model ? strategy_of(state)->record : NULL;
    if (status == KOLO_OK && path && state->record_begun && state->ranks->rank == 0) {
        kolo_order_head head = head_of(state);
        status = kolo_order_write(path, &head, &state->record);
    }
    kolo_order_clear(&state->record);
    kolo_order_clear(&state->replay);
    return status;
}

/* ---------------------------------------------------------------- an epoch */

/* *turns: the exchanges of this epoch, in `own` if they are not a file's; NULL: as it happens. */
static kolo_status plan_turns(const kolo_fit_state *state, int epoch, kolo_turns *own, const kolo_turns **turns)
{
    const kolo_strategy *strategy = strategy_of(state);
    kolo_order_head head = head_of(state);
    bool gone[KOLO_DEVICES_MAX] = {false};
    int number = epoch - state->model->history.first_epoch;
    *turns = own;
    if (state->ranks->rank != 0) return KOLO_OK;
    kolo_workers_mark_lost(state->trainer, gone);
    head.gone = gone;
    if (strategy->replay && number >= state->replay.count)
        return kolo_fail(KOLO_INVALID, "%s: wanted the exchanges of epoch %d of this fit, got those of %d epochs",
                         strategy->replay, number + 1, state->replay.count);
    if (strategy->replay) *turns = &state->replay.epoch[number];
    else if (head.at_once) return kolo_turns_at_once(&head, own);
    else if (strategy->turns || state->model->settings.deterministic)
        return kolo_turns_by_script(strategy->turns, &head, own);
    else *turns = NULL;
    return KOLO_OK;
}

/* The record keeps whole epochs only. */
static void drop_incomplete(kolo_fit_state *state)
{
    if (!strategy_of(state)->record || state->record_ended || state->record.count == 0) return;
    kolo_turns_clear(&state->record.epoch[--state->record.count]);
}

/* The batches of workers that are gone, where others do not take them. A replay would train on them. */
static void tell_left_out(const kolo_fit_state *state, int epoch, int trained)
{
    const char *record = state->record_ended ? NULL : strategy_of(state)->record;
    const char *ends = record ? kolo_phrase("; the record %s ends before this epoch", record) : "";
    kolo_warn("epoch %d: trained on %d of %d batches, the others were those of workers that are gone%s", epoch + 1,
              trained, state->steps, ends);
}

kolo_status kolo_fit_run_workers(kolo_fit_state *state, int epoch,
                                 kolo_status (*watch)(void *state, bool before, int trained, const kolo_totals *totals),
                                 kolo_workers_outcome *outcome)
{
    kolo_turns own = {0};
    *outcome = (kolo_workers_outcome){0};
    kolo_workers_run run = {.plan = &state->plan,
                            .number = epoch - state->model->history.first_epoch,
                            .window = window_of(state),
                            .watch = watch,
                            .shards = shards_of(state),
                            .watcher = state};
    kolo_status status = plan_turns(state, epoch, &own, &run.turns);
    if (status == KOLO_OK && strategy_of(state)->record && !state->record_ended) {
        status = kolo_order_add(&state->record, &run.record);
        state->record_begun = true;
    }
    if (status == KOLO_OK) status = kolo_workers_train(state->trainer, &run, outcome);
    if (outcome->trained < state->steps) drop_incomplete(state);
    if (status == KOLO_OK && !outcome->stopped && outcome->trained < state->steps) {
        tell_left_out(state, epoch, outcome->trained);
        state->record_ended = true;
    }
    kolo_turns_clear(&own);
    return status;
}
