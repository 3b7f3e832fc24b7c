/* The engine: runs one program on the devices of a replica.
 *
 * shard.c takes the microbatches of a shard through the segments of the program. It enqueues their work on the streams
 * of the devices (device_context.h). The host's stream runs it at once in its threads, a GPU's stream later. A training
 * step is captured as a graph where the stream can capture (graph_cache.c). Loss and metrics are read back some steps
 * later (readback.c). Sums do not depend on which device computed which microbatch (reduction_tree.h).
 *
 * Each replica has an engine for training. Scoring and predicting use an engine that has all cores of the process.
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

#define KOLO_GRAPHS 4 /* entries of the graph cache: the full batch, the epoch's last batch, … */

typedef struct kolo_engine kolo_engine;

/* A contiguous run of microbatches of one batch. */
typedef struct kolo_shard {
    const kolo_data *data;
    const kolo_batch *batch;
    const kolo_staged *staged; /* its samples, if a feed has gathered them already; else NULL */
    int64_t first_microbatch, end_microbatch;
    bool rest_last;     /* how microbatches are dealt: kolo_shard_begin() */
    uint64_t seed;      /* for dropout */
    double loss_scale;  /* multiplies d loss / d outputs; 0 means 1 */
    bool stoppable;     /* a requested stop ends it between microbatches, with KOLO_INTERRUPTED */
    float *outputs;     /* [batch samples][outputs] on the host, to be filled in; or NULL */
    kolo_comm *group;   /* layers with .synchronized sum over its members; NULL: over this shard alone */
    bool deterministic; /* those sums have the same bits for any size of the group */
} kolo_shard;

/* A node of the reduction tree, without totals. */
typedef struct kolo_gradient_node {
    int level;
    int64_t index;
    float *gradient; /* in the stream's memory */
} kolo_gradient_node;

/* A stage of the pipeline: one segment, as one for_each() of its device's stream. */
typedef struct kolo_pipeline_stage {
    kolo_engine *engine;
    int context;
    int segment;        /* -1: it runs none, and only gathers samples or ends microbatches */
    bool gathers, ends; /* it gathers the samples first; it hands over the gradient and the outputs last */
    kolo_event *event;  /* recorded behind its work, for the next stage on another device */
} kolo_pipeline_stage;

/* An entry of the graph cache: a captured step, and the nodes in which it leaves its gradients. */
typedef struct kolo_graph_entry {
    int64_t first_microbatch, end_microbatch, microbatches;
    bool ordered; /* this and the next two members are those of the dataset cache when the step was captured */
    int staging_buffer;
    int64_t version;
    int64_t memory; /* engine->memory when the step was captured: the graph holds addresses */
    bool run_before; /* the step has run without a capture: a first run may load code, which a capture forbids */
    kolo_captured_graph *graph; /* NULL: not yet captured */
    kolo_captured_graph *after; /* of the work that the replica enqueues next, if that never changes; the replica's */
    kolo_gradient_node *nodes;  /* [KOLO_REDUCTION_MOST]; NULL: the entry is free */
    int node_count;
    int64_t used; /* engine->enqueued at its last use: the entry with the lowest is replaced */
} kolo_graph_entry;

/* The totals of one shard, which are being copied to the host. */
typedef struct kolo_readback {
    bool pending;      /* the copy is enqueued and has not been read */
    kolo_event *event; /* recorded behind the copy */
    int64_t first_microbatch, end_microbatch, microbatches;
    char *totals; /* [microbatches of the shard + 1][totals_stride] on the host, in readback_block */
} kolo_readback;

struct kolo_engine {
    kolo_program *program;
    const kolo_stream_kind *streams;
    kolo_device_context *contexts; /* [context_count]; the first is home */
    int context_count;
    kolo_stream *stream; /* home's */
    bool borrows_stream; /* home's stream belongs to the replica */
    const float *imported; /* the host's weights that home has imported; NULL: the weights are a replica's */
    kolo_pipeline_stage *stages;  /* [stage_count], in the order in which microbatches pass them */
    int stage_count;
    int group;           /* the number of microbatches that go from stage to stage together */
    int slots;           /* the number of microbatches for which each context has activations */
    float **gradients;   /* [slots], the gradient of the microbatch in each slot */
    const kolo_shard *shard; /* the shard that is being enqueued */
    kolo_reduction *tree;         /* takes the shard's gradients; NULL: none are wanted */
    kolo_segment_sums segment_sums; /* of a program that reduces over microbatches */
    kolo_comm *comm; /* over the shard's group, for memory of home's stream; it belongs to the replica */

    char *totals; /* [totals_room][totals_stride], at home; a kolo_totals_extras stands behind those of a shard */
    char *parts;  /* [part_count][totals_room][totals_stride]: totals of contexts that add in their own memory */
    int part_count;
    int64_t totals_room, reduction_room; /* in microbatches */
    size_t totals_stride; /* bytes */
    int64_t memory; /* changes whenever activations or totals move to other addresses */

    kolo_step_parameters *step_parameters;  /* home's */
    kolo_step_parameters *parameter_ring; /* [KOLO_STEPS_AHEAD] on the host; each step's are copied from here */
    kolo_event *copied[KOLO_STEPS_AHEAD]; /* recorded behind those copies */
    int64_t enqueued, read_back; /* the number of shards that were enqueued; of those whose totals were read */
    kolo_readback readbacks[KOLO_STEPS_AHEAD];
    char *readback_block; /* [KOLO_STEPS_AHEAD][readback_room][totals_stride] on the host */
    int64_t readback_room;
    kolo_reduction *totals_tree; /* adds up the totals of the shard that was read back last */
    const kolo_update_job *penalised; /* the job whose penalty is added to training's losses; NULL: there is none */
    double penalty;                   /* of the shard that was read back last */
    kolo_scaling *scaling; /* completes training's step parameters on the stream; NULL: they come complete */
    kolo_scaling seen;     /* its state when the shard that was read back last began */

    kolo_graph_entry graphs[KOLO_GRAPHS];
    kolo_graph_entry *entry; /* of the shard that was enqueued last; NULL: its gradients are in the tree */
    bool eager;              /* a capture has failed, so every step is enqueued anew */
    kolo_dataset_cache cache;
    atomic_llong sliced_bytes, slicing_nanoseconds; /* copied samples and the time it took, since it was opened */
};

/* ---- opening: engine.c ---- */

/* The options of kolo_engine_open(). */
typedef struct kolo_engine_place {
    int threads;  /* of the host */
    sem_t *gate;  /* see kolo_stream_place */
    int replica;  /* the number of the replica in the process, which decides the devices: kolo_model_device() */
    kolo_stream *stream; /* home's, which outlives the engine; NULL: the engine opens one */
    const kolo_engine *packed; /* the engine reads the packed weights of this one; NULL: it has its own */
} kolo_engine_place;
kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_engine_place place,
                             kolo_engine **engine);
void kolo_engine_close(kolo_engine **engine); /* takes NULL */

/* From now on every lane measures the time of each operation, in seconds. */
kolo_status kolo_engine_time(kolo_engine *engine);
/* The time of operation number op, summed over all lanes. */
double kolo_engine_seconds(const kolo_engine *engine, int op);
/* The number of lanes of its first device. */
int kolo_engine_lanes(const kolo_engine *engine);
/* Unpacks a block of gradients into canonical[weight_count] on the host, and waits. */
kolo_status kolo_engine_fetch_gradient(const kolo_engine *engine, const float *gradient, float *canonical);
/* Opens a reduction tree for the gradients of this engine's microbatches. */
kolo_status kolo_engine_reduction(const kolo_engine *engine, kolo_reduction **reduction);

/* Packs canonical weights of the host, which stay at their address until others are loaded. */
kolo_status kolo_engine_load(kolo_engine *engine, const float *weights);
/* Sets the address of the canonical weights, in the memory of home's stream. The caller calls kolo_engine_pack() after
 * every change of them. */
void kolo_engine_set_weights(kolo_engine *engine, const float *weights);
/* Packs part number `part` of `parts`: engines that read the same packed weights divide the work. */
kolo_status kolo_engine_pack(kolo_engine *engine, int part, int parts);
/* Copies home's packed weights to the other devices. */
kolo_status kolo_engine_copy_weights(kolo_engine *engine);

/* ---- memory: memory.c ---- */

/* Allocates the memory for shards of so many microbatches. A training does so before its first step: an allocation
 * during a step could wait for other devices, which may wait for this one. The call comes before kolo_engine_attach(),
 * which uses the remaining memory for the data set. */
kolo_status kolo_engine_reserve(kolo_engine *engine, int64_t microbatches);
/* From now on samples come from this data set. A batch has at most `samples` samples over all members; `wanted` samples
 * are used in all until the next call. The caller calls it again when the data set has changed. Totals that have not
 * been read back are dropped. */
kolo_status kolo_engine_attach(kolo_engine *engine, const kolo_data *data, int64_t samples, int64_t wanted);
void kolo_engine_close_memory(kolo_engine *engine);

/* ---- computing ---- */

/* compute.c. Computes the shard and waits. The gradient and the totals of every microbatch go into `reduction`; NULL:
 * only outputs are wanted. All members of a group call it for the same batch, also those without microbatches. */
kolo_status kolo_engine_run(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction);
/* The two parts of kolo_engine_run(): the first allocates memory and makes the samples reachable, the second one
 * computes. */
kolo_status kolo_engine_stage_samples(kolo_engine *engine, const kolo_shard *shard);
kolo_status kolo_engine_compute(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction);

/* step.c. A training step: enqueues the shard, whose gradients go into engine->tree. `numbers` are the step parameters
 * of the update that follows. */
kolo_status kolo_engine_enqueue_step(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers);
/* The gradient nodes of the shard that was enqueued last, nodes[*count] of at most KOLO_REDUCTION_MOST, in the order of
 * their microbatches. Their memory is reused by the next shard. */
kolo_status kolo_engine_nodes(kolo_engine *engine, kolo_gradient_node *nodes, int *count);
/* Replaces the numbers of the update that follows the shard that was enqueued last. */
kolo_status kolo_engine_correct(kolo_engine *engine, const kolo_step_parameters *numbers);

/* readback.c. Adds the totals of enqueued shards to *totals, the oldest shard first, and the penalty to each sample's
 * loss. wait: of all shards; otherwise only of those whose readback is needed for the next step. */
kolo_status kolo_engine_read_back(kolo_engine *engine, bool wait, kolo_totals *totals);

/* ---- shared by the files of the engine ---- */

/* shard.c: enqueues all microbatches of the shard, through all stages. */
kolo_status kolo_engine_enqueue(kolo_engine *engine, const kolo_shard *shard);
/* cross_reduction.c: runs operation number op, a KOLO_OP_REDUCE; whether it sums over other members, too; the address
 * of its sum; allocates memory for batches of so many samples. */
kolo_status kolo_engine_reduce(kolo_engine *engine, int op);
bool kolo_engine_reduces_over_group(const kolo_engine *engine, const kolo_shard *shard, int op);
void *kolo_engine_reduced(const kolo_device_context *context, int op);
kolo_status kolo_engine_reserve_reductions(kolo_engine *engine, int64_t samples);
bool kolo_program_reduces_over_group(const kolo_program *program);
/* step.c: sends the step parameters of the shard and stages its samples. */
kolo_status kolo_engine_prepare(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers);
/* readback.c: enqueues the copy of the last shard's totals to the host; inserts totals that were copied into a tree. */
kolo_status kolo_engine_send_totals(kolo_engine *engine, const kolo_shard *shard);
kolo_status kolo_engine_read_back_into(kolo_engine *engine, bool wait, kolo_reduction *tree);
/* What is read back behind the totals of a shard. */
typedef struct kolo_totals_extras {
    double penalty;
    kolo_scaling seen;
} kolo_totals_extras;
_Static_assert(sizeof(kolo_totals_extras) <= 64, "totals_stride is at least that");
kolo_totals_extras *kolo_engine_extras(const kolo_engine *engine, char *totals, int64_t microbatches);

/* graph_cache.c: enqueues the shard, or launches the graph that it was captured as. */
kolo_status kolo_engine_enqueue_or_launch(kolo_engine *engine, const kolo_shard *shard);
/* Stops capturing from now on, after the failure that is set. */
void kolo_engine_turn_eager(kolo_engine *engine);
void kolo_engine_forget_graphs(kolo_engine *engine);

/* The activations of the microbatch in a slot, in the memory of a context. */
static inline kolo_activations *kolo_engine_activations(const kolo_engine *engine, int context, int slot)
{
    return engine->contexts[engine->program->memories > 1 ? context : 0].activation_sets[slot];
}

/* Whether the shard has exactly one microbatch: then its sums are the reduced ones. */
static inline bool kolo_shard_is_single(const kolo_shard *shard)
{
    return shard->end_microbatch - shard->first_microbatch == 1;
}

/* Members get contiguous runs of microbatches: returns the first of `member`, or their number for member = members. The
 * runs are as even as possible; with rest_last all are equal and the last member also gets the rest. */
static inline int64_t kolo_shard_begin(int64_t microbatches, int member, int members, bool rest_last)
{
    if (rest_last) return member < members ? microbatches / members * member : microbatches;
    return microbatches * member / members;
}

/* The number of microbatches of a batch. */
static inline int64_t kolo_batch_microbatches(const kolo_batch *batch)
{
    return (batch->samples + batch->microbatch - 1) / batch->microbatch;
}

#endif
