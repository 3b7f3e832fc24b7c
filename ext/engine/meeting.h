/* Where leaves meet: what they brought is added up. See engine/pipeline.h. */
#ifndef KOLO_ENGINE_MEETING_H
#define KOLO_ENGINE_MEETING_H

#include "engine/engine.h"

/* Memory for it, kept from step to step; all zeros at first. */
typedef struct kolo_meeting {
    double *mine, *all;
    size_t mine_bytes, all_bytes;
    size_t *parts; /* [2][group size] */
} kolo_meeting;

/* Where a leaf of the share has its partial sums. */
typedef struct kolo_brought {
    const double *(*of)(void *argument, int64_t leaf);
    void *argument;
} kolo_brought;

/* sum[count] of the share's leaves, or across its group. Always in the order of the leaves' numbers within a share;
 * across a group that is to be deterministic in that of all leaves of the batch. */
kolo_status kolo_meeting_sum(kolo_meeting *meeting, const kolo_share *share, bool across, kolo_brought brought,
                             int64_t count, double *sum);
void kolo_meeting_close(kolo_meeting *meeting);

#endif
