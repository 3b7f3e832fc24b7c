/* What saving weights, models and checkpoints share. Read saving/safetensors.h first. */
#ifndef KOLO_SAVING_SAVE_H
#define KOLO_SAVING_SAVE_H

#include "model/model.h"
#include "saving/safetensors.h"

/* What a file's metadata say: written by Kolo; the model as JSON; where a training stood. */
#define KOLO_METADATA_FORMAT     "format"
#define KOLO_METADATA_MODEL      "kolo.model"
#define KOLO_METADATA_CHECKPOINT "kolo.checkpoint"
/* Arrays whose names begin so belong to a checkpoint and are no weights: "optimizer/0/dense.kernel". */
#define KOLO_ARRAYS_OF_OPTIMIZER "optimizer/"

/* The model's weights are those of the training that runs, if one does. Fails where there are none yet. */
kolo_status kolo_weights_ready(kolo_model *model);
/* Its weights as arrays[parameter_count], which point into the model. */
void kolo_weights_describe(kolo_model *model, kolo_array *arrays);
/* Every weight of the file into values[weight_count], the model untouched; an array that is missing, has another shape,
 * or is not the model's (beside those of a checkpoint) fails. */
kolo_status kolo_weights_read(const kolo_safetensors *from, kolo_model *model, float *values);
/* They become the model's, and those of the training that runs. */
kolo_status kolo_weights_take(kolo_model *model, const float *values);

/* kolo_save(), within a call that runs. */
kolo_status kolo_weights_write(const kolo_save_args *args);
/* kolo_checkpoint_save() and kolo_checkpoint_load(), on any rank and within a call that runs. */
kolo_status kolo_checkpoint_write(kolo_model *model, const char *path);
kolo_status kolo_checkpoint_read(kolo_model *model, const char *path);

#endif
