/* CSV files, the first pass: it finds out whether there is a header, what each column holds and which is the label.
 * Read csv.h first. */
#define _GNU_SOURCE
#include "core/written.h"
#include "data/csv.h"
#include "data/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CLASSES_NEAR 100 /* whole labels that span less are classes, even below 0 or above 999 */

void kolo_csv_table_free(kolo_csv_table *table)
{
    for (int i = 0; i < table->count; i++) {
        free(table->columns[i].name);
        kolo_dictionary_free(&table->columns[i].categories);
    }
    free(table->columns), free(table->floats), free(table->labels), free(table->weights);
    if (table->c) freelocale(table->c);
    *table = (kolo_csv_table){0};
}

const char *kolo_csv_column_text(const kolo_csv_table *table, int column)
{
    const char *name = table->columns[column].name;
    return name ? kolo_phrase("column %d (\"%.80s\")", column, name) : kolo_phrase("column %d", column);
}

/* ------------------------------------------------------------------------------------------ columns by name */

/* Finds a column by its name, or else by its number: 0 is the first, -1 the last. Returns -1 if there is none. */
static int find_column(const kolo_csv_table *table, const char *name)
{
    char *end;
    for (int i = 0; i < table->count; i++)
        if (table->columns[i].name && strcmp(table->columns[i].name, name) == 0) return i;
    long number = strtol(name, &end, 10);
    if (end == name || *end || number < -table->count || number >= table->count) return -1;
    return (int)(number < 0 ? number + table->count : number);
}

/* The default label: the first column called "label" in any case, since copies of a data set differ in case; else the
 * last column. */
static int label_by_habit(const kolo_csv_table *table)
{
    for (int i = 0; i < table->count; i++)
        if (table->columns[i].name && strcasecmp(table->columns[i].name, "label") == 0) return i;
    return table->count - 1;
}

static kolo_status no_column(const kolo_csv_table *table, const char *option, const char *name)
{
    const char *list = "";
    for (int i = 0; i < table->count && i < 12 && table->header; i++)
        list = kolo_phrase("%s%s%.24s", list, i ? ", " : "", table->columns[i].name);
    if (!table->header)
        return kolo_fail(KOLO_INVALID, "%s: wanted %s a column of 0 to %d (there is no header), got \"%s\"",
                         table->args->path, option, table->count - 1, name);
    return kolo_fail(KOLO_INVALID, "%s: wanted %s a column of the file (%s%s), got \"%s\"", table->args->path, option,
                     list, table->count > 12 ? ", …" : "", name);
}

static kolo_status give_role(kolo_csv_table *table, const char *option, const char *name, kolo_column_role role)
{
    int column = find_column(table, name);
    if (column < 0) return no_column(table, option, name);
    table->columns[column].role = role;
    return KOLO_OK;
}

/* Drops all columns of that name, since a file may have two. */
static kolo_status drop_columns(kolo_csv_table *table, const char *name)
{
    KOLO_TRY(give_role(table, ".drop", name, KOLO_COLUMN_DROPPED));
    for (int i = 0; i < table->count; i++)
        if (table->columns[i].name && strcmp(table->columns[i].name, name) == 0)
            table->columns[i].role = KOLO_COLUMN_DROPPED;
    return KOLO_OK;
}

static kolo_status give_roles(kolo_csv_table *table)
{
    const kolo_csv_args *args = table->args;
    bool follow = args->like && kolo_data_arrays(args->like)->roles;
    int label = label_by_habit(table);
    if (follow) KOLO_TRY(kolo_csv_roles_follow(table, args->like, &label));
    for (int i = 0; i < KOLO_CSV_NAMES_MAX && args->drop[i]; i++) KOLO_TRY(drop_columns(table, args->drop[i]));
    if (args->weight_column) KOLO_TRY(give_role(table, ".weight_column", args->weight_column, KOLO_COLUMN_WEIGHT));
    for (int i = 0; i < KOLO_CSV_NAMES_MAX && args->categorical[i]; i++) {
        int column = find_column(table, args->categorical[i]);
        if (column < 0) return no_column(table, ".categorical", args->categorical[i]);
        table->columns[column].categorical = true;
    }
    if (args->label_column && !args->no_label) {
        label = find_column(table, args->label_column);
        if (label < 0) return no_column(table, ".label_column", args->label_column);
    }
    table->label = args->no_label ? -1 : label;
    if (table->label >= 0) table->columns[table->label].role = KOLO_COLUMN_LABEL;
    for (int i = 0; i < table->count; i++) table->features += table->columns[i].role == KOLO_COLUMN_FEATURE;
    if (table->features == 0)
        return kolo_fail(KOLO_FORMAT,
                         "%s: wanted at least one column of features, got %d columns in all (is the"
                         " .separator another?)",
                         args->path, table->count);
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ the first row */

/* The first row is a header if .header says so; by default, if none of its cells is a number. */
static bool looks_like_header(const kolo_csv_table *table, const kolo_csv_cell *cells, int count)
{
    double number;
    int header = table->args->header;
    kolo_keep_zero_int(table->args->_, "header", &header);
    if (header) return header != KOLO_NONE;
    for (int i = 0; i < count; i++)
        if (kolo_csv_number(cells[i], table->c, &number)) return false;
    return true;
}

static kolo_status begin_table(kolo_csv_table *table, const kolo_csv_cell *cells, int count)
{
    table->header = looks_like_header(table, cells, count);
    if (!(table->columns = calloc((size_t)count, sizeof *table->columns)))
        return kolo_fail_memory((size_t)count * sizeof *table->columns, "the columns of a CSV file");
    table->count = count;
    for (int i = 0; i < count; i++) {
        kolo_csv_column *column = &table->columns[i];
        *column = (kolo_csv_column){.whole = true, .least = INFINITY, .most = -INFINITY};
        if (table->header && !(column->name = strdup(cells[i].text)))
            return kolo_fail_memory(cells[i].length, "the name of a column");
    }
    return give_roles(table);
}

/* ------------------------------------------------------------------------------------------ every row */

static void look_at(kolo_csv_table *table, kolo_csv_column *column, kolo_csv_cell cell, int64_t line)
{
    double number;
    if (kolo_csv_missing(cell, table->args->missing_text)) return;
    if (!kolo_csv_number(cell, table->c, &number)) {
        if (column->words++ == 0) column->first_word = line;
        return;
    }
    column->numbers++;
    if (number != floor(number) || fabs(number) > 1e15) column->whole = false;
    if (number < column->least) column->least = number;
    if (number > column->most) column->most = number;
}

static kolo_status look_at_row(void *user, int64_t line, const kolo_csv_cell *cells, int count)
{
    kolo_csv_table *table = user;
    if (!table->columns) {
        KOLO_TRY(begin_table(table, cells, count));
        if (table->header) return KOLO_OK;
    }
    if (count != table->count)
        return kolo_fail(KOLO_FORMAT, "%s: line %" PRId64 ": wanted %d columns as in the first, got %d",
                         table->args->path, line, table->count, count);
    if (++table->rows > KOLO_SAMPLES_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted at most %d rows, got more", table->args->path, KOLO_SAMPLES_MAX);
    for (int i = 0; i < count; i++)
        if (table->columns[i].role != KOLO_COLUMN_DROPPED) look_at(table, &table->columns[i], cells[i], line);
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ kinds */

bool kolo_csv_plain_classes(const kolo_csv_column *column)
{
    return !column->categorical && column->whole && column->least >= 0 && column->most < KOLO_CSV_CLASSES_MAX;
}

/* Decides whether a column holds words or numbers. A column of mostly numbers with a word in it is refused: it is
 * more likely damaged than intended. So is a word where numbers are required: .like, weights, the target of a
 * regression. */
static kolo_status choose_kind(kolo_csv_table *table, int index)
{
    kolo_csv_column *column = &table->columns[index];
    bool label = column->role == KOLO_COLUMN_LABEL, regression = label && table->args->regression;
    if (column->role == KOLO_COLUMN_DROPPED) return KOLO_OK;
    if (regression || column->role == KOLO_COLUMN_WEIGHT) column->categorical = false;
    bool numeric =
        regression || table->args->like || column->role == KOLO_COLUMN_WEIGHT || column->numbers > column->words;
    if (column->words > 0 && numeric && !column->categorical)
        return kolo_fail(KOLO_FORMAT,
                         "%s: line %" PRId64 ": %s: wanted a number, as in %" PRId64 " of its rows, got a"
                         " word (name it in .categorical where words are meant)",
                         table->args->path, column->first_word, kolo_csv_column_text(table, index), column->numbers);
    if (column->words > 0) column->categorical = true;
    bool classes = label && !regression && !table->args->like && column->whole && column->numbers > 0 &&
                   !kolo_csv_plain_classes(column);
    if (classes && column->most - column->least < CLASSES_NEAR) column->categorical = true; /* such as -1 and 1 */
    return KOLO_OK;
}

kolo_status kolo_csv_column_name(kolo_csv_column *column, const char *const *words, int count)
{
    int32_t number;
    column->categorical = true;
    for (int i = 0; i < count; i++)
        KOLO_TRY(kolo_dictionary_add(&column->categories, words[i], strlen(words[i]), &number));
    column->named = column->categories.size;
    return KOLO_OK;
}

static kolo_status name_classes(kolo_csv_table *table)
{
    int count = 0;
    while (count < KOLO_CSV_NAMES_MAX && table->args->classes[count]) count++;
    if (count == 0 || table->label < 0 || table->args->regression) return KOLO_OK;
    return kolo_csv_column_name(&table->columns[table->label], table->args->classes, count);
}

kolo_status kolo_csv_table_read(kolo_csv_table *table, const kolo_csv_args *args)
{
    *table = (kolo_csv_table){.args = args, .label = -1};
    table->missing_number = args->missing != 0 || kolo_written(args->_, "missing");
    if (!(table->c = newlocale(LC_ALL_MASK, "C", (locale_t)0))) return kolo_fail_memory(1024, "the C locale");
    KOLO_TRY(kolo_csv_scan(args->path, args->separator, look_at_row, table));
    if (table->rows == 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted rows, got %s", args->path, table->header ? "a header alone" : "none");
    KOLO_TRY(args->like ? kolo_csv_table_follow(table, args->like) : name_classes(table));
    for (int i = 0; i < table->count; i++) KOLO_TRY(choose_kind(table, i));
    return kolo_csv_table_fill(table);
}
