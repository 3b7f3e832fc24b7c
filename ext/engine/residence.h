/* Samples where an accelerator can reach them: a data set that lies on the device for as long as it is trained with, or
 * the samples of one share at a time, gathered on the host and copied before the share is computed.
 *
 * Read backend/accelerator.h first: kolo_sources is what this fills in. */
#ifndef KOLO_ENGINE_RESIDENCE_H
#define KOLO_ENGINE_RESIDENCE_H

#include "data/feed.h"
#include "engine/program.h"

typedef struct kolo_share kolo_share;

typedef struct kolo_residence {
    const kolo_program *program;
    const kolo_data *data; /* whose samples they are; NULL: nobody's yet */
    bool staged; /* they come share by share */
    bool ordered; /* and go by sources.order */
    kolo_sources sources; /* the device's arrays */
    int64_t room; /* samples that there is memory for, staged */
    int32_t *order; /* the device's [order_room]: what sources.order is, when there is one */
    int64_t order_room;
    const int32_t *host_order; /* of an epoch, whose copy that is; NULL: of one share */
    int64_t order_count;
    char *block; /* the device's memory */
    char *host; /* staged: the same on the host, for copies */
    kolo_mark *copied; /* when the host's is free again */
    int64_t version; /* another whenever the device's arrays are others: recordings have them built in */
} kolo_residence;

void kolo_residence_close(kolo_residence *residence); /* takes one of all zeros */

/* From now on the samples are those of `data`. Before the first share, and whenever the data may be others. */
kolo_status kolo_residence_attach(kolo_residence *residence, const kolo_program *program, const kolo_data *data);
/* An epoch's order: batches whose order is a part of it need no copy of their own. order NULL: as they stand. */
kolo_status kolo_residence_order(kolo_residence *residence, const int32_t *order, int64_t count);
/* Before the share is computed: its samples are there. moment->first is set so that sample b of the batch is number
 * moment->first + b. */
kolo_status kolo_residence_bring(kolo_residence *residence, const kolo_share *share, kolo_moment *moment);

#endif
