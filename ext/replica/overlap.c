/* Sums over the group beside the backward pass: see overlap.h. */
#include "replica/overlap.h"
#include "replica/rank_sum.h"
#include "replica/second_stream.h"

#include <stdlib.h>

#include "comm/queue.h"
#include "core/clock.h"
#include "core/hash.h"
#include "runtime/runtime.h"

typedef struct bucket_sum {
    kolo_overlap *overlap;
    int number;
    bool started;
    kolo_request request;
} bucket_sum;

struct kolo_overlap {
    const kolo_buckets *cut; /* the buckets: these, or those of replica 0's second stream */
    bool agreed; /* all ranks have these buckets */
    bool on; /* in the current step */
    /* On the host's stream; with second streams these are NULL: */
    kolo_replica *replica; /* replica 0, whose arrays hold the process's gradient */
    kolo_comm *ranks;
    kolo_buckets *buckets;
    bucket_sum *sums; /* [buckets->count] */
};

/* ---------------------------------------------------------------- one bucket on the host's stream */

static const kolo_bucket *bucket_of(const kolo_overlap *overlap, int number)
{
    return &overlap->buckets->buckets[number];
}

static int64_t bytes_of(const kolo_bucket *bucket)
{
    return bucket->count * (int64_t)sizeof(float);
}

static kolo_status sum_bucket(kolo_comm *ranks, void *argument)
{
    const bucket_sum *sum = argument;
    const kolo_bucket *bucket = bucket_of(sum->overlap, sum->number);
    kolo_replica *replica = sum->overlap->replica;
    kolo_timeline_set_step(replica->timeline_step);
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(kolo_replica_sum_part(replica, ranks, bucket->first, bucket->first + bucket->count));
    kolo_timeline_end_with(begun, KOLO_SPAN_REDUCE, "sum bucket", sum->number, bytes_of(bucket));
    return KOLO_OK;
}

/* Runs in the lane that has completed the bucket. */
static kolo_status start_bucket(void *owner, int number)
{
    kolo_overlap *overlap = owner;
    bucket_sum *sum = &overlap->sums[number];
    const kolo_bucket *bucket = bucket_of(overlap, number);
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(kolo_buckets_unpack(overlap->buckets, number, overlap->replica->arrays.gradient));
    kolo_timeline_end_with(begun, KOLO_SPAN_PACK, "bucket", number, bytes_of(bucket));
    KOLO_TRY(kolo_replica_add_accumulated(overlap->replica, bucket->first, bucket->count));
    if (number == overlap->buckets->count - 1) return KOLO_OK; /* kolo_overlap_finish() sums it */
    KOLO_TRY(kolo_request_start(overlap->ranks, &sum->request, sum_bucket, sum));
    sum->started = true;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- a step */

static void for_each_second(kolo_trainer *trainer, void (*body)(kolo_replica *replica))
{
    for (int i = 0; i < trainer->running; i++)
        if (trainer->replicas[i].second) body(&trainer->replicas[i]);
}

int kolo_overlap_buckets(const kolo_trainer *trainer)
{
    return trainer->overlap && trainer->overlap->agreed ? trainer->overlap->cut->count : 0;
}

bool kolo_overlap_is_on(const kolo_trainer *trainer)
{
    return trainer->overlap && trainer->overlap->on;
}

void kolo_overlap_begin(kolo_trainer *trainer)
{
    kolo_overlap *overlap = trainer->overlap;
    if (!overlap) return;
    overlap->on = overlap->agreed && kolo_replica_completes(&trainer->replicas[0]);
    for (int i = 0; i < trainer->running; i++) trainer->replicas[i].engine->in_buckets = overlap->on;
    if (!overlap->on) return;
    int64_t all = trainer->batch_microbatches;
    if (overlap->sums)
        kolo_buckets_begin(overlap->buckets, all, kolo_replica_microbatches(overlap->replica, trainer->count, all));
    else for_each_second(trainer, kolo_second_stream_begin);
}

/* Waits for all sums in the queue that were started, also after a failure. Returns the first failure. */
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

static kolo_status finish_in_queue(kolo_overlap *overlap)
{
    kolo_timings *timings = &overlap->replica->timings;
    bucket_sum *last = &overlap->sums[overlap->buckets->count - 1];
    double started = kolo_now();
    overlap->replica->collected = true;
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(wait_for_sums(overlap));
    kolo_timeline_end(begun, KOLO_SPAN_WAIT, "buckets");
    double waited = kolo_now();
    kolo_status status = sum_bucket(overlap->ranks, last);
    timings->communication += kolo_now() - waited;
    timings->exposed += kolo_now() - started;
    return status;
}

kolo_status kolo_overlap_finish(kolo_replica *replica)
{
    return replica->second ? kolo_second_stream_sum(replica) : finish_in_queue(replica->trainer->overlap);
}

/* What second streams have begun ends when the groups are closed. */
void kolo_overlap_abandon(kolo_trainer *trainer)
{
    kolo_overlap *overlap = trainer->overlap;
    if (!kolo_overlap_is_on(trainer)) return;
    overlap->on = false;
    if (!overlap->sums) return;
    kolo_failure failure = kolo_failure_take();
    kolo_comm_queue_drop(overlap->ranks);
    wait_for_sums(overlap);
    kolo_failure_take();
    if (failure.code != KOLO_OK) kolo_failure_give(&failure);
}

/* A failure stays with the stream, which reports it again. */
void kolo_overlap_read_times(kolo_trainer *trainer)
{
    kolo_failure before = kolo_failure_take();
    for (int i = 0; i < trainer->running; i++) kolo_second_stream_read_times(&trainer->replicas[i]);
    kolo_failure_take();
    if (before.code != KOLO_OK) kolo_failure_give(&before);
}

/* ---------------------------------------------------------------- opening and closing */

uint64_t kolo_overlap_digest(const kolo_trainer *trainer)
{
    const kolo_overlap *overlap = trainer->overlap;
    if (!overlap) return 0;
    uint64_t hash = KOLO_HASH_START;
    for (int i = 0; i < overlap->cut->count; i++)
        hash = kolo_hash_add(hash, &overlap->cut->buckets[i].first, sizeof overlap->cut->buckets[i].first);
    return hash | 1;
}

kolo_status kolo_all_have(kolo_comm *ranks, uint64_t mine, bool *same)
{
    uint64_t *all = calloc((size_t)ranks->size, sizeof *all);
    *same = false;
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' settings");
    kolo_status status = ranks->kind->allgather(ranks, &mine, sizeof mine, all);
    *same = status == KOLO_OK;
    for (int r = 0; r < ranks->size; r++) *same = *same && all[r] == mine;
    free(all);
    return status;
}

kolo_status kolo_overlap_agree(kolo_trainer *trainer)
{
    kolo_comm *ranks = kolo_model_ranks(trainer->model);
    if (trainer->overlap) trainer->overlap->agreed = true;
    if (ranks->size == 1 || trainer->workers) return KOLO_OK;
    bool agreed;
    kolo_status status = kolo_all_have(ranks, kolo_overlap_digest(trainer), &agreed);
    if (trainer->overlap) trainer->overlap->agreed = agreed;
    return status;
}

static bool is_enqueued(const kolo_trainer *trainer)
{
    return trainer->model->backend->streams->steps_ahead > 0;
}

/* Why the replicas of this rank cannot; NULL: they can. With second streams each sums its own gradient over the group,
 * otherwise one sums that of all over the ranks. */
static const char *obstacle_of_replicas(const kolo_trainer *trainer)
{
    const kolo_model *model = trainer->model;
    bool distributed = kolo_model_distributed(model), enqueued = is_enqueued(trainer);
    if (!distributed && (!enqueued || trainer->count == 1)) return "no other rank trains along";
    if (!enqueued)
        return trainer->weight_placement == KOLO_WEIGHTS_SHARED || trainer->count == 1
                   ? NULL
                   : "each device of a rank keeps its own weights";
    if (trainer->weight_placement != KOLO_WEIGHTS_COPIED) return "devices share their weights";
    if (kolo_program_reduces_over_group(trainer->replicas[0].engine->program))
        return "layers that are .synchronized sum over the devices, too";
    bool compresses = distributed && model->settings.optimizer.compression != KOLO_COMPRESSION_NONE;
    return compresses ? "gradients are compressed" : NULL;
}

const char *kolo_overlap_obstacle(const kolo_trainer *trainer)
{
    const kolo_model *model = trainer->model;
    const kolo_replica *first = &trainer->replicas[0];
    if (!kolo_model_strategy(model)->sums_every_step || trainer->workers)
        return "the strategy does not sum the gradients in every step";
    if (model->settings.deterministic) return "in deterministic mode gradients are summed in one piece";
    if (first->engine->context_count != 1) return "the model is placed on several devices";
    if (model->settings.optimizer.comm) return "the program's own .comm sums the gradients";
    if (kolo_replica_uses_adasum(first)) return "Adasum combines gradients in one piece";
    if (first->tables) return "embeddings are summed by rows";
    return obstacle_of_replicas(trainer);
}

static int64_t bucket_bytes(const kolo_trainer *trainer)
{
    return trainer->bucket_bytes ? trainer->bucket_bytes : trainer->model->settings.optimizer.bucket_bytes;
}

static bool is_wanted(const kolo_trainer *trainer)
{
    int64_t bytes = bucket_bytes(trainer);
    if (bytes != 0) return bytes != KOLO_NONE;
    return is_enqueued(trainer) || !kolo_ranks_share_cores();
}

/* ---------------------------------------------------------------- on the host's stream */

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

static kolo_status open_in_queue(kolo_trainer *trainer, int64_t bytes, kolo_overlap *overlap)
{
    kolo_replica *first = overlap->replica = &trainer->replicas[0];
    overlap->ranks = kolo_model_ranks(trainer->model);
    KOLO_TRY(kolo_buckets_open(first->engine->program, bytes ? bytes : KOLO_BUCKET_BYTES, &overlap->buckets));
    overlap->cut = overlap->buckets;
    if (!overlap->buckets) return KOLO_OK;
    KOLO_TRY(open_sums(overlap));
    for (int i = 0; i < trainer->running; i++)
        KOLO_TRY(kolo_engine_use_buckets(trainer->replicas[i].engine, overlap->buckets));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- with second streams */

static kolo_status open_seconds(kolo_trainer *trainer, int64_t bytes, kolo_overlap *overlap)
{
    for (int i = 0; i < trainer->running; i++) KOLO_TRY(kolo_second_stream_open(&trainer->replicas[i], bytes));
    overlap->cut = kolo_second_stream_buckets(&trainer->replicas[0]);
    return KOLO_OK;
}

/* ---------------------------------------------------------------- both */

kolo_status kolo_overlap_open(kolo_trainer *trainer)
{
    if (kolo_overlap_obstacle(trainer) || !is_wanted(trainer)) return KOLO_OK;
    int64_t bytes = bucket_bytes(trainer);
    kolo_overlap *made = trainer->overlap = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the buckets of gradients");
    kolo_status status =
        is_enqueued(trainer) ? open_seconds(trainer, bytes, made) : open_in_queue(trainer, bytes, made);
    if (status != KOLO_OK || !made->cut) kolo_overlap_close(trainer);
    return status;
}

void kolo_overlap_close(kolo_trainer *trainer)
{
    kolo_overlap *closed = trainer->overlap;
    trainer->overlap = NULL;
    if (!closed) return;
    for (int i = 0; closed->buckets && i < trainer->running; i++)
        if (trainer->replicas[i].engine) kolo_engine_use_no_buckets(trainer->replicas[i].engine);
    for_each_second(trainer, kolo_second_stream_close);
    kolo_buckets_close(&closed->buckets);
    free(closed->sums);
    free(closed);
}

kolo_status kolo_overlap_reopen(kolo_trainer *trainer, int64_t bytes)
{
    kolo_overlap_close(trainer);
    trainer->bucket_bytes = bytes;
    return kolo_overlap_open(trainer);
}
