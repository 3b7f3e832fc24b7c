/* CSV files, the second pass: converts the cells to numbers. Read csv.h first. */
#include "data/csv.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static kolo_status wanted(const kolo_csv_table *table, int64_t line, int column, const char *what, kolo_csv_cell cell)
{
    return kolo_fail(KOLO_FORMAT, "%s: line %" PRId64 ": %s: wanted %s, got \"%.40s\"", table->args->path, line,
                     kolo_csv_column_text(table, column), what, cell.text);
}

static bool is_missing(const kolo_csv_table *table, kolo_csv_cell cell)
{
    double number, missing = table->args->missing == KOLO_NONE ? 0 : table->args->missing;
    if (kolo_csv_missing(cell, table->args->missing_text)) return true;
    return table->missing_number && kolo_csv_number(cell, table->c, &number) && number == missing;
}

/* Reads a cell that is not missing: *value is its number, or the number of its category. */
static kolo_status read_cell(kolo_csv_table *table, int64_t line, int index, kolo_csv_cell cell, double *value)
{
    kolo_csv_column *column = &table->columns[index];
    if (column->categorical) {
        int32_t number;
        KOLO_TRY(kolo_dictionary_add(&column->categories, cell.text, cell.length, &number));
        *value = number;
        if (!column->named || number < column->named) return KOLO_OK;
        return wanted(table, line, index, table->args->like ? "a word that .like has here" : "one of .classes", cell);
    }
    if (!kolo_csv_number(cell, table->c, value)) return wanted(table, line, index, "a number", cell);
    if (fabs(*value) > FLT_MAX && !isinf(*value))
        return wanted(table, line, index, "a number that a float holds", cell);
    return KOLO_OK;
}

static kolo_status read_feature(kolo_csv_table *table, int64_t line, int index, kolo_csv_cell cell, float *target)
{
    double value = table->columns[index].categorical ? -1 : NAN;
    if (!is_missing(table, cell)) KOLO_TRY(read_cell(table, line, index, cell, &value));
    else if (table->args->on_missing <= KOLO_MISSING_FAIL)
        return wanted(table, line, index, "something (or .on_missing, which says what is to become of it)", cell);
    else table->missing = true;
    *target = (float)value;
    return KOLO_OK;
}

/* Reads a label or a weight. A row without one cannot be used: KOLO_MISSING_DROP drops it, other rules refuse it. */
static kolo_status read_other(kolo_csv_table *table, int64_t line, int index, kolo_csv_cell cell, double *value)
{
    *value = NAN;
    if (!is_missing(table, cell)) return read_cell(table, line, index, cell, value);
    if (table->args->on_missing == KOLO_MISSING_DROP) return KOLO_OK;
    return wanted(table, line, index, table->columns[index].role == KOLO_COLUMN_LABEL ? "a label" : "a weight", cell);
}

static kolo_status fill_row(void *user, int64_t line, const kolo_csv_cell *cells, int count)
{
    kolo_csv_table *table = user;
    if (table->header && !table->past_header) {
        table->past_header = true;
        return KOLO_OK;
    }
    if (count != table->count || table->filled == table->rows)
        return kolo_fail(KOLO_IO, "%s: it changed while it was read", table->args->path);
    float *floats = table->floats + table->filled * table->features;
    for (int i = 0; i < count; i++) {
        double value;
        switch (table->columns[i].role) {
        case KOLO_COLUMN_FEATURE: KOLO_TRY(read_feature(table, line, i, cells[i], floats++)); break;
        case KOLO_COLUMN_LABEL: KOLO_TRY(read_other(table, line, i, cells[i], &table->labels[table->filled])); break;
        case KOLO_COLUMN_WEIGHT:
            KOLO_TRY(read_other(table, line, i, cells[i], &value));
            table->weights[table->filled] = (float)value;
            break;
        case KOLO_COLUMN_DROPPED: break;
        }
    }
    table->filled++;
    return KOLO_OK;
}

kolo_status kolo_csv_table_fill(kolo_csv_table *table)
{
    size_t rows = (size_t)table->rows, numbers;
    bool weights = false;
    for (int i = 0; i < table->count; i++) weights = weights || table->columns[i].role == KOLO_COLUMN_WEIGHT;
    if (__builtin_mul_overflow(rows, (size_t)table->features, &numbers) || numbers > SIZE_MAX / sizeof(float))
        return kolo_fail_memory(SIZE_MAX, "the rows of a CSV file");
    table->floats = malloc(numbers * sizeof *table->floats);
    if (table->label >= 0) table->labels = malloc(rows * sizeof *table->labels);
    if (weights) table->weights = malloc(rows * sizeof *table->weights);
    if (!table->floats || (table->label >= 0 && !table->labels) || (weights && !table->weights))
        return kolo_fail_memory(numbers * sizeof(float) + rows * 12, "the rows of a CSV file");
    KOLO_TRY(kolo_csv_scan(table->args->path, table->args->separator, fill_row, table));
    if (table->filled < table->rows) return kolo_fail(KOLO_IO, "%s: it changed while it was read", table->args->path);
    return KOLO_OK;
}
