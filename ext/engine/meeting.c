/* Sums over microbatches: see meeting.h. */
#include "engine/meeting.h"

#include <stdlib.h>
#include <string.h>

static void add(double *sum, const double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) sum[i] += values[i];
}

static kolo_status grow(double **memory, size_t *bytes, int64_t count)
{
    size_t wanted = (size_t)(count + 1) * sizeof **memory;
    if (wanted <= *bytes) return KOLO_OK;
    double *grown = realloc(*memory, wanted);
    if (!grown) return kolo_fail_memory(wanted, "sums over the microbatches");
    *memory = grown;
    *bytes = wanted;
    return KOLO_OK;
}

static void add_shard(const kolo_shard *shard, kolo_brought brought, int64_t count, double *sum)
{
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t microbatch = shard->first_microbatch; microbatch < shard->end_microbatch; microbatch++)
        add(sum, brought.of(brought.argument, microbatch), count);
}

/* What every microbatch of the batch brought, to every member, which adds it up in the same order: a sum of sums would
 * depend on who had which microbatches. */
static kolo_status add_batch(kolo_meeting *meeting, const kolo_shard *shard, kolo_brought brought, int64_t count,
                             double *sum)
{
    kolo_comm *group = shard->group;
    int64_t microbatches = kolo_batch_microbatches(shard->batch),
            mine = shard->end_microbatch - shard->first_microbatch;
    KOLO_TRY(grow(&meeting->mine, &meeting->mine_bytes, mine * count));
    KOLO_TRY(grow(&meeting->all, &meeting->all_bytes, microbatches * count));
    if (!meeting->parts) meeting->parts = calloc((size_t)group->size * 2, sizeof *meeting->parts);
    if (!meeting->parts) return kolo_fail_memory((size_t)group->size, "sums over the microbatches");
    size_t row = (size_t)count * sizeof *sum, *bytes = meeting->parts, *offsets = bytes + group->size;
    for (int64_t i = 0; i < mine; i++)
        memcpy(meeting->mine + i * count, brought.of(brought.argument, shard->first_microbatch + i), row);
    for (int member = 0; member < group->size; member++) {
        int64_t first = kolo_shard_begin(microbatches, member, group->size, shard->rest_last);
        offsets[member] = (size_t)first * row;
        bytes[member] =
            (size_t)(kolo_shard_begin(microbatches, member + 1, group->size, shard->rest_last) - first) * row;
    }
    KOLO_TRY(group->kind->allgatherv(group, meeting->mine, meeting->all, bytes, offsets));
    memset(sum, 0, row);
    for (int64_t microbatch = 0; microbatch < microbatches; microbatch++)
        add(sum, meeting->all + microbatch * count, count);
    return KOLO_OK;
}

kolo_status kolo_meeting_sum(kolo_meeting *meeting, const kolo_shard *shard, bool across, kolo_brought brought,
                             int64_t count, double *sum)
{
    bool others = across && shard->group && shard->group->size > 1;
    if (others && shard->deterministic) return add_batch(meeting, shard, brought, count, sum);
    add_shard(shard, brought, count, sum);
    return others ? shard->group->kind->allreduce(shard->group, sum, count, KOLO_TYPE_DOUBLE) : KOLO_OK;
}

void kolo_meeting_close(kolo_meeting *meeting)
{
    free(meeting->mine);
    free(meeting->all);
    free(meeting->parts);
}
