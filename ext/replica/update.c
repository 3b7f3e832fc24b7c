/* A replica's update: what stands between the sum of gradients and the optimizer's rule. See strategy.h.
 *
 * Batches are gathered, the mean formed, L2 added, the gradient clipped, the weights decayed; then the rule. All of it
 * goes through the arrays in chunks that fit in a core's cache, and each thread takes a run of chunks. Where a whole
 * array's norm comes first there are two or three such rounds; a norm is the sum of the chunks' sums in their order, so
 * it does not depend on the threads. */
#include <math.h>
#include <string.h>

#include "core/vector.h"
#include "core/clock.h"
#include "replica/queued_replica.h"
#include "replica/rounds.h"

/* ---------------------------------------------------------------- rounds */

typedef struct update_round {
    kolo_replica *replica; /* that takes part, */
    kolo_replica *owner;   /* and whose arrays they are */
    const kolo_model *model;
    const kolo_common_args *options;
    double scale;    /* the sum times this is the mean */
    double share;    /* of a sample: the same for what is no gradient, which a loss's scale does not reach */
    bool prepares;   /* the gradient is changed before the rule sees it */
    bool decays;     /* and the weights */
    double clip;     /* factor of global_clip_norm */
    void (*work)(const struct update_round *round, const kolo_piece *piece);
} update_round;

static void do_piece(void *argument, const kolo_piece *piece)
{
    const update_round *r = argument;
    r->work(r, piece);
}

/* Ends when all are through with it. */
static kolo_status run(update_round *r, void (*work)(const update_round *, const kolo_piece *), bool whole)
{
    r->work = work;
    KOLO_TRY(kolo_round(r->replica, whole, do_piece, r));
    return kolo_replica_meet(r->replica);
}

static update_round round_of(kolo_replica *replica)
{
    const kolo_model *model = replica->trainer->model;
    return (update_round){.replica = replica,
                          .owner = kolo_replica_owner(replica),
                          .model = model,
                          .options = &model->settings.optimizer.common,
                          .clip = 1};
}

/* Sums of a parameter's chunks, in their order. */
static void sum_chunks(const update_round *r, int number, double *sums)
{
    int64_t chunk = kolo_chunks_before(r->model, number);
    sums[0] = sums[1] = 0;
    for (int64_t end = chunk + kolo_chunks(&r->model->parameters[number]); chunk < end; chunk++) {
        sums[0] += r->owner->sums[2 * chunk];
        sums[1] += r->owner->sums[2 * chunk + 1];
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

KOLO_VECTORISED static void shrink(float *w, int64_t count, float rate)
{
    for (int64_t i = 0; i < count; i++) w[i] = kolo_shrunk(w[i], rate);
}

KOLO_VECTORISED static void move(float *restrict mean, const float *restrict sum, int64_t count, double momentum,
                                 double scale)
{
    for (int64_t i = 0; i < count; i++) mean[i] = kolo_moved(mean[i], sum[i], momentum, scale);
}

/* ---------------------------------------------------------------- work on a part */

static kolo_update update_of(const update_round *r, const kolo_piece *piece)
{
    kolo_replica *owner = r->owner;
    int64_t at = piece->parameter->offset + piece->first;
    kolo_update update = {.optimizer = &r->model->settings.optimizer,
                          .learning_rate = r->model->learning_rate,
                          .step = r->replica->counters.updates,
                          .weights = owner->weights + at,
                          .gradient = owner->gradient + at,
                          .scale = r->prepares ? 1 : r->scale,
                          .count = piece->count,
                          .vector = piece->parameter->shape.rank <= 1,
                          .number = owner->numbers ? owner->numbers + piece->number : NULL};
    for (int i = 0; i < KOLO_OPTIMIZER_SLOTS; i++) update.slots[i] = owner->slots[i] ? owner->slots[i] + at : NULL;
    return update;
}

static bool trained(const kolo_piece *piece)
{
    return !(piece->parameter->momentum > 0);
}

static void measure_gradient(const update_round *r, const kolo_piece *piece)
{
    int64_t at = piece->parameter->offset + piece->first;
    r->owner->sums[2 * piece->chunk] = trained(piece)
                                           ? sum_squares(r->owner->gradient + at, r->owner->weights + at, piece->count,
                                                         (float)r->scale, (float)(2 * piece->parameter->l2))
                                           : 0;
    r->owner->sums[2 * piece->chunk + 1] = 0;
}

static double clip_factor(const update_round *r, int parameter)
{
    double sums[2];
    if (!(r->options->clip_norm > 0)) return r->clip;
    sum_chunks(r, parameter, sums);
    return kolo_clip_factor(sums[0], r->options->clip_norm);
}

static void prepare_part(const update_round *r, const kolo_update *u, const kolo_piece *piece)
{
    double most = r->options->clip_value > 0 ? r->options->clip_value : INFINITY;
    if (r->prepares)
        prepare(u->gradient, u->weights, u->count, (float)r->scale, (float)(2 * piece->parameter->l2),
                (float)clip_factor(r, piece->number), (float)most);
    if (r->decays) shrink(u->weights, u->count, (float)(r->options->weight_decay * r->model->learning_rate));
}

static void prepare_alone(const update_round *r, const kolo_piece *piece)
{
    kolo_update update = update_of(r, piece);
    if (trained(piece)) prepare_part(r, &update, piece);
}

static void measure_part(const update_round *r, const kolo_piece *piece)
{
    kolo_update update = update_of(r, piece);
    if (trained(piece)) update.optimizer->kind->measure(&update);
    memcpy(r->owner->sums + 2 * piece->chunk, update.sums, sizeof update.sums);
}

static void update_part(const update_round *r, const kolo_piece *piece)
{
    kolo_update update = update_of(r, piece);
    const kolo_optimizer_kind *kind = update.optimizer->kind;
    if (!trained(piece)) {
        move(update.weights, update.gradient, piece->count, piece->parameter->momentum, r->share);
        return;
    }
    if (kind->measure) sum_chunks(r, piece->number, update.sums);
    else prepare_part(r, &update, piece);
    kind->update(&update);
}

/* ---------------------------------------------------------------- loss scaling */

/* Not 0 where one element is infinite or no number. */
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

static void check_finite(const update_round *r, const kolo_piece *piece)
{
    const float *gradient = r->owner->gradient + piece->parameter->offset + piece->first;
    r->owner->sums[2 * piece->chunk] = trained(piece) ? (double)sum_of_zeros(gradient, piece->count) : 0;
}

/* The gradient is the group's, so all members find the same. */
static kolo_status adapt_scale(kolo_replica *replica, bool *finite)
{
    update_round r = round_of(replica);
    KOLO_TRY(run(&r, check_finite, false));
    double sum = 0;
    for (int64_t chunk = 0; chunk < kolo_update_chunks(r.model) - 1; chunk++) sum += r.owner->sums[2 * chunk];
    KOLO_TRY(kolo_replica_meet(replica)); /* before the sums are others */
    *finite = sum == 0;
    kolo_adapt_scale(*finite, &replica->counters.loss_scale, &replica->counters.good);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- the whole update */

static double clip_all(const update_round *r)
{
    double total = 0;
    for (int p = 0; p < r->model->parameter_count; p++) {
        double sums[2];
        sum_chunks(r, p, sums);
        total += sums[0];
    }
    return kolo_clip_factor(total, r->options->global_clip_norm);
}

/* Once for all who share the numbers. */
static kolo_status settle(const update_round *r)
{
    const kolo_optimizer_kind *kind = r->model->settings.optimizer.kind;
    if (!kind->settle) return KOLO_OK;
    bool mine = r->replica->index == 0 || r->owner == r->replica;
    for (int p = 0; mine && p < r->model->parameter_count; p++) {
        const kolo_piece whole = {&r->model->parameters[p], p, 0, kolo_shape_count(r->model->parameters[p].shape), 0};
        kolo_update update = update_of(r, &whole);
        sum_chunks(r, p, update.sums);
        if (trained(&whole)) kind->settle(&update);
    }
    return kolo_replica_meet(r->replica);
}

static bool has_penalty(const kolo_model *model)
{
    bool found = false;
    for (int p = 0; p < model->parameter_count; p++) found = found || model->parameters[p].l2 > 0;
    return found;
}

static kolo_status apply(kolo_replica *replica, double samples)
{
    const kolo_model *model = replica->trainer->model;
    const kolo_common_args *options = &model->settings.optimizer.common;
    const kolo_optimizer_kind *kind = model->settings.optimizer.kind;
    bool normed = options->clip_norm > 0 || options->global_clip_norm > 0;
    update_round r = round_of(replica);
    r.share = 1 / samples;
    r.scale = r.share / replica->counters.sample_scale;
    r.prepares = normed || options->clip_value > 0 || has_penalty(model);
    r.decays = options->weight_decay > 0 && !kind->decays;
    if (normed) KOLO_TRY(run(&r, measure_gradient, false));
    if (options->global_clip_norm > 0) r.clip = clip_all(&r);
    if (kind->measure && (r.prepares || r.decays)) KOLO_TRY(run(&r, prepare_alone, false));
    if (kind->measure) KOLO_TRY(run(&r, measure_part, false));
    if (kind->measure) KOLO_TRY(settle(&r));
    r.work = update_part;
    return kolo_round(replica, !kind->measure && !r.prepares && !r.decays, do_piece, &r);
}

static kolo_status update(kolo_replica *replica)
{
    kolo_counters *counters = &replica->counters;
    counters->steps++;
    counters->waiting_samples += replica->totals.samples;
    if (counters->waiting < replica->trainer->model->settings.optimizer.common.accumulate_steps) return KOLO_OK;
    double samples = counters->waiting_samples;
    counters->waiting = 0;
    counters->waiting_samples = 0;
    if (!(samples > 0)) return KOLO_OK; /* nothing was computed: there is no mean to follow */
    bool finite = true;
    if (replica->trainer->model->settings.precision == KOLO_MIXED_FP16) KOLO_TRY(adapt_scale(replica, &finite));
    if (!finite) return KOLO_OK;
    counters->updates++;
    return apply(replica, samples);
}

/* Weights that a replica takes from where others have updated them. */
static int64_t bytes_from_others(const kolo_replica *replica)
{
    const kolo_trainer *trainer = replica->trainer;
    int64_t all = kolo_replica_count(replica) * (int64_t)sizeof(float);
    bool away = trainer->parameter_team || replica->index != trainer->updater;
    return trainer->weight_placement == KOLO_WEIGHTS_CENTRAL && away ? all : 0;
}

kolo_status kolo_replica_update(kolo_replica *replica)
{
    return replica->device ? kolo_queued_replica_update(replica) : kolo_replica_update_on_host(replica);
}

kolo_status kolo_replica_update_on_host(kolo_replica *replica)
{
    float *gradient;
    bool apart = !replica->gathered; /* a strategy that agrees in another way */
    if (apart && !replica->summed) KOLO_TRY(kolo_replica_gradient(replica, &gradient));
    if (apart) kolo_replica_gather(replica);
    int64_t updates = replica->counters.updates;
    double started = kolo_now();
    bool shares = replica->trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    if (replica->index == 0) atomic_store(&replica->trainer->packed, 0);
    KOLO_TRY(update(replica));
    KOLO_TRY(kolo_replica_meet(replica)); /* gradients may be made anew */
    bool updated = replica->counters.updates > updates;
    if (updated) KOLO_TRY(kolo_replica_pack(replica));
    if (updated && shares) KOLO_TRY(kolo_replica_meet(replica)); /* others have packed, too */
    if (updated) replica->timings.updated_bytes += bytes_from_others(replica);
    replica->timings.update += kolo_now() - started;
    return KOLO_OK;
}
