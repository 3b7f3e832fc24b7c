/* Opens the feeds that bring samples to a trainer's replicas: see trainer.h and data/feed.h.
 *
 * A synchronous feed on the host needs no memory: each microbatch gathers its samples from the data set. A replica that
 * gets the whole batch (KOLO_SLICE_ON_DEVICE), or batches ahead of the step (.staging), has a feed of its own. A queue
 * or a staging buffer on the host is one feed for the process. */
#include "engine/engine.h"
#include "replica/overlap.h"

#define STAGED_BATCHES 2 /* staging buffers: one batch is computed while the next is staged */

/* Sets *part to the samples of replicas first … last of this process. It does not use the groups, because a failed step
 * opens them anew while the feeds' threads still run. */
static void part_of(const kolo_trainer *trainer, int first, int last, const kolo_batch *batch, kolo_staged *part)
{
    int64_t microbatches = kolo_batch_microbatches(batch);
    int before = kolo_model_first_member(trainer->model), all = kolo_model_members(trainer->model);
    bool rest_last = trainer->model->settings.strategy.last_takes_remainder;
    int64_t begin = kolo_shard_begin(microbatches, before + first, all, rest_last) * batch->microbatch;
    int64_t end = kolo_shard_begin(microbatches, before + last + 1, all, rest_last) * batch->microbatch;
    part->first = begin;
    part->samples = (end < batch->samples ? end : batch->samples) - begin;
    if (part->samples < 0) part->samples = 0; /* an empty shard begins behind the last sample */
}

static void part_of_process(const void *whose, const kolo_batch *batch, kolo_staged *part)
{
    const kolo_trainer *trainer = whose;
    part_of(trainer, 0, trainer->count - 1, batch, part);
}

static void part_of_replica(const void *whose, const kolo_batch *batch, kolo_staged *part)
{
    const kolo_replica *replica = whose;
    if (replica->trainer->model->settings.strategy.slicing == KOLO_SLICE_ON_DEVICE)
        part_of_process(replica->trainer, batch, part);
    else part_of(replica->trainer, replica->index, replica->index, batch, part);
}

static kolo_status open_feed(const kolo_trainer *trainer, kolo_feed_args args, kolo_feed **feed)
{
    const kolo_plan *plan = &trainer->replicas[0].engine->program->plan;
    args.data = trainer->data;
    args.stoppable = !kolo_model_distributed(trainer->model);
    args.labels = plan->labels;
    args.targets = plan->targets;
    args.weights = plan->weights;
    args.outputs = kolo_plan_outputs(plan);
    return kolo_feed_open(&args, feed);
}

/* Adds the number of bytes that the feed has copied to the timings, then closes it. */
static void close_feed(kolo_feed **feed, kolo_timings *timings)
{
    if (*feed) timings->sliced_bytes += kolo_feed_bytes(*feed);
    kolo_feed_close(feed);
}

void kolo_trainer_close_feeds(kolo_trainer *trainer)
{
    close_feed(&trainer->feed, &trainer->replicas[0].timings);
    for (int i = 0; i < trainer->count; i++) close_feed(&trainer->replicas[i].feed, &trainer->replicas[i].timings);
}

/* The number of staged batches, and of threads that fill them. */
static kolo_feed_args plan_feed(kolo_feeding feeding, int64_t room)
{
    bool queue = feeding.kind == KOLO_FEED_QUEUE;
    return (kolo_feed_args){
        .room = room, .capacity = queue ? feeding.capacity : STAGED_BATCHES, .threads = queue ? feeding.threads : 1};
}

static kolo_status open_device_feed(kolo_replica *replica, kolo_feeding feeding, int64_t samples)
{
    kolo_feed_args args = plan_feed(feeding, samples);
    if (!replica->trainer->model->settings.strategy.staging) args.capacity = 1, args.threads = 0;
    args.takers = 1;
    args.part = part_of_replica;
    args.whose = replica;
    return open_feed(replica->trainer, args, &replica->feed);
}

kolo_status kolo_trainer_open_feeds(kolo_trainer *trainer, kolo_feeding feeding, int64_t samples)
{
    const kolo_strategy *strategy = &trainer->model->settings.strategy;
    bool many = trainer->count > 1; /* with one replica the samples already are where it computes */
    kolo_trainer_close_feeds(trainer);
    if (many && (strategy->staging || strategy->slicing == KOLO_SLICE_ON_DEVICE))
        for (int i = 0; i < trainer->count; i++) KOLO_TRY(open_device_feed(&trainer->replicas[i], feeding, samples));
    if (feeding.kind <= KOLO_FEED_SYNCHRONOUS || (many && strategy->staging)) return KOLO_OK;
    kolo_feed_args args = plan_feed(feeding, samples);
    args.takers = trainer->running;
    args.part = part_of_process;
    args.whose = trainer;
    return open_feed(trainer, args, &trainer->feed);
}

kolo_status kolo_trainer_begin_feeds(kolo_trainer *trainer, const kolo_epoch_plan *plan, int number)
{
    for (int i = 0; i < trainer->running; i++)
        KOLO_TRY(kolo_dataset_cache_order(&trainer->replicas[i].engine->cache, plan->order, plan->samples));
    if (trainer->feed) KOLO_TRY(kolo_feed_begin(trainer->feed, plan, number));
    for (int i = 0; i < trainer->count; i++)
        if (trainer->replicas[i].feed) KOLO_TRY(kolo_feed_begin(trainer->replicas[i].feed, plan, number));
    return KOLO_OK;
}

void kolo_trainer_end_feeds(kolo_trainer *trainer)
{
    kolo_feed_end(trainer->feed);
    for (int i = 0; i < trainer->count; i++) kolo_feed_end(trainer->replicas[i].feed);
}

/* ---------------------------------------------------------------- timings */

/* The threads of a device copy at the same time, so their seconds are divided by their number. */
static double slicing_seconds(const kolo_replica *replica)
{
    double threads = 1e-9 * (double)atomic_load(&replica->engine->slicing_nanoseconds);
    return threads / replica->engine->contexts[0].lanes + replica->timings.slicing;
}

/* How many replicas call the all-reduces over the ranks: where they share the weights, replica 0 for all. */
static int ranks_callers(const kolo_trainer *trainer)
{
    return trainer->weight_placement == KOLO_WEIGHTS_SHARED ? 1 : trainer->running;
}

kolo_timings kolo_get_timings(const kolo_model *model)
{
    kolo_timings all = {0};
    kolo_trainer *trainer = model ? model->trainer : NULL;
    if (trainer) kolo_overlap_read_times(trainer);
    for (int i = 0; trainer && trainer->microbatch && i < trainer->running; i++) {
        const kolo_replica *replica = &trainer->replicas[i];
        all.slicing += slicing_seconds(replica) / trainer->running;
        all.compute += replica->timings.compute / trainer->running;
        all.waiting += replica->timings.waiting / trainer->running;
        all.reduce += replica->timings.reduce / trainer->running;
        all.update += replica->timings.update / trainer->running;
        all.communication += replica->timings.communication / ranks_callers(trainer);
        all.exposed += replica->timings.exposed / ranks_callers(trainer);
        all.sliced_bytes += atomic_load(&replica->engine->sliced_bytes) + replica->timings.sliced_bytes;
        if (replica->feed) all.sliced_bytes += kolo_feed_bytes(replica->feed);
        all.reduced_bytes += replica->timings.reduced_bytes * (trainer->count / trainer->running);
        all.updated_bytes += replica->timings.updated_bytes;
    }
    if (trainer && trainer->feed) all.sliced_bytes += kolo_feed_bytes(trainer->feed);
    if (trainer) all.steps = trainer->steps;
    return all;
}

void kolo_trainer_reset_timings(kolo_trainer *trainer)
{
    kolo_overlap_read_times(trainer);
    trainer->steps = 0;
    for (int i = 0; i < trainer->running; i++) {
        trainer->replicas[i].timings = (kolo_timings){0};
        atomic_store(&trainer->replicas[i].engine->sliced_bytes, 0);
        atomic_store(&trainer->replicas[i].engine->slicing_nanoseconds, 0);
    }
}
