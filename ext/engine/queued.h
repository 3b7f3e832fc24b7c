/* An engine on an accelerator: one queue that works through leaves, one after the other; or of a model that is placed
 * on several devices, one for each (station.h).
 *
 * Read engine.h and backend/accelerator.h first. What a step does is recorded the first time and replayed from then on;
 * its loss and metrics are read when they have arrived, some steps later, unless somebody waits for them.
 */
#ifndef KOLO_ENGINE_QUEUED_H
#define KOLO_ENGINE_QUEUED_H

#include "engine/engine.h"
#include "engine/residence.h"
#include "engine/station.h"

#define KOLO_TURNS 4 /* recordings that are kept: of a full batch, of an epoch's last, … */

/* A node of the tree of sums, without totals. */
typedef struct kolo_queued_node {
    int level;
    int64_t index;
    float *gradient; /* the device's */
} kolo_queued_node;

/* A recorded share, and the sums that it leaves. */
typedef struct kolo_turn {
    int64_t first_leaf, end_leaf, leaves;
    bool ordered;
    int stage; /* as the residence has them; and the version */
    int64_t version; /* of it, */
    int64_t memory;  /* and of the frames and totals, that it has built in */
    bool given; /* once, without a recording: what a device does for the first time it may load, which is no work that
                   could be recorded */
    kolo_recording *recording; /* NULL: not yet, or what must not be recorded */
    kolo_recording *after;     /* of what a replica gives next, if it is the same every time: its own */
    kolo_queued_node *nodes;   /* [KOLO_FOLD_MOST] */
    int node_count;
    int64_t used; /* when: the oldest makes way */
} kolo_turn;

/* Totals on their way to the host. */
typedef struct kolo_arrival {
    bool comes; /* else nothing is on its way */
    kolo_mark *mark;
    int64_t first_leaf, end_leaf, leaves;
    char *totals; /* the host's [leaves of the share][stride], in arrivals_block */
} kolo_arrival;

struct kolo_queued {
    kolo_program *program;
    const kolo_accelerator *accelerator;
    kolo_station *stations; /* [station_count] */
    int station_count;
    kolo_queue *queue; /* home's, as the following are: */
    float *weights; /* canonical: what is packed, and what is read in place */
    kolo_moment *moment;
    int frame_count; /* of each station: one, or of a program of several segments one a leaf */
    kolo_mark **marks; /* [frame_count][segments + 1]: how far a leaf has come, for other stations */
    void *together; /* the accelerator's group, of homes; NULL: sums over other members are made on the host */
    int64_t meeting_room; /* leaves of a batch, for station->brought */
    int64_t memory; /* another whenever frames or totals lie elsewhere */
    kolo_residence residence;
    kolo_fold *fold; /* of gradients, for recordings; NULL: not trained */
    kolo_turn turns[KOLO_TURNS];
    kolo_moment *moments; /* the host's [KOLO_MOMENTS], from which it is copied */
    kolo_mark *copied[KOLO_MOMENTS];
    int64_t given; /* shares */
    kolo_arrival arrivals[KOLO_MOMENTS];
    char *arrivals_block; /* the host's [KOLO_MOMENTS][arrivals_room][totals_stride] */
    int64_t arrivals_room;
    bool by_hand; /* recordings failed: everything is given anew each time */
    int64_t arrived; /* shares whose totals were read */
    const kolo_update_job *penalised; /* whose penalty belongs to the losses of training; NULL: there is none */
    double penalty;                   /* of the share whose totals arrived last */
    kolo_scaling *scaling; /* the device's, which fills in training's moments; NULL: they come complete */
    kolo_scaling seen;     /* as it was when the share whose totals arrived last began */
    char *totals; /* the device's [totals_room][totals_stride]; behind those of a share its penalty,
                     and the scaling as it began */
    char *parts;  /* totals from each station that adds to losses, [part_count][totals_room][totals_stride] */
    int part_count; /* 0: there is but home */
    int64_t totals_room;
    size_t totals_stride;
};

/* On the devices of the process's replica of that number. */
kolo_status kolo_queued_open(const kolo_model *model, kolo_purpose purpose, int leaf, int replica,
                             kolo_queued **queued);
void kolo_queued_close(kolo_queued **queued); /* takes NULL */

/* Canonical weights of the host become the device's, and are packed. */
kolo_status kolo_queued_store(kolo_queued *queued, const float *weights);
/* From now on samples are these, in batches of at most so many, over all members; `wanted` of them until this is called
 * again. The same data set may be given again: it may hold others. Totals that have not arrived are forgotten. */
kolo_status kolo_queued_attach(kolo_queued *queued, const kolo_data *data, int64_t samples, int64_t wanted);
/* Memory for shares of so many leaves, so that none is taken while other devices are at work: that may wait for them,
 * and they for this one. Before kolo_queued_attach(), which sees what is left for the data set. */
kolo_status kolo_queued_reserve(kolo_queued *queued, int64_t leaves);

/* kolo_engine_run(): computes and waits. The data set is attached already. seconds: [operations], to which their times
 * are added; NULL: nobody looks. */
kolo_status kolo_queued_run(kolo_queued *queued, const kolo_share *share, kolo_fold *fold, double *seconds);

/* Whether some layer's leaves meet with those of other members. */
bool kolo_queued_meets_others(const kolo_program *program);
/* Training: gives the share to the queue and returns; the gradient is in turn->nodes when the queue has come so far.
 * numbers: of the update that follows, or NULL; with a scaling as that has them. */
kolo_status kolo_queued_give(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers,
                             kolo_turn **turn);
/* The update after the share given last takes these numbers instead. */
kolo_status kolo_queued_correct(kolo_queued *queued, const kolo_moment *numbers);
/* Totals of shares that were given, the oldest first, added to `totals` in the order of their leaves. wait: of all that
 * were given, else only of what has to make room. */
kolo_status kolo_queued_arrive(kolo_queued *queued, bool wait, kolo_totals *totals);
/* Those of the share given last, waited for, as nodes of the tree of sums without gradients: the same nodes as its
 * turn's. [KOLO_FOLD_MOST] */
kolo_status kolo_queued_last_totals(kolo_queued *queued, kolo_node *nodes, int *count);

/* ---- The parts of these, for each other. ---- */

/* A share at work. */
struct kolo_queued_job {
    kolo_queued *queued;
    const kolo_share *share;
    float **gradients; /* [leaves of the share], or NULL */
    double *seconds; /* of each operation; NULL: nobody looks */
};

/* A leaf's memory at a station. */
kolo_frame *kolo_queued_frame(const kolo_queued_job *job, int station, int64_t leaf);
/* Recordings are done without from now on, which the failure at hand is told as the reason of. */
void kolo_queued_give_by_hand(kolo_queued *queued);
/* Memory, the moment and the samples of the share are there; numbers as of kolo_queued_give(). */
kolo_status kolo_queued_prepare(kolo_queued *queued, const kolo_share *share, const kolo_moment *numbers);
/* All leaves through all segments; sums of losses are cleared first. Can be recorded, unless some meeting */
kolo_status kolo_queued_leaves(const kolo_queued_job *job);
/* (that operation) is with leaves of other members. */
bool kolo_queued_asks_others(const kolo_queued_job *job, int op);
/* queued_meeting.c: a KOLO_OP_MEET, where its sum lies, and memory for batches of so many samples. */
kolo_status kolo_queued_meet(const kolo_queued_job *job, int op);
void *kolo_queued_met(const kolo_station *station, int op);
kolo_status kolo_queued_reserve_meetings(kolo_queued *queued, int64_t samples);
/* Whether the share has but one leaf. */
bool kolo_queued_is_alone(const kolo_queued_job *job);
/* Of one leaf, from the host's memory. */
kolo_totals kolo_queued_totals(const kolo_queued *queued, const char *from);

#endif
