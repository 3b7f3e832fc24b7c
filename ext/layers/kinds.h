/* The kinds of layers by name. */
#ifndef KOLO_LAYER_KINDS_H
#define KOLO_LAYER_KINDS_H

#include "layers/layer.h"

/* The built-in or registered (kolo_register_layer()) kind of that name, or NULL. Any thread may call it. */
const kolo_layer_kind *kolo_layer_kind_find(const char *name);
/* Fails if the kind is NULL or lacks a name or one of its functions. */
kolo_status kolo_layer_kind_check(const kolo_layer_kind *kind);
bool kolo_layer_kind_is_ours(const kolo_layer_kind *kind);
/* Built-in kind number `index`; NULL after the last. */
const kolo_layer_kind *kolo_layer_kind_at(int index);

#endif
