/* Models as JSON.
 *
 *     {"format": "kolo.model", "version": 1,
 *      "layers": [{"kind": "input", "size_1": 32, "size_2": 32, "size_3": 3},
 *                 {"kind": "conv2d", "filters": 3, "kernel": [1, 1], "name": "conv2d"},
 *                 {"kind": "add", "name": "add", "from": ["input", "conv2d"]}]}
 *
 * Options have the same names as in C, and are left out if they were not given; choices are in lower case. "from"
 * names the layers whose outputs a layer takes, which must be listed before it; default: the previous layer. "output"
 * names the layer whose outputs are the model's; default: the last. */
#ifndef KOLO_SAVING_MODEL_JSON_H
#define KOLO_SAVING_MODEL_JSON_H

#include "model/model.h"

#include <jansson.h>

#define KOLO_JSON_FROM "from"

/* Converts one layer, without "from". The error does not name the layer. */
kolo_status kolo_layer_to_json(const kolo_layer *layer, json_t **object);
/* The recipe's strings stay in the object, which must outlive them. */
kolo_status kolo_layer_from_json(const json_t *object, kolo_layer *layer);

/* Writes the whole model, as one line or indented; *text is from malloc. */
kolo_status kolo_model_write_json(const kolo_model *model, bool one_line, char **text);
/* Reads the layers, and the number of the output layer. Does not allocate weights: kolo_model_finish() does. The
 * caller frees *model, on failure too if it is set. */
kolo_status kolo_model_read_json(const char *text, kolo_model **model, int *output);

/* A value as text for an error, at most 60 bytes, in a buffer of kolo_phrase(). */
const char *kolo_json_text(const json_t *value);

#endif
