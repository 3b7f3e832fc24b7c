/* Sums over the ranks beside the backward pass: see overlap.h. */
#include "replica/overlap.h"
#include "replica/rank_sum.h"

#include <stdlib.h>

#include "comm/queue.h"
#include "core/clock.h"
#include "core/hash.h"

typedef struct bucket_sum {
    kolo_overlap *overlap;
    int number;
    bool started;
    kolo_request request;
} bucket_sum;

struct kolo_overlap {
    kolo_replica *replica; /* replica 0, whose arrays hold the process's gradient */
    kolo_comm *ranks;
    kolo_buckets *buckets;
    bucket_sum *sums; /* [buckets->count] */
    bool agreed; /* all ranks have these buckets */
    bool on; /* in the current step */
};

/* ---------------------------------------------------------------- one bucket */

static const kolo_bucket *bucket_of(const kolo_overlap *overlap, int number)
{
    return &overlap->buckets->buckets[number];
}

static kolo_status sum_bucket(kolo_comm *ranks, void *argument)
{
    const bucket_sum *sum = argument;
    const kolo_bucket *bucket = bucket_of(sum->overlap, sum->number);
    return kolo_replica_sum_part(sum->overlap->replica, ranks, bucket->first, bucket->first + bucket->count);
}

/* Adds the gradients of the batches before, as kolo_replica_accumulate() does for a whole gradient. */
static kolo_status accumulate(const kolo_replica *replica, const kolo_bucket *bucket)
{
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    if (!replica->arrays.accumulated) return KOLO_OK;
    float *accumulated = replica->arrays.accumulated + bucket->first,
          *gradient = replica->arrays.gradient + bucket->first;
    size_t bytes = (size_t)bucket->count * sizeof *gradient;
    KOLO_TRY(streams->add(replica->stream, accumulated, gradient, bucket->count));
    KOLO_TRY(streams->copy(replica->stream, gradient, accumulated, bytes));
    return streams->clear(replica->stream, accumulated, bytes);
}

/* Runs in the lane that has completed the bucket. */
static kolo_status start_bucket(void *owner, int number)
{
    kolo_overlap *overlap = owner;
    bucket_sum *sum = &overlap->sums[number];
    KOLO_TRY(kolo_buckets_unpack(overlap->buckets, number, overlap->replica->arrays.gradient));
    KOLO_TRY(accumulate(overlap->replica, bucket_of(overlap, number)));
    if (number == overlap->buckets->count - 1) return KOLO_OK; /* kolo_overlap_finish() sums it */
    KOLO_TRY(kolo_request_start(overlap->ranks, &sum->request, sum_bucket, sum));
    sum->started = true;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- a step */

int kolo_overlap_buckets(const kolo_trainer *trainer)
{
    return trainer->overlap && trainer->overlap->agreed ? trainer->overlap->buckets->count : 0;
}

bool kolo_overlap_is_on(const kolo_trainer *trainer)
{
    return trainer->overlap && trainer->overlap->on;
}

/* The microbatches of all replicas of the process. */
static int64_t own_microbatches(const kolo_trainer *trainer)
{
    const kolo_comm *group = trainer->replicas[0].group;
    bool rest_last = trainer->model->settings.strategy.last_takes_remainder;
    int64_t all = trainer->batch_microbatches;
    return kolo_shard_begin(all, group->rank + trainer->count, group->size, rest_last) -
           kolo_shard_begin(all, group->rank, group->size, rest_last);
}

void kolo_overlap_begin(kolo_trainer *trainer)
{
    kolo_overlap *overlap = trainer->overlap;
    if (!overlap) return;
    overlap->on = overlap->agreed && kolo_replica_completes(overlap->replica);
    for (int i = 0; i < trainer->running; i++) trainer->replicas[i].engine->in_buckets = overlap->on;
    if (overlap->on) kolo_buckets_begin(overlap->buckets, trainer->batch_microbatches, own_microbatches(trainer));
}

/* Waits for all sums that were started, also after a failure. Returns the first failure. */
static kolo_status wait_for_sums(kolo_overlap *overlap)
{
    kolo_status status = KOLO_OK;
    for (int i = 0; i < overlap->buckets->count; i++) {
        bucket_sum *sum = &overlap->sums[i];
        if (!sum->started) continue;
        kolo_status ended = kolo_request_wait(&sum->request);
        if (status == KOLO_OK) status = ended;
        overlap->replica->timings.communication += sum->request.seconds;
        sum->started = false;
    }
    return status;
}

kolo_status kolo_overlap_finish(kolo_trainer *trainer)
{
    kolo_overlap *overlap = trainer->overlap;
    kolo_timings *timings = &overlap->replica->timings;
    bucket_sum *last = &overlap->sums[overlap->buckets->count - 1];
    double started = kolo_now();
    overlap->replica->collected = true;
    KOLO_TRY(wait_for_sums(overlap));
    double waited = kolo_now();
    kolo_status status = sum_bucket(overlap->ranks, last);
    timings->communication += kolo_now() - waited;
    timings->exposed += kolo_now() - started;
    return status;
}

void kolo_overlap_abandon(kolo_trainer *trainer)
{
    kolo_overlap *overlap = trainer->overlap;
    if (!kolo_overlap_is_on(trainer)) return;
    kolo_failure failure = kolo_failure_take();
    kolo_comm_queue_drop(overlap->ranks);
    wait_for_sums(overlap);
    kolo_failure_take();
    if (failure.code != KOLO_OK) kolo_failure_give(&failure);
    overlap->on = false;
}

/* ---------------------------------------------------------------- opening and closing */

/* A hash of where the buckets begin, in their order; 0 without overlap. */
static uint64_t digest_of(const kolo_overlap *overlap)
{
    if (!overlap) return 0;
    uint64_t hash = KOLO_HASH_START;
    for (int i = 0; i < overlap->buckets->count; i++)
        hash = kolo_hash_add(hash, &bucket_of(overlap, i)->first, sizeof bucket_of(overlap, i)->first);
    return hash | 1;
}

kolo_status kolo_overlap_agree(kolo_trainer *trainer)
{
    kolo_comm *ranks = kolo_model_ranks(trainer->model);
    if (ranks->size == 1 || trainer->workers) return KOLO_OK;
    uint64_t mine = digest_of(trainer->overlap), *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' settings");
    kolo_status status = ranks->kind->allgather(ranks, &mine, sizeof mine, all);
    bool agreed = status == KOLO_OK;
    for (int r = 0; r < ranks->size; r++) agreed = agreed && all[r] == mine;
    if (trainer->overlap) trainer->overlap->agreed = agreed;
    free(all);
    return status;
}

/* Whether this rank can. */
static bool is_possible(const kolo_trainer *trainer)
{
    const kolo_model *model = trainer->model;
    bool together = trainer->weight_placement == KOLO_WEIGHTS_SHARED || trainer->count == 1;
    bool synchronous = kolo_model_strategy(model)->sums_every_step && !trainer->workers && together;
    bool at_once = model->backend->streams->steps_ahead == 0 && trainer->replicas[0].engine->context_count == 1;
    bool by_allreduce = !model->settings.optimizer.comm && !kolo_replica_uses_adasum(&trainer->replicas[0]) &&
                        !trainer->replicas[0].tables;
    return kolo_model_distributed(model) && synchronous && at_once && by_allreduce && !model->settings.deterministic &&
           model->settings.optimizer.bucket_bytes != KOLO_NONE;
}

static kolo_status open_sums(kolo_overlap *overlap)
{
    size_t count = (size_t)overlap->buckets->count;
    overlap->sums = calloc(count, sizeof *overlap->sums);
    if (!overlap->sums) return kolo_fail_memory(count * sizeof *overlap->sums, "the buckets of gradients");
    for (int i = 0; i < overlap->buckets->count; i++) overlap->sums[i] = (bucket_sum){.overlap = overlap, .number = i};
    overlap->buckets->ready = start_bucket;
    overlap->buckets->owner = overlap;
    return KOLO_OK;
}

kolo_status kolo_overlap_open(kolo_trainer *trainer)
{
    if (!is_possible(trainer)) return KOLO_OK;
    int64_t bytes = trainer->model->settings.optimizer.bucket_bytes;
    kolo_buckets *buckets;
    KOLO_TRY(kolo_buckets_open(trainer->replicas[0].engine->program, bytes ? bytes : KOLO_BUCKET_BYTES, &buckets));
    if (!buckets) return KOLO_OK;
    kolo_overlap *made = calloc(1, sizeof *made);
    if (!made) {
        kolo_buckets_close(&buckets);
        return kolo_fail_memory(sizeof *made, "the buckets of gradients");
    }
    *made =
        (kolo_overlap){.replica = &trainer->replicas[0], .ranks = kolo_model_ranks(trainer->model), .buckets = buckets};
    kolo_status status = open_sums(made);
    for (int i = 0; i < trainer->running && status == KOLO_OK; i++)
        status = kolo_engine_use_buckets(trainer->replicas[i].engine, buckets);
    if (status == KOLO_OK) trainer->overlap = made;
    else kolo_overlap_close(&made);
    return status;
}

void kolo_overlap_close(kolo_overlap **overlap)
{
    kolo_overlap *closed = *overlap;
    *overlap = NULL;
    if (!closed) return;
    kolo_buckets_close(&closed->buckets);
    free(closed->sums);
    free(closed);
}
