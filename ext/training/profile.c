/* kolo_profile: where the time of a training step goes, layer by layer. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/clock.h"
#include "training/fit.h"
#include "runtime/runtime.h"
#include "core/table.h"

#define WARM_STEPS 1

typedef struct profile {
    const kolo_model *model;
    const kolo_data *data;
    kolo_engine *engine;
    kolo_reduction *reduction;
    int steps, batch;
    double seconds; /* of the steps */
} profile;

static kolo_status open_profile(profile *p)
{
    int microbatch = kolo_choose_microbatch(p->model, p->batch, 1, 1);
    const kolo_engine_place place = {.threads = kolo_threads()};
    KOLO_TRY(kolo_engine_open(p->model, KOLO_FOR_TRAINING, microbatch, place, &p->engine));
    KOLO_TRY(kolo_engine_load(p->engine, p->model->weights));
    return kolo_engine_reduction(p->engine, &p->reduction);
}

/* After the last full batch of the data, the next step takes the first one again. */
static kolo_status run_step(const profile *p, int step)
{
    int64_t batches = p->data->samples / p->batch;
    kolo_batch batch = {.first = step % batches * p->batch,
                        .samples = p->batch,
                        .microbatch = p->engine->program->plan.microbatch,
                        .step = (uint64_t)step};
    kolo_shard shard = {.data = p->data,
                        .batch = &batch,
                        .end_microbatch = kolo_batch_microbatches(&batch),
                        .seed = p->model->seed,
                        .stoppable = true};
    kolo_reduction_begin(p->reduction, shard.end_microbatch);
    return kolo_engine_run(p->engine, &shard, p->reduction);
}

static kolo_status run_steps(profile *p)
{
    for (int i = 0; i < WARM_STEPS; i++) KOLO_TRY(run_step(p, i));
    KOLO_TRY(kolo_engine_time(p->engine));
    double started = kolo_now();
    for (int i = 0; i < p->steps; i++) KOLO_TRY(run_step(p, WARM_STEPS + i));
    p->seconds = kolo_now() - started;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- the table */

/* The time of a layer's operations among number first … end-1, in milliseconds per step, summed over all threads. layer
 * -1: the time of the loss. */
static double spent(const profile *p, int layer, int first, int end)
{
    double seconds = 0;
    const kolo_plan *plan = &p->engine->program->plan;
    for (int o = first; o < end; o++) {
        bool loss = plan->ops[o].kind == KOLO_OP_LOSS;
        if (loss ? layer != -1 : plan->ops[o].layer != layer) continue;
        seconds += kolo_engine_seconds(p->engine, o);
    }
    return 1e3 * seconds / p->steps;
}

static const char *row_name(const profile *p, int layer)
{
    return layer < 0 ? "(loss)" : p->model->layers[layer].name;
}

static kolo_status add_row(const profile *p, int layer, double all, kolo_table *table)
{
    const kolo_plan *plan = &p->engine->program->plan;
    double forward = spent(p, layer, 0, plan->forward_count),
           back = spent(p, layer, plan->forward_count, plan->op_count);
    const char *cells[] = {row_name(p, layer), kolo_phrase("%.3f", forward), kolo_phrase("%.3f", back),
                           kolo_phrase("%.1f %%", all > 0 ? 100 * (forward + back) / all : 0)};
    return kolo_table_add(table, cells);
}

static kolo_status fill(const profile *p, double all, kolo_table *table)
{
    for (int layer = 0; layer < p->model->layer_count; layer++) KOLO_TRY(add_row(p, layer, all, table));
    return add_row(p, -1, all, table);
}

static kolo_status print_profile(const profile *p)
{
    static const char *const headings[] = {"layer", "forward ms", "backward ms", "share"};
    kolo_table *table = NULL;
    double all = 0;
    for (int layer = -1; layer < p->model->layer_count; layer++)
        all += spent(p, layer, 0, p->engine->program->plan.op_count);
    kolo_status status = kolo_table_open(4, 1, headings, &table);
    if (status == KOLO_OK) status = fill(p, all, table);
    if (status == KOLO_OK) kolo_table_print(table);
    kolo_table_close(&table);
    KOLO_TRY(status);
    printf("a step of %d samples: %.3f ms on %d threads, %.3f ms of work in layers; %.0f samples/s, without the "
           "update\n",
           p->batch, 1e3 * p->seconds / p->steps, kolo_engine_lanes(p->engine), all, p->batch * p->steps / p->seconds);
    fflush(stdout);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- the file */

static json_t *describe(const profile *p)
{
    const kolo_plan *plan = &p->engine->program->plan;
    json_t *layers = json_array();
    for (int layer = 0; layer <= p->model->layer_count; layer++) {
        int row = layer < p->model->layer_count ? layer : -1;
        double forward = 1e-3 * spent(p, row, 0, plan->forward_count),
               back = 1e-3 * spent(p, row, plan->forward_count, plan->op_count);
        json_array_append_new(layers, json_pack("{s:s, s:f, s:f}", "name", row_name(p, row), "forward", forward,
                                                "backward", back));
    }
    return json_pack("{s:i, s:i, s:f, s:o}", "threads", kolo_engine_lanes(p->engine), "batch", p->batch, "seconds",
                     p->seconds / p->steps, "layers", layers);
}

static kolo_status write_file(const profile *p, const char *path)
{
    json_t *whole = describe(p);
    char *text = whole ? json_dumps(whole, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    kolo_status status = text ? kolo_file_write(path, text, strlen(text)) : kolo_fail_memory(0, "a profile");
    json_decref(whole);
    free(text);
    return status;
}

/* ---------------------------------------------------------------- the call */

static kolo_status check(const kolo_profile_args *args, profile *p)
{
    KOLO_TRY(kolo_model_check_compiled(args->model, "kolo_profile()"));
    KOLO_TRY(kolo_model_check_idle(args->model));
    KOLO_TRY(kolo_check_data(args->model, args->data, true, "data"));
    *p = (profile){.model = args->model,
                   .data = args->data,
                   .batch = args->batch_size ? args->batch_size : 32,
                   .steps = args->steps ? args->steps : 10};
    if (p->batch < 1 || p->batch > args->data->samples)
        return kolo_fail(KOLO_INVALID, ".batch_size: wanted 1 to %lld, as many as the data has, got %d",
                         (long long)args->data->samples, p->batch);
    if (p->steps < 1) return kolo_fail(KOLO_INVALID, ".steps: wanted at least 1, got %d", p->steps);
    return args->file ? kolo_check_writable(args->file) : KOLO_OK;
}

static kolo_status run(const kolo_profile_args *args)
{
    profile p;
    KOLO_TRY(check(args, &p));
    kolo_status status;
    KOLO_GO(done, open_profile(&p));
    KOLO_GO(done, run_steps(&p));
    KOLO_GO(done, print_profile(&p));
    status = args->file ? write_file(&p, args->file) : KOLO_OK;
done:
    kolo_reduction_close(&p.reduction);
    kolo_engine_close(&p.engine);
    return kolo_obey_stop(status);
}

kolo_status kolo_profile_at(const kolo_profile_args *args, kolo_here here)
{
    kolo_model_call call = kolo_model_enter(args->model, "kolo_profile", true, here);
    if (call.status == KOLO_OK) call.status = run(args);
    return kolo_model_leave(&call);
}
