/* Sums over leaves: see meeting.h. */
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
    if (!grown) return kolo_fail_memory(wanted, "sums over the leaves");
    *memory = grown;
    *bytes = wanted;
    return KOLO_OK;
}

static void add_share(const kolo_share *share, kolo_brought brought, int64_t count, double *sum)
{
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int64_t leaf = share->first_leaf; leaf < share->end_leaf; leaf++)
        add(sum, brought.of(brought.argument, leaf), count);
}

/* What every leaf of the batch brought, to every member, which adds it up in the same order: a sum of sums would depend
 * on who had which leaves. */
static kolo_status add_batch(kolo_meeting *meeting, const kolo_share *share, kolo_brought brought, int64_t count,
                             double *sum)
{
    kolo_comm *group = share->group;
    int64_t leaves = kolo_batch_leaves(share->batch), mine = share->end_leaf - share->first_leaf;
    KOLO_TRY(grow(&meeting->mine, &meeting->mine_bytes, mine * count));
    KOLO_TRY(grow(&meeting->all, &meeting->all_bytes, leaves * count));
    if (!meeting->parts) meeting->parts = calloc((size_t)group->size * 2, sizeof *meeting->parts);
    if (!meeting->parts) return kolo_fail_memory((size_t)group->size, "sums over the leaves");
    size_t row = (size_t)count * sizeof *sum, *bytes = meeting->parts, *offsets = bytes + group->size;
    for (int64_t i = 0; i < mine; i++)
        memcpy(meeting->mine + i * count, brought.of(brought.argument, share->first_leaf + i), row);
    for (int member = 0; member < group->size; member++) {
        int64_t first = kolo_share_begin(leaves, member, group->size, share->rest_last);
        offsets[member] = (size_t)first * row;
        bytes[member] = (size_t)(kolo_share_begin(leaves, member + 1, group->size, share->rest_last) - first) * row;
    }
    KOLO_TRY(group->kind->allgatherv(group, meeting->mine, meeting->all, bytes, offsets));
    memset(sum, 0, row);
    for (int64_t leaf = 0; leaf < leaves; leaf++) add(sum, meeting->all + leaf * count, count);
    return KOLO_OK;
}

kolo_status kolo_meeting_sum(kolo_meeting *meeting, const kolo_share *share, bool across, kolo_brought brought,
                             int64_t count, double *sum)
{
    bool others = across && share->group && share->group->size > 1;
    if (others && share->deterministic) return add_batch(meeting, share, brought, count, sum);
    add_share(share, brought, count, sum);
    return others ? share->group->kind->allreduce(share->group, sum, count, KOLO_TYPE_DOUBLE) : KOLO_OK;
}

void kolo_meeting_close(kolo_meeting *meeting)
{
    free(meeting->mine);
    free(meeting->all);
    free(meeting->parts);
}
