/* A rank of test_gradient_ranks.py: gradient_ranks BUCKETS. Trains two models in turn, and a third one that is made
 * when the first is gone. BUCKETS: the bytes of a bucket of gradients, -1 for none. Prints for each fit whether the
 * other ranks of the host can map the gradient, and a checksum of the weights. */
#include "../core/checksum.h"
#include "comm/shareable.h"
#include "replica/trainer.h"

#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 96, INPUTS = 20, FITS = 6 };

static kolo_data *some_data(void)
{
    static float features[SAMPLES * INPUTS];
    static int32_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES * INPUTS; i++) features[i] = (float)(i * 7919 % 1000) / 1000 - 0.5f;
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % 3;
    return kolo_data_from_arrays(features, labels, .samples = SAMPLES, .shape = {INPUTS}, .classes = 3);
}

static kolo_model *make_model(int units, int64_t buckets)
{
    kolo_model *model =
        kolo_sequential(kolo_input(INPUTS), kolo_dense(units, .activation = KOLO_RELU), kolo_dense(300), kolo_dense(3));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(), .bucket_bytes = buckets < 0 ? KOLO_NONE : buckets),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 4);
    return model;
}

static void fit(kolo_model *model, kolo_data *data)
{
    kolo_fit(model, data, .batch_size = 8, .epochs = 2, .no_shuffle = true, .verbose = KOLO_NONE,
             .callbacks = {kolo_broadcast_variables(0)});
    kolo_replica *replica = &model->trainer->replicas[0];
    bool mapped =
        kolo_shareable_find(replica->gradient, 1).serial != 0 && replica->arrays.gradient == replica->gradient;
    printf("%s %016llx\n", mapped ? "shareable" : "private", (unsigned long long)checksum(model));
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    if (argc != 2) return 2;
    kolo_data *data = some_data();
    kolo_model *models[] = {make_model(400, atoll(argv[1])), make_model(200, atoll(argv[1]))};
    for (int i = 0; i < FITS; i++) {
        if (i == FITS / 2) { /* its gradient moves */
            kolo_model_free(&models[0]);
            models[0] = make_model(400, atoll(argv[1]));
        }
        fit(models[i % 2], data);
    }
    for (int i = 0; i < 2; i++) kolo_model_free(&models[i]);
    kolo_data_free(&data);
    return kolo_finish();
}
