/* CSV files read as another table was: a test's table by its training table. Read csv.h first. */
#include "data/csv.h"
#include "data/data.h"

#include <inttypes.h>
#include <string.h>

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

/* Classes with names are found by them; those without are numbers, of which none may be beyond. */
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
