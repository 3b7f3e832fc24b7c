/* The update: the part of the backend's seam that applies the optimizer to all of a model's weights, as one job that is
 * enqueued on a stream. */
#ifndef KOLO_BACKEND_UPDATE_H
#define KOLO_BACKEND_UPDATE_H

#include "backend/stream.h"
#include "backend/team.h"

/* Flat arrays of `count` elements, cut into `spans`. They are in the stream's memory unless a comment says host. */
typedef struct kolo_update_job {
    const kolo_optimizer *optimizer; /* defaults filled in */
    const kolo_span *spans; /* [span_count] on the host; they outlive the job */
    int span_count;
    int64_t count;
    float *weights, *gradient, *slots[3], *numbers; /* numbers: [span_count]. NULL: the rule has no such array */
    const kolo_step_parameters *step_parameters;
    double clip_value, clip_norm, global_clip_norm; /* 0: none */
    double decay; /* .weight_decay for a rule that does not apply it itself: w -= learning rate · decay · w */
    kolo_scaling *scaling; /* records whether the gradient is finite; if it is not, the update is skipped. NULL: the
                              loss is not scaled */
    /* The plan whose parameters the spans are, or NULL. With a plan, a kind that `packs` also packs the updated weights
     * into `packed` (NULL: there are no packed weights). If packed_gradient is not NULL, it is the gradient in the
     * backend's layout, and `gradient` is scratch memory. */
    const struct kolo_plan *plan;
    void *packed;
    const float *packed_gradient;
    /* On the host several streams may share the arrays. Each then updates one part of them: number `part` of `parts`.
     * Otherwise it is number 0 of 1. barrier(barrier_argument) returns when all streams have called it. */
    int part, parts;
    kolo_status (*barrier)(void *argument);
    void *barrier_argument;
    void *prepared; /* made by expect(): on the host two partial sums for each chunk of the arrays (double), on a GPU
                       its table of chunks. NULL: expect() makes it */
} kolo_update_job;

typedef struct kolo_update_kind {
    /* Whether it has the optimizer's rule. The host computes a rule that the device lacks. */
    bool (*has_rule)(const kolo_optimizer *optimizer);
    /* Makes job->prepared, which update() and penalty() of this job need. The caller calls it before either of them,
     * and after a change of the job's spans or plan forget() and expect() again. */
    kolo_status (*expect)(kolo_stream *stream, kolo_update_job *job);
    void (*forget)(kolo_stream *stream, kolo_update_job *job); /* frees job->prepared */
    kolo_status (*update)(kolo_stream *stream, const kolo_update_job *job);
    bool packs; /* update() unpacks job->packed_gradient and packs the weights; false: the caller does both */
    /* *to, in the stream's memory, becomes the penalty of the job's weights: Σ over its spans of l2 / 2 · Σ w². */
    kolo_status (*penalty)(kolo_stream *stream, const kolo_update_job *job, double *to);
} kolo_update_kind;

/* host_stream.c, enqueued_stream.c. */
extern const kolo_update_kind kolo_host_updates, kolo_enqueued_updates;

/* host_update.c: used by both kinds. The threads of `team` share the work; NULL: the calling thread does it alone. */
kolo_status kolo_host_update(const kolo_update_job *job, kolo_team *team);
bool kolo_host_has_rule(const kolo_optimizer *optimizer);
kolo_status kolo_host_expect_update(kolo_stream *stream, kolo_update_job *job);
void kolo_host_forget_update(kolo_stream *stream, kolo_update_job *job);
void kolo_host_take_step_parameters(kolo_step_parameters *to, const kolo_step_parameters *ring, kolo_scaling *scaling,
                                    kolo_scaling *seen);
double kolo_host_penalty(const kolo_span *spans, int count, const float *weights);

#endif
