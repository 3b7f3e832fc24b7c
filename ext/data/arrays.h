/* What a format's reader hands over: plain arrays from malloc, before they become a data set. */
#ifndef KOLO_DATA_ARRAYS_H
#define KOLO_DATA_ARRAYS_H

#include "core/error.h"
#include "core/shape.h"

/* The largest data set: its samples are numbered by int32_t. */
#define KOLO_SAMPLES_MAX INT32_MAX

/* What a column of a table was read by, so that another table can be read by the same. */
typedef struct kolo_column_recipe {
    char **words; /* [count], by their numbers, in one block; NULL: numbers */
    int count;
    float mean; /* of its numbers */
} kolo_column_recipe;

typedef struct kolo_arrays {
    int64_t samples;
    kolo_shape shape;
    uint8_t *bytes;  /* features, one of the three: bytes · scale, */
    float *floats;   /* floats as they are, */
    int32_t *tokens; /* or numbers of words */
    float scale;
    int32_t *labels; /* [samples][label_count], or NULL */
    int label_count;
    int classes;    /* 0: the largest label + 1 */
    float *targets; /* [samples][target_shape], or NULL */
    kolo_shape target_shape;
    float *weights; /* [samples], or NULL */
    char **class_names;   /* [classes], or NULL; one block of memory, the texts behind the pointers */
    char **feature_names; /* likewise, [elements of shape] */
    kolo_column_recipe *columns; /* [elements of shape], of a table; or NULL */
    int file_columns;            /* of a table's file, be they features or not; */
    uint8_t *roles;              /* what each of them is: kolo_column_role (csv.h); */
    char **column_names;         /* and its name, where there is a header; or NULL */
    bool synthetic;
    char source[200]; /* where they came from, in words */
} kolo_arrays;

/* Frees whatever there is. */
void kolo_arrays_free(kolo_arrays *arrays);

/* Copies a list of strings into one block from malloc. */
kolo_status kolo_names_copy(const char *const *list, int count, char ***names);

/* Keeps the samples index[count] alone, in that order. */
kolo_status kolo_arrays_choose(kolo_arrays *arrays, const int32_t *index, int64_t count);

/* Makes them a data set, which owns them from then on; on failure they are freed. */
kolo_status kolo_arrays_become(kolo_arrays *arrays, kolo_data **out);
/* What is behind every public call that reads: the arrays become its data set if `status` is KOLO_OK, else are freed.
 */
kolo_data *kolo_arrays_leave(kolo_scope scope, kolo_status status, kolo_arrays *arrays);

/* One to four sizes of at least 1, and at most 2³¹-1 elements, as a shape. */
kolo_status kolo_check_shape(const char *option, const int size[4], kolo_shape *shape);

#endif
