/* Checkpoints: the state of a training in one safetensors file, from which it resumes exactly.
 *
 * Weights and optimizer state are arrays. The rest of the state is in the metadata as JSON: {"optimizer": "adam",
 * "learning_rate": "0.001", "compiled_rate": "0.002", "seed": "7", "epoch": "3", "step": "0", "samples": "320",
 * "batch": "40", "numbers": {…}, "steps": "24", "updates": "24", "waiting": "0", "waiting_samples": "0"}; with
 * KOLO_MIXED_FP16 also "loss_scale", "sample_scale" and "good"; within an epoch also "order", "seconds" and the sums
 * so far, "all" and "own"; under a strategy of workers "strategy" and "workers", a list with each one's own
 * numbers, whose arrays are "w0.0", …; and "kept", the names of kept weights, if there are any. Numbers are strings,
 * which hold all 64 bits, NaN and infinity. Ranks, devices and, between epochs, times are left out: between epochs N
 * devices write the same bytes as one in deterministic mode. Read first: saving/safetensors.h, model/position.h,
 * replica/trainer.h. */
#ifndef KOLO_SAVING_CHECKPOINT_H
#define KOLO_SAVING_CHECKPOINT_H

#include "replica/worker_records.h"
#include "saving/save.h"

/* The array of one number for each array of weights, for optimizers that keep one. */
#define KOLO_ARRAY_OF_NUMBERS KOLO_ARRAYS_OF_OPTIMIZER "numbers"

#define KOLO_PLANE_NAME_MAX 96
#define KOLO_PLANES_MAX     (KOLO_OPTIMIZER_SLOTS + 1)

/* An array of the training's state with an element for each weight: values[weight_count]. */
typedef struct kolo_plane {
    char name[32]; /* "0", "1": optimizer slots; "w3.1": plane 1 of worker 3 (worker_records.h); "waiting": gradients
                      that wait for an update; "kept0": of kept.h */
    float *values;
} kolo_plane;

/* Checks what writing and reading both require, and opens the trainer. */
kolo_status kolo_checkpoint_check(kolo_model *model, const char *path);

/* List the planes of kept weights, of replica 0 (`waiting`: with the gradients that wait), and of a worker's record.
 * Return how many. */
int kolo_planes_of_kept(const kolo_kept *kept, kolo_plane *planes);
int kolo_planes_of_replica(const kolo_model *model, bool waiting, kolo_plane planes[KOLO_PLANES_MAX]);
int kolo_planes_of_worker(const kolo_model *model, int worker, kolo_worker_record *record, kolo_plane *planes);
/* The name of a plane's array for one array of weights, "optimizer/0/dense.kernel"; written into `name`. */
const char *kolo_plane_name(char name[KOLO_PLANE_NAME_MAX], const kolo_plane *one, const char *weight);

kolo_shape kolo_numbers_shape(const kolo_model *model); /* of KOLO_ARRAY_OF_NUMBERS */
/* A worker's numbers, which follow the planes of its record; the name of their array, written into `name`. */
float *kolo_numbers_of_worker(const kolo_model *model, kolo_worker_record *record);
const char *kolo_name_numbers(char name[KOLO_PLANE_NAME_MAX], int worker);

#endif
