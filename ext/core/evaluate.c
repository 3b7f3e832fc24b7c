/* kolo_evaluate, kolo_predict, kolo_gradients: forward, and once backward, without learning. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/loss.h"
#include "core/runtime.h"
#include "core/scores.h"
#include "data/data.h"
#include "show/show.h"
#include "strategy/tree_sum.h"

/* ---------------------------------------------------------------- checks */

kolo_status kolo_check_data(const kolo_model *model, const kolo_data *data, bool labels, const char *what)
{
    if (!data) return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "%s: wanted data, got NULL", what);
    kolo_shape wanted = model->layers[0].out;
    if (!kolo_shape_equal(data->shape, wanted))
        return kolo_fail(KOLO_INVALID, "%s: wanted samples of %s, as kolo_input() says, got %s", what,
                         kolo_shape_text(wanted), kolo_shape_text(data->shape));
    if (!labels) return KOLO_OK;
    if (!data->labels) return kolo_fail(KOLO_INVALID, "%s: wanted labels, got data without", what);
    if (!model->settings.loss.kind)
        return kolo_fail(KOLO_INVALID, "wanted kolo_compile() with a .loss, got a model without one");
    kolo_shape shape = model->layers[model->output].out;
    int64_t outputs = shape.dim[shape.rank - 1], rows = kolo_shape_count(shape) / outputs;
    if (data->label_count != rows)
        return kolo_fail(KOLO_INVALID, "%s: wanted %lld labels a sample, one for each row of the outputs %s, got %d",
                         what, (long long)rows, kolo_shape_text(shape), data->label_count);
    if (data->classes > outputs)
        return kolo_fail(KOLO_INVALID,
                         "%s: wanted labels from 0 to %lld, as many as the last layer has outputs, got %d "
                         "classes",
                         what, (long long)outputs - 1, data->classes);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- scores */

double kolo_totals_loss(const kolo_totals *totals)
{
    return totals->samples > 0 ? totals->loss / totals->samples : NAN;
}

static double metric_value(const kolo_model *model, const kolo_totals *totals, int m)
{
    const kolo_metric *metric = &model->settings.metrics[m];
    kolo_shape shape = model->layers[model->output].out;
    int64_t outputs = shape.dim[shape.rank - 1];
    const double *sums = totals->sums + kolo_metric_offset(model->settings.metrics, m, outputs);
    if (!(totals->samples > 0)) return NAN;
    return metric->kind->value ? metric->kind->value(sums, outputs, totals->samples, metric->number)
                               : sums[0] / totals->samples;
}

double kolo_totals_metric(const kolo_model *model, const kolo_totals *totals, kolo_metric kind)
{
    for (int i = 0; i < KOLO_METRICS_MAX; i++)
        if (model->settings.metrics[i].kind == kind.kind && model->settings.metrics[i].number == kind.number)
            return metric_value(model, totals, i);
    return NAN;
}

static kolo_status open_engine(kolo_model *model, kolo_purpose purpose, kolo_engine **engine)
{
    if (!*engine) KOLO_TRY(kolo_engine_open(model, purpose, KOLO_SCORES_LEAF, kolo_threads(), NULL, engine));
    return kolo_engine_pack(*engine, model->weights);
}

kolo_status kolo_score(kolo_model *model, const kolo_data *data, kolo_comm *ranks, kolo_engine **engine,
                       kolo_totals *totals)
{
    KOLO_TRY(open_engine(model, KOLO_FOR_SCORES, engine));
    kolo_fold *fold;
    KOLO_TRY(kolo_fold_open(0, NULL, NULL, NULL, NULL, &fold));
    kolo_batch batch = {.samples = data->samples, .leaf = KOLO_SCORES_LEAF};
    int64_t leaves = kolo_batch_leaves(&batch);
    kolo_share share = {.data = data,
                        .batch = &batch,
                        .first_leaf = leaves * ranks->rank / ranks->size,
                        .end_leaf = leaves * (ranks->rank + 1) / ranks->size,
                        .stoppable = ranks->size == 1};
    kolo_fold_begin(fold, leaves);
    kolo_status status = kolo_engine_run(*engine, &share, fold);
    if (status == KOLO_OK) status = kolo_tree_totals(ranks, fold, leaves, totals);
    if (status == KOLO_OK) totals->loss += totals->samples * kolo_model_penalty(model, model->weights);
    kolo_fold_close(&fold);
    return status;
}

/* A stop that was requested ends the call without a result, which is a failure with a sentence. */
static kolo_status obey_stop(kolo_status status)
{
    if (status != KOLO_INTERRUPTED) return status;
    kolo_stop_clear();
    return kolo_fail(KOLO_INTERRUPTED, "stopped before it was done, as kolo_request_stop() asked");
}

static kolo_status evaluate(const kolo_evaluate_args *args, kolo_scores *scores)
{
    KOLO_TRY(kolo_model_check_compiled(args->model, "kolo_evaluate()"));
    KOLO_TRY(kolo_check_data(args->model, args->data, true, "data"));
    if (args->batch_size < 0)
        return kolo_fail(KOLO_INVALID, ".batch_size: wanted at least 1, got %d", args->batch_size);
    double started = kolo_now();
    kolo_engine *engine = NULL;
    kolo_totals totals = {0};
    kolo_status status = kolo_score(args->model, args->data, kolo_comm_self(), &engine, &totals);
    kolo_engine_close(&engine);
    status = obey_stop(status);
    KOLO_TRY(status);
    scores->loss = kolo_totals_loss(&totals);
    scores->accuracy = kolo_totals_metric(args->model, &totals, KOLO_ACCURACY);
    scores->samples = args->data->samples;
    scores->seconds = kolo_now() - started;
    return KOLO_OK;
}

static void print_scores(const kolo_scores *scores)
{
    if (!isnan(scores->accuracy)) printf("accuracy: %.4f - ", scores->accuracy);
    printf("loss: %.4f - %lld samples in %.1f s\n", scores->loss, (long long)scores->samples, scores->seconds);
    fflush(stdout);
}

kolo_scores kolo_evaluate_at(const kolo_evaluate_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_evaluate", here);
    kolo_scores scores = {.loss = NAN, .accuracy = NAN};
    kolo_status status = kolo_leave(scope, evaluate(args, &scores));
    if (status == KOLO_OK && args->verbose > 0) print_scores(&scores);
    return scores;
}

/* ---------------------------------------------------------------- outputs */

static kolo_status predict(kolo_model *model, kolo_data *data, float *outputs)
{
    KOLO_TRY(kolo_model_check_compiled(model, "kolo_predict()"));
    KOLO_TRY(kolo_check_data(model, data, false, "data"));
    if (!outputs) return kolo_fail(KOLO_INVALID, "outputs: wanted room for the model's outputs, got NULL");
    kolo_engine *engine = NULL;
    kolo_batch batch = {.samples = data->samples, .leaf = KOLO_SCORES_LEAF};
    kolo_share share = {
        .data = data, .batch = &batch, .end_leaf = kolo_batch_leaves(&batch), .stoppable = true, .outputs = outputs};
    kolo_status status = open_engine(model, KOLO_FOR_OUTPUTS, &engine);
    if (status == KOLO_OK) status = kolo_engine_run(engine, &share, NULL);
    kolo_engine_close(&engine);
    status = obey_stop(status);
    return status;
}

kolo_status kolo_predict_at(kolo_model *model, kolo_data *data, float *outputs, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_predict", here);
    return kolo_leave(scope, predict(model, data, outputs));
}

/* ---------------------------------------------------------------- gradients */

static kolo_status sum_gradients(kolo_model *model, const kolo_data *data, kolo_engine *engine, kolo_fold *fold,
                                 float *gradients, kolo_totals *totals)
{
    kolo_batch batch = {.samples = data->samples, .leaf = engine->program->plan.leaf};
    kolo_share share = {.data = data, .batch = &batch, .end_leaf = kolo_batch_leaves(&batch)};
    kolo_fold_begin(fold, share.end_leaf);
    KOLO_TRY(kolo_engine_run(engine, &share, fold));
    kolo_node nodes[KOLO_FOLD_MOST];
    int count = kolo_fold_take(fold, nodes);
    if (count != 1) return kolo_fail(KOLO_INTERNAL, "a batch's sum left %d nodes, wanted 1", count);
    *totals = nodes[0].totals;
    kolo_status status = gradients ? kolo_program_unpack(engine->program, nodes[0].gradient, gradients) : KOLO_OK;
    kolo_fold_return(fold, nodes[0].gradient);
    for (int64_t i = 0; gradients && i < model->weight_count; i++) gradients[i] /= (float)totals->samples;
    if (gradients) kolo_model_add_penalty_gradient(model, model->weights, gradients);
    totals->loss += totals->samples * kolo_model_penalty(model, model->weights);
    return status;
}

static kolo_status compute_gradients(kolo_model *model, kolo_data *data, float *gradients, double *loss)
{
    KOLO_TRY(kolo_model_check_compiled(model, "kolo_gradients()"));
    KOLO_TRY(kolo_check_data(model, data, true, "data"));
    int leaf = data->samples < KOLO_SCORES_LEAF ? (int)data->samples : KOLO_SCORES_LEAF;
    kolo_engine *engine = NULL;
    kolo_fold *fold = NULL;
    kolo_totals totals = {0};
    kolo_status status;
    KOLO_GO(done, kolo_engine_open(model, KOLO_FOR_GRADIENTS, leaf, kolo_threads(), NULL, &engine));
    KOLO_GO(done, kolo_engine_pack(engine, model->weights));
    KOLO_GO(done, kolo_engine_fold(engine, &fold));
    KOLO_GO(done, sum_gradients(model, data, engine, fold, gradients, &totals));
    *loss = kolo_totals_loss(&totals);
done:
    kolo_fold_close(&fold);
    kolo_engine_close(&engine);
    return status;
}

double kolo_gradients_at(kolo_model *model, kolo_data *data, float *gradients, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_gradients", here);
    double loss = NAN;
    kolo_leave(scope, compute_gradients(model, data, gradients, &loss));
    return loss;
}
