/* An update on the host: from the sum of gradients to the updated weights. See update.h.
 *
 * The steps are: form the mean gradient, add L2, clip the gradient, decay the weights, apply the rule. They go through
 * the arrays in chunks that fit in a core's cache, and each worker takes a run of chunks. The workers are the threads
 * of one stream, or of all streams that share the arrays. If the norm of a whole array is needed first, there are
 * several such rounds. A norm is the sum of the chunks' sums in their order, so it does not depend on the number of
 * workers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "core/vector.h"
#include "optimizers/optimizer.h"

#define CHUNK 8192 /* elements: 32 KiB of each array */

/* ---------------------------------------------------------------- rounds */

/* Elements first … first+count-1 of span `number`. `chunk` is their first chunk, counted over all spans. */
typedef struct piece {
    const kolo_span *span;
    int number;
    int64_t first, count, chunk;
} piece;

typedef struct update_round {
    const kolo_update_job *job;
    kolo_team *team; /* NULL: one worker */
    double scale;    /* the sum of gradients · scale is the mean */
    double per_sample; /* kolo_step_parameters.per_sample, for running means */
    bool prepares;   /* the gradient is scaled, clipped or penalised in place before the rule reads it */
    bool decays;     /* the weights are decayed before the rule is applied */
    double clip;     /* the factor of all gradients because of global_clip_norm */
    bool whole;      /* a piece may have many chunks */
    void (*work)(const struct update_round *round, const piece *piece);
} update_round;

static int64_t chunks_of(const kolo_span *span)
{
    return (span->count + CHUNK - 1) / CHUNK;
}

static int64_t chunks_before(const kolo_update_job *job, int number)
{
    int64_t chunks = 0;
    for (int s = 0; s < number; s++) chunks += chunks_of(&job->spans[s]);
    return chunks;
}

/* Calls work() for each piece of a worker's run of chunks. A piece is one chunk, or with round->whole all of the run's
 * chunks of a span. */
static kolo_status do_part(void *argument, int member)
{
    const update_round *r = argument;
    const kolo_update_job *job = r->job;
    int size = r->team ? kolo_team_size(r->team) : 1, workers = job->parts * size, worker = job->part * size + member;
    int64_t all = chunks_before(job, job->span_count), begins = 0;
    int64_t chunk = all * worker / workers, end = all * (worker + 1) / workers;
    for (int s = 0; s < job->span_count && chunk < end; s++) {
        const kolo_span *span = &job->spans[s];
        int64_t ends = begins + chunks_of(span);
        while (chunk < end && chunk < ends) {
            int64_t next = !r->whole ? chunk + 1 : ends < end ? ends : end;
            int64_t first = (chunk - begins) * CHUNK, last = (next - begins) * CHUNK;
            r->work(r, &(piece){span, s, first, (last < span->count ? last : span->count) - first, chunk});
            chunk = next;
        }
        begins = ends;
    }
    return KOLO_OK;
}

static kolo_status wait_for_parts(const update_round *r)
{
    return r->job->parts > 1 ? r->job->barrier(r->job->barrier_argument) : KOLO_OK;
}

static kolo_status run_round(update_round *r, void (*work)(const update_round *, const piece *), bool whole)
{
    r->work = work;
    r->whole = whole;
    return r->team ? kolo_team_run(r->team, do_part, r) : do_part(r, 0);
}

/* Runs a round and waits until all parts have run it. */
static kolo_status run(update_round *r, void (*work)(const update_round *, const piece *))
{
    KOLO_TRY(run_round(r, work, false));
    return wait_for_parts(r);
}

/* Two for each chunk of the arrays. */
static double *chunk_sums(const update_round *r)
{
    return r->job->prepared;
}

/* Adds up the sums of a span's chunks, in the order of the chunks. */
static void sum_chunks(const update_round *r, int number, double *sums)
{
    int64_t chunk = chunks_before(r->job, number);
    sums[0] = sums[1] = 0;
    for (int64_t end = chunk + chunks_of(&r->job->spans[number]); chunk < end; chunk++) {
        sums[0] += chunk_sums(r)[2 * chunk];
        sums[1] += chunk_sums(r)[2 * chunk + 1];
    }
}

/* ---------------------------------------------------------------- loops */

KOLO_VECTORISED static double sum_squares(const float *restrict g, const float *restrict w, int64_t count, float scale,
                                          float l2)
{
    double lanes[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (int l = 0; l < 8; l++) {
            double x = (double)kolo_mean_gradient(g[i + l], w[i + l], scale, l2);
            lanes[l] += x * x;
        }
    }
    for (int l = 0; l < 8; l++) sum += lanes[l];
    for (; i < count; i++) sum += pow((double)kolo_mean_gradient(g[i], w[i], scale, l2), 2);
    return sum;
}

KOLO_VECTORISED static void prepare(float *restrict g, const float *restrict w, int64_t count, float scale, float l2,
                                    float factor, float most)
{
    for (int64_t i = 0; i < count; i++) g[i] = kolo_clipped_gradient(g[i], w[i], scale, l2, factor, most);
}

KOLO_VECTORISED static void move(float *restrict mean, const float *restrict sum, int64_t count, double momentum,
                                 double scale)
{
    for (int64_t i = 0; i < count; i++) mean[i] = kolo_moved(mean[i], sum[i], momentum, scale);
}

/* NaN if an element is infinite or NaN, else 0. */
KOLO_VECTORISED static float sum_of_zeros(const float *g, int64_t count)
{
    float lanes[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        for (int l = 0; l < 16; l++) lanes[l] += g[i + l] * 0;
    for (int l = 0; l < 16; l++) sum += lanes[l];
    for (; i < count; i++) sum += g[i] * 0;
    return sum;
}

/* ---------------------------------------------------------------- work on a piece */

static kolo_update update_of(const update_round *r, const piece *p)
{
    const kolo_update_job *job = r->job;
    int64_t at = p->span->offset + p->first;
    kolo_update update = {.optimizer = job->optimizer,
                          .learning_rate = job->step_parameters->rule[KOLO_RULE_LEARNING_RATE],
                          .step = job->step_parameters->update,
                          .weights = job->weights + at,
                          .gradient = job->gradient + at,
                          .scale = r->prepares ? 1 : r->scale,
                          .count = p->count,
                          .vector = p->span->vector,
                          .number = job->numbers ? job->numbers + p->number : NULL};
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS; i++) update.slots[i] = job->slots[i] ? job->slots[i] + at : NULL;
    return update;
}

static bool trained(const piece *p)
{
    return !(p->span->momentum > 0);
}

static void measure_gradient(const update_round *r, const piece *p)
{
    int64_t at = p->span->offset + p->first;
    chunk_sums(r)[2 * p->chunk] =
        trained(p) ? sum_squares(r->job->gradient + at, r->job->weights + at, p->count, (float)r->scale, p->span->l2)
                   : 0;
    chunk_sums(r)[2 * p->chunk + 1] = 0;
}

static double clip_factor(const update_round *r, int span)
{
    double sums[2];
    if (!(r->job->clip_norm > 0)) return r->clip;
    sum_chunks(r, span, sums);
    return kolo_clip_factor(sums[0], r->job->clip_norm);
}

static void prepare_part(const update_round *r, const kolo_update *u, const piece *p)
{
    double most = r->job->clip_value > 0 ? r->job->clip_value : INFINITY;
    if (r->prepares)
        prepare(u->gradient, u->weights, u->count, (float)r->scale, p->span->l2, (float)clip_factor(r, p->number),
                (float)most);
    if (r->decays) kolo_rule_shrink(u->weights, u->count, (float)(r->job->decay * u->learning_rate));
}

static void prepare_alone(const update_round *r, const piece *p)
{
    kolo_update update = update_of(r, p);
    if (trained(p)) prepare_part(r, &update, p);
}

static void measure_part(const update_round *r, const piece *p)
{
    kolo_update update = update_of(r, p);
    if (trained(p)) update.optimizer->kind->measure(&update);
    memcpy(chunk_sums(r) + 2 * p->chunk, update.sums, sizeof update.sums);
}

static void update_part(const update_round *r, const piece *p)
{
    kolo_update update = update_of(r, p);
    const kolo_optimizer_kind *kind = update.optimizer->kind;
    if (!trained(p)) {
        move(update.weights, update.gradient, p->count, p->span->momentum, r->per_sample);
        return;
    }
    if (kind->measure) sum_chunks(r, p->number, update.sums);
    else prepare_part(r, &update, p);
    kind->update(&update);
}

static void check_finite(const update_round *r, const piece *p)
{
    const float *gradient = r->job->gradient + p->span->offset + p->first;
    chunk_sums(r)[2 * p->chunk] = trained(p) ? (double)sum_of_zeros(gradient, p->count) : 0;
}

/* ---------------------------------------------------------------- loss scaling */

void kolo_host_take_step_parameters(kolo_step_parameters *to, const kolo_step_parameters *ring, kolo_scaling *scaling,
                                    kolo_scaling *seen)
{
    const kolo_step_parameters *next = &ring[(to->slot + 1) % KOLO_STEPS_AHEAD];
    memcpy(to, next, offsetof(kolo_step_parameters, updates));
    if (!scaling) return;
    int64_t later = scaling->updates - next->updates;
    if (later > 0) memcpy(to->rule, next->later[later - 1], sizeof to->rule);
    if (to->loss_scale > 0) scaling->sample_scale = scaling->loss_scale * to->loss_scale;
    scaling->updates_before = scaling->updates;
    to->update = scaling->updates + 1;
    to->loss_scale = scaling->sample_scale;
    to->scale = to->per_sample / scaling->sample_scale;
    *seen = *scaling;
}

/* All parts get the same result, and each updates its own kolo_scaling. */
static kolo_status adapt_scale(update_round *r, bool *finite)
{
    kolo_scaling *scaling = r->job->scaling;
    double sum = 0;
    KOLO_TRY(run(r, check_finite));
    for (int64_t chunk = 0; chunk < chunks_before(r->job, r->job->span_count); chunk++) sum += chunk_sums(r)[2 * chunk];
    KOLO_TRY(wait_for_parts(r)); /* before a part overwrites the sums */
    *finite = sum == 0;
    scaling->tried++;
    scaling->updates += *finite;
    kolo_adapt_scale(*finite, &scaling->loss_scale, &scaling->good);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- the whole update */

static double clip_all(const update_round *r)
{
    double total = 0;
    for (int s = 0; s < r->job->span_count; s++) {
        double sums[2];
        sum_chunks(r, s, sums);
        total += sums[0];
    }
    return kolo_clip_factor(total, r->job->global_clip_norm);
}

/* Part 0 settles for all parts, because they share job->numbers. */
static kolo_status settle(const update_round *r)
{
    const kolo_optimizer_kind *kind = r->job->optimizer->kind;
    if (!kind->settle) return KOLO_OK;
    for (int s = 0; r->job->part == 0 && s < r->job->span_count; s++) {
        const piece whole = {&r->job->spans[s], s, 0, r->job->spans[s].count, 0};
        kolo_update update = update_of(r, &whole);
        sum_chunks(r, s, update.sums);
        if (trained(&whole)) kind->settle(&update);
    }
    return wait_for_parts(r);
}

static bool has_penalty(const kolo_update_job *job)
{
    bool found = false;
    for (int s = 0; s < job->span_count; s++) found = found || job->spans[s].l2 > 0;
    return found;
}

static kolo_status apply(update_round *r)
{
    const kolo_update_job *job = r->job;
    const kolo_optimizer_kind *kind = job->optimizer->kind;
    bool normed = job->clip_norm > 0 || job->global_clip_norm > 0;
    r->per_sample = job->step_parameters->per_sample;
    r->scale = job->step_parameters->scale;
    r->prepares = normed || job->clip_value > 0 || has_penalty(job);
    r->decays = job->decay > 0;
    if (normed) KOLO_TRY(run(r, measure_gradient));
    if (job->global_clip_norm > 0) r->clip = clip_all(r);
    if (kind->measure && (r->prepares || r->decays)) KOLO_TRY(run(r, prepare_alone));
    if (kind->measure) KOLO_TRY(run(r, measure_part));
    if (kind->measure) KOLO_TRY(settle(r));
    return run_round(r, update_part, !kind->measure && !r->prepares && !r->decays);
}

kolo_status kolo_host_update(const kolo_update_job *job, kolo_team *team)
{
    update_round r = {.job = job, .team = team, .clip = 1};
    bool finite = true;
    if (job->scaling) KOLO_TRY(adapt_scale(&r, &finite));
    return finite ? apply(&r) : KOLO_OK;
}

bool kolo_host_has_rule(const kolo_optimizer *optimizer)
{
    (void)optimizer;
    return true;
}

kolo_status kolo_host_expect_update(kolo_stream *stream, kolo_update_job *job)
{
    (void)stream;
    size_t bytes = (size_t)(chunks_before(job, job->span_count) + 1) * 2 * sizeof(double);
    if (!job->prepared) job->prepared = kolo_host_allocate(bytes);
    return job->prepared ? KOLO_OK : kolo_fail_memory(bytes, "norms of the weights");
}

void kolo_host_forget_update(kolo_stream *stream, kolo_update_job *job)
{
    (void)stream;
    kolo_host_deallocate(job->prepared);
    job->prepared = NULL;
}

double kolo_host_penalty(const kolo_span *spans, int count, const float *weights)
{
    double penalty = 0;
    for (int s = 0; s < count; s++) {
        const float *w = weights + spans[s].offset;
        double sum = 0;
        for (int64_t i = 0; spans[s].l2 > 0 && i < spans[s].count; i++) sum += (double)w[i] * (double)w[i];
        penalty += spans[s].penalty * sum;
    }
    return penalty;
}
