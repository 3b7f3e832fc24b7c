/* Which devices a process has where there are GPUs: four simulated ones, of which the environment that the driver
 * starts in leaves two. */
#include "device.h"

#include <kolo.h>
#include <unistd.h>

#include "runtime/runtime.h"

static int environment_is_clean(void **state)
{
    (void)state;
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "KOLO_DEVICES", "KOLO_CPU_DEVICES", "KOLO_GPU_DEVICES",
                                        "KOLO_BACKEND"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    kolo_finish(); /* forgets what was set and pinned */
    kolo_clear_error();
    return 0;
}

/* "3,1" of the descriptions "simulated device 3", by the numbers that the backend is given. */
static const char *seen(void)
{
    static char text[256];
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < kolo_device_count(); i++) {
        char name[96];
        int64_t memory, left;
        rig_ok(tested_backend()->devices->describe(kolo_replica_device(i), name, &memory, &left));
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", name + strlen("simulated device "));
    }
    return text;
}

/* The first test: the driver has not started yet. What it is given, and then what Kolo reads, must not add up. */
static void a_mask_is_not_applied_twice(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "3,2", 1);
    assert_int_equal(kolo_device_count(), 2);
    assert_string_equal(getenv("CUDA_VISIBLE_DEVICES"), "3,2");
    assert_int_equal(kolo_gpus(), 4);
    assert_true(device_open());
    streams->close(&stream);
    assert_string_equal(seen(), "3,2");
    assert_string_equal(kolo_device_get(0).description, "simulated device 3");
    assert_string_equal(kolo_device_get(1).name, "gpu:1");
    kolo_pin_device(3);
    assert_int_equal(kolo_replica_device(0), 2);
}

static void a_cell_masks_at_any_time(void **state)
{
    (void)state;
    static const char *const cases[][2] = {{"0", "0"},
                                           {"", ""},
                                           {"1,4,2", "1"},
                                           {"GPU-b0b1b2b3,0", "1,0"},
                                           {" GPU-d0d1d2d3-d4d5-d6d7-d8d9-dadbdcdddedf , 1", "3,1"},
                                           {"GPU-ffff,1", ""},
                                           {"MIG-c0c1c2c3-c4c5,1", "2,1"}};
    assert_string_equal(seen(), "0,1,2,3");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("CUDA_VISIBLE_DEVICES", cases[i][0], 1);
        assert_string_equal(seen(), cases[i][1]);
    }
    setenv("CUDA_VISIBLE_DEVICES", "3,1,0", 1);
    assert_int_equal(kolo_set_visible_devices("2,0"), KOLO_OK);
    assert_string_equal(seen(), "0,3");
    assert_int_equal(kolo_set_visible_devices("GPU-b0b1b2b3"), KOLO_NOT_FOUND);
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_string_equal(seen(), "2,0");
}

static void virtual_devices_share_the_gpus(void **state)
{
    (void)state;
    setenv("KOLO_GPU_DEVICES", "6", 1);
    assert_string_equal(seen(), "0,1,2,3,0,1");
    assert_int_equal(kolo_hardware_count(), 4);
    kolo_device_list list = kolo_devices();
    assert_int_equal(list.count, 6);
    assert_string_equal(list.device[5].name, "gpu:5");
    assert_string_equal(list.device[5].description, "virtual, 1 of 2 on simulated device 1");
    assert_true(list.device[0].is_virtual && !list.device[2].is_virtual);
    assert_int_equal(list.device[0].memory_bytes, list.device[2].memory_bytes / 2);
    assert_true(list.device[2].free_bytes > 0 && list.device[2].free_bytes <= list.device[2].memory_bytes);
    setenv("CUDA_VISIBLE_DEVICES", "5,1", 1);
    assert_string_equal(seen(), "1,1");
    assert_int_equal(kolo_hardware_count(), 1);
    setenv("KOLO_DEVICES", "cpu", 1);
    assert_int_equal(kolo_hardware_count(), kolo_threads());
    unsetenv("KOLO_DEVICES");
    assert_string_equal(kolo_device_get(0).description, "virtual, number 5 of 6 on simulated device 1");
}

/* What the models have, as long as they have it. */
static void memory_that_is_taken(void **state)
{
    (void)state;
    assert_int_equal(kolo_device_get(1).taken_bytes, 0);
    kolo_stream *own = NULL;
    void *memory = NULL;
    assert_int_equal(device_open_stream(1, &own), KOLO_OK);
    int64_t before = kolo_device_get(1).taken_bytes;
    assert_int_equal(streams->allocate(own, 1000000, "a test", &memory), KOLO_OK);
    assert_int_equal(kolo_device_get(1).taken_bytes, before + 1000000);
    assert_int_equal(kolo_device_get(0).taken_bytes, 0);
    streams->release(own, memory);
    assert_int_equal(kolo_device_get(1).taken_bytes, before);
    streams->close(&own);
    assert_int_equal(kolo_device_get(1).taken_bytes, 0);
}

static void names(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "0,1,2", 1);
    assert_int_equal(kolo_device_number("gpu:2"), 2);
    assert_int_equal(kolo_device_number("cpu:2"), 2); /* of a program that was written for the CPU's */
    assert_int_equal(kolo_device_number("host"), KOLO_HOST);
    static const char *const none[] = {"gpu:3", "gpu:", "gpu:x", "gpu: 1", "gpu:-1", "gpu:1x", "tpu:0", ""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(kolo_device_number(none[i]), KOLO_NO_DEVICE);
    kolo_model *model = kolo_sequential(kolo_input(3), kolo_dense(2, .device = "gpu:4"));
    assert_null(model);
    assert_non_null(strstr(kolo_last_error().text, "wanted one of 3 devices (KOLO_GPU_DEVICES, CUDA_VISIBLE_DEVICES)"));
    kolo_model_free(&model);
}

static const char *backend_of(const char *name)
{
    const kolo_backend *backend = NULL;
    return kolo_backend_find(name, KOLO_FLOAT32, &backend) == KOLO_OK ? backend->name : NULL;
}

static void the_host_is_chosen(void **state)
{
    (void)state;
    assert_string_equal(backend_of(NULL), "cuda");
    assert_string_equal(backend_of("onednn"), "onednn");
    setenv("KOLO_DEVICES", "cpu", 1);
    assert_string_equal(backend_of(NULL), "onednn");
    assert_int_equal(kolo_device_count(), 8);
    assert_string_equal(kolo_device_get(7).name, "cpu:7");
    assert_int_equal(kolo_device_number("gpu:0"), KOLO_NO_DEVICE);
    assert_null(backend_of("cuda"));
    assert_string_equal(kolo_failure_take().text, "backend \"cuda\": wanted a GPU, got none: KOLO_DEVICES is \"cpu\"");
    unsetenv("KOLO_DEVICES");
    setenv("KOLO_BACKEND", "reference", 1);
    assert_int_equal(kolo_device_count(), 8);
    setenv("KOLO_BACKEND", "cuda", 1);
    assert_int_equal(kolo_device_count(), 4);
    unsetenv("KOLO_BACKEND");
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    assert_string_equal(backend_of(NULL), "onednn");
    assert_null(backend_of("cuda"));
    assert_non_null(strstr(kolo_failure_take().text, "CUDA_VISIBLE_DEVICES or kolo_set_visible_devices() leaves none"));
}

static void wrong_variables_are_sentences(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"KOLO_DEVICES", "tpu", "KOLO_DEVICES: wanted \"cpu\" or \"gpu\", got \"tpu\""},
        {"KOLO_GPU_DEVICES", "0", "KOLO_GPU_DEVICES: wanted a whole number from 1 to 256, got \"0\""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv(cases[i][0], cases[i][1], 1);
        assert_int_equal(kolo_check_environment(), KOLO_INVALID);
        assert_string_equal(kolo_failure_take().text, cases[i][2]);
        unsetenv(cases[i][0]);
    }
    setenv("KOLO_DEVICES", "gpu", 1);
    assert_int_equal(kolo_check_environment(), KOLO_OK);
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
    setenv("KOLO_SHIM_DEVICES", "4", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_mask_is_not_applied_twice, environment_is_clean),
        cmocka_unit_test_setup(a_cell_masks_at_any_time, environment_is_clean),
        cmocka_unit_test_setup(virtual_devices_share_the_gpus, environment_is_clean),
        cmocka_unit_test_setup(memory_that_is_taken, environment_is_clean),
        cmocka_unit_test_setup(names, environment_is_clean),
        cmocka_unit_test_setup(the_host_is_chosen, environment_is_clean),
        cmocka_unit_test_setup(wrong_variables_are_sentences, environment_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
