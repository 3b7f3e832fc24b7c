/* Which devices a process sees: KOLO_CPU_DEVICES, CUDA_VISIBLE_DEVICES, kolo_set_visible_devices(), kolo_pin_device().
 */
#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/team.h"
#include "replica/trainer.h"

static int environment_is_clean(void **state)
{
    (void)state;
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("KOLO_CPU_DEVICES");
    unsetenv("KOLO_THREADS");
    kolo_finish(); /* forgets what was set and pinned */
    kolo_clear_error();
    return 0;
}

/* "3,1" of the descriptions "virtual, number 3 of 8 on …". */
static const char *seen(void)
{
    static char text[256];
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < kolo_device_count(); i++) {
        kolo_device device = kolo_device_get(i);
        int number = i;
        assert_int_equal(device.index, i);
        sscanf(device.description, "virtual, number %d of", &number);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? "," : "", number);
    }
    return text;
}

static void all_are_seen(void **state)
{
    (void)state;
    assert_string_equal(seen(), "0,1,2,3,4,5,6,7");
    setenv("KOLO_CPU_DEVICES", "3", 1);
    kolo_device_list list = kolo_devices();
    assert_int_equal(list.count, 3);
    assert_string_equal(list.device[2].name, "cpu:2");
    assert_true(list.device[0].is_virtual && list.device[0].memory_bytes > 0);
    assert_true(fabs(list.device[0].cores * 3 - kolo_threads()) < 1e-9);
    assert_int_equal(kolo_devices(2).count, 2);
    assert_int_equal(kolo_devices(-1).count, 3);
    assert_int_equal(kolo_devices(.most = 7).count, 3);
    setenv("KOLO_CPU_DEVICES", "1", 1);
    assert_false(kolo_device_get(0).is_virtual);
}

/* As CUDA reads its list: numbered anew in its order, up to the first that is none. */
static void the_environment_masks(void **state)
{
    static const char *const cases[][2] = {{"0", "0"},
                                           {"3,1", "3,1"},
                                           {"", ""},
                                           {"-1", ""},
                                           {"2,8,1", "2"},
                                           {"1,-1,2", "1"},
                                           {"4,4", "4"},
                                           {"0,x", "0"},
                                           {"GPU-8932f937", ""},
                                           {" 5, 6 ,7", "5,6,7"},
                                           {"1,", "1"},
                                           {"2 3", ""},
                                           {"NoDevFiles", ""},
                                           {"99999999999999999999", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("CUDA_VISIBLE_DEVICES", cases[i][0], 1);
        assert_string_equal(seen(), cases[i][1]);
    }
}

static const char *said(const char *list)
{
    static char text[400];
    int err = dup(2);
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), 2);
    setenv("CUDA_VISIBLE_DEVICES", list, 1);
    kolo_init(NULL, NULL);
    kolo_devices();
    fflush(stderr);
    dup2(err, 2);
    close(err);
    rewind(file);
    size_t length = fread(text, 1, sizeof text - 1, file);
    text[length] = 0;
    fclose(file);
    return text;
}

static void what_is_wrong_is_said_once(void **state)
{
    (void)state;
    assert_string_equal(said("2,1"), "");
    assert_string_equal(said(""), "");
    assert_string_equal(said("-1"), "");
    const char *text = said("2,8,1");
    assert_non_null(strstr(text,
                           "CUDA_VISIBLE_DEVICES: wanted numbers from 0 to 7, each once, got \"8\" in \"2,8,1\""));
    assert_non_null(strstr(text, "leaves 1 device\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_string_equal(said("2,8,1"), "");
}

static void a_program_masks_what_the_environment_leaves(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "5,6,7", 1);
    assert_int_equal(kolo_set_visible_devices("2,0"), KOLO_OK);
    assert_string_equal(seen(), "7,5");
    assert_int_equal(kolo_set_visible_devices("3"), KOLO_NOT_FOUND);
    assert_non_null(strstr(kolo_last_error().text, "wanted numbers of devices, from 0 to 2, each once, got \"3\""));
    assert_int_equal(kolo_set_visible_devices("0,0"), KOLO_NOT_FOUND);
    assert_string_equal(seen(), "7,5");
    assert_int_equal(kolo_set_visible_devices(""), KOLO_OK);
    assert_string_equal(seen(), "");
    assert_int_equal(kolo_set_visible_devices(NULL), KOLO_OK);
    assert_string_equal(seen(), "5,6,7");
}

static int devices_of(kolo_strategy strategy, kolo_status *status)
{
    kolo_model *model = small_model();
    kolo_data *data = small_data(16);
    *status = kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = strategy);
    const kolo_history *history = *status ? NULL : kolo_fit(model, data, .verbose = KOLO_NONE);
    int devices = history ? history->devices : 0;
    kolo_model_free(&model);
    kolo_data_free(&data);
    return devices;
}

static void strategies_take_what_is_seen(void **state)
{
    (void)state;
    kolo_status status;
    setenv("CUDA_VISIBLE_DEVICES", "4,2,0", 1);
    assert_int_equal(devices_of(kolo_mirrored(), &status), 3);
    assert_int_equal(devices_of(kolo_mirrored(.device_names = {"cpu:2", "cpu:1"}), &status), 2);
    assert_int_equal(devices_of(kolo_mirrored(.devices = 4), &status), 0);
    assert_int_equal(status, KOLO_INVALID);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(kolo_device_get(0).index, -1);
    assert_int_equal(devices_of(kolo_mirrored(), &status), 1); /* the host alone */
    assert_int_equal(devices_of(kolo_central_storage(), &status), 1);
    assert_int_equal(kolo_pin_device(3), KOLO_OK);
    assert_int_equal(devices_of(kolo_mirrored(), &status), 1);
}

/* Pinned or not: the cores were dealt to ranks already, and this process computes on no other device. */
static void a_pinned_device_has_all_cores_of_the_process(void **state)
{
    (void)state;
    setenv("KOLO_THREADS", "3", 1);
    kolo_model *model = small_model();
    kolo_data *data = small_data(256);
    assert_int_equal(kolo_pin_device(kolo_local_rank()), KOLO_OK);
    kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY);
    assert_non_null(kolo_fit(model, data, .batch_size = 256, .verbose = KOLO_NONE));
    assert_int_equal(kolo_engine_lanes(model->trainer->replicas[0].engine), 3);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

/* A model keeps the devices that there were when it was compiled. */
static void a_compiled_model_keeps_its_devices(void **state)
{
    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "0,1,2", 1);
    kolo_model *model = small_model();
    kolo_data *data = small_data(16);
    kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = kolo_mirrored());
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    assert_int_equal(kolo_fit(model, data, .verbose = KOLO_NONE)->devices, 3);
    kolo_compile(model, .optimizer = kolo_adam(), .loss = KOLO_SPARSE_CROSSENTROPY, .strategy = kolo_mirrored());
    assert_int_equal(kolo_fit(model, data, .verbose = KOLO_NONE)->devices, 1);
    kolo_model_free(&model);
    kolo_data_free(&data);
}

static void a_model_is_not_compiled_for_devices_that_have_gone(void **state)
{
    (void)state;
    kolo_model *model = kolo_sequential(kolo_input(6), kolo_dense(4), kolo_dense(3, .device = "cpu:2"));
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_INVALID);
    assert_non_null(strstr(kolo_last_error().text, "layer 2 (dense_1): device: wanted one of 2 devices"));
    assert_non_null(strstr(kolo_last_error().text, "got \"cpu:2\""));
    kolo_clear_error();
    setenv("CUDA_VISIBLE_DEVICES", "0,1,5", 1);
    assert_int_equal(kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY), KOLO_OK);
    kolo_model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_are_seen, environment_is_clean),
        cmocka_unit_test_setup(the_environment_masks, environment_is_clean),
        cmocka_unit_test_setup(what_is_wrong_is_said_once, environment_is_clean),
        cmocka_unit_test_setup(a_program_masks_what_the_environment_leaves, environment_is_clean),
        cmocka_unit_test_setup(strategies_take_what_is_seen, environment_is_clean),
        cmocka_unit_test_setup(a_pinned_device_has_all_cores_of_the_process, environment_is_clean),
        cmocka_unit_test_setup(a_compiled_model_keeps_its_devices, environment_is_clean),
        cmocka_unit_test_setup(a_model_is_not_compiled_for_devices_that_have_gone, environment_is_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
