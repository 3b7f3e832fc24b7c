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
    int64_t numbers, words;            /* numbers of such cells; the other cells are missing */
    int64_t first_word;                /* the line of the first word */
    bool whole;                        /* all its numbers are whole */
    double least, most;                /* of its numbers */
    int named;                         /* number of words that were set in advance, others are refused; 0: any */
    kolo_dictionary categories;        /* the words of a categorical column, in the order of their first occurrence */
} kolo_csv_column;

typedef struct kolo_csv_table {
    const kolo_csv_args *args;
    bool header;
    int count, features, label; /* number of columns; of features among them; the label's column, or -1 */
    kolo_csv_column *columns;
    int64_t rows;
    float *floats;    /* [rows][features], categories as numbers; missing: NaN, or category -1 */
    double *labels;   /* [rows], numbers, or the numbers of categories; NULL: no label */
    float *weights;   /* [rows], or NULL */
    bool past_header; /* in the second pass: the header was skipped */
    int64_t filled;   /* in the second pass: rows read so far */
    bool missing_number; /* .missing was given */
    bool missing;     /* some feature is missing */
    locale_t c;       /* the "C" locale */
} kolo_csv_table;

/* Reads the whole file in two passes: first what each column is, then the cells. The caller frees the table with
 * kolo_csv_table_free(), also on failure. */
kolo_status kolo_csv_table_read(kolo_csv_table *table, const kolo_csv_args *args);
void kolo_csv_table_free(kolo_csv_table *table);

/* Called on the first row: gives the columns the roles that they have in .like. Sets *label to the label's column, or
 * -1, if .like determines it. The caller then applies the columns that the arguments name (csv_like.c). */
kolo_status kolo_csv_roles_follow(kolo_csv_table *table, const kolo_data *like, int *label);
/* Called between the passes: takes the columns' words and the classes from .like (csv_like.c). */
kolo_status kolo_csv_table_follow(kolo_csv_table *table, const kolo_data *like);
/* Sets a column's words in advance, in the order of their numbers. */
kolo_status kolo_csv_column_name(kolo_csv_column *column, const char *const *words, int count);
/* The second pass of kolo_csv_table_read() (csv_fill.c). */
kolo_status kolo_csv_table_fill(kolo_csv_table *table);
/* Whether the numbers of a label column are class numbers as they are: whole, from 0 to KOLO_CSV_CLASSES_MAX - 1. */
#define KOLO_CSV_CLASSES_MAX 1000
bool kolo_csv_plain_classes(const kolo_csv_column *column);
/* A column as an error names it: "column 3 (\"age\")". */
const char *kolo_csv_column_text(const kolo_csv_table *table, int column);

/* Reads a CSV file into arrays, which the caller frees, also on failure. */
kolo_status kolo_csv_read(kolo_arrays *arrays, const kolo_csv_args *args);

#endif
