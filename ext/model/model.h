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

/* An engine for scores or outputs that is kept between calls, with the conditions that it was opened under. */
typedef struct kolo_scorer {
    struct kolo_engine *engine; /* NULL: closed */
    pid_t process;
    int threads;
    int most; /* the most samples that a microbatch may have; less after a lack of memory */
} kolo_scorer;

/* Where a strategy trains a model. It is all zeros before the model is compiled. */
typedef struct kolo_deployment {
    int replicas; /* replicas in this process */
    int ranks;    /* that train together, as far as they have told each other; 0: not yet */
    int *on_ranks; /* [ranks] replicas of each rank */
    bool several; /* the strategy may run several replicas, even if there is only one now */
    int updater;  /* the replica that is on the .parameter_device; -1: none */
    int threads;  /* threads of the update on the .parameter_device, if no replica is on it */
} kolo_deployment;

struct kolo_model {
    kolo_layer_node *layers; /* the input first */
    int layer_count;
    char **texts; /* [text_count], the strings of the recipes, copied */
    int text_count;
    int output;     /* the layer whose outputs are the model's; -1 while the graph is being built */
    bool broken;    /* adding the last layer failed: failures that follow from that get no message */
    kolo_parameter *parameters;
    int parameter_count;
    int64_t weight_count;
    int microbatch; /* samples that a microbatch must have, since a layer requires it; 0: any number */
    float *weights; /* [weight_count], canonical */
    bool has_weights; /* the weights were set, by kolo_compile() or from a file */

    bool compiled;
    kolo_compile_args settings; /* defaults filled in */
    kolo_metric_list metrics; /* of settings.metrics */
    const kolo_backend *backend;
    kolo_deployment place;
    uint64_t seed;
    double learning_rate;
    double compiled_rate; /* the initial learning rate as compiled; loading a checkpoint sets it to the checkpoint's */
    kolo_position position; /* the progress of the last training */
    kolo_numbers numbers; /* named numbers of that training, which a checkpoint holds */
    kolo_kept kept; /* named copies of the weights, likewise */
    char *checkpoint; /* the file that these three were read from; NULL: none */
    bool resumed; /* the running fit continues from `position` */
    kolo_visit visit; /* the thread that works with the model */
    bool fitting; /* a kolo_fit() or kolo_train_on_batch() of this model runs: callbacks may read the model, but not
                     fit, compile or free it */
    bool stop_training; /* kolo_stop_training() was called */
    struct kolo_progress *progress; /* the progress bar of the running fit */
    kolo_status callback_status; /* the failure of a built-in callback's hook in the running fit, or KOLO_OK */
    bool average_metrics; /* kolo_metric_average() is among the callbacks of the running fit */
    kolo_trainer *trainer; /* replicas and the optimizer's state; NULL before the first fit */
    kolo_scorer scorers[2]; /* [0] for scores, [1] for outputs */
    void (*close_engines)(kolo_model *model); /* frees trainer and scorers; set by kolo_compile(), NULL before */
    kolo_epoch *epochs; /* the epochs of the last fit */
    kolo_history history;
};

/* The same as kolo_set_learning_rate(), for use within another public call. */
kolo_status kolo_model_set_rate(kolo_model *model, double learning_rate);
/* Draws all weights. A weight depends only on the seed, its parameter's number and its index there. The first draws the
 * model's weights by the model's seed. */
void kolo_model_draw_weights(kolo_model *model);
void kolo_model_draw(const kolo_model *model, uint64_t seed, float *weights); /* [weight_count] */

/* The L2 penalty, Σ λ Σ w² over the parameters with an l2 of λ, which is added to a loss. The second adds the penalty's
 * gradient, 2λw, to `gradient`. Both arrays are canonical. */
double kolo_model_penalty(const kolo_model *model, const float *weights);
void kolo_model_add_penalty_gradient(const kolo_model *model, const float *weights, float *gradient);

/* summary.c: the number of a layer's weights; the table of kolo_summary(). */
int64_t kolo_layer_weights(const kolo_model *model, const kolo_layer_node *node);
kolo_status kolo_summary_write(const kolo_model *model, FILE *out);

/* An empty model, for kolo_model_add(). */
kolo_status kolo_model_new(kolo_model **model);
/* Appends a layer whose inputs are the outputs of the layers numbered from[from_count]. Checks shapes and options, and
 * copies the recipe's strings. If it fails, the message names the layer, and the model's layers are unchanged. */
kolo_status kolo_model_add(kolo_model *model, const kolo_layer *layer, const int *from, int from_count);
/* Completes a model, which no layer can be added to afterwards. Fails if a layer does not lead to the output. Allocates
 * the weights. */
kolo_status kolo_model_finish(kolo_model *model, int output);

/* The fields of a kind's options; for a custom layer without fields those of kolo_custom_args. */
const kolo_field *kolo_layer_fields(const kolo_layer_kind *kind);
/* The address of a recipe's arguments, from which a field's offset counts. The address of the option of that name;
 * NULL: the kind has no such option. */
const void *kolo_layer_arguments(const kolo_layer *layer);
const void *kolo_layer_option(const kolo_layer *layer, const char *name);

/* The device that computes those layers of a replica whose node->device is `device`. It is numbered as
 * kolo_replica_device() returns it. */
int kolo_model_device(const kolo_model *model, int replica, int device);
/* The number of devices of one replica: one more than the highest number that a layer names. */
int kolo_model_devices(const kolo_model *model);
/* Fails if a device that a layer names is not there any more: fewer devices may be visible than when the model was
 * built. */
kolo_status kolo_model_check_devices(const kolo_model *model);

/* "layer 3 (max_pool2d)". */
const char *kolo_layer_text(const kolo_layer_node *node);

/* A public call that works with a model: kolo_enter(), and a visit to the model (core/visit.h). The call does its work
 * if the visit has begun (status is KOLO_OK), and sets `status`. Nothing is visited for NULL, which the call refuses.
 */
typedef struct kolo_model_call {
    kolo_scope scope;
    kolo_model *model; /* that is visited, or NULL */
    kolo_status status;
} kolo_model_call;
kolo_model_call kolo_model_enter(kolo_model *model, const char *name, bool changes, kolo_here here);
kolo_status kolo_model_leave(const kolo_model_call *call); /* returns call->status */

/* Fails if the model is NULL. After an earlier failure, from which the NULL may follow, it fails without a message. */
kolo_status kolo_model_check(const kolo_model *model);
/* Replaces a text, unless it is NULL, by a copy that the model owns: the caller may free its text before the model, as
 * when a notebook unloads a cell. */
kolo_status kolo_model_keep_text(kolo_model *model, const char **text);
/* Fails while a kolo_fit() or kolo_train_on_batch() of this model runs. */
kolo_status kolo_model_check_idle(const kolo_model *model);
/* Fails if the model is NULL or not compiled; the message names `purpose`, such as "kolo_fit()". After an earlier
 * failure it fails without a message. */
kolo_status kolo_model_check_compiled(const kolo_model *model, const char *purpose);

#endif
