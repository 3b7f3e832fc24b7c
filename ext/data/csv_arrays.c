/* Conversion of CSV tables to arrays: orders categories, makes labels or targets, and treats missing values. Read
 * csv.h first. */
#include "data/csv.h"
#include "data/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------ categories */

/* rank[number] becomes a category's place, and order[] the inverse; both from malloc. Categories are ordered by
 * descending frequency, equally frequent ones by their words, as by Spark's StringIndexer; or, if `named`, as they
 * are numbered. */
static kolo_status rank_categories(const kolo_dictionary *categories, bool named, int32_t **rank, int32_t **order)
{
    KOLO_TRY(kolo_dictionary_order(categories, KOLO_TIES_ASCENDING, order));
    if (!(*rank = malloc((size_t)(categories->size + 1) * sizeof **rank))) {
        free(*order), *order = NULL;
        return kolo_fail_memory((size_t)categories->size * sizeof **rank, "categories");
    }
    for (int32_t i = 0; i < categories->size && named; i++) (*order)[i] = i;
    for (int32_t i = 0; i < categories->size; i++) (*rank)[(*order)[i]] = i;
    return KOLO_OK;
}

static kolo_status index_feature(kolo_csv_table *table, const kolo_csv_column *column, int feature,
                                 kolo_column_recipe *recipe)
{
    int32_t *rank, *order;
    KOLO_TRY(rank_categories(&column->categories, column->named > 0, &rank, &order));
    recipe->count = column->categories.size;
    kolo_status status = kolo_dictionary_names(&column->categories, NULL, 0, order, recipe->count, &recipe->words);
    for (int64_t row = 0; row < table->rows; row++) {
        float *value = &table->floats[row * table->features + feature];
        *value = *value < 0 ? NAN : (float)rank[(int32_t)*value];
    }
    free(rank), free(order);
    return status;
}

/* ------------------------------------------------------------------------------------------ missing values */

static bool whole_row(const kolo_csv_table *table, int64_t row)
{
    const float *floats = table->floats + row * table->features;
    for (int i = 0; i < table->features; i++)
        if (isnan(floats[i])) return false;
    return !(table->labels && isnan(table->labels[row])) && !(table->weights && isnan(table->weights[row]));
}

static kolo_status drop_rows(kolo_csv_table *table)
{
    int64_t kept = 0;
    size_t width = (size_t)table->features * sizeof(float);
    for (int64_t row = 0; row < table->rows; row++) {
        if (!whole_row(table, row)) continue;
        memmove(table->floats + kept * table->features, table->floats + row * table->features, width);
        if (table->labels) table->labels[kept] = table->labels[row];
        if (table->weights) table->weights[kept] = table->weights[row];
        kept++;
    }
    if (kept == 0) return kolo_fail(KOLO_FORMAT, "%s: wanted rows with nothing missing, got none", table->args->path);
    table->rows = kept;
    return KOLO_OK;
}

static float mean_of(const kolo_csv_table *table, int feature)
{
    double sum = 0;
    int64_t count = 0;
    const float *floats = table->floats + feature;
    for (int64_t row = 0; row < table->rows; row++)
        if (!isnan(floats[row * table->features])) sum += floats[row * table->features], count++;
    return count ? (float)(sum / (double)count) : 0;
}

static void fill_missing(kolo_csv_table *table, int feature, float value)
{
    float *floats = table->floats + feature;
    for (int64_t row = 0; row < table->rows; row++)
        if (isnan(floats[row * table->features])) floats[row * table->features] = value;
}

/* Treats missing values by .on_missing. In a column of words KOLO_MISSING_MEAN and _ZERO both fill in 0, which is the
 * most frequent word. The means are those of .like, if given. */
static kolo_status settle_features(kolo_csv_table *table, kolo_column_recipe *recipes)
{
    kolo_missing rule = table->args->on_missing;
    const kolo_data *like = table->args->like;
    for (int i = 0, feature = 0; i < table->count; i++) {
        if (table->columns[i].role != KOLO_COLUMN_FEATURE) continue;
        bool categorical = table->columns[i].categorical;
        kolo_column_recipe *recipe = &recipes[feature];
        if (categorical) KOLO_TRY(index_feature(table, &table->columns[i], feature, recipe));
        else recipe->mean = like ? kolo_data_arrays(like)->columns[feature].mean : mean_of(table, feature);
        if (table->missing && rule == KOLO_MISSING_MEAN) fill_missing(table, feature, recipe->mean);
        if (table->missing && rule == KOLO_MISSING_ZERO) fill_missing(table, feature, 0);
        feature++;
    }
    return rule == KOLO_MISSING_DROP ? drop_rows(table) : KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ labels */

static kolo_status index_labels(kolo_csv_table *table, kolo_arrays *arrays)
{
    const kolo_csv_column *column = &table->columns[table->label];
    int32_t *rank = NULL, *order = NULL;
    size_t rows = (size_t)table->rows;
    kolo_status status = KOLO_OK;
    arrays->label_count = 1;
    if (!(arrays->labels = malloc(rows * sizeof *arrays->labels)))
        return kolo_fail_memory(rows * sizeof *arrays->labels, "the labels");
    arrays->classes = column->categorical ? column->categories.size : (int)column->most + 1;
    if (table->args->like) arrays->classes = table->args->like->classes;
    if (column->categorical) KOLO_TRY(rank_categories(&column->categories, column->named > 0, &rank, &order));
    for (size_t row = 0; row < rows; row++) {
        int32_t number = (int32_t)table->labels[row];
        arrays->labels[row] = rank ? rank[number] : number;
    }
    if (rank)
        status = kolo_dictionary_names(&column->categories, NULL, 0, order, arrays->classes, &arrays->class_names);
    free(rank), free(order);
    return status;
}

static kolo_status take_labels(kolo_csv_table *table, kolo_arrays *arrays)
{
    if (table->label < 0) return KOLO_OK;
    const kolo_csv_column *column = &table->columns[table->label];
    bool real = table->args->regression || (table->args->like && !table->args->like->has_labels);
    if (!real && (column->categorical || kolo_csv_plain_classes(column))) return index_labels(table, arrays);
    size_t bytes = (size_t)table->rows * sizeof *arrays->targets;
    if (!(arrays->targets = malloc(bytes))) return kolo_fail_memory(bytes, "the targets");
    for (int64_t row = 0; row < table->rows; row++) arrays->targets[row] = (float)table->labels[row];
    arrays->target_shape = (kolo_shape){1, {1}};
    return KOLO_OK;
}

static kolo_status name_features(const kolo_csv_table *table, kolo_arrays *arrays)
{
    const char **names = malloc((size_t)table->features * sizeof *names);
    if (!names) return kolo_fail_memory((size_t)table->features * sizeof *names, "names");
    for (int i = 0, feature = 0; i < table->count; i++)
        if (table->columns[i].role == KOLO_COLUMN_FEATURE) names[feature++] = table->columns[i].name;
    kolo_status status = kolo_names_copy(names, table->features, &arrays->feature_names);
    free(names);
    return status;
}

/* Keeps the columns' roles and names for tables that are read with this one as .like. */
static kolo_status keep_roles(const kolo_csv_table *table, kolo_arrays *arrays)
{
    size_t count = (size_t)table->count;
    const char **names = malloc(count * sizeof *names);
    arrays->roles = malloc(count);
    arrays->file_columns = table->count;
    kolo_status status = names && arrays->roles ? KOLO_OK : kolo_fail_memory(count, "the columns of a CSV file");
    for (int i = 0; i < table->count && status == KOLO_OK; i++) {
        names[i] = table->columns[i].name;
        arrays->roles[i] = (uint8_t)table->columns[i].role;
    }
    if (status == KOLO_OK && table->header) status = kolo_names_copy(names, table->count, &arrays->column_names);
    free(names);
    return status;
}

/* Numbers categories by descending frequency, and treats missing values by .on_missing. */
static kolo_status make_arrays(kolo_csv_table *table, kolo_arrays *arrays)
{
    *arrays = (kolo_arrays){.scale = 1, .shape = {1, {table->features}}};
    if (!(arrays->columns = calloc((size_t)table->features, sizeof *arrays->columns)))
        return kolo_fail_memory((size_t)table->features * sizeof *arrays->columns, "the columns of a CSV file");
    KOLO_TRY(settle_features(table, arrays->columns));
    arrays->samples = table->rows;
    KOLO_TRY(take_labels(table, arrays));
    if (table->header) KOLO_TRY(name_features(table, arrays));
    KOLO_TRY(keep_roles(table, arrays));
    snprintf(arrays->source, sizeof arrays->source, "%s", table->args->path);
    arrays->floats = table->floats, table->floats = NULL;
    arrays->weights = table->weights, table->weights = NULL;
    return KOLO_OK;
}

kolo_status kolo_csv_read(kolo_arrays *arrays, const kolo_csv_args *args)
{
    kolo_csv_table table;
    if ((int)args->on_missing < 0 || args->on_missing > KOLO_MISSING_KEEP)
        return kolo_fail(KOLO_INVALID, "wanted .on_missing one of KOLO_MISSING_FAIL to KOLO_MISSING_KEEP, got %d",
                         (int)args->on_missing);
    kolo_status status = kolo_csv_table_read(&table, args);
    if (status == KOLO_OK) status = make_arrays(&table, arrays);
    kolo_csv_table_free(&table);
    return status;
}

kolo_data *kolo_csv_at(const kolo_csv_args *args, kolo_here here)
{
    kolo_arrays arrays = {0};
    kolo_scope scope = kolo_enter("kolo_csv", here);
    return kolo_arrays_leave(scope, kolo_csv_read(&arrays, args), &arrays);
}
