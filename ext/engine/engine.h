/* The engine: runs one program on the devices of a replica.
 *
 * shard.c runs the microbatches of a shard through the segments of the program. It enqueues their work on the streams
 * of the devices (device_context.h). The host's stream runs the work at once in its threads, a GPU's stream runs it
 * later. A training step is captured as a graph if the stream can capture (graph_cache.c). Loss and metrics are read
 * back some steps later (readback.c). Sums do not depend on which device computed which microbatch (reduction_tree.h).
 *
 * Each replica has an engine for training. Scoring and predicting use an engine that has all cores of the process.
 */
#ifndef KOLO_ENGINE_ENGINE_H
#define KOLO_ENGINE_ENGINE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "data/feed.h"
#include "engine/buckets.h"
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
    uint64_t seed;      /* for dropout */
    double loss_scale;  /* multiplies d loss / d outputs; 0 means 1 */
    bool stoppable;     /* a requested stop ends it between microbatches, with KOLO_INTERRUPTED */
    float *outputs;     /* [batch samples][outputs] on the host, to be filled in; NULL: not wanted */
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
    bool gathers, ends; /* first it gathers the samples; last it inserts the gradient and copies the outputs */
    kolo_event *event;  /* recorded behind its work, for the next stage on another device */
} kolo_pipeline_stage;

/* A captured step can be launched again where all of this is the same. Keys are compared as bytes. */
typedef struct kolo_graph_key {
    int64_t first_microbatch, end_microbatch, microbatches;
    int64_t ordered, staging_buffer, address_version; /* of the dataset cache */
    int64_t memory_version; /* of the engine: the graph holds addresses */
    int64_t in_buckets; /* whether it leaves its gradients in buckets */
    int64_t updates; /* whether the update is a part of it */
} kolo_graph_key;

/* A part of a captured step. */
typedef struct kolo_step_graph {
    kolo_captured_graph *graph;
    int bucket; /* engine->bucket_events[bucket] is recorded behind it; -1: no event is */
} kolo_step_graph;

/* An entry of the graph cache: a captured step, and the nodes in which it leaves its gradients. A step in buckets is
 * captured as one graph for each bucket, so that an event can be recorded between two of them. */
typedef struct kolo_graph_entry {
    kolo_graph_key key;
    bool run_before; /* the step has run without a capture: a first run may load code, which a capture forbids */
    kolo_step_graph *graphs; /* [graph_count], launched one after the other */
    int graph_count; /* 0: not yet captured */
    kolo_gradient_node *nodes;  /* [KOLO_REDUCTION_NODES_MAX]; NULL: the entry is free */
    int node_count;
    int64_t used; /* engine->enqueued at its last use: the entry with the lowest number is replaced */
} kolo_graph_entry;

/* The totals of one shard, which are being copied to the host. The step parameters of the shard have the same slot. */
typedef struct kolo_readback {
    bool pending;      /* the copy was enqueued, and its result has not been read */
    kolo_event *event; /* recorded behind the step */
    int64_t first_microbatch, end_microbatch, microbatches;
    char *totals; /* [microbatches of the shard + 1][totals_stride] on the host, part of readback_block */
} kolo_readback;

/* Whose rows of the timeline the lanes use. All zeros: the rows of evaluations. */
typedef struct kolo_engine_rows {
    bool steps; /* the shards are those of training steps */
    int worker; /* 1 more than the number of the worker; 0: it is none */
    int replica; /* the number of the replica in the process */
    int members, first_member; /* members > 1: of a group of so many, it computes for those from first_member on */
    int64_t microbatches; /* of the group's batch */
} kolo_engine_rows;

struct kolo_engine {
    kolo_program *program;
    const kolo_stream_kind *streams;
    kolo_device_context *contexts; /* [context_count]; the first is home */
    int context_count;
    kolo_stream *stream; /* home's */
    bool borrows_stream; /* home's stream belongs to the replica */
    const float *imported; /* the host's weights that home has imported; NULL: the weights belong to a replica */
    kolo_pipeline_stage *stages;  /* [stage_count], in the order in which microbatches pass them */
    int stage_count;
    int group;           /* the number of microbatches that go from stage to stage together */
    int slots;           /* the number of microbatches for which each context has activations */
    float **gradients;   /* [slots], the gradient of the microbatch in each slot */
    const kolo_shard *shard; /* the shard that is being enqueued */
    kolo_reduction *tree;         /* the shard's gradients are inserted into it; NULL: none are wanted */
    kolo_buckets *buckets; /* gradients go into these instead of the tree while in_buckets; NULL: there are none */
    bool in_buckets;
    float **part_blocks; /* [lanes][buckets->part_count], of the microbatch that a lane computes */
    kolo_event **bucket_events; /* [bucket_count]; see kolo_engine_end_bucket() */
    int bucket_count;
    kolo_segment_sums segment_sums; /* used by a program that reduces over microbatches */
    kolo_comm *comm; /* over the shard's group, for memory of home's stream; it belongs to the replica */

    char *totals; /* [totals_room][totals_stride] on home; a kolo_totals_extras follows the totals of a shard */
    char *parts;  /* [part_count][totals_room][totals_stride] on home: of each context that adds to the losses */
    int part_count; /* 0: all of them add to home's totals */
    int64_t totals_room, reduction_room; /* in microbatches */
    size_t totals_stride; /* bytes */
    int64_t memory_version; /* changes whenever the addresses of activations or totals change */

    kolo_step_parameters *step_parameters;  /* home's */
    kolo_step_parameters *parameter_ring; /* [KOLO_STEPS_AHEAD + 1] on the host, where the steps take their parameters;
                                             the last element is that of kolo_engine_correct() */
    kolo_event *corrected; /* recorded behind the copy of that element */
    int64_t enqueued, read_back; /* the number of shards that were enqueued; whose totals were read back */
    kolo_readback readbacks[KOLO_STEPS_AHEAD];
    char *readback_block; /* [KOLO_STEPS_AHEAD][readback_room][totals_stride] on the host */
    int64_t readback_room;
    kolo_reduction *totals_tree; /* adds up the totals of the shard that is being read back */
    const kolo_update_job *penalised; /* the job whose penalty is added to the losses in training; NULL: no penalty */
    double penalty; /* of the shard that was read back last */
    kolo_scaling *scaling; /* the stream fills in step parameters with it; NULL: they are sent complete */
    kolo_scaling seen; /* *scaling at the beginning of the shard that was read back last */

    kolo_status (*update)(void *owner); /* enqueues the update behind the shard, for a capture of both; NULL: a graph
                                           ends with the shard */
    void *update_owner;

    kolo_graph_entry graphs[KOLO_GRAPHS];
    kolo_graph_entry *entry; /* the entry of the shard that was enqueued last; NULL: its gradients are in the tree */
    kolo_graph_entry *capturing; /* the entry whose graph is being captured; or NULL */
    kolo_engine_rows rows;
    bool eager; /* a capture has failed, so no step is captured any more */
    kolo_dataset_cache cache;
    atomic_llong sliced_bytes, slicing_nanoseconds; /* samples that lanes gathered, and the time it took */
};

/* ---- opening: engine.c ---- */

/* The options of kolo_engine_open(). */
typedef struct kolo_engine_place {
    int threads; /* of the host */
    sem_t *gate; /* see kolo_stream_place */
    int replica; /* the number of the replica in the process, which decides the devices: kolo_model_device() */
    kolo_stream *stream; /* home's stream, which is closed after the engine; NULL: the engine opens one */
    const kolo_engine *packed; /* the engine whose packed weights this one reads; NULL: it allocates its own */
} kolo_engine_place;
kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_engine_place place,
                             kolo_engine **engine);
void kolo_engine_close(kolo_engine **engine); /* takes NULL */

/* From now on every lane measures the time of each operation, in seconds. */
kolo_status kolo_engine_time(kolo_engine *engine);
/* The time of operation number op, summed over all lanes. */
double kolo_engine_seconds(const kolo_engine *engine, int op);
/* The number of lanes of home. */
int kolo_engine_lanes(const kolo_engine *engine);
/* Unpacks a block of gradients into canonical[weight_count] on the host, and waits. */
kolo_status kolo_engine_fetch_gradient(const kolo_engine *engine, const float *gradient, float *canonical);
/* Opens a reduction tree for the gradients of this engine's microbatches. */
kolo_status kolo_engine_reduction(const kolo_engine *engine, kolo_reduction **reduction);

/* Has the engine insert its gradients into these buckets, which belong to the caller, in the steps in which it sets
 * engine->in_buckets. */
kolo_status kolo_engine_use_buckets(kolo_engine *engine, kolo_buckets *buckets);
/* Ends that, between two steps, so that the caller may close the buckets and have the engine use others. For a stream
 * of the host, which records no events. */
void kolo_engine_use_no_buckets(kolo_engine *engine);
/* For the ready() of these buckets, on a stream whose work is enqueued: the work for a bucket ends here. In this step,
 * and whenever its captured graphs are launched again, engine->bucket_events[bucket] is recorded behind that work. */
kolo_status kolo_engine_end_bucket(kolo_engine *engine, int bucket);

/* Imports and packs canonical weights of the host. They stay at their address until others are loaded. */
kolo_status kolo_engine_load(kolo_engine *engine, const float *weights);
/* Sets the address of the canonical weights, in the memory of home's stream. The caller calls kolo_engine_pack() after
 * every change of them. */
void kolo_engine_set_weights(kolo_engine *engine, const float *weights);
/* Packs part number `part` of `parts`: engines that read the same packed weights divide the work. */
kolo_status kolo_engine_pack(kolo_engine *engine, int part, int parts);
/* Copies home's weights to the other devices, if these have their own memory. */
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
/* The two parts of kolo_engine_run(): the first allocates memory and attaches the data set, the second computes. */
kolo_status kolo_engine_stage_samples(kolo_engine *engine, const kolo_shard *shard);
kolo_status kolo_engine_compute(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction);

/* step.c. A training step: enqueues the shard, whose gradients go into engine->tree. `numbers` are the step parameters
 * of the update that follows. */
kolo_status kolo_engine_enqueue_step(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers);
/* The gradient nodes of the shard that was enqueued last, nodes[*count] of at most KOLO_REDUCTION_NODES_MAX, in the
 * order of their microbatches. Their memory is reused by the next shard. */
kolo_status kolo_engine_nodes(kolo_engine *engine, kolo_gradient_node *nodes, int *count);
/* Whether the shard that was enqueued last was a graph that ended with the update. */
bool kolo_engine_has_updated(const kolo_engine *engine);
/* Replaces the numbers of the update that follows the shard that was enqueued last. */
kolo_status kolo_engine_correct(kolo_engine *engine, const kolo_step_parameters *numbers);

/* readback.c. Adds the totals of enqueued shards to *totals, the oldest shard first, and the penalty to each sample's
 * loss. wait: of all shards; otherwise of all but the newest steps_ahead - 1, as the next step requires. */
kolo_status kolo_engine_read_back(kolo_engine *engine, bool wait, kolo_totals *totals);

/* ---- shared by the files of the engine ---- */

/* shard.c: gathers samples first … first+count-1 of the batch, from the data set or from a feed's memory. */
kolo_status kolo_shard_gather(const kolo_shard *shard, const kolo_plan *plan, int64_t first, int count,
                              const kolo_gathered *to);
/* shard.c: enqueues all work of the shard, from taking its step parameters to copying its totals to the host. */
kolo_status kolo_engine_enqueue(kolo_engine *engine, const kolo_shard *shard);
/* cross_reduction.c: runs operation number op, which is a KOLO_OP_REDUCE. */
kolo_status kolo_engine_reduce(kolo_engine *engine, int op);
/* Whether operation number op adds up the partials of several members. */
bool kolo_engine_reduces_over_group(const kolo_engine *engine, const kolo_shard *shard, int op);
/* The address of the sum of operation number op. */
void *kolo_engine_reduced(const kolo_device_context *context, int op);
/* Allocates the memory of reductions in batches of so many samples. */
kolo_status kolo_engine_reserve_reductions(kolo_engine *engine, int64_t samples);
/* Whether some operation may add up the partials of several members. */
bool kolo_program_reduces_over_group(const kolo_program *program);
/* step.c: stages the samples of the shard, and puts its step parameters into the ring. kolo_engine_enqueue() is next.
 */
kolo_status kolo_engine_prepare(kolo_engine *engine, const kolo_shard *shard, const kolo_step_parameters *numbers);
/* step.c: makes the stream take next the parameters that kolo_engine_prepare() puts into the ring while
 * engine->enqueued is `step`, whichever it has taken before: an earlier step may have failed. */
kolo_status kolo_engine_rewind_ring(kolo_engine *engine, int64_t step);
/* readback.c: the first enqueues the copy of the shard's totals to the host, as a part of the shard. The second notes,
 * behind the shard, that they come. */
kolo_status kolo_engine_copy_totals(kolo_engine *engine, const kolo_shard *shard);
kolo_status kolo_engine_expect_totals(kolo_engine *engine, const kolo_shard *shard);
/* As kolo_engine_read_back(), but inserts the totals of every microbatch into `tree`, without the penalty. */
kolo_status kolo_engine_read_back_into(kolo_engine *engine, bool wait, kolo_reduction *tree);
/* Numbers that follow the totals of a shard and are read back with them. */
typedef struct kolo_totals_extras {
    double penalty;
    kolo_scaling seen;
} kolo_totals_extras;
_Static_assert(sizeof(kolo_totals_extras) <= 64, "totals_stride is at least that");
kolo_totals_extras *kolo_engine_extras(const kolo_engine *engine, char *totals, int64_t microbatches);

/* graph_cache.c: enqueues the shard, or launches the graph as which it was captured. */
kolo_status kolo_engine_enqueue_or_launch(kolo_engine *engine, const kolo_shard *shard);
void kolo_engine_forget_graphs(kolo_engine *engine);

/* The activations of the microbatch in a slot, in the memory of a context. */
static inline kolo_activations *kolo_engine_activations(const kolo_engine *engine, int context, int slot)
{
    return engine->contexts[engine->contexts[context].memory].activation_sets[slot];
}

/* Whether the shard has exactly one microbatch: then the microbatch's partials are the sums over the shard. */
static inline bool kolo_shard_is_single(const kolo_shard *shard)
{
    return shard->end_microbatch - shard->first_microbatch == 1;
}

/* Each member gets a contiguous run of microbatches. Returns the first microbatch of `member`, or `microbatches` for
 * member = members. The runs are as even as possible. With rest_last they are equal, and the last member also gets the
 * rest. */
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
