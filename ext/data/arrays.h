/* The result of a file format's reader: plain arrays from malloc, which then become a data set. */
#ifndef KOLO_DATA_ARRAYS_H
#define KOLO_DATA_ARRAYS_H

#include "core/error.h"
#include "core/shape.h"

/* The most samples of a data set: they are numbered by int32_t. */
#define KOLO_SAMPLES_MAX INT32_MAX

/* How a column of a table was converted, so that another table can be read in the same way. */
typedef struct kolo_column_recipe {
    char **words; /* [count], in the order of their numbers, one block of memory; NULL: the column holds numbers */
    int count;
    float mean; /* of the column's numbers */
} kolo_column_recipe;

typedef struct kolo_arrays {
    int64_t samples;
    kolo_shape shape;
    /* The features, [samples][shape], are in one of three arrays; the others are NULL. */
    uint8_t *bytes;  /* to be multiplied by scale */
    float *floats;   /* as they are */
    int32_t *tokens; /* numbers of words */
    float scale;
    int32_t *labels; /* [samples][label_count], or NULL */
    int label_count;
    int classes;    /* 0: the largest label + 1 */
    float *targets; /* [samples][target_shape], or NULL */
    kolo_shape target_shape;
    float *weights; /* [samples], or NULL */
    char **class_names;   /* [classes], or NULL; one block of memory: the pointers, then the texts */
    char **feature_names; /* [elements of shape], or NULL; one block likewise */
    kolo_column_recipe *columns; /* [elements of shape] of a table, or NULL */
    int file_columns;            /* columns of a table's file, features or not */
    uint8_t *roles;              /* [file_columns] kolo_column_role (csv.h), or NULL */
    char **column_names;         /* [file_columns], or NULL: the file has no header */
    bool synthetic;
    char source[200]; /* a description of where the data came from */
} kolo_arrays;

/* Frees all arrays and sets the struct to zero. */
void kolo_arrays_free(kolo_arrays *arrays);

/* Copies a list of strings into one block from malloc. */
kolo_status kolo_names_copy(const char *const *list, int count, char ***names);

/* Keeps only the samples index[count], in that order. */
kolo_status kolo_arrays_choose(kolo_arrays *arrays, const int32_t *index, int64_t count);

/* Makes a data set of the arrays and owns them from then on; on failure they are freed. */
kolo_status kolo_arrays_become(kolo_arrays *arrays, kolo_data **out);
/* Ends a public call that reads data: makes a data set of the arrays if `status` is KOLO_OK, else frees what there is
 * of them and returns NULL. */
kolo_data *kolo_arrays_leave(kolo_scope scope, kolo_status status, kolo_arrays *arrays);

/* Sets *shape to one to four sizes of at least 1 (the rest of size[] is 0), of at most 2³¹-1 elements in all.
 * `option` names the sizes in an error. */
kolo_status kolo_check_shape(const char *option, const int size[4], kolo_shape *shape);

#endif
