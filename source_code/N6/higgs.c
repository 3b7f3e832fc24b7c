/* Which collisions made a Higgs boson: the table of CERN's experiments, and the network that dist-keras's trainers were
 * compared on.
 *
 *   higgs                                 UCI's or ATLAS's table, in the folder higgs of KOLO_DATA
 *   higgs --trainer single --epochs 5     one worker, several epochs
 *   higgs --devices 2 --batch-size 128    two mirrored devices, 64 rows on each
 *   kolorun -np 2 higgs                   two ranks, 64 rows on each
 *
 * 70 % of the rows are learnt, the others tell how well: by the F1 of each class, weighted by how frequent it is, as
 * Spark's multiclass F1 is.
 */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------ the table */

/* What makes each column of the training rows one of mean 0 and standard deviation 1. */
typedef struct scaling {
    int64_t columns;
    double *mean, *deviation; /* [columns] */
} scaling;

static int64_t columns_of(const kolo_data *data)
{
    kolo_data_info info = kolo_data_get_info(data);
    int64_t columns = 1;
    for (int axis = 0; axis < info.rank; axis++) columns *= info.shape[axis];
    return columns;
}

static kolo_data *read_table(const char *name, kolo_split split)
{
    return strcmp(name, "synthetic") == 0 ? kolo_synthetic_table(split) : kolo_dataset(name, split);
}

/* σ² = Σ (x − x̄)² / n, around the mean so that large values lose no digits. A column that is the same everywhere stays
 * as it is but for its mean. */
static void measure(const float *features, int64_t rows, const scaling *s)
{
    for (int64_t c = 0; c < s->columns; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < rows; i++) sum += (double)features[i * s->columns + c];
        s->mean[c] = sum / (double)rows;
        for (int64_t i = 0; i < rows; i++) squares += pow((double)features[i * s->columns + c] - s->mean[c], 2);
        s->deviation[c] = squares > 0 ? sqrt(squares / (double)rows) : 1;
    }
}

static void scale(float *features, int64_t rows, const scaling *s)
{
    for (int64_t i = 0; i < rows * s->columns; i++) {
        int64_t column = i % s->columns;
        features[i] = (float)(((double)features[i] - s->mean[column]) / s->deviation[column]);
    }
}

/* The same rows, standardised. Test rows are scaled as the training rows were, or they would not mean the same. */
static kolo_data *standardised(const kolo_data *data, bool is_training, const scaling *s)
{
    kolo_data_info info = kolo_data_get_info(data);
    float *features = calloc((size_t)(info.samples * s->columns), sizeof *features);
    int32_t *labels = calloc((size_t)info.samples, sizeof *labels);
    bool read = features && labels && columns_of(data) == s->columns;
    for (int64_t i = 0; read && i < info.samples; i++)
        read = kolo_data_sample(data, i, features + i * s->columns, labels + i) == KOLO_OK;
    if (read && is_training) measure(features, info.samples, s);
    if (read) scale(features, info.samples, s);
    kolo_data *scaled =
        read ? kolo_data_from_arrays(features, labels, .samples = info.samples, .shape = {(int)s->columns},
                                     .classes = info.classes, .class_names = info.class_names)
             : NULL;
    free(features), free(labels);
    return scaled;
}

/* Both parts, or neither. */
static bool read_tables(const char *name, kolo_data **train, kolo_data **test)
{
    kolo_data *parts[] = {read_table(name, KOLO_TRAIN), NULL};
    if (parts[0]) parts[1] = read_table(name, KOLO_TEST);
    int64_t columns = columns_of(parts[0]);
    double *numbers = calloc((size_t)(2 * columns), sizeof *numbers);
    scaling s = {columns, numbers, numbers + columns};
    *train = parts[1] && numbers ? standardised(parts[0], true, &s) : NULL;
    *test = *train ? standardised(parts[1], false, &s) : NULL;
    if (parts[1] && !*test)
        fprintf(stderr, "higgs: %s: wanted two tables that fit into memory twice, with %lld features a row\n", name,
                (long long)columns);
    for (int i = 0; i < 2; i++) kolo_data_free(&parts[i]);
    free(numbers);
    return *test;
}

/* ------------------------------------------------------------------------------------------ the program */

static kolo_model *higgs_network(kolo_data_info rows)
{
    /* clang-format off */
    return kolo_sequential(
        kolo_input(rows.shape[0]),
        kolo_dense(600, .activation = KOLO_RELU),
        kolo_dropout(0.2),
        kolo_dense(600, .activation = KOLO_RELU),
        kolo_dense(rows.classes));
    /* clang-format on */
}

static void report(kolo_model *model, kolo_data *test, const kolo_history *history, const kolo_options *options)
{
    kolo_scores scores = kolo_evaluate(model, test);
    double seconds = 0;
    for (int e = 0; e < history->epochs; e++) seconds += history->epoch[e].seconds;
    printf("F1 (weighted): %.4f, accuracy: %.4f, trained in %.2f s\n", kolo_scores_get(&scores, "f1_score_weighted"),
           scores.accuracy, seconds);
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

int main(int argc, char **argv)
{
    const char *trainer = "single";
    const kolo_own_option own[] = {{"trainer", "single",
                                    "how workers and the center agree; one worker has nothing to agree on",
                                    .choice = &trainer},
                                   {0}};
    kolo_options options = {.data = "higgs", .batch_size = 64, .epochs = 1, .learning_rate = 0.01, .own = own};
    options.data_help = "higgs; a folder with UCI's or ATLAS's table; or synthetic: a table that Kolo draws";
    kolo_init(&argc, &argv);
    kolo_parse_options(argc, argv, &options,
                       "Tells collisions with a Higgs boson from those without, and prints the F1.");
    kolo_strategy strategy = kolo_options_strategy(&options);
    bool one_device = !strategy.kind || strategy.kind == &kolo_one_device_kind;
    if (one_device) kolo_pin_device(kolo_local_rank());

    kolo_data *train, *test;
    if (!read_tables(options.data, &train, &test)) return kolo_finish() || true;
    kolo_model *model = higgs_network(kolo_data_get_info(train));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adagrad(.learning_rate = options.learning_rate)),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY, KOLO_F1(KOLO_WEIGHTED)},
                 .strategy = strategy, .precision = options.precision, .seed = options.seed,
                 .deterministic = options.deterministic);
    const kolo_history *history =
        kolo_fit(model, train, .epochs = options.epochs, .batch_size = options.batch_size,
                 .steps_per_epoch = options.steps_per_epoch, .drop_remainder = options.drop_remainder,
                 .validation_data = options.no_validation ? NULL : test,
                 .callbacks = {kolo_broadcast_variables(0), kolo_metric_average()});
    if (kolo_rank() == 0 && history) report(model, test, history, &options);

    kolo_model_free(&model);
    kolo_data_free(&train);
    kolo_data_free(&test);
    return kolo_finish();
}
