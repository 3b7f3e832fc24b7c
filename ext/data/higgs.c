/* The two HIGGS tables:
 *
 * ATLAS (Kaggle 2014; CERN Open Data record 328) has a header; 30 features, in which -999 means "could not be
 * computed"; EventId and weights, which are not features; and labels b, the more frequent, which becomes 0, and s.
 * UCI (Baldi, Sadowski, Whiteson 2014) has 28 features, and the label 0 or 1: in the column "label" if there is a
 * header with one, else in the first column.
 *
 * Neither is published as training and test set, so 70 % of the rows, a fixed random choice, are for training. A
 * missing number is replaced by the mean of the training rows. Read csv.h first. */
#include "data/higgs.h"
#include "core/random.h"
#include "data/csv.h"
#include "data/folder.h"

#include <dirent.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAINING_SHARE 0.7
#define SPLIT_SEED     1

static const char *const patterns[] = {"HIGGS*.csv*", "higgs*.csv*", "atlas-higgs*.csv*", "training*.csv*"};

static bool find_table(char path[PATH_MAX], const char *folder)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (kolo_folder_find(path, folder, patterns[i])) return true;
    return false;
}

/* Whether the file `name` is the table at `path`, perhaps with another compression. */
static bool is_same_table(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path;
    const char *end = strstr(own, ".csv"), *other = strstr(name, ".csv");
    return end && other && end - own == other - name && strncmp(own, name, (size_t)(end - own)) == 0;
}

/* Finds another table beside the one at `path`. The folder is then ambiguous: the files do not say which one is
 * meant, or which one is for training. */
static bool find_other(char name[NAME_MAX + 1], const char *folder, const char *path)
{
    bool found = false;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));) {
        bool table = false;
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
            table = table || fnmatch(patterns[i], entry->d_name, FNM_PERIOD) == 0;
        found = table && !is_same_table(path, entry->d_name);
        if (found) snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
    }
    if (entries) closedir(entries);
    return found;
}

bool kolo_higgs_in(const char *folder)
{
    char path[PATH_MAX];
    return find_table(path, folder);
}

/* ------------------------------------------------------------------------------------------ which of them */

typedef struct first_row {
    bool atlas, header, kaggle_set, label;
    int columns;
} first_row;

/* Looks at the first row only: ends the scan with KOLO_INTERRUPTED, which is no failure for look_at_file(). */
static kolo_status look(void *user, int64_t line, const kolo_csv_cell *cells, int count)
{
    first_row *row = user;
    (void)line;
    row->columns = count;
    for (int i = 0; i < count; i++) {
        if (strcmp(cells[i].text, "EventId") == 0) row->atlas = true;
        if (strcmp(cells[i].text, "KaggleSet") == 0) row->kaggle_set = true;
        if (strcasecmp(cells[i].text, "label") == 0) row->label = true;
    }
    return KOLO_INTERRUPTED;
}

static kolo_status look_at_file(const char *path, first_row *row)
{
    *row = (first_row){0};
    kolo_status status = kolo_csv_scan(path, ',', look, row);
    if (status != KOLO_INTERRUPTED) return status;
    bool uci = row->columns == 29;
    if ((row->atlas && row->label) || uci) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted ATLAS's columns (EventId, …, Label) or UCI's 29, got %d others", path,
                     row->columns);
}

static void choose_arguments(kolo_csv_args *args, const char *path, const first_row *row)
{
    *args = (kolo_csv_args){.path = path, .separator = ',', .on_missing = KOLO_MISSING_KEEP};
    if (row->atlas) {
        static const char *const dropped[] = {"EventId", "Weight", "KaggleSet", "KaggleWeight"};
        for (int i = 0; i < (row->kaggle_set ? 4 : 2); i++) args->drop[i] = dropped[i];
        args->missing = -999;
        args->label_column = "Label";
        args->classes[0] = "b", args->classes[1] = "s";
    } else if (!row->label) args->label_column = "0";
}

/* ------------------------------------------------------------------------------------------ the split */

/* Replaces missing numbers by the mean of the column over the training rows. */
static void fill_means(kolo_arrays *arrays, const int32_t *order, int64_t training)
{
    int64_t features = kolo_shape_count(arrays->shape);
    for (int64_t column = 0; column < features; column++) {
        double sum = 0;
        int64_t count = 0;
        for (int64_t i = 0; i < training; i++) {
            float value = arrays->floats[order[i] * features + column];
            if (!isnan(value)) sum += value, count++;
        }
        float mean = count ? (float)(sum / (double)count) : 0;
        for (int64_t row = 0; row < arrays->samples; row++) {
            float *value = &arrays->floats[row * features + column];
            if (isnan(*value)) *value = mean;
        }
    }
}

static kolo_status take_split(kolo_arrays *arrays, kolo_split split)
{
    int64_t training = (int64_t)llround(TRAINING_SHARE * (double)arrays->samples), rest = arrays->samples - training;
    if (training < 1 || rest < 1) return kolo_fail(KOLO_FORMAT, "wanted at least 2 rows to split, got 1");
    int32_t *order = malloc((size_t)arrays->samples * sizeof *order);
    if (!order) return kolo_fail_memory((size_t)arrays->samples * sizeof *order, "the order of the rows");
    kolo_random_permutation(SPLIT_SEED, 0, arrays->samples, order);
    fill_means(arrays, order, training);
    bool test = split == KOLO_TEST;
    kolo_status status = kolo_arrays_choose(arrays, order + (test ? training : 0), test ? rest : training);
    free(order);
    return status;
}

static kolo_status read_table(kolo_arrays *arrays, const char *path, kolo_split split)
{
    first_row row;
    kolo_csv_args args;
    KOLO_TRY(look_at_file(path, &row));
    choose_arguments(&args, path, &row);
    KOLO_TRY(kolo_csv_read(arrays, &args));
    if (!arrays->labels) return kolo_fail(KOLO_FORMAT, "%s: wanted labels that are classes, got real numbers", path);
    return take_split(arrays, split);
}

kolo_status kolo_higgs_read(kolo_arrays *arrays, const char *folder, kolo_split split)
{
    char path[PATH_MAX];
    if (!find_table(path, folder))
        return kolo_fail(KOLO_NOT_FOUND,
                         "%s: wanted a file HIGGS.csv, atlas-higgs-….csv or training.csv (or .gz, .xz)"
                         " in this folder, got none",
                         folder);
    char other[NAME_MAX + 1];
    if (find_other(other, folder, path))
        return kolo_fail(KOLO_FORMAT,
                         "%s: wanted one HIGGS table in this folder, of which Kolo makes both parts, got %s and %s"
                         " (kolo_csv() reads each by itself)",
                         folder, strrchr(path, '/') + 1, other);
    return read_table(arrays, path, split);
}
