/* Of test_long_strides.py: long_strides fp32|bf16. Trains a step of a network with shortcuts that skip pixels, forward
 * and backward, on 3×3 convolutions that do not. */
#include <kolo.h>

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4, SIDE = 8, CHANNELS = 16 };

int main(int argc, char **argv)
{
    static float pixels[SAMPLES * SIDE * SIDE * CHANNELS];
    static const int32_t labels[SAMPLES] = {0, 1, 2, 0};
    kolo_init(&argc, &argv);
    if (argc != 2) return 2;
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++) pixels[i] = (float)(i * 7919 % 1000) / 1000;
    kolo_data *data =
        kolo_data_from_arrays(pixels, labels, .samples = SAMPLES, .shape = {SIDE, SIDE, CHANNELS}, .classes = 3);
    kolo_model *model =
        kolo_sequential(kolo_input(SIDE, SIDE, CHANNELS), kolo_conv2d(16, .kernel = {3, 3}, .padding = KOLO_SAME),
                        kolo_conv2d(32, .kernel = {1, 1}, .stride = {2, 2}),
                        kolo_conv2d_transpose(16, .kernel = {1, 1}, .stride = {2, 2}), kolo_flatten(), kolo_dense(3));
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY,
                 .precision = strcmp(argv[1], "bf16") == 0 ? KOLO_MIXED_BF16 : KOLO_FLOAT32);
    kolo_fit(model, data, .epochs = 1, .batch_size = SAMPLES, .verbose = KOLO_NONE);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
