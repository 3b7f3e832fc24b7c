/* A model of more than 2^20 weights in deterministic mode, for test_large_model.py: its sums go another way than a
 * small model's. A transformer of one block, all of it: rows of an embedding that few samples touch, and a last layer
 * whose outputs are nowhere kept.
 *
 *     large_model DEVICES fp32|bf16
 *
 * Every rank prints a number of its weights' bits. */
#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/checksum.h"

enum { WORDS = 5000, LENGTH = 6, SIZE = 128, BATCH = 32, STEPS = 2, SAMPLES = BATCH * STEPS };

static kolo_tensor add_and_norm(kolo_tensor x, kolo_tensor y)
{
    return kolo_apply(kolo_layer_norm(), kolo_apply(kolo_add(), x, kolo_apply(kolo_dropout(0.1), y)));
}

static kolo_model *make_block(void)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_apply(kolo_embedding(WORDS, SIZE), kolo_graph_input(model, LENGTH));
    x = kolo_apply(kolo_position_embedding(), x);
    x = add_and_norm(x, kolo_apply(kolo_multi_head_attention(2, .causal = true), x));
    x = add_and_norm(x, kolo_apply(kolo_dense(SIZE, .activation = KOLO_RELU), x));
    kolo_graph_output(model, kolo_apply(kolo_dense(WORDS), x));
    return model;
}

static kolo_data *make_text(void)
{
    int32_t tokens[SAMPLES * LENGTH + 1];
    srand(1);
    for (int i = 0; i <= SAMPLES * LENGTH; i++) tokens[i] = rand() % WORDS;
    return kolo_data_from_arrays(NULL, tokens + 1, .tokens = tokens, .samples = SAMPLES, .shape = {LENGTH},
                                 .label_count = LENGTH, .classes = WORDS);
}

int main(int argc, char **argv)
{
    kolo_init(&argc, &argv);
    kolo_model *model = make_block();
    kolo_data *data = make_text();
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                 .deterministic = true, .strategy = kolo_mirrored(.devices = atoi(argv[1])),
                 .precision = strcmp(argv[2], "bf16") == 0 ? KOLO_MIXED_BF16 : KOLO_FLOAT32);
    if (!kolo_fit(model, data, .batch_size = BATCH / kolo_size(), .verbose = KOLO_NONE,
                  .callbacks = {kolo_broadcast_variables(0)}))
        return 1;
    printf("%lld weights %016llx\n", (long long)kolo_count_params(model), (unsigned long long)checksum(model));
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
