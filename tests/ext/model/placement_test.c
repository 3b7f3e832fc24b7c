/* Models placed on several devices: the same bits as on one, both devices at work at once, one after the other where
 * the micro-batch is the whole batch; what is printed, and what is refused.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ext/core/checksum.h"
#include "ext/core/small.h"

#include "layers/layer.h"

/* ---------------------------------------------------------------- the same bits */

static kolo_model *placed_model(const char *first, const char *second, const char *third)
{
    kolo_model *model = kolo_graph();
    kolo_tensor x = kolo_graph_input(model, SMALL_SIDE, SMALL_SIDE, 1);
    kolo_tensor y = kolo_apply(kolo_conv2d(4, .kernel = {3, 3}, .activation = KOLO_RELU, .device = first), x);
    kolo_tensor left = kolo_apply(kolo_conv2d(4, .kernel = {1, 1}, .device = second), y);
    kolo_tensor right = kolo_apply(kolo_dropout(0.3, .device = third), y);
    y = kolo_apply(kolo_add(.device = second), left, right);
    y = kolo_apply(kolo_batch_norm(.synchronized = true, .device = third), y);
    y = kolo_apply(kolo_flatten(.device = first), y);
    assert_int_equal(kolo_graph_output(model, kolo_apply(kolo_dense(SMALL_CLASSES, .device = second), y)), KOLO_OK);
    return model;
}

/* Takes the model over; hashes its weights after two epochs, and the outputs that it gives then. */
static uint64_t bits_after(kolo_model *model, kolo_strategy strategy, int micro_batch)
{
    kolo_data *data = small_data(101);
    float outputs[101 * SMALL_CLASSES];
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 8,
                                  .deterministic = true, .strategy = strategy),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .epochs = 2, .batch_size = 32, .micro_batch = micro_batch,
                             .verbose = KOLO_NONE));
    assert_int_equal(kolo_predict(model, data, outputs), KOLO_OK);
    uint64_t hash = kolo_hash_add(checksum(model), outputs, sizeof outputs);
    kolo_model_free(&model);
    kolo_data_free(&data);
    return hash;
}

static void placement_changes_no_bit(void **state)
{
    (void)state;
    uint64_t wanted = bits_after(placed_model(NULL, NULL, NULL), kolo_one_device(), 0);
    assert_true(bits_after(placed_model("host", "cpu:1", NULL), kolo_one_device(), 0) == wanted);
    assert_true(bits_after(placed_model("cpu:1", "cpu:0", "cpu:1"), kolo_one_device(), 0) == wanted);
    assert_true(bits_after(placed_model("cpu:0", "cpu:2", "cpu:5"), kolo_one_device(), 0) == wanted);
    assert_true(bits_after(placed_model("cpu:1", "cpu:1", "cpu:1"), kolo_one_device(), 0) == wanted);
}

/* Hybrid: replicas of two devices each. */
static void placed_replicas_change_no_bit(void **state)
{
    (void)state;
    uint64_t wanted = bits_after(placed_model(NULL, NULL, NULL), kolo_one_device(), 0);
    assert_true(bits_after(placed_model("cpu:0", "cpu:1", "cpu:0"), kolo_mirrored(.devices = 4), 0) == wanted);
    assert_true(bits_after(placed_model("cpu:0", "cpu:1", "cpu:0"), kolo_mirrored(.devices = 8), 0) == wanted);
    uint64_t whole = bits_after(placed_model(NULL, NULL, NULL), kolo_one_device(), 32);
    assert_true(bits_after(placed_model("cpu:0", "cpu:1", "cpu:0"), kolo_one_device(), 32) == whole);
}

/* ---------------------------------------------------------------- both at once */

static atomic_int working[2], both; /* threads in each device's layer; how often the other was at work, too */

static void work(const kolo_custom_call *call, int device)
{
    atomic_fetch_add(&working[device], 1);
    memcpy(call->out[0], call->in[0], (size_t)(call->microbatch * kolo_shape_count(call->in_shape[0])) * sizeof(float));
    for (int i = 0; i < 20; i++) {
        usleep(200);
        if (atomic_load(&working[1 - device]) > 0) atomic_fetch_add(&both, 1);
    }
    atomic_fetch_sub(&working[device], 1);
}

static void work_on_0(const kolo_custom_call *call)
{
    work(call, 0);
}
static void work_on_1(const kolo_custom_call *call)
{
    work(call, 1);
}

static kolo_status build(kolo_model_builder *builder, kolo_layer_node *node)
{
    (void)builder;
    node->out = node->in;
    return KOLO_OK;
}

static void (*work_of(const kolo_layer_flow *flow))(const kolo_custom_call *)
{
    return flow->node->recipe.custom.number[0] > 0 ? work_on_1 : work_on_0;
}

static kolo_status forward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_custom(plan, flow, work_of(flow), 1, &flow->x, 1, &flow->y, &flow->node->out);
}

static kolo_status backward(kolo_plan *plan, kolo_layer_flow *flow)
{
    return kolo_plan_custom(plan, flow, work_of(flow), 1, &flow->dy, 1, &flow->dx, &flow->node->in);
}

/* How often both devices were seen at work together in a step of four micro-batches. */
static int seen_together(int micro_batch)
{
    static const kolo_layer_kind slow = {.name = "slow", .build = build, .forward = forward, .backward = backward};
    kolo_data *data = small_data(16);
    kolo_model *model = kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1), kolo_flatten(), kolo_dense(6),
                                        kolo_layer_of(&slow), kolo_dense(SMALL_CLASSES, .device = "cpu:1"),
                                        kolo_layer_of(&slow, .number = {1}, .device = "cpu:1"));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 8),
                     KOLO_OK);
    atomic_store(&both, 0);
    assert_non_null(kolo_fit(model, data, .batch_size = 16, .micro_batch = micro_batch, .verbose = KOLO_NONE));
    kolo_model_free(&model);
    kolo_data_free(&data);
    return atomic_load(&both);
}

static void devices_work_at_once_on_micro_batches(void **state)
{
    (void)state;
    setenv("KOLO_THREADS", "2", 1); /* one for each device */
    assert_true(seen_together(4) > 0);
    assert_int_equal(seen_together(16), 0);
    unsetenv("KOLO_THREADS");
}

/* ---------------------------------------------------------------- what is printed and refused */

/* What a call prints on stdout, into text[size]. */
static void printed(kolo_status (*call)(kolo_model *), kolo_model *model, char *text, size_t size)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    kolo_status status = call(model);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    assert_int_equal(status, KOLO_OK);
}

static kolo_status placement(kolo_model *model)
{
    return kolo_placement(model);
}

static kolo_status profile(kolo_model *model)
{
    kolo_data *data = small_data(40);
    kolo_status status = kolo_profile(model, data, .batch_size = 16, .steps = 2);
    kolo_data_free(&data);
    return status;
}

static void tables_name_every_layer(void **state)
{
    (void)state;
    char text[8192];
    kolo_model *model = placed_model("cpu:0", "cpu:1", "cpu:0");
    printed(placement, model, text, sizeof text);
    assert_non_null(strstr(text, "conv2d_1    cpu:1   conv2d → {6, 6, 4}"));
    assert_non_null(strstr(text, "2.3 KB")); /* dense: 144 × 4 weights and 4 biases */
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .strategy = kolo_mirrored(.devices = 4)),
                     KOLO_OK);
    printed(placement, model, text, sizeof text);
    assert_non_null(strstr(text, "replica 1: the same on cpu:2, cpu:3"));
    printed(profile, model, text, sizeof text);
    for (int w = 0; w < kolo_weight_count(model); w++) {
        char name[64];
        snprintf(name, sizeof name, "%s", kolo_weight_get(model, w).name);
        *strchr(name, '.') = 0;
        assert_non_null(strstr(text, name));
    }
    assert_non_null(strstr(text, "(loss)"));
    assert_non_null(strstr(text, "a step of 16 samples: "));
    kolo_model_free(&model);
    model = kolo_sequential(kolo_input(8, 8), kolo_reshape(4, 16), kolo_dense(3));
    printed(placement, model, text, sizeof text);
    assert_non_null(strstr(text, "reshape → {4, 16}      0 B                   0 B")); /* the same elements */
    kolo_model_free(&model);
}

static void misplaced_models_are_refused(void **state)
{
    (void)state;
    kolo_clear_error();
    assert_null(kolo_sequential(kolo_input(3), kolo_dense(2, .device = "gpu:0")));
    assert_non_null(strstr(kolo_last_error().text, "layer 1 (dense): device: wanted \"host\" or \"cpu:0\""));
    kolo_clear_error();
    assert_null(kolo_sequential(kolo_input(3), kolo_dense(2, .device = "cpu:8")));
    assert_non_null(strstr(kolo_last_error().text, "device: wanted one of 8 devices"));
    kolo_clear_error();
    kolo_model *model = placed_model("cpu:0", "cpu:1", "cpu:0");
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = kolo_mirrored(.devices = 3)),
                     KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "strategy mirrored: wanted a multiple of 2 devices"));
    kolo_clear_error();
    assert_int_equal(kolo_placement(NULL), KOLO_INVALID);
    kolo_clear_error();
    kolo_model_free(&model);
}

int main(void)
{
    setenv("KOLO_CPU_DEVICES", "8", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placement_changes_no_bit),
        cmocka_unit_test(placed_replicas_change_no_bit),
        cmocka_unit_test(devices_work_at_once_on_micro_batches),
        cmocka_unit_test(tables_name_every_layer),
        cmocka_unit_test(misplaced_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
