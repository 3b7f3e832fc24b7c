/* Samples where an accelerator can reach them: a data set that lies on the device for as long as it is trained with, or
 * the samples of one share at a time, gathered on the host and copied, by a queue of their own, while the share before
 * is computed.
 *
 * Read backend/accelerator.h first: kolo_sources is what this fills in. */
#ifndef KOLO_ENGINE_RESIDENCE_H
#define KOLO_ENGINE_RESIDENCE_H

#include "data/feed.h"
#include "engine/program.h"

typedef struct kolo_share kolo_share;

#define KOLO_STAGES 2 /* one that is computed from, one that is filled */

/* Memory for one share, on both sides. */
typedef struct kolo_stage {
    char *host, *block;
    kolo_mark *copied, *computed; /* when the host's is free again; when the device's is */
} kolo_stage;

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
    char *block; /* resident: the device's memory */
    kolo_stage stages[KOLO_STAGES];
    int stage; /* that the share at hand is in; resident: 0 */
    int64_t shares; /* that were staged */
    kolo_queue *copier; /* which brings them; NULL: nothing was staged yet */
    int64_t version; /* another whenever the device's arrays are others: recordings have them built in */
} kolo_residence;

void kolo_residence_close(kolo_residence *residence); /* takes one of all zeros */

/* From now on the samples are those of `data`. Before the first share, and whenever the data may be others. wanted: so
 * many samples are taken until then; a few do not bring all of them to the device. */
kolo_status kolo_residence_attach(kolo_residence *residence, const kolo_program *program, const kolo_data *data,
                                  int64_t wanted);
/* An epoch's order: batches whose order is a part of it need no copy of their own. order NULL: as they stand. */
kolo_status kolo_residence_order(kolo_residence *residence, const int32_t *order, int64_t count);
/* Memory for shares and batches of so many samples. */
kolo_status kolo_residence_expect(kolo_residence *residence, int64_t share, int64_t batch);
/* Gives a data set's memory on the device back, if it lies there; false: it does not. */
bool kolo_residence_yield(kolo_residence *residence);
/* Before the share is computed: its samples are there. moment->first is set so that sample b of the batch is number
 * moment->first + b. */
kolo_status kolo_residence_bring(kolo_residence *residence, const kolo_share *share, kolo_moment *moment);
/* After the share was given to the queue: when that has come so far, its samples may make way. */
kolo_status kolo_residence_done(kolo_residence *residence);
#endif
