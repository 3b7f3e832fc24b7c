/* Finds options in a layer's recipe by the kind's table of fields (layers/layer.h): see model.h. */
#include "model/model.h"

#include <string.h>

static const kolo_field own_fields[] = {
    {"number", KOLO_FIELD_DOUBLE, offsetof(kolo_custom_args, number), 4, false},
    KOLO_FIELDS_END(custom),
};

const kolo_field *kolo_layer_fields(const kolo_layer_kind *kind)
{
    return kind->fields ? kind->fields : own_fields;
}

const void *kolo_layer_arguments(const kolo_layer *layer)
{
    return &layer->custom; /* all members of the union begin at this address */
}

const void *kolo_layer_option(const kolo_layer *layer, const char *name)
{
    for (const kolo_field *field = kolo_layer_fields(layer->kind); field->name; field++)
        if (strcmp(field->name, name) == 0) return (const char *)kolo_layer_arguments(layer) + field->offset;
    return NULL;
}
