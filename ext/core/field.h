/* Tables that describe the options of a recipe, for messages, summaries and saved models.
 *
 * A recipe (a layer, an optimizer, a schedule) has a struct of arguments. Its table has a kolo_field for each of them,
 * and ends with a kolo_field without a name. */
#ifndef KOLO_CORE_FIELD_H
#define KOLO_CORE_FIELD_H

#include <kolo.h>

#include <stddef.h>

typedef enum kolo_field_type {
    KOLO_FIELD_INT,
    KOLO_FIELD_BOOL,
    KOLO_FIELD_DOUBLE,
    KOLO_FIELD_STRING,
    KOLO_FIELD_ACTIVATION,
    KOLO_FIELD_PADDING
} kolo_field_type;

typedef struct kolo_field {
    const char *name; /* the member's name: "kernel" */
    kolo_field_type type;
    size_t offset; /* in the struct of arguments, which follows .kind in a kolo_layer */
    int count; /* elements of an array; 1 for a single value */
    bool positional; /* is written without its name */
} kolo_field;
/* Example: KOLO_FIELD(KOLO_FIELD_INT, conv2d, filters) */
#define KOLO_FIELD(type_, kind_, member_)      {#member_, type_, offsetof(kolo_##kind_##_args, member_), 1, false}
#define KOLO_POSITIONAL(type_, kind_, member_) {#member_, type_, offsetof(kolo_##kind_##_args, member_), 1, true}
#define KOLO_PAIR(kind_, member_)              {#member_, KOLO_FIELD_INT, offsetof(kolo_##kind_##_args, member_), 2, false}
#define KOLO_FIELDS_END(kind_)                                                                                         \
    KOLO_FIELD(KOLO_FIELD_STRING, kind_, name), KOLO_FIELD(KOLO_FIELD_STRING, kind_, device), {0}

/* Bytes of one element. */
size_t kolo_field_size(kolo_field_type type);
/* Whether the option was given, that is, whether any of its bytes is not zero. */
bool kolo_field_given(const kolo_field *field, const void *option);

#endif
