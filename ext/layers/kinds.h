/* The kinds of layers by name. */
#ifndef KOLO_LAYER_KINDS_H
#define KOLO_LAYER_KINDS_H

#include "layers/layer.h"

/* One of ours, or one that kolo_register_layer() was given; NULL: there is none of that name. Any thread. */
const kolo_layer_kind *kolo_layer_kind_find(const char *name);
/* Whether it has what a layer needs, or a sentence. */
kolo_status kolo_layer_kind_check(const kolo_layer_kind *kind);
bool kolo_layer_kind_is_ours(const kolo_layer_kind *kind);
/* Ours, by number; NULL after the last. */
const kolo_layer_kind *kolo_layer_kind_at(int index);

#endif
