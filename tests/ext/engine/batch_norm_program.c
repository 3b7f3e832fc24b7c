/* For test_batch_norm_ranks.py: trains a small network with batch normalisation, alone or as one of several ranks, and
 * saves every rank's weights as FILE.RANK.
 *   batch_norm_program FILE BATCH DEVICES sync|ghost|own deterministic|free [failing RANK] */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers/layer.h"

enum { samples = 187, side = 6, classes = 3 };

static kolo_data *some_data(void)
{
    static float features[samples * side * side];
    static int32_t labels[samples];
    uint32_t state = 5;
    for (int i = 0; i < samples * side * side; i++) {
        state = state * 1664525u + 1013904223u;
        features[i] = (float)(state >> 8) * 0x1p-24f + (i % 5 == i / (side * side) % classes ? 0.5f : 0);
    }
    for (int s = 0; s < samples; s++) labels[s] = s % classes;
    return kolo_data_from_arrays(features, labels, .samples = samples, .shape = {side, side, 1}, .classes = classes);
}

static bool leaves; /* this rank is the one that fails */

/* A layer that leaves the process in the third step: a rank that dies between two reductions. */
static void leave(const kolo_custom_call *call)
{
    memcpy(call->out[0], call->in[0], (size_t)(call->microbatch * kolo_shape_count(call->in_shape[0])) * sizeof(float));
    if (leaves && call->step == 2) _Exit(3);
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return KOLO_OK;
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_custom(plan, flow, leave, 1, &flow->x, 1, &flow->y, &flow->node->out);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    (void)plan;
    flow->dx = flow->need_dx ? flow->dy : -1;
    return KOLO_OK;
}

/* "3:1": three on rank 0, one on the others. */
static int devices_of(const char *text)
{
    const char *others = strchr(text, ':');
    return atoi(others && kolo_rank() > 0 ? others + 1 : text);
}

int main(int argc, char **argv)
{
    static const kolo_layer_kind leaver = {.name = "leaver", .build = build, .forward = forward, .backward = backward};
    if (argc < 6) return 2;
    kolo_init(&argc, &argv);
    bool fails = argc > 7, sync = strcmp(argv[4], "sync") == 0;
    leaves = fails && atoi(argv[7]) == kolo_rank();
    int ghost = strcmp(argv[4], "ghost") == 0 ? 4 : 0;
    kolo_data *data = some_data();
    kolo_model *model =
        kolo_sequential(kolo_input(side, side, 1), kolo_conv2d(4, .kernel = {3, 3}, .no_bias = true),
                        kolo_batch_norm(.synchronized = sync, .ghost_batch = ghost, .activation = KOLO_RELU),
                        kolo_flatten(), fails ? kolo_layer_of(&leaver) : kolo_dropout(0),
                        kolo_dense(7, .no_bias = true), kolo_batch_norm(.synchronized = sync, .ghost_batch = ghost),
                        kolo_dense(classes));
    kolo_compile(model, .optimizer = kolo_distributed(kolo_adam()), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 4,
                 .deterministic = strcmp(argv[5], "deterministic") == 0,
                 .strategy = kolo_mirrored(.devices = devices_of(argv[3])));
    kolo_fit(model, data, .epochs = 2, .batch_size = atoi(argv[2]), .verbose = KOLO_NONE);
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", argv[1], kolo_rank());
    if (!kolo_last_error().code) kolo_save(model, path);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return kolo_finish();
}
