/* The part of the seam for arithmetic that changes weights: one update of all of a model's arrays, as a job that is
 * enqueued on a stream. */
#ifndef KOLO_BACKEND_UPDATE_H
#define KOLO_BACKEND_UPDATE_H

#include "backend/stream.h"
#include "backend/team.h"

/* Flat arrays of `count` elements, cut into `spans`; all in the stream's memory unless it says host. */
typedef struct kolo_update_job {
    const kolo_optimizer *optimizer; /* defaults filled in */
    const kolo_span *spans;          /* the host's [span_count]; they outlive the stream */
    int span_count;
    int64_t count;
    float *weights, *gradient, *slots[3], *numbers;
    const kolo_step_parameters *step_parameters;
    double clip_value, clip_norm, global_clip_norm; /* 0: none */
    double decay; /* .weight_decay of a rule that does not decay by itself; times the rate it is rule[0] · decay */
    kolo_scaling *scaling; /* learns whether the gradient is finite; where it is not, nothing is updated. NULL: the loss
                              is not scaled */
    /* A program's plan whose parameters the spans are, or NULL. Then its packed weights (NULL: there are none) become
     * those of the updated ones; and the gradient may be as the microbatches left it (`left`; NULL: it is in
     * `gradient`, which is scratch memory otherwise). */
    const struct kolo_plan *plan;
    void *packed;
    const float *left;
    /* On the host several streams may update arrays that they share, each a part: part of parts, 0 of 1 where it is
     * alone. meet(meet_argument) returns when all of them have come there. */
    int part, parts;
    kolo_status (*meet)(void *argument);
    void *meet_argument;
    double *sums; /* of parts of the arrays; expect() allocates it where it is wanted and NULL */
} kolo_update_job;

typedef struct kolo_update_kind {
    /* Whether it has the optimizer's rule. The host computes one that it lacks. */
    bool (*has_rule)(const kolo_optimizer *optimizer);
    /* Takes the memory that updates and penalties of the job's spans need; before the first of them. */
    kolo_status (*expect)(kolo_stream *stream, kolo_update_job *job);
    void (*forget)(kolo_stream *stream, kolo_update_job *job); /* gives back what expect() took for this job alone */
    kolo_status (*update)(kolo_stream *stream, const kolo_update_job *job);
    bool packs; /* update() takes job->left, and packs the updated weights; otherwise the engine does either */
    /* Completes a moment that comes with a kolo_scaling; *seen, in the stream's memory, becomes a copy of that. */
    kolo_status (*fill_step_parameters)(kolo_stream *stream, kolo_step_parameters *step_parameters,
                                        kolo_scaling *scaling, kolo_scaling *seen);
    /* *to, in the stream's memory, becomes the penalty of the job's weights: Σ over its spans of l2 / 2 · Σ w². */
    kolo_status (*penalty)(kolo_stream *stream, const kolo_update_job *job, double *to);
} kolo_update_kind;

/* host_stream.c, enqueued_stream.c. */
extern const kolo_update_kind kolo_host_updates, kolo_enqueued_updates;

/* host_update.c: what both do. The threads of `team` share the work; NULL: the caller does it alone. */
kolo_status kolo_host_update(const kolo_update_job *job, kolo_team *team);
bool kolo_host_has_rule(const kolo_optimizer *optimizer);
kolo_status kolo_host_expect_update(kolo_stream *stream, kolo_update_job *job);
void kolo_host_forget_update(kolo_stream *stream, kolo_update_job *job);
void kolo_host_fill_step_parameters(kolo_step_parameters *step_parameters, kolo_scaling *scaling, kolo_scaling *seen);
double kolo_host_penalty(const kolo_span *spans, int count, const float *weights);

#endif
