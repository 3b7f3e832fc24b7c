/* Which collisions made a Higgs boson: the table of CERN's experiments, and the network that dist-keras's trainers were
 * compared on.
 *
 *   higgs                                 UCI's or ATLAS's table, in the folder higgs of KOLO_DATA
 *   higgs --epochs 5                      one device, several epochs
 *   higgs --devices 2 --batch-size 128    two mirrored devices, 64 rows on each
 *   kolorun -np 2 higgs                   two ranks, 64 rows on each
 *   higgs --strategy downpour --workers 5 --window 5
 *                                         five workers that exchange weights with a centre, as threads
 *   kolorun -np 5 higgs --strategy async_easgd --record order.json
 *                                         five workers as ranks; the order of their exchanges is kept,
 *   higgs --strategy async_easgd --workers 5 --replay order.json
 *                                         and repeated, to the same bits
 *   higgs --strategy ensemble --workers 5 five models, each trained on a fifth of the rows, that predict together
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

static kolo_data *read_table(const char *name, kolo_split split)
{
    return strcmp(name, "synthetic") == 0 ? kolo_synthetic_table(split) : kolo_dataset(name, split);
}

/* Both parts, or neither: columns of mean 0 and standard deviation 1. Test rows are scaled as the training rows are, or
 * they would not mean the same. */
static bool read_tables(const char *name, kolo_data **train, kolo_data **test)
{
    kolo_data *parts[] = {read_table(name, KOLO_TRAIN), NULL};
    if (parts[0]) parts[1] = read_table(name, KOLO_TEST);
    *train = parts[1] ? kolo_standardize(parts[0]) : NULL;
    *test = *train ? kolo_standardize(parts[1], .like = *train) : NULL;
    for (int i = 0; i < 2; i++) kolo_data_free(&parts[i]);
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

/* The share of the rows of which the mean of the members' outputs is largest at the row's class; NaN on failure. */
static double ensemble_accuracy(kolo_model *model, kolo_data *test)
{
    kolo_data_info rows = kolo_data_get_info(test);
    float *outputs = malloc((size_t)rows.samples * (size_t)rows.classes * sizeof *outputs);
    bool predicted = outputs && kolo_ensemble_predict(model, test, outputs) == KOLO_OK;
    int64_t right = 0;
    for (int64_t i = 0; predicted && i < rows.samples; i++) {
        int label, best = 0;
        if (kolo_data_sample(.data = test, .index = i, .label = &label) != KOLO_OK) predicted = false;
        for (int k = 1; k < rows.classes; k++)
            if (outputs[i * rows.classes + k] > outputs[i * rows.classes + best]) best = k;
        right += best == label;
    }
    free(outputs);
    return predicted ? (double)right / (double)rows.samples : NAN;
}

/* What the members gave. The scores of the history are those of member 0. */
static void report_ensemble(kolo_model *model, kolo_data *test, const kolo_history *history)
{
    int members = kolo_ensemble_size(model);
    if (members == 0) return;
    for (int m = 0; m < members; m++)
        printf("member %d: loss %.4f\n", m, kolo_ensemble_loss(model, m, history->epochs - 1));
    printf("%d members together: accuracy %.4f\n", members, ensemble_accuracy(model, test));
}

static void report(kolo_model *model, kolo_data *test, const kolo_history *history, const kolo_options *options)
{
    kolo_scores scores = kolo_evaluate(model, test);
    double seconds = 0;
    for (int e = 0; e < history->epochs; e++) seconds += history->epoch[e].seconds;
    printf("F1 (weighted): %.4f, accuracy: %.4f, trained in %.2f s\n", kolo_scores_get(&scores, "f1_score_weighted"),
           scores.accuracy, seconds);
    report_ensemble(model, test, history);
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

int main(int argc, char **argv)
{
    kolo_options options = {.data = "higgs", .batch_size = 64, .epochs = 1, .learning_rate = 0.01};
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
