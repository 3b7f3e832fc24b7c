/* Trains on weighted data, first with kolo_fit and then with a loop of its own, and prints every number of it: for
 * test_metrics_ranks.py, which runs it on one rank and on several. usage: metrics_ranks GLOBAL_BATCH DEVICES */
#include <kolo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 101, FEATURES = 5, CLASSES = 4 };

static kolo_data *make_data(void)
{
    float features[SAMPLES * FEATURES], weights[SAMPLES];
    int32_t labels[SAMPLES];
    for (int s = 0; s < SAMPLES; s++) {
        labels[s] = s * 7 % CLASSES;
        weights[s] = (float)(s % 3) * 0.5f;
        for (int i = 0; i < FEATURES; i++) features[s * FEATURES + i] = (float)sin(1.9 * s + i) + (i == labels[s]);
    }
    return kolo_data_from_arrays(features, labels, .samples = SAMPLES, .shape = {FEATURES}, .weights = weights);
}

static void print_history(const kolo_history *history)
{
    for (int e = 0; kolo_rank() == 0 && history && e < history->epochs; e++) {
        printf("%.17g %.17g\n", history->epoch[e].loss, history->epoch[e].val_loss);
        for (int m = 0; m < history->metrics; m++)
            printf("%s %.17g %.17g\n", history->metric_name[m], history->epoch[e].metric[m],
                   history->epoch[e].val_metric[m]);
    }
}

static void train_by_hand(kolo_model *model, kolo_data *data, int batch)
{
    for (int first = 0; first < SAMPLES; first += batch) {
        int count = first + batch < SAMPLES ? batch : SAMPLES - first;
        kolo_scores scores = kolo_train_on_batch(model, data, first, count);
        if (kolo_rank() != 0) continue;
        printf("%lld %.17g", (long long)scores.samples, scores.loss);
        for (int m = 0; m < scores.metrics; m++) printf(" %.17g", scores.metric[m]);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    int batch = argc > 1 ? atoi(argv[1]) : 0, devices = argc > 2 ? atoi(argv[2]) : 0;
    kolo_data *data = make_data();
    kolo_model *model =
        kolo_sequential(kolo_input(FEATURES), kolo_dense(7, .activation = KOLO_RELU), kolo_dense(CLASSES));
    kolo_compile(model, .loss = KOLO_LABEL_SMOOTHING(KOLO_CATEGORICAL_CROSSENTROPY, 0.1), .seed = 3,
                 .metrics = {KOLO_ACCURACY, KOLO_F1(KOLO_WEIGHTED), KOLO_AUC, KOLO_TOP_K(2), KOLO_RECALL(KOLO_MACRO)},
                 .optimizer = kolo_distributed(kolo_adam(.learning_rate = 0.01)),
                 .strategy = kolo_mirrored(.devices = devices), .deterministic = true);
    print_history(kolo_fit(model, data, .epochs = 2, .batch_size = batch / kolo_size(), .validation_split = 0.3,
                           .class_weight = {[1] = 2}, .verbose = KOLO_NONE, .callbacks = {kolo_metric_average()}));
    train_by_hand(model, data, batch);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
