/* Where microbatches meet: what they brought is added up. See engine/pipeline.h. */
#ifndef KOLO_ENGINE_MEETING_H
#define KOLO_ENGINE_MEETING_H

#include "engine/engine.h"

/* Memory for it, kept from step to step; all zeros at first. */
typedef struct kolo_meeting {
    double *mine, *all;
    size_t mine_bytes, all_bytes;
    size_t *parts; /* [2][group size] */
} kolo_meeting;

/* Where a microbatch of the shard has its partial sums. */
typedef struct kolo_brought {
    const double *(*of)(void *argument, int64_t microbatch);
    void *argument;
} kolo_brought;

/* sum[count] of the shard's microbatches, or across its group. Always in the order of the microbatches' numbers within
 * a shard; across a group that is to be deterministic in that of all microbatches of the batch. */
kolo_status kolo_meeting_sum(kolo_meeting *meeting, const kolo_shard *shard, bool across, kolo_brought brought,
                             int64_t count, double *sum);
void kolo_meeting_close(kolo_meeting *meeting);

#endif
