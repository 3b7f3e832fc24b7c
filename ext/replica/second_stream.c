/* Sums of buckets on a stream of their own: see second_stream.h. */
#include "replica/second_stream.h"

#include <stdlib.h>

#include "backend/staged_comm.h"

#define GRAPHS_WANTED 4 /* of a captured step: each costs a launch, and the last bucket cannot be hidden */

/* When the sums of a step ran. */
typedef struct sum_times {
    bool pending; /* they were recorded, and have not been read */
    kolo_event *computed; /* of the first stream, behind the backward pass */
    kolo_event **begun, **done; /* [buckets->count], of the second stream */
} sum_times;

struct kolo_second_stream {
    kolo_stream *stream;
    kolo_comm *comm; /* sums over the group on this stream; NULL: not open yet */
    kolo_buckets *buckets;
    sum_times times[KOLO_STEPS_AHEAD]; /* of the newest steps, since the host may be so many steps ahead */
    kolo_event **events; /* [2 * KOLO_STEPS_AHEAD * buckets->count], the arrays of all times */
    int64_t steps; /* whose sums were enqueued */
};

/* ---------------------------------------------------------------- one bucket */

/* Called where the backward pass has enqueued the last work of a bucket. The last bucket ends with the pass. */
static kolo_status end_bucket(void *owner, int number)
{
    kolo_replica *replica = owner;
    kolo_buckets *buckets = replica->second->buckets;
    KOLO_TRY(kolo_buckets_unpack(buckets, number, replica->arrays.gradient));
    KOLO_TRY(kolo_replica_add_accumulated(replica, buckets->buckets[number].first, buckets->buckets[number].count));
    return number < buckets->count - 1 ? kolo_engine_end_bucket(replica->engine, number) : KOLO_OK;
}

/* The second stream comes to the sum when the first one has come to the end of the bucket. */
static kolo_status sum_bucket(kolo_replica *replica, int number, sum_times *times)
{
    kolo_second_stream *second = replica->second;
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    const kolo_bucket *bucket = &second->buckets->buckets[number];
    bool last = number == second->buckets->count - 1;
    kolo_event *complete = last ? times->computed : replica->engine->bucket_events[number];
    KOLO_TRY(streams->wait_event(second->stream, complete));
    KOLO_TRY(streams->record_time(second->stream, &times->begun[number]));
    KOLO_TRY(second->comm->kind->allreduce(second->comm, replica->arrays.gradient + bucket->first, bucket->count,
                                           KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM));
    return streams->record_time(second->stream, &times->done[number]);
}

/* ---------------------------------------------------------------- times */

/* The device has nothing else to do from the end of the backward pass to the end of the last sum. */
static kolo_status read_times(kolo_replica *replica, sum_times *times)
{
    const kolo_second_stream *second = replica->second;
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    int count = second->buckets->count;
    double seconds;
    if (!times->pending) return KOLO_OK;
    times->pending = false;
    if (!kolo_model_distributed(replica->trainer->model)) return KOLO_OK; /* timings count sums over ranks */
    for (int i = 0; i < count; i++) {
        KOLO_TRY(streams->elapsed(second->stream, times->begun[i], times->done[i], &seconds));
        replica->timings.communication += seconds;
    }
    KOLO_TRY(streams->elapsed(second->stream, times->computed, times->done[count - 1], &seconds));
    replica->timings.exposed += seconds;
    return KOLO_OK;
}

kolo_status kolo_second_stream_read_times(kolo_replica *replica)
{
    for (int i = 0; replica->second && i < KOLO_STEPS_AHEAD; i++)
        KOLO_TRY(read_times(replica, &replica->second->times[i]));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- a step */

void kolo_second_stream_begin(kolo_replica *replica)
{
    int64_t all = replica->trainer->batch_microbatches;
    kolo_buckets_begin(replica->second->buckets, all, kolo_replica_microbatches(replica, 1, all));
}

static kolo_status open_comm(kolo_replica *replica)
{
    kolo_second_stream *second = replica->second;
    if (second->comm) return KOLO_OK;
    KOLO_TRY(kolo_replica_join(replica));
    return kolo_comm_open_beside(kolo_replica_streams(replica), second->stream, replica->comm, &second->comm);
}

/* The times of the step KOLO_STEPS_AHEAD steps ago are read first: the host does not wait for newer ones. */
kolo_status kolo_second_stream_sum(kolo_replica *replica)
{
    kolo_second_stream *second = replica->second;
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    sum_times *times = &second->times[second->steps % KOLO_STEPS_AHEAD];
    int count = second->buckets->count;
    KOLO_TRY(open_comm(replica));
    KOLO_TRY(read_times(replica, times));
    replica->collected = true;
    KOLO_TRY(streams->record_time(replica->stream, &times->computed));
    for (int i = 0; i < count; i++) KOLO_TRY(sum_bucket(replica, i, times));
    KOLO_TRY(streams->wait_event(replica->stream, times->done[count - 1]));
    times->pending = true;
    second->steps++;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- opening and closing */

const kolo_buckets *kolo_second_stream_buckets(const kolo_replica *replica)
{
    return replica->second ? replica->second->buckets : NULL;
}

void kolo_second_stream_leave(kolo_replica *replica)
{
    kolo_second_stream *second = replica->second;
    if (!second || !second->comm) return;
    second->comm->kind->close(second->comm);
    second->comm = NULL;
    for (int i = 0; i < KOLO_STEPS_AHEAD; i++) second->times[i].pending = false; /* its sums may have been called off */
}

static int64_t bytes_of(const kolo_replica *replica, int64_t wanted)
{
    int64_t quarter =
        (replica->trainer->model->weight_count * (int64_t)sizeof(float) + GRAPHS_WANTED - 1) / GRAPHS_WANTED;
    if (wanted > 0) return wanted;
    return quarter > KOLO_BUCKET_BYTES ? quarter : KOLO_BUCKET_BYTES;
}

static kolo_status open_times(kolo_second_stream *second)
{
    size_t count = (size_t)second->buckets->count, all = 2 * KOLO_STEPS_AHEAD * count;
    second->events = calloc(all, sizeof *second->events);
    if (!second->events) return kolo_fail_memory(all * sizeof *second->events, "the times of sums");
    for (size_t i = 0; i < KOLO_STEPS_AHEAD; i++)
        second->times[i] =
            (sum_times){.begun = second->events + 2 * i * count, .done = second->events + (2 * i + 1) * count};
    return KOLO_OK;
}

static kolo_status open_second(kolo_replica *replica)
{
    kolo_second_stream *second = replica->second;
    const kolo_program *program = replica->engine->program;
    const kolo_stream_place place = {.backend = program->backend, .device = program->plan.device_number, .threads = 1};
    second->buckets->ready = end_bucket;
    second->buckets->owner = replica;
    KOLO_TRY(open_times(second));
    KOLO_TRY(kolo_replica_streams(replica)->open(&place, &second->stream));
    return kolo_engine_use_buckets(replica->engine, second->buckets);
}

kolo_status kolo_second_stream_open(kolo_replica *replica, int64_t bytes)
{
    kolo_buckets *buckets;
    KOLO_TRY(kolo_buckets_open(replica->engine->program, bytes_of(replica, bytes), &buckets));
    if (!buckets) return KOLO_OK;
    kolo_second_stream *made = replica->second = calloc(1, sizeof *made);
    if (!made) {
        kolo_buckets_close(&buckets);
        return kolo_fail_memory(sizeof *made, "a second stream");
    }
    made->buckets = buckets;
    kolo_status status = open_second(replica);
    if (status != KOLO_OK) kolo_second_stream_close(replica);
    return status;
}

static void close_times(kolo_replica *replica)
{
    kolo_second_stream *second = replica->second;
    const kolo_stream_kind *streams = kolo_replica_streams(replica);
    for (int i = 0; i < KOLO_STEPS_AHEAD; i++) streams->free_event(replica->stream, second->times[i].computed);
    for (int i = 0; second->events && i < 2 * KOLO_STEPS_AHEAD * second->buckets->count; i++)
        streams->free_event(second->stream, second->events[i]);
    free(second->events);
}

/* The stream's last work may still read arrays of the replica, so it is closed before these. */
void kolo_second_stream_close(kolo_replica *replica)
{
    kolo_second_stream *second = replica->second;
    if (!second) return;
    kolo_second_stream_leave(replica);
    if (second->stream) close_times(replica);
    else free(second->events);
    kolo_replica_streams(replica)->close(&second->stream);
    kolo_buckets_close(&second->buckets);
    free(second);
    replica->second = NULL;
}
