/* Functions for saving and loading weights, models and checkpoints. Read saving/safetensors.h first. */
#ifndef KOLO_SAVING_SAVE_H
#define KOLO_SAVING_SAVE_H

#include "model/model.h"
#include "saving/safetensors.h"

/* Keys of a file's metadata. Their values: "kolo"; the model as JSON; the state of a training as JSON. */
#define KOLO_METADATA_FORMAT     "format"
#define KOLO_METADATA_MODEL      "kolo.model"
#define KOLO_METADATA_CHECKPOINT "kolo.checkpoint"
/* The prefix of arrays that belong to a checkpoint and are not weights: "optimizer/0/dense.kernel". */
#define KOLO_ARRAYS_OF_OPTIMIZER "optimizer/"

/* Copies the weights of the running training, if there is one, to the model. Fails if the model has no weights yet. */
kolo_status kolo_weights_ready(kolo_model *model);
/* Describes the model's weights as arrays[parameter_count], which point into the model. */
void kolo_weights_describe(kolo_model *model, kolo_array *arrays);
/* Reads all weights into values[weight_count]; does not change the model. Fails if an array is missing or has another
 * shape, or if the file has an array that is neither the model's nor a checkpoint's. */
kolo_status kolo_weights_read(const kolo_safetensors *from, kolo_model *model, float *values);
/* Sets the weights of the model, and of the running training if there is one. */
kolo_status kolo_weights_take(kolo_model *model, const float *values);

/* kolo_save() for use within another call. */
kolo_status kolo_weights_write(const kolo_save_args *args);
/* kolo_checkpoint_save() and kolo_checkpoint_load() for use within another call, on any rank. */
kolo_status kolo_checkpoint_write(kolo_model *model, const char *path);
kolo_status kolo_checkpoint_read(kolo_model *model, const char *path);

#endif
