/* The introduction's language model: a transformer of one block that learns which word comes next.
 *
 *   gpt                                  text that Kolo draws
 *   gpt --data reviews.txt               a text, or a folder of texts; each line is a sample
 *   gpt --devices 2 --precision bf16     two mirrored devices, in bfloat16
 *   kolorun -np 2 gpt --batch-size 128   two ranks, 128 samples on each
 *
 * It prints units/s, the samples trained in a second: what the lesson measures against batch and devices.
 */
#include <kolo.h>
#include <stdio.h>
#include <string.h>

enum { vocabulary = 20000, length = 80, size = 256, heads = 2, hidden = 256 };

/* x + dropout(y), normalised: what stands behind each half of a block. */
static kolo_tensor add_and_norm(kolo_tensor x, kolo_tensor y)
{
    return kolo_apply(kolo_layer_norm(), kolo_apply(kolo_add(), x, kolo_apply(kolo_dropout(0.1), y)));
}

static kolo_tensor transformer_block(kolo_tensor x)
{
    x = add_and_norm(x, kolo_apply(kolo_multi_head_attention(heads, .causal = true), x));
    kolo_tensor inner = kolo_apply(kolo_dense(hidden, .activation = KOLO_RELU), x);
    return add_and_norm(x, kolo_apply(kolo_dense(size), inner));
}

/* A text of few words has a smaller vocabulary. */
static kolo_model *make_gpt(int words)
{
    kolo_model *model = kolo_graph();
    kolo_tensor tokens = kolo_graph_input(model, length);
    kolo_tensor x = kolo_apply(kolo_position_embedding(), kolo_apply(kolo_embedding(words, size), tokens));
    kolo_graph_output(model, kolo_apply(kolo_dense(words), transformer_block(x)));
    return model;
}

static kolo_data *read_text(const char *data)
{
    return strcmp(data, "synthetic") == 0 ? kolo_synthetic_text(KOLO_TRAIN, .vocabulary = vocabulary, .length = length)
                                          : kolo_text(data, .vocabulary = vocabulary, .length = length);
}

/* Of the epochs behind the first, which also warms up, unless it is the only one. */
static double units_per_second(const kolo_history *history)
{
    double units = 0, seconds = 0;
    for (int e = history->epochs > 1; e < history->epochs; e++) {
        units += history->epoch[e].images_per_second * history->epoch[e].seconds;
        seconds += history->epoch[e].seconds;
    }
    return units / seconds;
}

static void report(const kolo_model *model, const kolo_history *history, const kolo_options *options)
{
    printf("units/s: %.1f\n", units_per_second(history));
    if (options->save) kolo_save(model, options->save);
    if (options->history) kolo_history_save(history, options->history);
}

int main(int argc, char **argv)
{
    kolo_options options = {.data = "synthetic", .batch_size = 256, .epochs = 3, .learning_rate = 1e-3};
    options.data_help = "a text in UTF-8, or a folder of texts, each line a sample; or synthetic: text that Kolo draws";
    kolo_init(&argc, &argv);
    kolo_parse_options(argc, argv, &options, "Trains a one-block GPT on text, and prints units/s.");
    kolo_strategy strategy = kolo_options_strategy(&options);
    bool one_device = !strategy.kind || strategy.kind == &kolo_one_device_kind;
    if (one_device) kolo_pin_device(kolo_local_rank());

    kolo_data *text = read_text(options.data);
    kolo_model *model = text ? make_gpt(kolo_data_get_info(text).classes) : NULL;
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam(.learning_rate = options.learning_rate)),
                 .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY}, .strategy = strategy,
                 .precision = options.precision, .seed = options.seed, .deterministic = options.deterministic);
    const kolo_history *history =
        kolo_fit(model, text, .epochs = options.epochs, .batch_size = options.batch_size,
                 .steps_per_epoch = options.steps_per_epoch, .drop_remainder = options.drop_remainder,
                 .validation_split = options.no_validation ? 0 : 0.1,
                 .callbacks = {kolo_broadcast_variables(0), kolo_metric_average()});
    if (kolo_rank() == 0 && history) report(model, history, &options);

    kolo_model_free(&model);
    kolo_data_free(&text);
    return kolo_finish();
}
