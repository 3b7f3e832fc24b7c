/* Models as JSON.
 *
 *     {"format": "kolo.model", "version": 1,
 *      "layers": [{"kind": "input", "size_1": 32, "size_2": 32, "size_3": 3},
 *                 {"kind": "conv2d", "filters": 3, "kernel": [1, 1], "name": "conv2d"},
 *                 {"kind": "add", "name": "add", "from": ["input", "conv2d"]}]}
 *
 * Options have the names that they have in C, and are left out where they were not given; choices are in small letters.
 * "from" names the layers whose outputs a layer takes, which stand before it; without it that is the one just before.
 * "output" names the layer whose outputs are the model's; without it that is the last. */
#ifndef KOLO_SAVING_MODEL_JSON_H
#define KOLO_SAVING_MODEL_JSON_H

#include "model/model.h"

#include <jansson.h>

#define KOLO_JSON_FROM "from"

/* One layer, without what it takes. Fails with a sentence that does not name the layer. */
kolo_status kolo_layer_to_json(const kolo_layer *layer, json_t **object);
/* Texts of the recipe are borrowed from the object. */
kolo_status kolo_layer_from_json(const json_t *object, kolo_layer *layer);

/* The whole model, as one line or as a person reads it; from malloc. */
kolo_status kolo_model_write_json(const kolo_model *model, bool one_line, char **text);
/* The layers of a text, and the number of the output; no memory for weights yet (kolo_model_finish). */
kolo_status kolo_model_read_json(const char *text, kolo_model **model, int *output);

/* A value as a sentence shows it, cut where it is long. */
const char *kolo_json_text(const json_t *value);

#endif
