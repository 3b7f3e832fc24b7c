/* The modelled step: see what_if.h. kolo_what_if.h has the formulas. */
#include <math.h>

#include "whatif/what_if.h"

/* ---------------------------------------------------------------- computing */

/* Of ranks that share the recorded host. */
static double host_share(const kolo_replay *replay, int ranks)
{
    double load = (double)ranks * replay->recording.threads / replay->cores;
    double contention = replay->args->contention > 0 ? replay->args->contention : 1;
    return fmax(1, load) * (ranks > 1 && load >= 1 ? contention : 1);
}

double kolo_replay_share(const kolo_replay *replay, int ranks)
{
    return replay->links.model ? 1 : host_share(replay, ranks);
}

/* How many times as long the batch takes as the recorded one. */
static double batch_factor(const kolo_replay *replay)
{
    const kolo_recording *one = &replay->recording, *other = &replay->other;
    if (other->steps == 0) return replay->batch / one->samples;
    double at_one = kolo_recording_quantile(one, 0.5), at_other = kolo_recording_quantile(other, 0.5);
    double each = (at_other - at_one) / (other->samples - one->samples);
    return 1 + each * (replay->batch - one->samples) / at_one;
}

kolo_status kolo_replay_check(const kolo_replay *replay)
{
    if (batch_factor(replay) > 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     ".batch: wanted one to which the times of %d and %d samples, %.3g s and %.3g s, can be continued, "
                     "got %g",
                     replay->recording.samples, replay->other.samples, kolo_recording_quantile(&replay->recording, 0.5),
                     kolo_recording_quantile(&replay->other, 0.5), replay->batch);
}

/* × recorded seconds: of computing with the batch; of what does not depend on it. */
static double update_factor(const kolo_replay *replay, int devices)
{
    return kolo_replay_share(replay, devices) / host_share(replay, replay->recording.ranks);
}

static double computing_factor(const kolo_replay *replay, int devices)
{
    double compute = replay->args->compute > 0 ? replay->args->compute : 1;
    return update_factor(replay, devices) * compute * batch_factor(replay);
}

/* The slowest of n is at least as slow as a quantile q with the chance 1 − qⁿ, so its median is at q = 2^(−1/n). */
static double waiting(const kolo_replay *replay, int devices)
{
    int at_once = replay->cores / replay->recording.threads, n = devices;
    if (!replay->links.model && n > at_once) n = at_once > 1 ? at_once : 1;
    if (replay->args->same_pace || n == 1) return 0;
    double slowest = kolo_recording_quantile(&replay->recording, exp2(-1.0 / n));
    return computing_factor(replay, devices) * (slowest - kolo_recording_quantile(&replay->recording, 0.5));
}

/* ---------------------------------------------------------------- sums */

static bool overlaps(const kolo_replay *replay, int devices)
{
    if (replay->args->overlap != 0) return replay->args->overlap != KOLO_NONE;
    return replay->links.model || devices * (double)replay->recording.threads <= replay->cores;
}

/* × recorded seconds: of the tail of the backward pass. In microbatches it is the tail of the last one. */
static double tail_factor(const kolo_replay *replay, int devices)
{
    const kolo_recording *recording = &replay->recording;
    double microbatch = ceil((double)recording->samples / recording->microbatches);
    double part = recording->microbatches > 1 ? fmin(1, replay->batch / microbatch) : batch_factor(replay);
    return computing_factor(replay, devices) / batch_factor(replay) * part;
}

/* Sums that are made, in seconds from the end of the backward pass. */
typedef struct sums {
    const kolo_replay *replay;
    int devices;
    double end, communication;
} sums;

static kolo_status add_sum(sums *s, double ready, double bytes)
{
    double seconds;
    if (s->replay->args->compression != KOLO_COMPRESSION_NONE) bytes /= 2;
    KOLO_TRY(kolo_replay_links_sum(&s->replay->links, s->devices, bytes, &seconds));
    seconds *= kolo_replay_share(s->replay, s->devices);
    s->end = fmax(s->end, ready) + seconds;
    s->communication += seconds;
    return KOLO_OK;
}

static kolo_status add_buckets(sums *s)
{
    const kolo_replay *replay = s->replay;
    const kolo_recording *recording = &replay->recording;
    double wanted = replay->args->bucket_bytes > 0 ? replay->args->bucket_bytes : KOLO_BUCKET_BYTES, filled = 0;
    double tail = tail_factor(replay, s->devices);
    for (size_t i = 0; i < recording->count; i++) {
        const kolo_recorded_gradient *gradient = &recording->gradients[i];
        filled += gradient->bytes;
        if (filled < wanted && i + 1 < recording->count) continue;
        KOLO_TRY(add_sum(s, -tail * gradient->before_end, filled));
        filled = 0;
    }
    return KOLO_OK;
}

static kolo_status sum_gradients(const kolo_replay *replay, int devices, kolo_answer *answer)
{
    sums s = {.replay = replay, .devices = devices, .end = -INFINITY};
    bool beside = overlaps(replay, devices);
    if (beside) KOLO_TRY(add_buckets(&s));
    else KOLO_TRY(add_sum(&s, 0, kolo_recording_bytes(&replay->recording)));
    bool hides = replay->links.model || devices * (replay->recording.threads + 1.0) <= replay->cores;
    answer->communication = s.communication;
    answer->exposed = beside && hides ? fmax(s.end, 0) : s.communication;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- the answer */

static double seconds_alone(const kolo_replay *replay, int devices)
{
    return computing_factor(replay, devices) * kolo_recording_quantile(&replay->recording, 0.5) +
           update_factor(replay, devices) * replay->recording.update;
}

/* Seconds of a step of one device with the recorded batch, as it was recorded. */
static double seconds_before(const kolo_replay *replay)
{
    return (kolo_recording_quantile(&replay->recording, 0.5) + replay->recording.update) /
           host_share(replay, replay->recording.ranks);
}

static void answer_accuracy(const kolo_replay *replay, kolo_answer *answer)
{
    double noise = replay->args->noise_scale, batch = answer->devices * replay->batch;
    answer->more_steps = answer->more_time = answer->accuracy_seconds = NAN;
    if (noise == 0) return;
    answer->more_steps = (1 + noise / batch) / (1 + noise / replay->recording.samples);
    answer->more_time = answer->more_steps * answer->seconds / seconds_before(replay);
    if (replay->args->steps > 0) answer->accuracy_seconds = answer->more_steps * replay->args->steps * answer->seconds;
}

kolo_status kolo_replay_answer(const kolo_replay *replay, int devices, kolo_answer *answer)
{
    *answer = (kolo_answer){.devices = devices, .waiting = waiting(replay, devices)};
    if (devices > 1) KOLO_TRY(sum_gradients(replay, devices, answer));
    answer->seconds = seconds_alone(replay, devices) + answer->waiting + answer->exposed;
    answer->samples = devices * replay->batch / answer->seconds;
    answer->efficiency = seconds_alone(replay, 1) / answer->seconds;
    answer_accuracy(replay, answer);
    return KOLO_OK;
}
