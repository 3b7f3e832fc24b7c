/* CSV files that are read like another table (.like): a test set like its training set. Read csv.h first. */
#include "data/csv.h"
#include "data/data.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------ the kinds of columns */

/* The column of .like's file that corresponds to column `index`: the one of the same name, or, if either file lacks a
 * header, of the same number. -1: none. */
static int same_column(const kolo_csv_table *table, int index, const kolo_arrays *like)
{
    const char *name = table->columns[index].name;
    if (!name || !like->column_names) return index < like->file_columns ? index : -1;
    if (index < like->file_columns && strcmp(like->column_names[index], name) == 0) return index;
    for (int i = 0; i < like->file_columns; i++)
        if (strcmp(like->column_names[i], name) == 0) return i;
    return -1;
}

static bool names_roles(const kolo_csv_args *args)
{
    return args->label_column || args->no_label || args->weight_column || args->drop[0];
}

/* Fails with the name of .like's label column, which this file lacks. Returns KOLO_OK if .like's file has no header
 * or no label. */
static kolo_status no_label(const kolo_csv_table *table, const kolo_arrays *like)
{
    for (int i = 0; i < like->file_columns; i++)
        if (like->roles[i] == KOLO_COLUMN_LABEL && like->column_names)
            return kolo_fail(KOLO_FORMAT,
                             "%s: wanted a column \"%.80s\", the label as .like has it, got none (.no_label = true"
                             " reads a table without labels)",
                             table->args->path, like->column_names[i]);
    return KOLO_OK;
}

kolo_status kolo_csv_roles_follow(kolo_csv_table *table, const kolo_data *like, int *label)
{
    const kolo_csv_args *args = table->args;
    const kolo_arrays *arrays = kolo_data_arrays(like);
    bool by_name = table->header && arrays->column_names, labelled = like->has_labels || like->has_targets;
    bool adds_label = !labelled && table->count > arrays->file_columns;
    if (!by_name && !adds_label && table->count != arrays->file_columns) {
        if (names_roles(args)) return KOLO_OK;
        return kolo_fail(KOLO_FORMAT, "%s: wanted %d columns, as .like has, got %d", args->path, arrays->file_columns,
                         table->count);
    }
    if (!adds_label) *label = -1;
    for (int i = 0; i < table->count; i++) {
        int same = same_column(table, i, arrays);
        kolo_column_role role = same < 0 ? KOLO_COLUMN_FEATURE : arrays->roles[same];
        if (role == KOLO_COLUMN_LABEL) *label = i;
        else if (role == KOLO_COLUMN_DROPPED || !args->weight_column) table->columns[i].role = role;
    }
    return labelled && *label < 0 && !args->no_label && !args->label_column ? no_label(table, arrays) : KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ their values */

static kolo_status follow_feature(kolo_csv_table *table, int column, int feature, const kolo_data *like)
{
    const kolo_column_recipe *recipe = &kolo_data_arrays(like)->columns[feature];
    kolo_csv_column *own = &table->columns[column];
    const char *name = like->feature_names ? like->feature_names[feature] : NULL;
    if (name && own->name && strcmp(name, own->name) != 0)
        return kolo_fail(KOLO_FORMAT, "%s: feature %d: wanted \"%.80s\", as .like has, got \"%.80s\"",
                         table->args->path, feature, name, own->name);
    own->categorical = false;
    if (!recipe->words) return KOLO_OK;
    return kolo_csv_column_name(own, (const char *const *)recipe->words, recipe->count);
}

/* Classes with names are found by their names. Classes without names are numbers, which must be below .like's number
 * of classes. */
static kolo_status follow_label(kolo_csv_table *table, const kolo_data *like)
{
    kolo_csv_column *label = &table->columns[table->label];
    label->categorical = false;
    if (!like->has_labels) return KOLO_OK;
    if (like->class_names) return kolo_csv_column_name(label, like->class_names, like->classes);
    if (label->words > 0 || label->numbers == 0 || (kolo_csv_plain_classes(label) && label->most < like->classes))
        return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: %s: wanted classes of 0 to %d, as .like has, got %g to %g", table->args->path,
                     kolo_csv_column_text(table, table->label), like->classes - 1, label->least, label->most);
}

kolo_status kolo_csv_table_follow(kolo_csv_table *table, const kolo_data *like)
{
    int features = (int)kolo_shape_count(like->shape);
    if (!kolo_data_arrays(like)->columns)
        return kolo_fail(KOLO_INVALID, "wanted .like made by kolo_csv(), got data of %s", like->source);
    if (table->features != features)
        return kolo_fail(KOLO_FORMAT, "%s: wanted %d features, as .like has, got %d", table->args->path, features,
                         table->features);
    for (int i = 0, feature = 0; i < table->count; i++)
        if (table->columns[i].role == KOLO_COLUMN_FEATURE) KOLO_TRY(follow_feature(table, i, feature++, like));
    if (table->label < 0 || (!like->has_labels && !like->has_targets)) return KOLO_OK;
    return follow_label(table, like);
}
