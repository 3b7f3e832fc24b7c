/* An engine on an accelerator: one stream that works through microbatches, one after the other; or of a model that is
 * placed on several devices, one for each (station.h).
 *
 * Read engine.h and backend/accelerator.h first. What a step does is captured the first time and replayed from then on;
 * its loss and metrics are read when they have arrived, some steps later, unless somebody waits for them.
 */
#ifndef KOLO_ENGINE_QUEUED_H
#define KOLO_ENGINE_QUEUED_H

#include "engine/engine.h"
#include "engine/dataset_cache.h"
#include "engine/station.h"

#define KOLO_GRAPH_CACHE_ENTRIES 4 /* captured graphs that are kept: of a full batch, of an epoch's last, … */

/* A node of the tree of sums, without totals. */
typedef struct kolo_queued_node {
    int level;
    int64_t index;
    float *gradient; /* the device's */
} kolo_queued_node;

/* A captured shard, and the sums that it microbatches. */
typedef struct kolo_graph_entry {
    int64_t first_microbatch, end_microbatch, microbatches;
    bool ordered;
    int staging_buffer; /* as the dataset cache has them; and the version */
    int64_t version; /* of it, */
    int64_t memory;  /* and of the activations and totals, that it has built in */
    bool given; /* once, without a captured graph: what a device does for the first time it may load, which is no work
                   that could be captured */
    kolo_captured_graph *captured_graph; /* NULL: not yet, or what must not be captured */
    kolo_captured_graph *after;     /* of what a replica gives next, if it is the same every time: its own */
    kolo_queued_node *nodes;   /* [KOLO_REDUCTION_MOST] */
    int node_count;
    int64_t used; /* when: the oldest makes way */
} kolo_graph_entry;

/* Totals on their way to the host. */
typedef struct kolo_arrival {
    bool comes; /* else nothing is on its way */
    kolo_event *event;
    int64_t first_microbatch, end_microbatch, microbatches;
    char *totals; /* the host's [microbatches of the shard][stride], in arrivals_block */
} kolo_arrival;

struct kolo_queued {
    kolo_program *program;
    const kolo_accelerator *accelerator;
    kolo_station *stations; /* [station_count] */
    int station_count;
    kolo_stream *stream; /* home's, as the following are: */
    float *weights; /* canonical: what is packed, and what is read in place */
    kolo_step_parameters *step_parameters;
    int activation_set_count; /* of each station: one, or of a program of several segments one a microbatch */
    kolo_event **events; /* [activation_set_count][segments + 1]: how far a microbatch has come, for other stations */
    void *together; /* the accelerator's group, of homes; NULL: sums over other members are made on the host */
    int64_t meeting_room; /* microbatches of a batch, for station->brought */
    int64_t memory; /* another whenever activations or totals lie elsewhere */
    kolo_dataset_cache dataset_cache;
    kolo_reduction *reduction; /* of gradients, for captured graphs; NULL: not trained */
    kolo_graph_entry entries[KOLO_GRAPH_CACHE_ENTRIES];
    kolo_step_parameters *steps_ahead; /* the host's [KOLO_STEPS_AHEAD], from which it is copied */
    kolo_event *copied[KOLO_STEPS_AHEAD];
    int64_t given; /* shards */
    kolo_arrival arrivals[KOLO_STEPS_AHEAD];
    char *arrivals_block; /* the host's [KOLO_STEPS_AHEAD][arrivals_room][totals_stride] */
    int64_t arrivals_room;
    bool by_hand; /* captured graphs failed: everything is given anew each time */
    int64_t arrived; /* shards whose totals were read */
    const kolo_update_job *penalised; /* whose penalty belongs to the losses of training; NULL: there is none */
    double penalty;                   /* of the shard whose totals arrived last */
    kolo_scaling *scaling; /* the device's, which fills in training's step parameters; NULL: they come complete */
    kolo_scaling seen;     /* as it was when the shard whose totals arrived last began */
    char *totals; /* the device's [totals_room][totals_stride]; behind those of a shard its penalty,
                     and the scaling as it began */
    char *parts;  /* totals from each station that adds to losses, [part_count][totals_room][totals_stride] */
    int part_count; /* 0: there is but home */
    int64_t totals_room;
    size_t totals_stride;
};

/* On the devices of the process's replica of that number. */
kolo_status kolo_queued_open(const kolo_model *model, kolo_purpose purpose, int microbatch, int replica,
                             kolo_queued **queued);
void kolo_queued_close(kolo_queued **queued); /* takes NULL */

/* Canonical weights of the host become the device's, and are packed. */
kolo_status kolo_queued_store(kolo_queued *queued, const float *weights);
/* From now on samples are these, in batches of at most so many, over all members; `wanted` of them until this is called
 * again. The same data set may be given again: it may hold others. Totals that have not arrived are forgotten. */
kolo_status kolo_queued_attach(kolo_queued *queued, const kolo_data *data, int64_t samples, int64_t wanted);
/* Memory for shards of so many microbatches, so that none is taken while other devices are at work: that may wait for
 * them, and they for this one. Before kolo_queued_attach(), which sees what is left for the data set. */
kolo_status kolo_queued_reserve(kolo_queued *queued, int64_t microbatches);

/* kolo_engine_run(): computes and waits. The data set is attached already. seconds: [operations], to which their times
 * are added; NULL: nobody looks. */
kolo_status kolo_queued_run(kolo_queued *queued, const kolo_shard *shard, kolo_reduction *reduction, double *seconds);

/* Whether some layer's microbatches meet with those of other members. */
bool kolo_queued_meets_others(const kolo_program *program);
/* Training: gives the shard to the stream and returns; the gradient is in entry->nodes when the stream has come so far.
 * numbers: of the update that follows, or NULL; with a scaling as that has them. */
kolo_status kolo_queued_give(kolo_queued *queued, const kolo_shard *shard, const kolo_step_parameters *numbers,
                             kolo_graph_entry **entry);
/* The update after the shard given last takes these numbers instead. */
kolo_status kolo_queued_correct(kolo_queued *queued, const kolo_step_parameters *numbers);
/* Totals of shares that were given, the oldest first, added to `totals` in the order of their microbatches. wait: of
 * all that were given, else only of what has to make room. */
kolo_status kolo_queued_arrive(kolo_queued *queued, bool wait, kolo_totals *totals);
/* Those of the shard given last, waited for, as nodes of the tree of sums without gradients: the same nodes as its
 * entry's. [KOLO_REDUCTION_MOST] */
kolo_status kolo_queued_last_totals(kolo_queued *queued, kolo_node *nodes, int *count);

/* ---- The parts of these, for each other. ---- */

/* A shard at work. */
struct kolo_queued_job {
    kolo_queued *queued;
    const kolo_shard *shard;
    float **gradients; /* [microbatches of the shard], or NULL */
    double *seconds; /* of each operation; NULL: nobody looks */
};

/* A microbatch's memory at a station. */
kolo_activations *kolo_queued_activations(const kolo_queued_job *job, int station, int64_t microbatch);
/* Captured graphs are done without from now on, which the failure at hand is told as the reason of. */
void kolo_queued_give_by_hand(kolo_queued *queued);
/* Memory, the step parameters and the samples of the shard are there; numbers as of kolo_queued_give(). */
kolo_status kolo_queued_prepare(kolo_queued *queued, const kolo_shard *shard, const kolo_step_parameters *numbers);
/* All microbatches through all segments; sums of losses are cleared first. Can be captured, unless some meeting */
kolo_status kolo_queued_microbatches(const kolo_queued_job *job);
/* (that operation) is with microbatches of other members. */
bool kolo_queued_asks_others(const kolo_queued_job *job, int op);
/* queued_meeting.c: a KOLO_OP_REDUCE, where its sum lies, and memory for batches of so many samples. */
kolo_status kolo_queued_meet(const kolo_queued_job *job, int op);
void *kolo_queued_reduced(const kolo_station *station, int op);
kolo_status kolo_queued_reserve_meetings(kolo_queued *queued, int64_t samples);
/* Whether the shard has but one microbatch. */
bool kolo_queued_is_alone(const kolo_queued_job *job);
/* Of one microbatch, from the host's memory. */
kolo_totals kolo_queued_totals(const kolo_queued *queued, const char *from);

#endif
