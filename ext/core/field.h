/* Tables of options: what messages, summaries and saved models need to know of an option of a recipe.
 *
 * A recipe (a layer, an optimizer, a schedule) has a struct of arguments; its table has a kolo_field for each of them,
 * ended by one without a name. */
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
    const char *name; /* as in C: "kernel" */
    kolo_field_type type;
    size_t offset; /* in the recipe's arguments: of a kolo_layer, behind its kind */
    int count; /* elements of an array; 1 */
    bool positional;
} kolo_field;
/* KOLO_FIELD(KOLO_FIELD_INT, conv2d, filters) */
#define KOLO_FIELD(type_, kind_, member_)      {#member_, type_, offsetof(kolo_##kind_##_args, member_), 1, false}
#define KOLO_POSITIONAL(type_, kind_, member_) {#member_, type_, offsetof(kolo_##kind_##_args, member_), 1, true}
#define KOLO_PAIR(kind_, member_)              {#member_, KOLO_FIELD_INT, offsetof(kolo_##kind_##_args, member_), 2, false}
#define KOLO_FIELDS_END(kind_)                                                                                         \
    KOLO_FIELD(KOLO_FIELD_STRING, kind_, name), KOLO_FIELD(KOLO_FIELD_STRING, kind_, device), {0}

/* Bytes of one element. */
size_t kolo_field_size(kolo_field_type type);
/* Whether any byte of the option is not zero: an option that is left out is all zeros. */
bool kolo_field_given(const kolo_field *field, const void *option);

#endif
