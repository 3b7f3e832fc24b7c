/* Trainings in which one call of CUDA's, cuDNN's, cuBLASLt's or NCCL's fails, each in its turn; and such in which from
 * there on all fail, as when the device is lost. What must come of it: a sentence or the same result, nothing left
 * behind, and a training after it that knows nothing of it. */
/* test: long: it lets every call of CUDA fail in turn. */
#include "device.h"

#include "ext/core/small.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum cudaError { cudaSuccess } cudaError_t;
typedef void *cudaStream_t, *cudaGraph_t;
#define KOLO_SHIM_INSIDE
#include "shim/faults.h"

/* Asked for before the devices are counted. */
__attribute__((constructor)) static void have_two_devices(void)
{
    setenv("KOLO_SHIM_DEVICES", "2", 1);
}

/* ---- the shim's ---- */

static struct {
    void (*fail_at)(long number, bool for_good);
    long (*calls)(void);
    const char *(*failed)(void);
    kolo_shim_census (*count)(void);
    void (*forget)(void);
} shim;

static void find_shim(void)
{
    *(void **)&shim.fail_at = device_symbol("kolo_shim_fail");
    *(void **)&shim.calls = device_symbol("kolo_shim_calls");
    *(void **)&shim.failed = device_symbol("kolo_shim_failed");
    *(void **)&shim.count = device_symbol("kolo_shim_count");
    *(void **)&shim.forget = device_symbol("kolo_shim_forget");
}

static bool nothing_is_left(const kolo_shim_census *c)
{
    if (c->device_bytes == 0 && c->host_bytes == 0 && c->streams == 0 && c->events == 0 && c->graphs == 0) return true;
    print_error("left: %zu bytes of the device's, %zu of the host's, %d streams, %d events, %d graphs\n",
                c->device_bytes, c->host_bytes, c->streams, c->events, c->graphs);
    return false;
}

/* ---- trainings ---- */

typedef struct training {
    kolo_precision precision;
    int devices;
    bool staged; /* samples that are made on the host */
    bool cudnn;
    int batch; /* 0: 4, of 12 samples */
    int every; /* so many-th call fails: of calls that are much alike */
    int micro; /* 0: a batch is one microbatch; else its microbatches' gradients are added up */
    bool in_buckets; /* which second streams sum beside the backward pass */
} training;

static kolo_model *model_of(void)
{
    return kolo_sequential(kolo_input(SMALL_SIDE, SMALL_SIDE, 1),
                           kolo_conv2d(2, .kernel = {2, 2}, .stride = {2, 2}, .no_bias = true), kolo_batch_norm(),
                           kolo_activate(KOLO_RELU), kolo_max_pool2d(2, 2), kolo_dropout(0.2), kolo_flatten(),
                           kolo_dense(SMALL_CLASSES, .l2 = 0.01));
}

/* The last loss; NAN: it failed, with a sentence in `why`. */
static double train(const training *t, char why[1200])
{
    kolo_data *plain = small_data(t->batch > 12 ? t->batch : 12), *data = plain;
    setenv("KOLO_CUDNN", t->cudnn ? "1" : "0", 1);
    if (t->staged) data = kolo_augment(plain, .flip = true);
    kolo_model *model = model_of();
    double loss = NAN;
    kolo_optimizer optimizer = kolo_adam();
    if (t->in_buckets) optimizer = kolo_distributed(optimizer, .bucket_bytes = 16);
    kolo_clear_error();
    kolo_status status =
        kolo_compile(model, .optimizer = optimizer, .loss = KOLO_SPARSE_CROSSENTROPY, .metrics = {KOLO_ACCURACY},
                     .seed = 5, .precision = t->precision, .backend = "cuda",
                     .strategy = t->devices > 1 ? kolo_mirrored(.devices = t->devices) : (kolo_strategy){0});
    const kolo_history *history = NULL;
    if (status == KOLO_OK)
        history = kolo_fit(model, data, .epochs = 1, .batch_size = t->batch ? t->batch : 4, .micro_batch = t->micro,
                           .verbose = KOLO_NONE);
    if (history) {
        kolo_scores scores = kolo_evaluate(model, plain);
        if (kolo_last_error().code == KOLO_OK) loss = scores.loss;
    }
    snprintf(why, 1200, "%s", kolo_last_error().code == KOLO_OK ? "" : kolo_last_error().text);
    kolo_model_free(&model);
    if (t->staged) kolo_data_free(&data);
    kolo_data_free(&plain);
    return loss;
}

/* What is printed is many sentences. */
static int hush(void)
{
    int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", 1);
    if (getenv("LOUD")) return kept;
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    return kept;
}

static void speak(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

/* Whether what came of the failure of that call is right. */
static bool is_right(double loss, double wanted, const char *why, bool for_good)
{
    kolo_shim_census left = shim.count();
    bool right = isnan(loss) ? strlen(why) > 20 : fabs(loss - wanted) < 1e-4;
    if (!for_good) right = nothing_is_left(&left) && right;
    if (!right)
        print_error("call %s: loss %g, wanted %g or a sentence, got \"%s\"\n", shim.failed(), loss, wanted, why);
    if (getenv("TELL")) print_message("%-32s %s\n", shim.failed(), why);
    return right;
}

/* Every call of its own; of a training with threads those that come to it. */
static void fail_each(const training *t, bool for_good)
{
    static char why[1200];
    shim.fail_at(0, false);
    double wanted = train(t, why), again;
    long calls = shim.calls(), failures = 0;
    bool right = !isnan(wanted) && calls > 100;
    print_message("%ld calls, %s\n", calls, why);
    for (long n = 1; n <= calls && right; n += t->every) {
        int kept = hush();
        shim.fail_at(n, for_good);
        double loss = train(t, why);
        bool fired = *shim.failed();
        failures += isnan(loss);
        speak(kept);
        right = is_right(loss, wanted, why, for_good && fired);
        if (for_good) shim.forget();
        shim.fail_at(0, false);
        if (n / t->every % 50 == 0 && right) {
            again = train(t, why);
            right = again == wanted;
            if (!right) print_error("after a failure of call %ld: %g, wanted %g: %s\n", n, again, wanted, why);
        }
    }
    print_message("%ld failures\n", failures);
    assert_true(right && failures > 0);
}

static void any_call_may_fail(void **state)
{
    (void)state;
    fail_each(&(training){.every = 1}, false);
}

static void any_call_may_fail_of_halves_that_are_staged(void **state)
{
    (void)state;
    fail_each(&(training){.precision = KOLO_MIXED_FP16, .staged = true, .every = 3}, false);
}

static void any_call_may_fail_of_several_microbatches(void **state)
{
    (void)state;
    fail_each(&(training){.batch = 8, .micro = 2, .every = 2}, false);
}

static void any_call_may_fail_of_cudnn(void **state)
{
    (void)state;
    fail_each(&(training){.cudnn = true, .every = 17}, false);
}

static void the_device_may_be_lost(void **state)
{
    (void)state;
    fail_each(&(training){.every = 3}, true);
}

static void any_call_may_fail_of_two_devices(void **state)
{
    (void)state;
    fail_each(&(training){.devices = 2, .every = 3}, false);
}

static void any_call_may_fail_of_second_streams(void **state)
{
    (void)state;
    fail_each(&(training){.devices = 2, .in_buckets = true, .every = 5}, false);
}

/* The bytes of a device on which it first succeeds, of some: with fewer it says so, and leaves nothing. */
static long least_memory(const training *t)
{
    static char why[1200];
    char text[24];
    long bytes = 1 << 14;
    for (bool succeeds = false; !succeeds; bytes += bytes / 4) {
        assert_true(bytes < 1 << 26);
        snprintf(text, sizeof text, "%ld", bytes);
        setenv("KOLO_SHIM_MEMORY", text, 1);
        int kept = hush();
        succeeds = !isnan(train(t, why));
        speak(kept);
        kolo_shim_census left = shim.count();
        assert_true(nothing_is_left(&left));
        assert_true(left.most_device_bytes <= (size_t)bytes);
        if (!succeeds && !(strstr(why, "memory") && strstr(why, ".batch_size"))) fail_msg("%s", why);
    }
    unsetenv("KOLO_SHIM_MEMORY");
    return bytes;
}

static void memory_may_be_short(void **state)
{
    (void)state;
    long few = least_memory(&(training){.batch = 2}), many = least_memory(&(training){.batch = 192});
    print_message("%ld bytes for batches of 2, %ld for those of 192\n", few, many);
    assert_true(few < many);
    least_memory(&(training){.batch = 64, .devices = 2});
}

/* Microbatches of scores are as large as what is left allows, and two kinds of scores do not stand in each other's way.
 */
static void scores_take_what_there_is(void **state)
{
    (void)state;
    enum { SAMPLES = 1500 };
    static float outputs[SAMPLES][SMALL_CLASSES];
    kolo_data *data = small_data(SAMPLES);
    double losses[4];
    const char *memory[4] = {"100000000", "1600000", "400000", "100000"};
    for (int i = 0; i < 4; i++) {
        setenv("KOLO_SHIM_MEMORY", memory[i], 1);
        kolo_model *model = model_of();
        assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5, .backend = "cuda"), KOLO_OK);
        losses[i] = kolo_evaluate(model, data).loss;
        assert_float_equal(losses[i], losses[0], 1e-6);
        assert_int_equal(kolo_predict(model, data, &outputs[0][0]), KOLO_OK);
        assert_true(kolo_evaluate(model, data).loss == losses[i]);
        kolo_model_free(&model);
    }
    unsetenv("KOLO_SHIM_MEMORY");
    kolo_data_free(&data);
}

static void a_few_samples_do_not_bring_all(void **state)
{
    (void)state;
    enum { SAMPLES = 8192 };
    const size_t all = SAMPLES * sizeof(float[SMALL_SIDE][SMALL_SIDE]);
    float outputs[SMALL_CLASSES];
    kolo_data *data = small_data(SAMPLES);
    kolo_model *model = model_of();
    assert_int_equal(kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 5,
                                  .backend = "cuda"),
                     KOLO_OK);
    (void)shim.count(); /* forgets the most before */
    for (int i = 0; i < 3; i++) {
        assert_true(isfinite(kolo_train_on_batch(model, data, i * 8, 8).loss));
        assert_true(isfinite(kolo_test_on_batch(model, data, i * 8, 8).loss));
        assert_int_equal(kolo_predict_on_batch(model, data, i, 1, outputs), KOLO_OK);
    }
    assert_true(shim.count().most_device_bytes < all / 2);
    assert_non_null(kolo_fit(model, data, .batch_size = 1024, .steps_per_epoch = 1, .verbose = KOLO_NONE));
    assert_true(shim.count().most_device_bytes > all);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_device_without_code_is_told(void **state)
{
    (void)state;
    static char why[1200];
    setenv("KOLO_SHIM_WITHOUT_CODE", "1", 1);
    assert_true(isnan(train(&(training){0}, why)));
    unsetenv("KOLO_SHIM_WITHOUT_CODE");
    assert_non_null(strstr(why, "libkolo_cuda.so was built without code for it"));
}

/* It has the parent's model, and must neither touch nor give back what the parent has on the device. */
static void a_forked_child_is_told(void **state)
{
    (void)state;
    int ended = 0;
    kolo_data *data = small_data(12);
    kolo_model *model = model_of();
    kolo_clear_error();
    assert_int_equal(kolo_compile(model, .optimizer = kolo_sgd(.learning_rate = 0.1), .loss = KOLO_SPARSE_CROSSENTROPY,
                                  .backend = "cuda"),
                     KOLO_OK);
    assert_non_null(kolo_fit(model, data, .batch_size = 4, .verbose = KOLO_NONE));
    double loss = kolo_evaluate(model, data).loss;
    pid_t child = fork();
    if (child == 0) {
        bool told = isnan(kolo_evaluate(model, data).loss) && strstr(kolo_last_error().text, "forked");
        kolo_clear_error();
        told = told && !kolo_fit(model, data, .batch_size = 4) && strstr(kolo_last_error().text, "forked");
        kolo_model_free(&model);
        _exit(told ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_true(kolo_evaluate(model, data).loss == loss);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void wants_simulated_devices(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
    const struct CMUnitTest none[] = {cmocka_unit_test(wants_simulated_devices)};
    if (!device_is_simulated()) return cmocka_run_group_tests(none, NULL, NULL);
    find_shim();
    setenv("KOLO_SHIM_CHECKS", "0", 1); /* the same kernels again and again */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_call_may_fail),
        cmocka_unit_test(any_call_may_fail_of_halves_that_are_staged),
        cmocka_unit_test(any_call_may_fail_of_several_microbatches),
        cmocka_unit_test(any_call_may_fail_of_cudnn),
        cmocka_unit_test(the_device_may_be_lost),
        cmocka_unit_test(any_call_may_fail_of_two_devices),
        cmocka_unit_test(any_call_may_fail_of_second_streams),
        cmocka_unit_test(memory_may_be_short),
        cmocka_unit_test(scores_take_what_there_is),
        cmocka_unit_test(a_few_samples_do_not_bring_all),
        cmocka_unit_test(a_device_without_code_is_told),
        cmocka_unit_test(a_forked_child_is_told),
    };
    if (getenv("ONLY")) cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
