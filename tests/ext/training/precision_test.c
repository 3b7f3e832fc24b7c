/* .precision of kolo_compile() on the CPU: TF32 is a GPU's, and here float32 to the bit. */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WEIGHTS 1024

/* The weights after two epochs; NaN where it could not be compiled. */
static void train(kolo_precision precision, const char *backend, float *weights)
{
    kolo_data *data = small_data(90);
    kolo_model *model = small_model();
    for (int i = 0; i < WEIGHTS; i++) weights[i] = NAN;
    kolo_status status = kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 11,
                                      .precision = precision, .backend = backend, .deterministic = true);
    if (status == KOLO_OK) {
        assert_non_null(kolo_fit(model, data, .epochs = 2, .batch_size = 30, .verbose = KOLO_NONE));
        int64_t count = kolo_count_params(model);
        assert_true(count <= WEIGHTS);
        memcpy(weights, kolo_weight_get(model, 0).values, (size_t)count * sizeof *weights);
    }
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* The same, with what was said on stderr. */
static void train_and_listen(kolo_precision precision, const char *backend, float *weights, char said[1024])
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    train(precision, backend, weights);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, 1023, file)] = '\0';
    fclose(file);
}

static void tf32_is_float32(void **state)
{
    float wanted[WEIGHTS], got[WEIGHTS];
    char said[1024];
    train_and_listen(KOLO_FLOAT32, *state, wanted, said);
    assert_string_equal(said, "");
    train_and_listen(KOLO_TF32, *state, got, said);
    assert_memory_equal(wanted, got, sizeof wanted);
    assert_non_null(strstr(said, "on the CPU it is KOLO_FLOAT32"));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

static void fp16_is_not(void **state)
{
    float wanted[WEIGHTS], got[WEIGHTS];
    train(KOLO_FLOAT32, *state, wanted);
    train(KOLO_MIXED_FP16, *state, got);
    assert_memory_not_equal(wanted, got, sizeof wanted);
}

int main(void)
{
    static const char *const backends[] = {"reference", "onednn"};
    int failed = 0;
    for (int b = 0; b < 2; b++) {
        void *backend = (void *)(uintptr_t)backends[b];
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(tf32_is_float32, backend),
            cmocka_unit_test_prestate(fp16_is_not, backend),
        };
        failed += cmocka_run_group_tests_name(backends[b], tests, NULL, NULL);
    }
    return failed;
}
