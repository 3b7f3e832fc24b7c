/* A model: its layers, its weights, and how it was compiled. */
#ifndef KOLO_MODEL_MODEL_H
#define KOLO_MODEL_MODEL_H

#include "backend/backend.h"
#include "layers/layer.h"

#include <stdio.h>
#include <sys/types.h>

#include "model/kept.h"
#include "model/numbers.h"
#include "model/position.h"
#include "core/visit.h"

typedef struct kolo_trainer kolo_trainer;

/* An engine that is kept between calls, and what it was made for. */
typedef struct kolo_scorer {
    struct kolo_engine *engine;
    pid_t process;
    int threads;
    int most; /* samples that its microbatches may have; where one keeps a device busy, as many as were ever asked for
               */
} kolo_scorer;

/* Where a strategy trains a model. It is all zeros before the model is compiled. */
typedef struct kolo_deployment {
    int replicas; /* in this process */
    bool several; /* the strategy may run several replicas, however many there are */
    int updater;  /* the replica that sits on the .parameter_device; -1: none does, and the device has */
    int threads;  /* so many of its own */
} kolo_deployment;

struct kolo_model {
    kolo_layer_node *layers; /* the input first */
    int layer_count;
    char **texts; /* those of the recipes, copied */
    int text_count;
    int output;     /* the layer whose outputs are the model's; -1 while the graph is being built */
    bool broken;    /* the last layer was refused: what follows from that is not said again */
    kolo_parameter *parameters;
    int parameter_count;
    int64_t weight_count;
    int microbatch; /* samples that a microbatch must have, as a layer says; 0: any number */
    float *weights; /* [weight_count], canonical */
    bool drawn;     /* whether they were ever set by compile or load */

    bool compiled;
    kolo_compile_args settings; /* defaults filled in */
    kolo_metric_list metrics; /* of settings.metrics */
    const kolo_backend *backend;
    kolo_deployment place; /* of its strategy */
    uint64_t seed;
    double learning_rate;
    double compiled_rate; /* what that was when its training was compiled: a resume takes its checkpoint's */
    kolo_position position; /* where its last training stands */
    kolo_numbers numbers;   /* that go with the optimizer's state */
    kolo_kept kept;         /* and weights that do */
    char *checkpoint;       /* the file that these were read from; NULL: none */
    bool resumed;           /* the fit that runs goes on from the position */
    kolo_visit visit; /* the thread that works with the model */
    bool fitting; /* a kolo_fit of this model runs: its callbacks may look, but not fit, compile or free it */
    bool stop_training; /* kolo_stop_training() */
    struct kolo_progress *progress; /* the bar of the fit that runs */
    kolo_status callback_status; /* of our own callbacks' hooks, in the fit that runs */
    bool average_metrics; /* kolo_metric_average() is among the callbacks of the fit that runs */
    kolo_trainer *trainer; /* replicas and the optimizer's state, from the first fit on */
    kolo_scorer scorers[2]; /* for scores; for outputs */
    void (*close_engines)(kolo_model *model); /* kolo_compile()'s: frees trainer and scorers; NULL before */
    kolo_epoch *epochs; /* of the last fit */
    kolo_history history;
};

/* kolo_set_learning_rate(), within a call that runs. */
kolo_status kolo_model_set_rate(kolo_model *model, double learning_rate);
/* Draws every weight by the seed and its own number. */
void kolo_model_draw_weights(kolo_model *model);
void kolo_model_draw(const kolo_model *model, uint64_t seed, float *weights); /* [weight_count] */

/* Σ λ Σ w² over the layers with .l2, of canonical weights: what is added to a loss. Its gradient by them is added to
 * `gradient`. */
double kolo_model_penalty(const kolo_model *model, const float *weights);
void kolo_model_add_penalty_gradient(const kolo_model *model, const float *weights, float *gradient);

/* summary.c: the table of kolo_summary(). */
kolo_status kolo_summary_write(const kolo_model *model, FILE *out);

/* An empty model, for kolo_model_add(). */
kolo_status kolo_model_new(kolo_model **model);
/* Appends a layer that takes those numbers of layers; shapes are checked, texts copied. Fails with a sentence that
 * names it, and the model is as it was. */
kolo_status kolo_model_add(kolo_model *model, const kolo_layer *layer, const int *from, int from_count);
/* Nothing can be added any more: every layer leads to the output, and there is memory for the weights. */
kolo_status kolo_model_finish(kolo_model *model, int output);

/* The fields of a kind; those of kolo_custom_args for a layer of a learner's own. */
const kolo_field *kolo_layer_fields(const kolo_layer_kind *kind);
/* The arguments of a recipe, to which a field's offset is added; and one by its field's name, NULL when it has none. */
const void *kolo_layer_arguments(const kolo_layer *layer);
const void *kolo_layer_option(const kolo_layer *layer, const char *name);

/* The device, as kolo_replica_device() numbers them, on which that replica's layers on `device` are computed.
 */
int kolo_model_device(const kolo_model *model, int replica, int device);
/* Devices that a replica is spread over: one more than the highest that a layer asks for. */
int kolo_model_devices(const kolo_model *model);
/* Those that its layers name were there when it was built: are they now? */
kolo_status kolo_model_check_devices(const kolo_model *model);

/* "layer 3 (max_pool2d)". */
const char *kolo_layer_text(const kolo_layer_node *node);

/* A public call's visit to the model (visit.h); of NULL there is none, and the call refuses it. */
kolo_status kolo_model_begin(kolo_model *model, const char *call, bool changes);
void kolo_model_end(kolo_model *model);

/* KOLO_OK, or a sentence: a model that is NULL, one that is not compiled for `purpose` ("fit"). A NULL that follows an
 * earlier failure fails without a sentence of its own. */
kolo_status kolo_model_check(const kolo_model *model);
/* Fails while a kolo_fit of this model runs. */
kolo_status kolo_model_check_idle(const kolo_model *model);
kolo_status kolo_model_check_compiled(const kolo_model *model, const char *purpose);

#endif
