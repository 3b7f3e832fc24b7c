/* Cross-microbatch reductions: the same bits for any number of replicas, threads and microbatches in flight; replicas
 * without a microbatch; a stop in the middle of it all; memory that does not grow.
 */
#include <unistd.h>

#include <string.h>

#include "ext/core/checksum.h"
#include "ext/core/small.h"

#include "engine/engine.h"
#include "layers/layer.h"

/* Two layers that reduce over microbatches, one of them of few elements; dropout between. */
static kolo_model *reducing_model(bool synchronized, int ghost)
{
    kolo_model *model =
        kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_conv2d(5, .kernel = {3, 3}),
                        kolo_batch_norm(.synchronized = synchronized, .ghost_batch = ghost, .activation = KOLO_RELU),
                        kolo_max_pool2d(2, 2), kolo_flatten(), kolo_dense(9), kolo_dropout(0.2),
                        kolo_batch_norm(.synchronized = synchronized, .ghost_batch = ghost), kolo_dense(SMALL_CLASSES));
    assert_non_null(model);
    return model;
}

typedef struct run {
    int devices, batch, ghost, micro_batch;
    const char *backend;
    kolo_precision precision;
} run;

/* A hash of all weights after two epochs of 203 samples: five steps each of 42, the last of 35. */
static uint64_t weights_after(run r)
{
    kolo_data *data = small_data(203);
    kolo_model *model = reducing_model(!r.ghost, r.ghost);
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 6,
                                  .deterministic = true, .backend = r.backend, .precision = r.precision,
                                  .strategy = kolo_mirrored(.devices = r.devices)),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .epochs = 2, .batch_size = r.batch, .micro_batch = r.micro_batch,
                             .verbose = KOLO_NONE));
    for (int64_t i = 0; i < model->weight_count; i++) assert_true(isfinite(model->weights[i]));
    uint64_t hash = checksum(model);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return hash;
}

static bool backend_can(const char *backend, kolo_precision precision)
{
    kolo_model *model = small_model();
    bool can = kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .backend = backend, .precision = precision) == 0;
    kolo_model_free(&model);
    kolo_clear_error();
    return can;
}

/* 42 samples are 14 microbatches of three; with 8 devices some have one microbatch, some two. */
static void replicas_agree_to_the_bit(void **state)
{
    (void)state;
    static const int devices[] = {2, 3, 5, 8};
    static const char *const backends[] = {"onednn", "reference", "onednn"};
    for (int b = 0; b < 3; b++) {
        run one = {.devices = 1, .batch = 42, .backend = backends[b]};
        one.precision = b == 2 ? KOLO_MIXED_BF16 : KOLO_FLOAT32;
        if (!backend_can(one.backend, one.precision)) continue;
        uint64_t wanted = weights_after(one);
        for (int d = 0; d < 4; d++) {
            run more = one;
            more.devices = devices[d];
            assert_true(weights_after(more) == wanted);
        }
    }
}

static void ghost_batches_agree_to_the_bit(void **state)
{
    (void)state;
    run one = {.devices = 1, .batch = 42, .ghost = 4};
    run many = {.devices = 7, .batch = 42, .ghost = 4};
    assert_true(weights_after(one) == weights_after(many));
}

/* Five samples in microbatches of one for eight replicas: three have none, and still must take part in every reduction.
 */
static void replicas_without_samples_take_part(void **state)
{
    (void)state;
    run one = {.devices = 1, .batch = 5}, eight = {.devices = 8, .batch = 5};
    assert_true(weights_after(one) == weights_after(eight));
}

/* The number of threads decides who works on what, and nothing else. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    run one = {.devices = 1, .batch = 42, .micro_batch = 2};
    uint64_t wanted = weights_after(one);
    static const char *const threads[] = {"1", "3", "6"};
    for (int t = 0; t < 3; t++) {
        setenv("KOLO_THREADS", threads[t], 1);
        assert_true(weights_after(one) == wanted);
    }
    unsetenv("KOLO_THREADS");
}

/* Thousands of microbatches on their way at once, on more threads than there are cores: the tree of sums must not be
 * left with more ends than it has room for, and no microbatch may keep a gradient of the whole model. */
static void many_microbatches_reduce(void **state)
{
    (void)state;
    setenv("KOLO_THREADS", "16", 1);
    kolo_data *data = small_data(4000);
    static const char *const devices[] = {NULL, "cpu:1"};
    for (int d = 0; d < 2; d++) {
        kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(), kolo_dense(5),
                                            kolo_batch_norm(), kolo_dense(5, .device = devices[d]), kolo_dense(5),
                                            kolo_batch_norm(.device = devices[d]), kolo_dense(4));
        kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 2);
        for (int i = 0; i < 5; i++)
            assert_non_null(kolo_fit(model, data, .batch_size = 4000, .micro_batch = 1, .verbose = KOLO_NONE));
        kolo_model_free(&model);
    }
    kolo_data_free(&data);
    unsetenv("KOLO_THREADS");
}

/* ---------------------------------------------------------------- what is refused */

static void statistics_of_their_own_are_not_deterministic(void **state)
{
    (void)state;
    kolo_clear_error();
    kolo_data *data = small_data(16);
    kolo_model *model = reducing_model(false, 0);
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .deterministic = true,
                 .strategy = kolo_mirrored(.devices = 2));
    assert_null(kolo_fit(model, data, .verbose = KOLO_NONE));
    assert_non_null(strstr(kolo_last_error().text, "layer 2 (batch_norm): wanted .synchronized = true or a .ghost_batch"
                                                   " in deterministic mode, since 2 replicas"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void micro_batches_are_checked(void **state)
{
    (void)state;
    kolo_clear_error();
    kolo_data *data = small_data(16);
    kolo_model *model = reducing_model(false, 4);
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY);
    assert_null(kolo_fit(model, data, .batch_size = 8, .micro_batch = 9, .verbose = KOLO_NONE));
    assert_non_null(strstr(kolo_last_error().text, ".micro_batch: wanted at most the batch's 8 samples, got 9"));
    kolo_clear_error();
    assert_null(kolo_fit(model, data, .batch_size = 8, .micro_batch = 2, .verbose = KOLO_NONE));
    assert_non_null(strstr(kolo_last_error().text, ".micro_batch: wanted 4, the .ghost_batch"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- a stop */

#ifndef KOLO_TEST_EPOCHS_LATE /* a stream may come to the third step when the epoch has been enqueued */
#define KOLO_TEST_EPOCHS_LATE 0
#endif

/* A layer that asks for a stop in the third step, at a sample in the middle of the batch. */
static void stop_there(const kolo_custom_call *call)
{
    memcpy(call->out[0], call->in[0], (size_t)(call->microbatch * kolo_shape_count(call->in_shape[0])) * sizeof(float));
    if (call->step == 2 && call->first_sample >= 10) kolo_request_stop();
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return KOLO_OK;
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_custom(plan, flow, stop_there, 1, &flow->x, 1, &flow->y, &flow->node->out);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    (void)plan;
    flow->dx = flow->need_dx ? flow->dy : -1;
    return KOLO_OK;
}

static void a_stop_ends_all_replicas(void **state)
{
    (void)state;
    static const kolo_layer_kind stopper = {
        .name = "stopper", .build = build, .forward = forward, .backward = backward};
    static const int devices[] = {1, 2, 4};
    kolo_data *data = small_data(120);
    for (int d = 0; d < 3; d++) {
        kolo_model *model =
            kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_conv2d(4, .kernel = {3, 3}),
                            kolo_batch_norm(.synchronized = true), kolo_layer_of(&stopper),
                            kolo_batch_norm(.synchronized = true), kolo_flatten(), kolo_dense(SMALL_CLASSES));
        kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                     .strategy = kolo_mirrored(.devices = devices[d]));
        const kolo_history *history =
            kolo_fit(model, data, .epochs = 2, .batch_size = 24, .micro_batch = 2, .verbose = KOLO_NONE);
        assert_non_null(history);
        assert_true(history->stopped && history->epochs <= KOLO_TEST_EPOCHS_LATE);
        for (int w = 0; w < kolo_weight_count(model); w++) assert_true(isfinite(kolo_weight_get(model, w).values[0]));
        kolo_model_free(&model);
    }
    kolo_data_free(&data);
}

/* ---------------------------------------------------------------- memory */

/* Activations hold what later segments read, not all that a segment needs: that is in the workspace. */
static void memory_is_shared(void **state)
{
    (void)state;
    kolo_model *model = reducing_model(false, 0);
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .backend = "reference");
    kolo_engine *engine;
    const kolo_engine_place place = {.threads = 1};
    assert_int_equal(kolo_engine_open(model, KOLO_FOR_TRAINING, 4, place, &engine), KOLO_OK);
    const kolo_program *program = engine->program;
    size_t all = 0;
    for (int v = 0; v < program->plan.value_count; v++) {
        const kolo_value *value = &program->plan.values[v];
        if (value->kind == KOLO_VALUE_ACTIVATION && value->view_of < 0) all += value->bytes;
    }
    assert_int_equal(program->segment_count,
                     5); /* forward to the first and second reduction, backward to both, the rest */
    assert_true(program->reduces && program->devices == 1);
    assert_true(program->activation_bytes[0] < all && program->workspace_bytes[0] < all);
    kolo_engine_close(&engine);
    kolo_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_agree_to_the_bit),
        cmocka_unit_test(ghost_batches_agree_to_the_bit),
        cmocka_unit_test(replicas_without_samples_take_part),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(many_microbatches_reduce),
        cmocka_unit_test(statistics_of_their_own_are_not_deterministic),
        cmocka_unit_test(micro_batches_are_checked),
        cmocka_unit_test(a_stop_ends_all_replicas),
        cmocka_unit_test(memory_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
