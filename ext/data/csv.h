/* CSV files as tables: the kind of each column, and its numbers. Read csv_scan.h first. */
#ifndef KOLO_DATA_CSV_H
#define KOLO_DATA_CSV_H

#include "data/arrays.h"
#include "data/csv_scan.h"
#include "data/dictionary.h"

typedef enum kolo_column_role {
    KOLO_COLUMN_FEATURE,
    KOLO_COLUMN_LABEL,
    KOLO_COLUMN_WEIGHT,
    KOLO_COLUMN_DROPPED
} kolo_column_role;

typedef struct kolo_csv_column {
    char *name; /* or NULL */
    kolo_column_role role;
    bool categorical;                  /* words, not numbers */
    int64_t numbers, words;            /* how many of its cells are which; the rest is missing */
    int64_t first_number, first_word;  /* the lines they are first met in */
    bool whole;                        /* its numbers are whole */
    double least, most;                /* of its numbers */
    int named;                         /* words that are given beforehand: others are refused; 0: any */
    kolo_dictionary categories;        /* of a categorical one, in the order met */
} kolo_csv_column;

typedef struct kolo_csv_table {
    const kolo_csv_args *args;
    bool header;
    int count, features, label; /* columns; of them features; the label's, or -1 */
    kolo_csv_column *columns;
    int64_t rows;
    float *floats;    /* [rows][features], in the columns' order; NaN where a number is missing, -1 a category */
    double *labels;   /* [rows]: numbers, or categories; or NULL */
    float *weights;   /* [rows], or NULL */
    bool past_header; /* while they are read, the second time */
    int64_t filled;   /* rows, likewise */
    bool missing_number; /* .missing is given */
    bool missing;     /* anywhere in the features */
    locale_t c;       /* the "C" locale */
} kolo_csv_table;

/* Reads the whole file in two passes: what the columns are, then what is in them. On failure too,
 * kolo_csv_table_free() frees what there is. */
kolo_status kolo_csv_table_read(kolo_csv_table *table, const kolo_csv_args *args);
void kolo_csv_table_free(kolo_csv_table *table);

/* On the first row: gives columns the roles that they have in .like, but for those that the arguments name. Sets
 * *label to the label's column, or -1, where .like says which it is (csv_like.c). */
kolo_status kolo_csv_roles_follow(kolo_csv_table *table, const kolo_data *like, int *label);
/* Between the passes: columns and classes are those of .like (csv_like.c). */
kolo_status kolo_csv_table_follow(kolo_csv_table *table, const kolo_data *like);
/* Gives a column its words beforehand, in the order of their numbers. */
kolo_status kolo_csv_column_name(kolo_csv_column *column, const char *const *words, int count);
/* The second pass, of kolo_csv_table_read (csv_fill.c). */
kolo_status kolo_csv_table_fill(kolo_csv_table *table);
/* Whether a label's numbers are the numbers of classes as they stand. */
#define KOLO_CSV_CLASSES_MAX 1000
bool kolo_csv_plain_classes(const kolo_csv_column *column);
/* A column in a sentence: "column 3 (\"age\")". */
const char *kolo_csv_column_text(const kolo_csv_table *table, int column);

/* The table as arrays: categories by descending frequency, what is missing as the arguments say. */
kolo_status kolo_csv_arrays(kolo_csv_table *table, kolo_arrays *arrays);
/* All of it. On failure arrays are empty. */
kolo_status kolo_csv_read(kolo_arrays *arrays, const kolo_csv_args *args);

#endif
