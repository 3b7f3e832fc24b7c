/* The gradient noise scale (McCandlish et al. 2018, "An empirical model of large-batch training", appendix A.1).
 *
 * The mean gradient g_B of B samples has E|g_B|² = |G|² + tr(Σ)/B. Small batches of b samples and big ones of B give
 *     |G|²  ≈ (B|g_B|² − b|g_b|²) / (B − b)        tr(Σ) ≈ (|g_b|² − |g_B|²) / (1/b − 1/B)
 * without bias. The scale is the quotient of the running means of these two, since single estimates are very noisy. A
 * big batch consists of small ones, so that one pass gives both. Samples are drawn from the training data; dropout is
 * off. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "callbacks/callbacks.h"
#include "core/written.h"
#include "saving/save.h"
#include "replica/trainer.h"
#include "data/data.h"

typedef struct state {
    kolo_engine *engine;
    kolo_reduction *reduction;
    float *gradient;  /* [weight_count], sum of the gradients of a small batch's samples */
    double *mean_gradient;      /* [weight_count], mean gradient of the big batch */
    int32_t *samples; /* [small], numbers in the data set */
    int small, parts, every, batches; /* parts: small batches in a big one; batches: of the training so far */
    double smoothing, weight; /* weight: 1 − smoothing^measurements */
    double noise, signal;     /* running means, times weight */
    kolo_noise_scale found;
} state;

static void release(kolo_callback *self)
{
    state *s = self->state;
    if (s) {
        kolo_reduction_close(&s->reduction);
        kolo_engine_close(&s->engine);
        free(s->gradient);
        free(s->mean_gradient);
        free(s->samples);
    }
    kolo_callback_close(self);
}

static kolo_status read_options(const kolo_gradient_noise_scale_args *args, state *s)
{
    s->small = args->small_batch ? args->small_batch : 32;
    int64_t big = args->big_batch ? args->big_batch : 8 * (int64_t)s->small;
    s->every = args->every ? args->every : 10;
    s->smoothing = kolo_given(args->smoothing, 0.9);
    if (s->small < 1 || big <= s->small || big % s->small != 0)
        return kolo_fail(KOLO_INVALID, ".big_batch: wanted a multiple of .small_batch, which is %d, got %lld", s->small,
                         (long long)big);
    if (s->every < 1) return kolo_fail(KOLO_INVALID, ".every: wanted at least 1, got %d", s->every);
    if (!(s->smoothing >= 0 && s->smoothing < 1))
        return kolo_fail(KOLO_INVALID, ".smoothing: wanted 0 to below 1, got %g", s->smoothing);
    s->parts = (int)(big / s->small);
    return KOLO_OK;
}

static kolo_status open_state(kolo_callback *self, state *s)
{
    kolo_model *model = self->model;
    KOLO_TRY(read_options(&self->gradient_noise_scale, s));
    KOLO_TRY(kolo_model_check_compiled(model, "kolo_gradient_noise_scale()"));
    s->found.scale = s->found.noise = s->found.signal = NAN;
    if (self->gradient_noise_scale.result) *self->gradient_noise_scale.result = s->found;
    if (!kolo_callback_is_writer()) return KOLO_OK;
    size_t count = (size_t)model->weight_count + 1;
    s->gradient = malloc(count * sizeof *s->gradient);
    s->mean_gradient = malloc(count * sizeof *s->mean_gradient);
    s->samples = malloc((size_t)s->small * sizeof *s->samples);
    if (!s->gradient || !s->mean_gradient || !s->samples) return kolo_fail_memory(count * 12, "gradients");
    const kolo_engine_place place = {.threads = kolo_threads()};
    KOLO_TRY(kolo_engine_open(model, KOLO_FOR_GRADIENTS, s->small, place, &s->engine));
    return kolo_engine_reduction(s->engine, &s->reduction);
}

static void begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    state *s = kolo_callback_open(self, sizeof *s);
    if (s) kolo_callback_report(self, open_state(self, s));
}

/* ---------------------------------------------------------------- a measurement */

/* Draws the samples of a small batch from a random stream that the training does not use. */
static void draw_samples(const kolo_callback *self, state *s, int part, int64_t of)
{
    uint64_t number = (uint64_t)s->found.measurements * (uint64_t)s->parts + (uint64_t)part;
    uint64_t key = kolo_random_key(~self->model->seed, KOLO_RANDOM_ORDER, number);
    for (int i = 0; i < s->small; i++) {
        kolo_random_block block = kolo_philox(key, (uint64_t)i, 0);
        s->samples[i] = (int32_t)(((uint64_t)block.word[0] << 32 | block.word[1]) % (uint64_t)of);
    }
}

/* Computes the sum of the gradients of a small batch's samples, as one microbatch. */
static kolo_status compute_part(state *s, const kolo_data *data)
{
    kolo_batch batch = {.order = s->samples, .samples = s->small, .microbatch = s->small};
    kolo_shard shard = {.data = data, .batch = &batch, .end_microbatch = 1};
    kolo_node nodes[KOLO_REDUCTION_NODES_MAX];
    kolo_reduction_begin(s->reduction, 1);
    KOLO_TRY(kolo_engine_run(s->engine, &shard, s->reduction));
    if (kolo_reduction_take(s->reduction, nodes) != 1)
        return kolo_fail(KOLO_INTERNAL, "a microbatch's sum left other than one node");
    kolo_status status = kolo_engine_fetch_gradient(s->engine, nodes[0].gradient, s->gradient);
    kolo_reduction_return(s->reduction, nodes[0].gradient);
    return status;
}

/* Measures |g|² for a small batch (the mean over the small ones) and for the big batch. Running means, which have a
 * momentum and no gradient, are left out. */
static kolo_status measure(kolo_callback *self, double *of_small, double *of_big)
{
    state *s = self->state;
    kolo_model *model = self->model;
    const kolo_data *data = model->trainer->data;
    *of_small = *of_big = 0;
    memset(s->mean_gradient, 0, (size_t)model->weight_count * sizeof *s->mean_gradient);
    for (int part = 0; part < s->parts; part++) {
        draw_samples(self, s, part, data->samples);
        KOLO_TRY(compute_part(s, data));
        for (int p = 0; p < model->parameter_count; p++) {
            const kolo_parameter *parameter = &model->parameters[p];
            int64_t end = parameter->offset + kolo_shape_count(parameter->shape);
            for (int64_t i = parameter->offset; parameter->momentum == 0 && i < end; i++) {
                double slope = (double)s->gradient[i] / s->small;
                *of_small += slope * slope / s->parts;
                s->mean_gradient[i] += slope / s->parts;
            }
        }
    }
    for (int64_t i = 0; i < model->weight_count; i++) *of_big += s->mean_gradient[i] * s->mean_gradient[i];
    return KOLO_OK;
}

static kolo_status take_measurement(kolo_callback *self)
{
    state *s = self->state;
    double of_small, of_big, small = s->small, big = (double)s->small * s->parts;
    KOLO_TRY(kolo_weights_ready(self->model));
    KOLO_TRY(kolo_engine_load(s->engine, self->model->weights));
    KOLO_TRY(measure(self, &of_small, &of_big));
    double keep = s->smoothing;
    s->signal = keep * s->signal + (1 - keep) * (big * of_big - small * of_small) / (big - small);
    s->noise = keep * s->noise + (1 - keep) * (of_small - of_big) / (1 / small - 1 / big);
    s->weight = keep * s->weight + 1 - keep;
    s->found = (kolo_noise_scale){.noise = s->noise / s->weight,
                                  .signal = s->signal / s->weight,
                                  .scale = s->signal > 0 ? s->noise / s->signal : INFINITY,
                                  .measurements = s->found.measurements + 1};
    if (self->gradient_noise_scale.result) *self->gradient_noise_scale.result = s->found;
    return KOLO_OK;
}

static void end_batch(kolo_callback *self, int batch, const kolo_logs *logs)
{
    state *s = self->state;
    (void)batch;
    (void)logs;
    if (!s || !s->reduction || !self->model->trainer || !self->model->trainer->data) return;
    if (++s->batches % s->every == 0) kolo_callback_report(self, take_measurement(self));
}

static void end_epoch(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    const state *s = self->state;
    int verbose = self->gradient_noise_scale.verbose == KOLO_NONE ? 0 : 1;
    (void)epoch;
    (void)logs;
    if (s && s->found.measurements > 0)
        kolo_callback_say(self, verbose, "gradient noise scale: %.0f samples (%d measurement%s)\n", s->found.scale,
                          s->found.measurements, s->found.measurements == 1 ? "" : "s");
}

static void end(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    release(self);
}

kolo_callback kolo_gradient_noise_scale_of(kolo_gradient_noise_scale_args args)
{
    kolo_keep_zero(args._, "smoothing", &args.smoothing);
    kolo_keep_zero_int(args._, "verbose", &args.verbose);
    return (kolo_callback){.name = "gradient_noise_scale",
                           .on_train_begin = begin,
                           .on_train_batch_end = end_batch,
                           .on_epoch_end = end_epoch,
                           .on_train_end = end,
                           .gradient_noise_scale = args,
                           .release = release};
}
