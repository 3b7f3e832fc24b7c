/* The engine: one program at work on the devices of a replica.
 *
 * It takes the microbatches of a shard through the segments of its program: shard.c. What it does is enqueued on the
 * streams of its devices (device_context.h), of which the host's does it at once in its threads, and a GPU's later. A
 * step of training is captured as a graph where the stream can (graph_cache.c), and its loss and metrics are read when
 * they have arrived (readback.c). Sums do not depend on who computed what: engine/reduction_tree.h.
 *
 * A replica has one to train with; scoring and predicting have one that uses all cores of the process.
 */
#ifndef KOLO_ENGINE_ENGINE_H
#define KOLO_ENGINE_ENGINE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "data/feed.h"
#include "engine/dataset_cache.h"
#include "engine/device_context.h"
#include "engine/reduction_tree.h"
#include "engine/program.h"
#include "engine/segment_sums.h"
#include "data/batch.h"

#define KOLO_GRAPHS 4 /* captured graphs that are kept: of a full batch, of an epoch's last, … */

typedef struct kolo_engine kolo_engine;

/* A run of microbatches of one batch. */
typedef struct kolo_shard {
    const kolo_data *data;
    const kolo_batch *batch;
    const kolo_staged *staged; /* where its samples are gathered already, or NULL */
    int64_t first_microbatch, end_microbatch;
    bool rest_last;     /* how microbatches are dealt: kolo_shard_begin() */
    uint64_t seed;      /* of dropout */
    double loss_scale;  /* of d loss / d outputs; 0: 1 */
    bool stoppable;     /* a requested stop ends it between microbatches, with KOLO_INTERRUPTED */
    float *outputs;     /* the host's [batch samples][outputs], or NULL */
    kolo_comm *group;   /* over whose members layers may sum (.synchronized); NULL: this one alone */
    bool deterministic; /* those sums have the same bits however large the group is */
} kolo_shard;

/* A node of the tree of sums, without totals. */
typedef struct kolo_gradient_node {
    int level;
    int64_t index;
    float *gradient; /* in the stream's memory */
} kolo_gradient_node;

/* A part of the program between two reductions or two devices, as one for_each() of its device's stream. */
typedef struct kolo_pipeline_stage {
    kolo_engine *engine;
    int context;
    int segment;        /* -1: none, where it only gathers or ends */
    bool gathers, ends; /* the microbatch's samples come first; its gradient and outputs are handed over last */
    kolo_event *event;  /* how far it has come, for the next stage on another device */
} kolo_pipeline_stage;

/* A captured step, and the sums that it microbatches. */
typedef struct kolo_graph_entry {
    int64_t first_microbatch, end_microbatch, microbatches;
    bool ordered; /* as the dataset cache has them, like the following two */
    int staging_buffer;
    int64_t version;
    int64_t memory; /* of the activations and totals that the graph has built in */
    bool given;     /* once without a capture: what a device does for the first time it may load */
    kolo_captured_graph *graph; /* NULL: not yet captured */
    kolo_captured_graph *after; /* of what a replica enqueues next, if it is the same every time: the replica's */
    kolo_gradient_node *nodes;  /* [KOLO_REDUCTION_MOST]; NULL: the entry is free */
    int node_count;
    int64_t used; /* when: the oldest makes way */
} kolo_graph_entry;

/* Totals on their way to the host. */
typedef struct kolo_arrival {
    bool comes; /* else nothing is on its way */
    kolo_event *event;
    int64_t first_microbatch, end_microbatch, microbatches;
    char *totals; /* the host's [microbatches of the shard + 1][stride], in arrivals_block */
} kolo_arrival;

struct kolo_engine {
    kolo_program *program;
    const kolo_stream_kind *streams;
    kolo_device_context *contexts; /* [context_count]; the first is home */
    int context_count;
    kolo_stream *stream; /* home's */
    bool borrows_stream; /* it is the replica's */
    const float *imported; /* the host's weights that home has imported; NULL: they are a replica's */
    kolo_pipeline_stage *stages;  /* [stage_count], as microbatches go through them */
    int stage_count;
    int group;           /* microbatches that go from stage to stage together */
    int slots;           /* activations of each context */
    float **gradients;   /* [slots] of microbatches that are on their way */
    const kolo_shard *shard; /* that is being enqueued, */
    kolo_reduction *tree;         /* where its gradients go; NULL: none are wanted */
    kolo_segment_sums segment_sums; /* of a program that reduces over microbatches */
    kolo_comm *comm; /* over the shard's group, for memory of home's stream: a replica's */

    char *totals; /* [totals_room][totals_stride]; behind those of a shard its penalty, and the scaling as it began */
    char *parts;  /* totals from each context that adds to losses in its own memory, [part_count] times as many */
    int part_count;
    int64_t totals_room, meeting_room;
    size_t totals_stride;
    int64_t memory; /* another whenever activations or totals lie elsewhere */

    kolo_step_parameters *step_parameters;  /* home's */
    kolo_step_parameters *parameter_ring; /* the host's [KOLO_STEPS_AHEAD], from which it is copied */
    kolo_event *copied[KOLO_STEPS_AHEAD];
    int64_t given, arrived; /* shares that were enqueued; whose totals were read */
    kolo_arrival arrivals[KOLO_STEPS_AHEAD];
    char *arrivals_block; /* the host's [KOLO_STEPS_AHEAD][arrivals_room][totals_stride] */
    int64_t arrivals_room;
    kolo_reduction *totals_tree; /* of the shard whose totals arrived last */
    const kolo_update_job *penalised; /* whose penalty belongs to the losses of training; NULL: there is none */
    double penalty;                   /* of the shard whose totals arrived last */
    kolo_scaling *scaling; /* which fills in training's step parameters; NULL: they come complete */
    kolo_scaling seen;     /* as it was when the shard whose totals arrived last began */

    kolo_graph_entry graphs[KOLO_GRAPHS];
    kolo_graph_entry *entry; /* of the shard that was enqueued last; NULL: its sums are in the tree */
    bool eager;              /* captures failed: everything is enqueued anew each time */
    kolo_dataset_cache cache;
    atomic_llong sliced_bytes, slicing_nanoseconds; /* its lanes' copying of samples, since it was opened */
};

/* ---- opening: engine.c ---- */

/* Where it computes. */
typedef struct kolo_engine_place {
    int threads;  /* of the host */
    sem_t *gate;  /* as kolo_stream_place has it */
    int replica;  /* its devices are those of the process's replica of that number: kolo_model_device() */
    kolo_stream *stream; /* home's, which outlives the engine; NULL: the engine opens one */
    const kolo_engine *packed; /* it reads the weights that this one has packed; NULL: its own */
} kolo_engine_place;
kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_engine_place place,
                             kolo_engine **engine);
void kolo_engine_close(kolo_engine **engine); /* takes NULL */

/* From now on every lane adds up what each operation takes it: contexts[…].seconds. */
kolo_status kolo_engine_time(kolo_engine *engine);
/* The sum of operation number op over all lanes. */
double kolo_engine_seconds(const kolo_engine *engine, int op);
/* Lanes of its first device. */
int kolo_engine_lanes(const kolo_engine *engine);
/* A block of gradients as the backend has them, into the host's canonical[weight_count]; waits. */
kolo_status kolo_engine_fetch_gradient(const kolo_engine *engine, const float *gradient, float *canonical);
/* A tree of sums for the gradients of this engine's microbatches. */
kolo_status kolo_engine_reduction(const kolo_engine *engine, kolo_reduction **reduction);

/* Canonical weights of the host, which must stay where they are until others are loaded, are packed. */
kolo_status kolo_engine_load(kolo_engine *engine, const float *weights);
/* Canonical weights in the memory of home's stream, which are packed by kolo_engine_pack() when they have changed. */
void kolo_engine_set_weights(kolo_engine *engine, const float *weights);
/* Packs a part of them, `part` of `parts`: engines that read one another's shard the work. */
kolo_status kolo_engine_pack(kolo_engine *engine, int part, int parts);
/* Home's packed weights have changed: the other devices get theirs. */
kolo_status kolo_engine_carry(kolo_engine *engine);

/* ---- memory: memory.c ---- */

/* Memory for shards of so many microbatches, so that none is taken while other devices are at work: that may wait for
 * them, and they for this one. Before kolo_engine_attach(), which sees what is left for the data set. */
kolo_status kolo_engine_reserve(kolo_engine *engine, int64_t microbatches);
/* From now on samples are of this data set, in batches of at most so many over all members; `wanted` of them until this
 * is called again. The same data set may be given again: it may hold others. Totals that have not arrived are
 * forgotten. */
kolo_status kolo_engine_attach(kolo_engine *engine, const kolo_data *data, int64_t samples, int64_t wanted);
void kolo_engine_close_memory(kolo_engine *engine);

/* ---- computing ---- */

/* compute.c. Computes the shard and waits; every microbatch's gradient and totals go into reduction (NULL: outputs
 * alone are wanted). The members of a group must call it for the same batch, also those with no microbatches. */
kolo_status kolo_engine_run(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction);
/* Its two parts: memory, and the samples where they can be reached; then the rest. */
kolo_status kolo_engine_bring(kolo_engine *engine, const kolo_shard *shard);
kolo_status kolo_engine_compute(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction);

/* step.c. Training: enqueues the shard; its gradients go into engine->tree. numbers: of the update that follows; with a
 * scaling as that has them. */
kolo_status kolo_engine_give(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers);
/* The sums that the shard given last left, [*count] in the order of their microbatches. Their memory is the tree's
 * again, but nothing takes it before the next shard. nodes: [KOLO_REDUCTION_MOST]. */
kolo_status kolo_engine_nodes(kolo_engine *engine, kolo_gradient_node *nodes, int *count);
/* The update after the shard given last takes these numbers instead. */
kolo_status kolo_engine_correct(kolo_engine *engine, const kolo_step_parameters *numbers);

/* readback.c. Adds to *totals those of shares that were given, the oldest first, each in the order of its microbatches,
 * with the penalty of each sample's loss. wait: of all that were given, else only of what has to make room. */
kolo_status kolo_engine_arrive(kolo_engine *engine, bool wait, kolo_totals *totals);

/* ---- the parts of these, for each other ---- */

/* shard.c: all microbatches of engine->shard through all stages. */
kolo_status kolo_engine_enqueue(kolo_engine *engine, const kolo_shard *shard);
/* cross_reduction.c: a KOLO_OP_REDUCE, operation number op; whether it is over other members, too; where its sum lies;
 * memory for batches of so many samples. */
kolo_status kolo_engine_reduce(kolo_engine *engine, int op);
bool kolo_engine_reduces_over_group(const kolo_engine *engine, const kolo_shard *shard, int op);
void *kolo_engine_reduced(const kolo_device_context *context, int op);
kolo_status kolo_engine_reserve_reductions(kolo_engine *engine, int64_t samples);
bool kolo_program_reduces_over_group(const kolo_program *program);
/* step.c: the shard's numbers reach the device, and its samples. */
kolo_status kolo_engine_prepare(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers);
/* readback.c: totals of the shard that was enqueued last are on their way; they go into a tree when they are there. */
kolo_status kolo_engine_send_totals(kolo_engine *engine, const kolo_shard *shard);
kolo_status kolo_engine_insert_arrived(kolo_engine *engine, bool wait, kolo_reduction *tree);
/* What stands behind the totals of a shard. */
typedef struct kolo_totals_extras {
    double penalty;
    kolo_scaling seen;
} kolo_totals_extras;
_Static_assert(sizeof(kolo_totals_extras) <= 64, "totals_stride is at least that");
kolo_totals_extras *kolo_engine_extras(const kolo_engine *engine, char *totals, int64_t microbatches);

/* graph_cache.c: enqueues the shard, or launches the graph that it was captured as. */
kolo_status kolo_engine_enqueue_or_launch(kolo_engine *engine, const kolo_shard *shard);
/* Captures are done without from now on; the failure at hand is the reason. */
void kolo_engine_turn_eager(kolo_engine *engine);
void kolo_engine_forget_graphs(kolo_engine *engine);

/* The microbatches' activations in a context. */
static inline kolo_activations *kolo_engine_frame(const kolo_engine *engine, int context, int slot)
{
    return engine->contexts[engine->program->memories > 1 ? context : 0].activation_sets[slot];
}

/* Whether the shard has but one microbatch: then sums over microbatches are what that one has. */
static inline bool kolo_share_is_single(const kolo_shard *shard)
{
    return shard->end_microbatch - shard->first_microbatch == 1;
}

/* Microbatches are dealt in contiguous runs: the first one of a member; of one past the last, all. As evenly as they
 * go, or by integer division with the rest to the last (rest_last). */
static inline int64_t kolo_shard_begin(int64_t microbatches, int member, int members, bool rest_last)
{
    if (rest_last) return member < members ? microbatches / members * member : microbatches;
    return microbatches * member / members;
}

/* Microbatches of a batch. */
static inline int64_t kolo_batch_microbatches(const kolo_batch *batch)
{
    return (batch->samples + batch->microbatch - 1) / batch->microbatch;
}

#endif
