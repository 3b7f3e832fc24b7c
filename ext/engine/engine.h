/* An engine: threads that share one program and one set of weights, and work through microbatches.
 *
 * A replica has one to train with; scoring and predicting have one that uses all cores of the process. Which thread
 * takes which microbatch is chance; the sums do not depend on it (engine/reduction_tree.h).
 */
#ifndef KOLO_ENGINE_ENGINE_H
#define KOLO_ENGINE_ENGINE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "engine/reduction_tree.h"
#include "engine/program.h"
#include "runtime/team.h"
#include "data/feed.h"
#include "data/batch.h"

typedef struct kolo_pipeline kolo_pipeline;
typedef struct kolo_queued kolo_queued;

typedef struct kolo_engine {
    kolo_program *program;
    kolo_team *team;
    kolo_workspace *workspaces; /* one a thread */
    kolo_program_weights weights;
    bool borrows; /* what is packed is another engine's */
    void *reduced;           /* what microbatches met with last */
    sem_t *gate;         /* as many microbatches at once as the process has cores; NULL: no limit */
    kolo_activations **activation_sets; /* one a thread; NULL where there is a */
    kolo_pipeline *pipeline; /* of a program of several segments */
    kolo_queued *queued; /* on an accelerator: then weights, met and activations are there, and not here */
    atomic_llong sliced_bytes, slicing_nanoseconds; /* its threads' copying of samples, since it was opened */
} kolo_engine;

/* Whose cores it uses: at least `threads` threads, and one for each device of the program; or on an accelerator the
 * devices of a replica (kolo_model_device()). */
typedef struct kolo_engine_place {
    int threads;
    sem_t *gate; /* as kolo_engine has it */
    int replica; /* on an accelerator: its devices are those of the process's replica of that number */
} kolo_engine_place;
kolo_status kolo_engine_open(const kolo_model *model, kolo_purpose purpose, int microbatch, kolo_engine_place place,
                             kolo_engine **engine);
void kolo_engine_close(kolo_engine **engine); /* takes NULL */

/* From now on every thread adds up what each operation takes it, in workspaces[…].seconds. */
kolo_status kolo_engine_time(kolo_engine *engine);

/* A tree of sums for the gradients of this engine's microbatches. */
kolo_status kolo_engine_reduction(const kolo_engine *engine, kolo_reduction **reduction);

/* Takes over canonical weights. */
kolo_status kolo_engine_pack(kolo_engine *engine, const float *weights);
/* The engine reads the weights that the other has packed, from now on. Both are of one model and microbatch size. */
void kolo_engine_borrow_weights(kolo_engine *engine, const kolo_engine *from);
/* kolo_engine_pack() by all engines that share the weights, side by side: `next`, 0 before, deals out the values. They
 * are there when all have returned. */
kolo_status kolo_engine_pack_together(kolo_engine *engine, const float *weights, atomic_int *next);

/* A run of microbatches of one batch. */
typedef struct kolo_shard {
    const kolo_data *data;
    const kolo_batch *batch;
    const kolo_staged *staged; /* where its samples are gathered already, or NULL */
    int64_t first_microbatch, end_microbatch;
    bool rest_last; /* how microbatches are dealt: kolo_shard_begin() */
    uint64_t seed;  /* of dropout */
    double loss_scale; /* of d loss / d outputs; 0: 1 */
    bool stoppable; /* a requested stop ends it between microbatches, with KOLO_INTERRUPTED */
    float *outputs; /* [batch samples][outputs], or NULL */
    kolo_comm *group;   /* whose microbatches meet across replicas and ranks; NULL: nobody else's */
    bool deterministic; /* what they meet with has the same bits however large the group is */
} kolo_shard;

/* Computes the shard; every microbatch's gradient and totals go into reduction (NULL: outputs alone are wanted). The
 * members of a group must call it for the same batch, also those with no microbatches; one that fails aborts the group.
 */
kolo_status kolo_engine_run(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction);
/* Its two parts. Memory of a device for the shard, and its samples where they can be reached; on the host nothing. */
kolo_status kolo_engine_bring(kolo_engine *engine, const kolo_shard *shard);
kolo_status kolo_engine_compute(kolo_engine *engine, const kolo_shard *shard, kolo_reduction *reduction);

/* Microbatches are dealt in contiguous runs: the first microbatch of a member; of one past the last, all. As evenly as
 * they go, or by integer division with the rest to the last (rest_last). */
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
