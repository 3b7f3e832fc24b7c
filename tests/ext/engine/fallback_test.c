/* Operations that a backend lacks are computed by the reference backend: a training on a backend that lacks some, on
 * the host and behind the enqueued stream, is the reference's within the rounding of float32, in which operands then
 * are. */
#include <string.h>

#include "ext/core/small.h"

#include "backend/backend.h"
#include "model/model.h"

#define TOLERANCE 1e-5

static bool lacks_products(kolo_op_kind kind)
{
    return kind != KOLO_OP_CONV2D && kind != KOLO_OP_CONV2D_BACKWARD && kind != KOLO_OP_DENSE &&
           kind != KOLO_OP_DENSE_BACKWARD && kind != KOLO_OP_ADD;
}

static kolo_data *images(void)
{
    static float features[24 * 64];
    static int32_t labels[24];
    for (int i = 0; i < 24 * 64; i++) features[i] = sinf((float)i);
    for (int i = 0; i < 24; i++) labels[i] = i % 3;
    return kolo_data_from_arrays(features, labels, .samples = 24, .shape = {8, 8, 1}, .classes = 3);
}

static kolo_model *compiled(const kolo_backend *backend)
{
    kolo_model *model = kolo_sequential(kolo_input(8, 8, 1), kolo_conv2d(4, .kernel = {3, 3}, .activation = KOLO_RELU),
                                        kolo_max_pool2d(2, 2), kolo_batch_norm(), kolo_flatten(),
                                        kolo_dense(8, .activation = KOLO_TANH), kolo_dense(3));
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 3,
                                  .backend = "reference"),
                     KOLO_OK);
    model->backend = backend;
    return model;
}

static kolo_model *trained(const kolo_backend *backend, kolo_data *data)
{
    kolo_model *model = compiled(backend);
    assert_non_null(kolo_fit(model, data, .epochs = 2, .batch_size = 10, .verbose = KOLO_NONE));
    return model;
}

static void is_the_reference_s(const kolo_backend *whole)
{
    kolo_backend lacking = *whole;
    lacking.name = "lacking";
    lacking.has = lacks_products;
    kolo_data *data = images();
    kolo_model *wanted = trained(&kolo_reference_backend, data), *got = trained(&lacking, data);
    for (int64_t i = 0; i < wanted->weight_count; i++)
        if (!(fabsf(wanted->weights[i] - got->weights[i]) <= (float)TOLERANCE))
            fail_msg("weight %lld: wanted %g, got %g", (long long)i, (double)wanted->weights[i],
                     (double)got->weights[i]);
    kolo_model_free(&wanted);
    kolo_model_free(&got);
    kolo_data_free(&data);
}

static void test_host(void **state)
{
    (void)state;
    is_the_reference_s(&kolo_reference_backend);
}

static void test_enqueued(void **state)
{
    (void)state;
    is_the_reference_s(&kolo_enqueued_backend);
}

static bool lacks_pooling(kolo_op_kind kind)
{
    return kind != KOLO_OP_MAX_POOL2D;
}

/* A pooling has a workspace, whose layout is its backend's own. */
static void what_cannot_be_replaced_is_a_sentence(void **state)
{
    (void)state;
    kolo_backend lacking = kolo_reference_backend;
    lacking.name = "lacking";
    lacking.has = lacks_pooling;
    kolo_data *data = images();
    kolo_model *model = compiled(&lacking);
    assert_null(kolo_fit(model, data, .batch_size = 10, .verbose = KOLO_NONE));
    assert_non_null(strstr(kolo_last_error().text,
                           "max_pool2d: wanted a backend that has its operation MAX_POOL2D, got lacking"));
    kolo_clear_error();
    kolo_model_free(&model);
    kolo_data_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_host), cmocka_unit_test(test_enqueued),
                                       cmocka_unit_test(what_cannot_be_replaced_is_a_sentence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
