/* kolo_evaluate, kolo_predict, kolo_gradients, kolo_test_on_batch and kolo_predict_on_batch: they do not change the
 * weights. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "losses/loss.h"
#include "core/clock.h"
#include "core/timeline.h"
#include "model/lower.h"
#include "runtime/runtime.h"
#include "training/fit.h"
#include "training/scores.h"
#include "data/data.h"
#include "show/show.h"
#include "replica/tree_sum.h"

/* ---------------------------------------------------------------- engines */

/* The samples of a microbatch. Where one fills a device, a microbatch takes its whole time even if most of it is
 * padding: there it is the smallest power of two that holds `samples`, at most `most`. Otherwise it is `most`. */
static int microbatch_for(const kolo_model *model, int64_t samples, int most)
{
    int microbatch = 1;
    while (microbatch < samples && microbatch < most) microbatch *= 2;
    return kolo_backend_fills_device(model->backend) && microbatch < most ? microbatch : most;
}

static kolo_scorer *scorer_of(kolo_model *model, kolo_purpose purpose)
{
    return &model->scorers[purpose == KOLO_FOR_OUTPUTS];
}

/* Opens the scorer's engine with that microbatch unless it is open, and stages the shard's samples. After a failure the
 * engine is closed. */
static kolo_status open_scorer(kolo_model *model, kolo_purpose purpose, int microbatch, const kolo_shard *shard)
{
    kolo_scorer *scorer = scorer_of(model, purpose);
    kolo_engine_place place = {.threads = scorer->threads};
    bool opens = !scorer->engine;
    kolo_status status = opens ? kolo_engine_open(model, purpose, microbatch, place, &scorer->engine) : KOLO_OK;
    if (status == KOLO_OK && opens) status = kolo_engine_load(scorer->engine, model->weights); /* allocates memory */
    if (status == KOLO_OK) status = kolo_engine_stage_samples(scorer->engine, shard);
    if (status != KOLO_OK && scorer->engine) kolo_engine_close(&scorer->engine);
    assert(status != KOLO_OK || scorer->engine);
    return status;
}

/* Where a device's memory does not suffice, it closes the model's other scorer, and then halves the microbatch until it
 * fits: no user has chosen this microbatch. */
static kolo_status open_what_fits(kolo_model *model, kolo_purpose purpose, const kolo_shard *shard)
{
    kolo_scorer *scorer = scorer_of(model, purpose);
    int microbatch = scorer->engine ? scorer->engine->program->plan.microbatch
                                    : microbatch_for(model, shard->batch->samples, scorer->most);
    for (;;) {
        kolo_scorer *other = &model->scorers[scorer == model->scorers];
        kolo_status status = open_scorer(model, purpose, microbatch, shard);
        if (status != KOLO_MEMORY || (microbatch == 1 && !other->engine) || !kolo_backend_fills_device(model->backend))
            return status;
        kolo_failure_take();
        if (!other->engine) scorer->most = microbatch = (microbatch + 1) / 2;
        kolo_engine_close(&other->engine);
    }
}

/* Ranks divide microbatches among them, so all ranks use the smallest microbatch of any: their devices may have
 * different memory. */
static kolo_status open_alike(kolo_model *model, kolo_purpose purpose, const kolo_shard *shard, kolo_comm *ranks)
{
    kolo_scorer *scorer = scorer_of(model, purpose);
    if (ranks->size == 1 || !kolo_backend_fills_device(model->backend)) return KOLO_OK;
    int own = scorer->engine->program->plan.microbatch, microbatch = own;
    KOLO_TRY(kolo_agree_on_microbatch(ranks, &microbatch));
    if (microbatch == own) return KOLO_OK;
    kolo_engine_close(&scorer->engine);
    scorer->most = microbatch;
    return open_scorer(model, purpose, microbatch, shard);
}

/* The engine for a call, with the model's weights loaded; sets batch->microbatch. It is kept from one call to the next,
 * since custom loops score a few samples at a time. A new one is opened for another number of threads, in another
 * process (a forked child has no threads), and where more samples need a larger microbatch. */
static kolo_status engine_for(kolo_model *model, kolo_purpose purpose, const kolo_data *data, kolo_batch *batch,
                              kolo_comm *ranks, kolo_engine **engine)
{
    kolo_scorer *scorer = scorer_of(model, purpose);
    const kolo_shard shard = {.data = data, .batch = batch};
    int threads = kolo_threads();
    if (scorer->process != getpid() || scorer->threads != threads) kolo_engine_close(&scorer->engine);
    if (!scorer->engine) scorer->most = kolo_largest_microbatch(model, purpose);
    if (scorer->engine &&
        scorer->engine->program->plan.microbatch < microbatch_for(model, batch->samples, scorer->most))
        kolo_engine_close(&scorer->engine);
    scorer->process = getpid();
    scorer->threads = threads;
    KOLO_TRY(open_what_fits(model, purpose, &shard));
    KOLO_TRY(open_alike(model, purpose, &shard, ranks));
    *engine = scorer->engine;
    batch->microbatch = scorer->engine->program->plan.microbatch;
    return kolo_engine_load(*engine, model->weights);
}

void kolo_close_scorers(kolo_model *model)
{
    for (int i = 0; i < 2; i++) kolo_engine_close(&model->scorers[i].engine);
}

/* ---------------------------------------------------------------- scores */

static kolo_status score(kolo_model *model, const kolo_data *data, int64_t first, int64_t samples, kolo_comm *ranks,
                         kolo_totals *totals)
{
    kolo_engine *engine;
    kolo_batch batch = {.first = first, .samples = samples};
    KOLO_TRY(engine_for(model, KOLO_FOR_SCORES, data, &batch, ranks, &engine));
    kolo_reduction *reduction;
    KOLO_TRY(kolo_reduction_open(0, (kolo_reduction_memory){0}, &reduction));
    int64_t microbatches = kolo_batch_microbatches(&batch);
    kolo_shard shard = {.data = data,
                        .batch = &batch,
                        .first_microbatch = kolo_shard_begin(microbatches, ranks->rank, ranks->size, false),
                        .end_microbatch = kolo_shard_begin(microbatches, ranks->rank + 1, ranks->size, false),
                        .stoppable = ranks->size == 1};
    kolo_reduction_begin(reduction, microbatches);
    kolo_status status = kolo_engine_compute(engine, &shard, reduction);
    if (status == KOLO_OK) status = kolo_tree_totals(ranks, reduction, microbatches, totals);
    if (status == KOLO_OK) totals->loss += totals->samples * kolo_model_penalty(model, model->weights);
    kolo_reduction_close(&reduction);
    return status;
}

kolo_status kolo_score(kolo_model *model, const kolo_data *data, int64_t first, int64_t samples, kolo_comm *ranks,
                       kolo_totals *totals)
{
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(score(model, data, first, samples, ranks, totals));
    kolo_timeline_end(begun, KOLO_SPAN_VALIDATION, "evaluate");
    return KOLO_OK;
}

kolo_status kolo_check_range(const kolo_data *data, int64_t first, int64_t samples)
{
    int64_t there = data ? data->samples : 0;
    if (first >= 0 && samples >= 1 && first < there && samples <= there - first) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted samples within 0 to %lld, got %lld from %lld on", (long long)there - 1,
                     (long long)samples, (long long)first);
}

static kolo_status score_range(kolo_model *model, const char *call, kolo_data *data, int64_t first, int64_t samples,
                               kolo_scores *scores)
{
    double started = kolo_now();
    kolo_totals totals = {0};
    KOLO_TRY(kolo_model_check_compiled(model, call));
    KOLO_TRY(kolo_check_data(model, data, true, "data"));
    KOLO_TRY(kolo_check_range(data, first, samples));
    KOLO_TRY(kolo_obey_stop(kolo_score(model, data, first, samples, kolo_comm_self(), &totals)));
    *scores = kolo_scores_of(model, &totals);
    scores->seconds = kolo_now() - started;
    return KOLO_OK;
}

static kolo_status evaluate(const kolo_evaluate_args *args, kolo_scores *scores)
{
    KOLO_TRY(kolo_model_check_compiled(args->model, "kolo_evaluate()"));
    if (args->batch_size < 0)
        return kolo_fail(KOLO_INVALID, ".batch_size: wanted at least 1, got %d", args->batch_size);
    return score_range(args->model, "kolo_evaluate()", args->data, 0, args->data ? args->data->samples : 0, scores);
}

static void print_scores(const kolo_model *model, const kolo_scores *scores)
{
    kolo_measure measures[KOLO_METRICS_MAX + 1];
    int count = kolo_measures_of(model, scores, false, measures);
    for (int i = 0; i < count; i++) printf("%s%s", i ? " - " : "", kolo_measure_text(&measures[i]));
    printf(" - %lld samples in %.1f s\n", (long long)scores->samples, scores->seconds);
    fflush(stdout);
}

kolo_scores kolo_evaluate_at(const kolo_evaluate_args *args, kolo_here here)
{
    kolo_scores scores = kolo_scores_of(NULL, NULL);
    kolo_model_call call = kolo_model_enter(args->model, "kolo_evaluate", false, here);
    if (call.status == KOLO_OK) call.status = evaluate(args, &scores);
    if (kolo_model_leave(&call) == KOLO_OK && args->verbose > 0) print_scores(args->model, &scores);
    return scores;
}

kolo_scores kolo_test_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, kolo_here here)
{
    kolo_scores scores = kolo_scores_of(NULL, NULL);
    kolo_model_call call = kolo_model_enter(model, "kolo_test_on_batch", false, here);
    if (call.status == KOLO_OK) call.status = score_range(model, "kolo_test_on_batch()", data, first, samples, &scores);
    kolo_model_leave(&call);
    return scores;
}

/* ---------------------------------------------------------------- outputs */

static kolo_status predict_range(kolo_model *model, const char *call, kolo_data *data, int64_t first, int64_t samples,
                                 float *outputs)
{
    kolo_engine *engine;
    KOLO_TRY(kolo_model_check_compiled(model, call));
    KOLO_TRY(kolo_check_data(model, data, false, "data"));
    KOLO_TRY(kolo_check_range(data, first, samples));
    if (!outputs) return kolo_fail(KOLO_INVALID, "outputs: wanted room for the model's outputs, got NULL");
    kolo_batch batch = {.first = first, .samples = samples};
    KOLO_TRY(engine_for(model, KOLO_FOR_OUTPUTS, data, &batch, kolo_comm_self(), &engine));
    kolo_shard shard = {.data = data,
                        .batch = &batch,
                        .end_microbatch = kolo_batch_microbatches(&batch),
                        .stoppable = true,
                        .outputs = outputs};
    return kolo_obey_stop(kolo_engine_compute(engine, &shard, NULL));
}

kolo_status kolo_predict_at(kolo_model *model, kolo_data *data, float *outputs, kolo_here here)
{
    kolo_model_call call = kolo_model_enter(model, "kolo_predict", false, here);
    if (call.status == KOLO_OK)
        call.status = predict_range(model, "kolo_predict()", data, 0, data ? data->samples : 0, outputs);
    return kolo_model_leave(&call);
}

kolo_status kolo_predict_on_batch_at(kolo_model *model, kolo_data *data, int64_t first, int64_t samples, float *outputs,
                                     kolo_here here)
{
    kolo_model_call call = kolo_model_enter(model, "kolo_predict_on_batch", false, here);
    if (call.status == KOLO_OK)
        call.status = predict_range(model, "kolo_predict_on_batch()", data, first, samples, outputs);
    return kolo_model_leave(&call);
}

/* ---------------------------------------------------------------- gradients */

/* Sets the gradients of running means to zero. Layers write statistics there, but the loss does not depend on running
 * means. */
static void clear_running_means(const kolo_model *model, float *gradients)
{
    for (int p = 0; p < model->parameter_count; p++) {
        const kolo_parameter *parameter = &model->parameters[p];
        size_t bytes = (size_t)kolo_shape_count(parameter->shape) * sizeof *gradients;
        if (parameter->momentum > 0) memset(gradients + parameter->offset, 0, bytes);
    }
}

static kolo_status sum_gradients(kolo_model *model, const kolo_data *data, kolo_engine *engine,
                                 kolo_reduction *reduction, float *gradients, kolo_totals *totals)
{
    kolo_batch batch = {.samples = data->samples, .microbatch = engine->program->plan.microbatch};
    kolo_shard shard = {
        .data = data, .batch = &batch, .end_microbatch = kolo_batch_microbatches(&batch), .stoppable = true};
    kolo_reduction_begin(reduction, shard.end_microbatch);
    KOLO_TRY(kolo_engine_run(engine, &shard, reduction));
    kolo_node nodes[KOLO_REDUCTION_NODES_MAX];
    int count = kolo_reduction_take(reduction, nodes);
    if (count != 1) return kolo_fail(KOLO_INTERNAL, "a batch's sum left %d nodes, wanted 1", count);
    *totals = nodes[0].totals;
    kolo_status status = gradients ? kolo_engine_fetch_gradient(engine, nodes[0].gradient, gradients) : KOLO_OK;
    kolo_reduction_return(reduction, nodes[0].gradient);
    for (int64_t i = 0; gradients && i < model->weight_count; i++) gradients[i] /= (float)totals->samples;
    if (gradients) clear_running_means(model, gradients);
    if (gradients) kolo_model_add_penalty_gradient(model, model->weights, gradients);
    totals->loss += totals->samples * kolo_model_penalty(model, model->weights);
    return status;
}

static kolo_status compute_gradients(kolo_model *model, kolo_data *data, float *gradients, double *loss)
{
    KOLO_TRY(kolo_model_check_compiled(model, "kolo_gradients()"));
    KOLO_TRY(kolo_check_data(model, data, true, "data"));
    int microbatch = model->microbatch ? model->microbatch : kolo_largest_microbatch(model, KOLO_FOR_GRADIENTS);
    if (data->samples < microbatch) microbatch = (int)data->samples;
    const kolo_engine_place place = {.threads = kolo_threads()};
    kolo_engine *engine = NULL;
    kolo_reduction *reduction = NULL;
    kolo_totals totals = {0};
    kolo_status status;
    KOLO_GO(done, kolo_engine_open(model, KOLO_FOR_GRADIENTS, microbatch, place, &engine));
    KOLO_GO(done, kolo_engine_load(engine, model->weights));
    KOLO_GO(done, kolo_engine_reduction(engine, &reduction));
    KOLO_GO(done, sum_gradients(model, data, engine, reduction, gradients, &totals));
    *loss = kolo_scores_of(model, &totals).loss;
done:
    kolo_reduction_close(&reduction);
    kolo_engine_close(&engine);
    return kolo_obey_stop(status);
}

double kolo_gradients_at(kolo_model *model, kolo_data *data, float *gradients, kolo_here here)
{
    double loss = NAN;
    kolo_model_call call = kolo_model_enter(model, "kolo_gradients", false, here);
    if (call.status == KOLO_OK) call.status = compute_gradients(model, data, gradients, &loss);
    kolo_model_leave(&call);
    return loss;
}
