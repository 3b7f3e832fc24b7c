/* A variational autoencoder with convolutions and transposed ones, which learns to draw digits from two numbers: Kingma
 * and Welling 2014, "Auto-encoding variational Bayes", in the sizes of Keras's example (3,410,058 weights).
 *
 *   vae                                  one device
 *   vae --samples digits.png             and shows what it draws, all over its plane of codes
 *   vae --devices 2 --batch-size 256     two mirrored devices, 128 images on each
 *   kolorun -np 2 vae                    two ranks, 128 images on each
 *
 * The loss of an image is −Σ (t log y + (1 − t) log (1 − y)) over its pixels plus the divergence of its code's
 * distribution from the standard one. In training codes are drawn; val_loss sees each distribution's mean. After five
 * epochs it is 151 here (bfloat16, seed 1). keras_experiments published 143.9 by another measure: codes drawn there
 * too, with a deviation of exp(log variance), and half of the divergence (--kl-weight 0.5).
 */
#include <kolo.h>
#include <kolo/losses/loss.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { filters = 64, hidden = 128, code = 2, side = 15 };

/* ------------------------------------------------------------------------------------------ the loss */

/* The binary cross-entropy summed over an image, where Kolo's own is the mean over it. A row is a pixel's channels; the
 * loss of a sample is the mean over its rows; number holds how many elements an image has. */
static double summed_crossentropy(const kolo_row *row, float *gradient)
{
    kolo_row plain = *row;
    plain.number = 0;
    double loss = kolo_binary_crossentropy_kind.row(&plain, gradient);
    for (int64_t i = 0; gradient && i < row->count; i++) gradient[i] *= (float)row->number;
    return loss * row->number;
}

static const kolo_loss_kind summed_crossentropy_kind = {
    .name = "summed_crossentropy", .wants = KOLO_WANTS_TARGETS, .row = summed_crossentropy, .left_out = KOLO_SIGMOID};

static kolo_loss loss_of(kolo_data_info images)
{
    return (kolo_loss){.kind = &summed_crossentropy_kind,
                       .number = images.shape[0] * images.shape[1] * images.shape[2]};
}

/* ------------------------------------------------------------------------------------------ the model */

static kolo_tensor convolve(kolo_tensor x, int count, int size, int stride)
{
    return kolo_apply(kolo_conv2d(count, .kernel = {size, size}, .stride = {stride, stride}, .padding = KOLO_SAME,
                                  .activation = KOLO_RELU),
                      x);
}

static kolo_tensor encode(kolo_tensor x, kolo_data_info images, double kl_weight)
{
    x = convolve(convolve(x, images.shape[2], 2, 1), filters, 2, 2);
    x = convolve(convolve(x, filters, 3, 1), filters, 3, 1);
    x = kolo_apply(kolo_dense(hidden, .activation = KOLO_RELU), kolo_apply(kolo_flatten(), x));
    kolo_tensor mean = kolo_apply(kolo_dense(code, .name = "mean"), x);
    kolo_tensor log_variance = kolo_apply(kolo_dense(code, .name = "log_variance"), x);
    return kolo_apply(kolo_gaussian_sample(.kl_weight = kl_weight > 0 ? kl_weight : KOLO_NONE), mean, log_variance);
}

/* Its layers have names, by which the weights find their way into a decoder that stands alone. */
static kolo_tensor decode(kolo_tensor z, kolo_data_info images)
{
    int height = images.shape[0] / 2, width = images.shape[1] / 2;
    z = kolo_apply(kolo_dense(hidden, .activation = KOLO_RELU, .name = "decoder_hidden"), z);
    z = kolo_apply(kolo_dense(height * width * filters, .activation = KOLO_RELU, .name = "decoder_enlarge"), z);
    z = kolo_apply(kolo_reshape(height, width, filters), z);
    z = kolo_apply(kolo_conv2d_transpose(filters, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU,
                                         .name = "decoder_1"),
                   z);
    z = kolo_apply(kolo_conv2d_transpose(filters, .kernel = {3, 3}, .padding = KOLO_SAME, .activation = KOLO_RELU,
                                         .name = "decoder_2"),
                   z);
    z = kolo_apply(kolo_conv2d_transpose(filters, .kernel = {3, 3}, .stride = {2, 2}, .activation = KOLO_RELU,
                                         .name = "decoder_upsample"),
                   z);
    return kolo_apply(kolo_conv2d(images.shape[2], .kernel = {2, 2}, .activation = KOLO_SIGMOID,
                                  .name = "decoder_pixels"),
                      z);
}

static kolo_model *make_vae(kolo_data_info images, double kl_weight)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, images.shape[0], images.shape[1], images.shape[2]);
    kolo_graph_output(model, decode(encode(x, images, kl_weight), images));
    return model;
}

/* ------------------------------------------------------------------------------------------ what it draws */

static void copy_weights(kolo_model *to, kolo_model *from)
{
    for (int i = 0; i < kolo_weight_count(to); i++) {
        kolo_weight target = kolo_weight_get(to, i);
        for (int j = 0; j < kolo_weight_count(from); j++) {
            kolo_weight source = kolo_weight_get(from, j);
            if (strcmp(source.name, target.name) == 0)
                memcpy(target.values, source.values, (size_t)target.count * sizeof *target.values);
        }
    }
}

static kolo_model *make_decoder(kolo_model *vae, kolo_data_info images)
{
    kolo_model *decoder = kolo_graph();
    kolo_graph_output(decoder, decode(kolo_graph_input(decoder, code), images));
    if (kolo_compile(decoder) == KOLO_OK) copy_weights(decoder, vae);
    return decoder;
}

/* The z with Φ(z) = share, by bisection: codes are normally distributed, so that even steps of the share find all of
 * them equally often. */
static double quantile(double share)
{
    double low = -8, high = 8;
    while (high - low > 1e-9) {
        double middle = (low + high) / 2;
        if (erfc(-middle / sqrt(2)) / 2 < share) low = middle;
        else high = middle;
    }
    return low;
}

/* A grid of codes between the quantiles 0.05 and 0.95. */
static kolo_data *grid_of_codes(void)
{
    float codes[side * side][code];
    for (int i = 0; i < side * side; i++) {
        codes[i][0] = (float)quantile(0.05 + 0.9 * (i % side) / (side - 1));
        codes[i][1] = (float)quantile(0.05 + 0.9 * (i / side) / (side - 1)); // NOLINT(bugprone-integer-division)
    }
    return kolo_data_from_arrays(codes[0], .samples = (int64_t)side * side, .shape = {code});
}

static kolo_status show_samples(kolo_model *vae, kolo_data_info images, const char *file)
{
    kolo_data *codes = grid_of_codes(), *drawn = NULL;
    kolo_model *decoder = make_decoder(vae, images);
    size_t pixels = (size_t)images.shape[0] * (size_t)images.shape[1] * (size_t)images.shape[2];
    float *outputs = calloc(side * side * pixels, sizeof *outputs);
    kolo_status status = outputs ? kolo_predict(decoder, codes, outputs) : KOLO_MEMORY;
    if (status == KOLO_OK)
        drawn = kolo_data_from_arrays(outputs, .samples = (int64_t)side * side,
                                      .shape = {images.shape[0], images.shape[1], images.shape[2]});
    if (drawn) status = kolo_plot_samples(drawn, .count = side * side, .columns = side, .file = file);
    free(outputs);
    kolo_data_free(&drawn);
    kolo_data_free(&codes);
    kolo_model_free(&decoder);
    return status;
}

/* ------------------------------------------------------------------------------------------ the program */

static kolo_data *read_images(const char *name, kolo_split split)
{
    kolo_data *images = kolo_dataset(name, split), *both = images ? kolo_data_autoencoder(images) : NULL;
    kolo_data_free(&images);
    return both;
}

static void save(const kolo_model *model, const kolo_history *history, const kolo_options *options)
{
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

int main(int argc, char **argv)
{
    const char *samples = NULL;
    double kl_weight = 1;
    const kolo_program_option own[] = {
        {"samples", "FILE.png", "show digits for codes all over the plane, and write them there", .text = &samples,
         .written = true, .ending = ".png"},
        {"kl-weight", "X",
         "of the divergence in the loss; 0.5 is the mean over both numbers of a code, 0 leaves it out",
         .number = &kl_weight, .or_zero = true},
        {0}};
    kolo_options options = {.batch_size = 128, .epochs = 5, .learning_rate = 1e-3, .own = own};
    kolo_init(&argc, &argv);
    kolo_parse_options(argc, argv, &options, "Trains a variational autoencoder on MNIST.");
    kolo_strategy strategy = kolo_options_strategy(&options);
    bool one_device = !strategy.kind || strategy.kind == &kolo_one_device_kind;
    if (one_device) kolo_pin_device(kolo_local_rank());

    kolo_data *images = read_images(options.data, KOLO_TRAIN),
              *test = images ? read_images(options.data, KOLO_TEST) : NULL;
    kolo_data_info info = kolo_data_get_info(images);
    kolo_model *model = test ? make_vae(info, kl_weight) : NULL;
    kolo_compile(model, .optimizer = kolo_distributed(kolo_rmsprop(.learning_rate = options.learning_rate)),
                 .loss = loss_of(info), .strategy = strategy, .precision = options.precision, .seed = options.seed,
                 .deterministic = options.deterministic);
    const kolo_history *history =
        kolo_fit(model, images, .epochs = options.epochs, .batch_size = options.batch_size,
                 .steps_per_epoch = options.steps_per_epoch, .drop_remainder = options.drop_remainder,
                 .validation_data = options.no_validation ? NULL : test,
                 .callbacks = {kolo_broadcast_variables(0), kolo_metric_average(), kolo_throughput()});
    if (kolo_rank() == 0 && history) save(model, history, &options);
    if (kolo_rank() == 0 && history && samples) show_samples(model, info, samples);

    kolo_model_free(&model);
    kolo_data_free(&images);
    kolo_data_free(&test);
    return kolo_finish();
}
