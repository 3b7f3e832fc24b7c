/* kolo_fit: epochs, steps, validation, callbacks, history. The strategy runs the step itself. */
#include "training/fit.h"
#include "replica/autotune.h"
#include "replica/overlap.h"
#include "replica/worker_records.h"
#include "replica/workers.h"
#include "core/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "losses/loss.h"
#include "core/random.h"
#include "runtime/fault.h"
#include "runtime/runtime.h"
#include "core/written.h"
#include "data/data.h"

/* ---------------------------------------------------------------- reported values */

/* The training totals that this rank reports: those of its own samples, or with kolo_metric_average() of all ranks'. A
 * rank that had no samples, because a batch has too few for all devices, reports all ranks', too. */
static const kolo_totals *reported(const kolo_fit_state *state)
{
    bool all = state->model->average_metrics || state->ranks->size == 1 || state->epoch_own.samples == 0;
    return all ? &state->epoch_all : &state->epoch_own;
}

static int measure(const kolo_fit_state *state, const kolo_totals *totals, kolo_measure *measures)
{
    kolo_scores scores = kolo_scores_of(state->model, totals);
    return kolo_measures_of(state->model, &scores, false, measures);
}

static int measure_training(const kolo_fit_state *state, kolo_measure *measures)
{
    return measure(state, reported(state), measures);
}

static int measure_all(const kolo_fit_state *state, bool validated, kolo_measure *measures)
{
    int count = measure_training(state, measures);
    if (!validated) return count;
    kolo_scores scores = kolo_scores_of(state->model, &state->validation_totals);
    return count + kolo_measures_of(state->model, &scores, true, measures + count);
}

static kolo_logs make_logs(const kolo_fit_state *state, bool validated)
{
    kolo_logs logs = {0};
    kolo_measure measures[2 * (KOLO_METRICS_MAX + 1)], agreed[KOLO_METRICS_MAX + 1];
    int count = measure_all(state, validated, measures), trained = measure(state, &state->epoch_all, agreed);
    for (int i = 0; i < count; i++)
        kolo_logs_put(&logs, measures[i].name, measures[i].value, i < trained ? agreed[i].value : measures[i].value);
    kolo_logs_set(&logs, "seconds", state->current.seconds);
    kolo_logs_set(&logs, "images", (double)state->current.images);
    kolo_logs_set(&logs, "images_per_second", state->current.images_per_second);
    kolo_logs_set(&logs, "learning_rate", state->model->learning_rate);
    kolo_logs_set(&logs, "steps", state->current.steps);
    if (state->model->settings.precision == KOLO_MIXED_FP16)
        kolo_logs_set(&logs, "loss_scale", state->trainer->replicas[0].counters.loss_scale);
    return logs;
}

/* ---------------------------------------------------------------- callbacks */

typedef enum hook { TRAIN_BEGIN, TRAIN_END, EPOCH_BEGIN, EPOCH_END, BATCH_BEGIN, BATCH_END, TEST_BEGIN, TEST_END } hook;

static void call_hook(kolo_callback *callback, hook which, int number, const kolo_logs *logs)
{
    switch (which) {
    case TRAIN_BEGIN:
        if (callback->on_train_begin) callback->on_train_begin(callback, logs);
        break;
    case TRAIN_END:
        if (callback->on_train_end) callback->on_train_end(callback, logs);
        break;
    case EPOCH_BEGIN:
        if (callback->on_epoch_begin) callback->on_epoch_begin(callback, number, logs);
        break;
    case EPOCH_END:
        if (callback->on_epoch_end) callback->on_epoch_end(callback, number, logs);
        break;
    case BATCH_BEGIN:
        if (callback->on_train_batch_begin) callback->on_train_batch_begin(callback, number, logs);
        break;
    case BATCH_END:
        if (callback->on_train_batch_end) callback->on_train_batch_end(callback, number, logs);
        break;
    case TEST_BEGIN:
        if (callback->on_test_begin) callback->on_test_begin(callback, logs);
        break;
    case TEST_END:
        if (callback->on_test_end) callback->on_test_end(callback, logs);
        break;
    }
}

static kolo_status call_hooks(kolo_fit_state *state, hook which, int number, bool validated)
{
    if (state->callback_count == 0) return KOLO_OK;
    kolo_logs logs = make_logs(state, validated);
    for (int i = 0; i < state->callback_count; i++) {
        call_hook(&state->callbacks[i], which, number, &logs);
        KOLO_TRY(state->model->callback_status);
    }
    return KOLO_OK;
}

/* ---------------------------------------------------------------- an epoch */

static void note_position(kolo_fit_state *state, int step)
{
    kolo_position *at = &state->model->position;
    at->step = step;
    at->seconds = state->current.seconds;
    at->all = state->epoch_all;
    at->own = state->epoch_own;
}

static void note_time(kolo_fit_state *state)
{
    kolo_epoch *epoch = &state->current;
    epoch->seconds = kolo_now() - state->epoch_began;
    epoch->images_per_second = (double)epoch->images / epoch->seconds;
}

static void take_totals(kolo_fit_state *state)
{
    kolo_totals_add(&state->epoch_all, &state->trainer->replicas[0].totals);
    kolo_totals_add(&state->epoch_own, &state->trainer->local_totals);
    state->current.images = (int64_t)state->epoch_all.samples;
}

static kolo_status run_step(kolo_fit_state *state, int step)
{
    kolo_batch batch = kolo_epoch_batch(&state->plan, step);
    KOLO_TRY(call_hooks(state, BATCH_BEGIN, step, false));
    double began = kolo_now();
    KOLO_TRY(kolo_trainer_step(state->trainer, &batch));
    KOLO_TRY(kolo_autotune_step(state->trainer, kolo_now() - began));
    KOLO_TRY(kolo_fit_check_weights(state, step + 1));
    KOLO_TRY(kolo_fit_look_for_ranks(state));
    const kolo_totals *all = &state->trainer->replicas[0].totals;
    take_totals(state);
    state->current.steps = step + 1;
    note_time(state);
    note_position(state, step + 1);
    KOLO_TRY(call_hooks(state, BATCH_END, step, false));
    state->stopped = all->stops > 0 || (state->ranks->size == 1 && state->model->stop_training);
    kolo_measure measures[KOLO_METRICS_MAX + 1];
    bool known = reported(state)->samples > 0; /* false until the first totals are read back, some steps later */
    int count = known ? measure_training(state, measures) : 0;
    kolo_progress_step(&state->progress, step + 1, measures, count);
    return KOLO_OK;
}

/* The same for strategies of workers, around each batch of worker 0. */
static kolo_status watch_workers(void *watcher, bool before, int trained, const kolo_totals *totals)
{
    kolo_fit_state *state = watcher;
    KOLO_TRY(kolo_fit_look_for_ranks(state));
    state->epoch_all = state->epoch_own = *totals;
    state->current.images = (int64_t)totals->samples;
    state->current.steps = trained;
    note_time(state);
    KOLO_TRY(call_hooks(state, before ? BATCH_BEGIN : BATCH_END, before || trained == 0 ? trained : trained - 1,
                        false));
    kolo_measure measures[KOLO_METRICS_MAX + 1];
    int count = totals->samples > 0 ? measure_training(state, measures) : 0;
    if (!before) kolo_progress_step(&state->progress, trained, measures, count);
    return KOLO_OK;
}

static void draw_order(const kolo_fit_state *state, uint64_t number, int32_t *order)
{
    kolo_random_order(state->seed, number, state->data->samples, state->args->shuffle_buffer, order);
}

/* Draws the next epoch's order if there is one. An order's number is the training's number of steps when the epoch
 * begins. */
static void draw_ahead(kolo_fit_state *state)
{
    bool goes_on = !state->stopped && state->model->position.epoch + 1 < state->epochs;
    if (!goes_on || !state->ahead || state->args->no_shuffle) return;
    state->ahead_of = (uint64_t)state->trainer->replicas[0].counters.steps;
    draw_order(state, state->ahead_of, state->ahead);
}

static void take_order(kolo_fit_state *state, uint64_t number)
{
    int32_t *before = state->order;
    if (state->ahead_of > 0 && state->ahead_of == number) {
        state->order = state->ahead;
        state->ahead = before;
    } else draw_order(state, number, state->order);
    state->ahead_of = 0;
}

static kolo_status run_workers(kolo_fit_state *state, int number)
{
    kolo_workers_outcome outcome;
    state->epoch_began = kolo_now();
    KOLO_TRY(kolo_trainer_begin_feeds(state->trainer, &state->plan, 0));
    kolo_status status = kolo_fit_run_workers(state, number, watch_workers, &outcome);
    kolo_trainer_end_feeds(state->trainer);
    state->epoch_own = state->epoch_all = outcome.totals;
    state->current.images = (int64_t)outcome.totals.samples;
    state->current.steps = outcome.trained;
    state->stopped = outcome.stopped || state->model->stop_training;
    note_time(state);
    return status;
}

static kolo_status run_steps(kolo_fit_state *state, int number)
{
    if (state->trainer->workers) return run_workers(state, number);
    state->epoch_began = kolo_now() - state->model->position.seconds; /* a resumed epoch began earlier */
    kolo_status status = kolo_trainer_begin_feeds(state->trainer, &state->plan, state->current.steps);
    for (int step = state->current.steps; step < state->steps && !state->stopped && status == KOLO_OK; step++)
        status = run_step(state, step);
    kolo_trainer_end_feeds(state->trainer);
    if (status != KOLO_OK && status != KOLO_INTERRUPTED) return status;
    if (status == KOLO_OK) draw_ahead(state);
    KOLO_TRY(kolo_trainer_settle(state->trainer)); /* after an interruption, too: earlier steps have totals to read */
    take_totals(state);
    note_time(state);
    note_position(state, state->current.steps);
    return status;
}

/* Each rank scores a part of the data. With workers rank 0 scores all data, since other ranks may be gone, and sends
 * the scores to those that are left. */
static kolo_status score(kolo_fit_state *state)
{
    bool alone = state->trainer->workers && state->ranks->size > 1;
    kolo_comm *scorers = alone ? kolo_comm_self() : state->ranks;
    kolo_totals *totals = &state->validation_totals;
    if (!alone || state->ranks->rank == 0)
        KOLO_TRY(kolo_score(state->model, state->validation, 0, state->validation->samples, scorers, totals));
    return alone ? kolo_workers_share(state->trainer, totals, sizeof *totals) : KOLO_OK;
}

static kolo_status validate(kolo_fit_state *state, int number)
{
    int every = state->args->validation_freq ? state->args->validation_freq : 1;
    state->validated = state->validates && (number + 1) % every == 0;
    if (!state->validated) return KOLO_OK;
    KOLO_TRY(call_hooks(state, TEST_BEGIN, 0, false));
    KOLO_TRY(kolo_trainer_fetch(state->trainer));
    KOLO_TRY(score(state));
    return call_hooks(state, TEST_END, 0, true);
}

/* Fills in the values that the history keeps for the epoch. */
static void record(kolo_fit_state *state)
{
    kolo_epoch *epoch = &state->current;
    kolo_scores own = kolo_scores_of(state->model, reported(state));
    kolo_scores other = kolo_scores_of(state->model, state->validated ? &state->validation_totals : NULL);
    epoch->loss = own.loss;
    epoch->accuracy = own.accuracy;
    epoch->val_loss = other.loss;
    epoch->val_accuracy = other.accuracy;
    memcpy(epoch->metric, own.metric, sizeof epoch->metric);
    memcpy(epoch->val_metric, other.metric, sizeof epoch->val_metric);
    epoch->learning_rate = state->model->learning_rate;
}

/* The loss may be finite although weights are not: relu makes 0 of a NaN. */
static bool weights_are_finite(const kolo_fit_state *state)
{
    bool finite = true;
    /* true after a failure: the next call on the stream will report it */
    return kolo_trainer_is_finite(state->trainer, &finite) != KOLO_OK || finite;
}

/* Warns once that the training has diverged. */
static void warn_of_divergence(kolo_fit_state *state, int number)
{
    if (state->diverged || (isfinite(state->current.loss) && weights_are_finite(state))) return;
    state->diverged = true;
    kolo_progress_break(&state->progress);
    kolo_warn("after epoch %d the loss or a weight is infinite or not a number: the training diverged (or its data are "
              "no numbers); the .learning_rate was %g",
              number + 1, state->model->learning_rate);
}

/* Begins an epoch at the model's position. An epoch that was interrupted continues in the order that it began with. */
static void begin_epoch(kolo_fit_state *state)
{
    kolo_position *at = &state->model->position;
    int64_t samples = state->data->samples;
    /* The order's number is the training's step, so a second fit continues with new orders. */
    if (at->step == 0)
        *at = (kolo_position){.epoch = at->epoch,
                              .order = (uint64_t)state->trainer->replicas[0].counters.steps,
                              .samples = samples,
                              .batch = state->batch};
    if (!state->args->no_shuffle) take_order(state, at->order);
    state->plan =
        (kolo_epoch_plan){.order = state->args->no_shuffle ? NULL : state->order,
                          .samples = samples,
                          .batch = state->batch,
                          .microbatch = state->microbatch,
                          .steps = state->steps,
                          .first_step = (uint64_t)state->trainer->replicas[0].counters.steps - (uint64_t)at->step,
                          .seed = state->seed};
    state->epoch_all = at->all;
    state->epoch_own = at->own;
    state->current = (kolo_epoch){.steps = at->step, .images = (int64_t)at->all.samples};
}

static kolo_status run_epoch(kolo_fit_state *state, int number)
{
    kolo_model *model = state->model;
    begin_epoch(state);
    kolo_progress_epoch(&state->progress, number, state->current.steps);
    KOLO_TRY(call_hooks(state, EPOCH_BEGIN, number, false));
    KOLO_TRY(kolo_fit_compare_rates(state));
    KOLO_TRY(run_steps(state, number));
    if (state->stopped && state->current.steps < state->steps) return KOLO_OK; /* within the epoch */
    KOLO_TRY(validate(state, number));
    record(state);
    kolo_measure measures[2 * (KOLO_METRICS_MAX + 1)];
    int count = measure_all(state, state->validated, measures);
    kolo_progress_end(&state->progress, state->current.steps, state->current.seconds, measures, count);
    model->epochs[model->history.epochs++] = state->current;
    model->position = (kolo_position){.epoch = number + 1, .samples = state->data->samples, .batch = state->batch};
    warn_of_divergence(state, number);
    return call_hooks(state, EPOCH_END, number, state->validated);
}

/* ---------------------------------------------------------------- the fit */

/* Whether a callback reads the totals after every batch, or the loss scale before every batch. */
static bool watches_batches(const kolo_fit_state *state)
{
    bool watches = false, scaled = state->model->settings.precision == KOLO_MIXED_FP16;
    for (int i = 0; i < state->callback_count; i++) {
        const kolo_callback *callback = &state->callbacks[i];
        watches = watches || callback->on_train_batch_end || (scaled && callback->on_train_batch_begin);
    }
    return watches;
}

static kolo_status open_fit(kolo_fit_state *state)
{
    kolo_model *model = state->model;
    size_t bytes = (size_t)state->data->samples * sizeof *state->order;
    state->order = malloc(bytes);
    if (model->backend->streams->steps_ahead > 0) state->ahead = malloc(bytes); /* may be NULL: it only saves time */
    if (!state->order) return kolo_fail_memory(bytes, "the order of the samples");
    bytes = (size_t)(state->epochs + 1) * sizeof *model->epochs;
    kolo_epoch *epochs = realloc(model->epochs, bytes);
    if (!epochs) return kolo_fail_memory(bytes, "the history");
    model->epochs = epochs;
    KOLO_TRY(kolo_faults_check(kolo_strategy_has_workers(kolo_model_strategy(model))));
    KOLO_TRY(kolo_fit_open_workers(state));
    if (model->trainer && !state->args->resume) kolo_workers_forget(model->trainer);
    else if (model->trainer) KOLO_TRY(kolo_workers_keep(model->trainer));
    KOLO_TRY(kolo_trainer_prepare(model, state->microbatch));
    state->trainer = model->trainer;
    state->trainer->seed = state->seed;
    /* In deterministic mode an epoch's totals must not depend on the timing of readbacks. */
    state->trainer->exact = watches_batches(state) || model->settings.deterministic;
    int64_t samples = state->data->samples, most = state->batch < samples ? state->batch : samples;
    KOLO_TRY(kolo_trainer_attach(state->trainer, state->data, most, samples));
    KOLO_TRY(kolo_autotune_open(state->trainer));
    kolo_trainer_reset_timings(state->trainer);
    KOLO_TRY(kolo_trainer_open_feeds(state->trainer, state->feeding, most));
    model->history = (kolo_history){
        .epoch = epochs, .ranks = kolo_size(), .devices = state->trainer->count, .metrics = model->metrics.count};
    memcpy(model->history.metric_name, model->metrics.name, sizeof model->history.metric_name);
    snprintf(model->history.strategy, sizeof model->history.strategy, "%s", kolo_model_strategy(model)->name);
    if (state->trainer->workers) model->history.workers = state->trainer->count * state->ranks->size;
    model->stop_training = false;
    model->average_metrics = kolo_model_strategy(model)->joins_ranks;
    model->callback_status = KOLO_OK;
    model->resumed = state->args->resume;
    if (model->resumed) return KOLO_OK;
    model->position = (kolo_position){.epoch = state->args->initial_epoch};
    free(model->checkpoint);
    model->checkpoint = NULL;
    kolo_kept_clear(&model->kept);
    return KOLO_OK;
}

/* If a callback stops training on one rank, training stops on all: otherwise they would wait for it in the next epoch.
 */
static kolo_status agree_to_stop(kolo_fit_state *state)
{
    double stops = state->model->stop_training || (state->trainer->workers && state->stopped);
    if (state->trainer->workers) KOLO_TRY(kolo_workers_share(state->trainer, &stops, sizeof stops));
    else if (state->ranks->size > 1 && !state->stopped)
        KOLO_TRY(state->ranks->kind->allreduce(state->ranks, &stops, 1, KOLO_TYPE_DOUBLE, KOLO_REDUCE_SUM));
    state->stopped = state->stopped || stops > 0;
    return KOLO_OK;
}

static kolo_status run_epochs(kolo_fit_state *state)
{
    /* With validation logs, too, so that hooks see all names. A hook may load a checkpoint. */
    KOLO_TRY(call_hooks(state, TRAIN_BEGIN, 0, state->validates));
    KOLO_TRY(kolo_fit_begin_at(state));
    state->model->history.first_epoch = state->model->position.epoch;
    KOLO_TRY(kolo_fit_compare_weights(state));
    int verbose = state->args->verbose;
    kolo_keep_zero_int(state->args->_, "verbose", &verbose);
    kolo_progress_begin(&state->progress, verbose, state->epochs, state->steps);
    state->model->progress = &state->progress;
    if (state->model->position.epoch >= state->epochs)
        kolo_progress_nothing(&state->progress, state->model->position.epoch);
    else kolo_fit_tell_resume(state);
    for (int epoch = state->model->position.epoch; epoch < state->epochs && !state->stopped; epoch++) {
        KOLO_TRY(run_epoch(state, epoch));
        KOLO_TRY(agree_to_stop(state));
    }
    return KOLO_OK;
}

/* Ends the fit. A requested stop is no failure: the result is the history so far. */
static kolo_status end_fit(kolo_fit_state *state, kolo_status status)
{
    kolo_status fetched = KOLO_OK;
    kolo_progress_break(&state->progress);
    if (state->trainer) fetched = kolo_trainer_fetch(state->trainer);
    if (status == KOLO_OK) status = fetched;
    if (state->trainer) {
        kolo_trainer_wait_for_streams(state->trainer);
        kolo_trainer_close_feeds(state->trainer);
        kolo_autotune_end_fit(state->trainer);
    }
    if (status == KOLO_INTERRUPTED) {
        kolo_failure_take();
        state->stopped = true;
        status = KOLO_OK;
    }
    if (status == KOLO_OK) {
        kolo_timings timings = kolo_get_timings(state->model);
        state->model->history.stopped = state->stopped;
        state->model->history.communication = timings.communication;
        state->model->history.exposed = timings.exposed;
        status = call_hooks(state, TRAIN_END, 0, false);
    }
    if (state->stopped) kolo_stop_obeyed();
    state->model->progress = NULL;
    for (int i = 0; i < state->callback_count; i++)
        if (state->callbacks[i].release) state->callbacks[i].release(&state->callbacks[i]);
    free(state->order);
    free(state->ahead);
    return status;
}

static kolo_status train(kolo_fit_state *state)
{
    state->model->fitting = true;
    kolo_status status = kolo_fit_agree_to_begin(state, open_fit(state));
    if (status == KOLO_OK) status = kolo_autotune_agree(state->trainer);
    if (status == KOLO_OK) status = kolo_overlap_agree(state->trainer);
    if (status == KOLO_OK) status = kolo_workers_link(state->trainer);
    if (status == KOLO_OK) status = run_epochs(state);
    status = end_fit(state, status);
    state->model->fitting = false;
    return status;
}

static kolo_status fit(kolo_fit_state *state)
{
    kolo_status status = kolo_fit_plan(state);
    if (status == KOLO_OK) status = kolo_fit_agree(state);
    if (status == KOLO_OK) status = train(state);
    status = kolo_fit_close_workers(state, status);
    kolo_fit_close_data(state);
    free(state->first_batch);
    return status;
}

const kolo_history *kolo_fit_at(const kolo_fit_args *args, kolo_here here)
{
    kolo_fit_state state = {.args = args};
    kolo_model_call call = kolo_model_enter(args->model, "kolo_fit", true, here);
    if (call.status == KOLO_OK) call.status = fit(&state);
    return kolo_model_leave(&call) == KOLO_OK ? &args->model->history : NULL;
}
