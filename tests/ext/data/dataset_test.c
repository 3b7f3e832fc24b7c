/* Data sets by name: where KOLO_DATA is searched, and what is said when nothing is there. */
#include "ext/data/files.h"

/* As the name's ending says. */
static void write_packed(const char *path, const void *bytes, size_t size)
{
    if (strstr(path, ".gz")) write_gzip(path, bytes, size);
    else if (strstr(path, ".xz")) write_xz(path, bytes, size);
    else write_file(path, bytes, size);
}

/* Files of a data set of `samples` samples in a folder, named by a pattern such as "%s-images.idx3-ubyte". */
static void write_set(const char *folder, const char *images, const char *labels, uint32_t samples)
{
    static unsigned char bytes[4096];
    static const char *const split[] = {"train", "t10k"};
    mkdir(folder, 0755);
    for (int i = 0; i < 2; i++) {
        char name[64], path[192];
        snprintf(name, sizeof name, images, split[i]);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        size_t size = make_idx(bytes, 3, (uint32_t[]){samples + (uint32_t)i, 2, 2}, 200);
        write_packed(path, bytes, size);
        snprintf(name, sizeof name, labels, split[i]);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        size = make_idx(bytes, 1, (uint32_t[]){samples + (uint32_t)i}, 10);
        write_packed(path, bytes, size);
    }
}

static int home(void **state)
{
    (void)state;
    if (system("rm -rf home") != 0) return -1;
    mkdir("home", 0755);
    setenv("KOLO_DATA", "home", 1);
    setenv("XDG_CACHE_HOME", "/nowhere", 1);
    kolo_clear_error();
    return 0;
}

static void assert_samples(const char *name, kolo_split split, int64_t samples)
{
    kolo_data *data = kolo_dataset(name, split);
    assert_int_equal(kolo_data_get_info(data).samples, samples);
    kolo_data_free(&data);
}

static void names_are_folders_of_kolo_data(void **state)
{
    (void)state;
    write_set("home/mnist", "%s-images-idx3-ubyte", "%s-labels-idx1-ubyte", 20);
    write_set("home/fashion-mnist", "%s-images-idx3-ubyte.gz", "%s-labels-idx1-ubyte.gz", 30);
    write_set("home/dotted", "%s-images.idx3-ubyte", "%s-labels.idx1-ubyte", 40);
    write_set("elsewhere", "%s-images.idx3-ubyte.gz", "%s-labels-idx1-ubyte", 50);
    assert_samples(NULL, KOLO_TRAIN, 20);
    assert_samples("mnist", KOLO_TEST, 21);
    assert_samples("fashion-mnist", KOLO_TRAIN, 30);
    assert_samples("fashion-mnist", KOLO_TEST, 31);
    assert_samples("dotted", KOLO_TEST, 41);
    assert_samples("elsewhere", KOLO_TEST, 51);
    assert_samples("./elsewhere/", KOLO_TRAIN, 50);
    write_set("packed", "%s-images-idx3-ubyte.xz", "%s-labels-idx1-ubyte.xz", 60);
    assert_samples("packed", KOLO_TRAIN, 60);
    assert_samples("packed", KOLO_TEST, 61);
    kolo_data *data = kolo_mnist(KOLO_TEST);
    assert_string_equal(kolo_data_get_info(data).source, "home/mnist/t10k-images-idx3-ubyte");
    kolo_data_free(&data);
}

static void kolo_data_may_be_the_files_themselves(void **state)
{
    (void)state;
    write_set("home", "%s-images-idx3-ubyte", "%s-labels-idx1-ubyte", 20);
    write_set("fashion-mnist", "%s-images-idx3-ubyte", "%s-labels-idx1-ubyte", 30);
    assert_samples(NULL, KOLO_TRAIN, 20);
    assert_samples("mnist", KOLO_TRAIN, 20);
    setenv("KOLO_DATA", "fashion-mnist//", 1);
    assert_samples(NULL, KOLO_TRAIN, 30);
    assert_samples("fashion-mnist", KOLO_TRAIN, 30);
    assert_null(kolo_dataset("mnist", KOLO_TRAIN)); /* clothes are not digits */
    assert_failure(KOLO_NOT_FOUND, "got \"mnist\"", NULL);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    assert_null(kolo_mnist(KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "kolo_mnist: KOLO_DATA=home: wanted a folder mnist or IDX files", "got neither",
                   NULL);
    mkdir("home/mnist", 0755);
    assert_null(kolo_mnist(KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "home/mnist: wanted a file train-images-idx3-ubyte", "got none", NULL);
    write_set("home/mnist", "%s-images-idx3-ubyte", "%s-labels-idx1-ubyte", 20);
    unlink("home/mnist/t10k-labels-idx1-ubyte");
    assert_samples(NULL, KOLO_TRAIN, 20);
    assert_null(kolo_mnist(KOLO_TEST));
    assert_failure(KOLO_NOT_FOUND, "home/mnist: wanted a file t10k-labels-idx1-ubyte", "got none", NULL);
    setenv("KOLO_DATA", "nowhere", 1);
    assert_null(kolo_mnist(KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "KOLO_DATA: wanted a folder, got \"nowhere\"", NULL);
}

static void unknown_names_hear_what_there_is(void **state)
{
    (void)state;
    write_set("home/mnist", "%s-images-idx3-ubyte", "%s-labels-idx1-ubyte", 20);
    assert_null(kolo_dataset("minst", KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "kolo_dataset: wanted \"synthetic\"", "KOLO_DATA=home (mnist)", "got \"minst\"",
                   NULL);
    unsetenv("KOLO_DATA");
    assert_null(kolo_dataset("cifar-11", KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "KOLO_DATA", "not set", "got \"cifar-11\"", NULL);
    assert_null(kolo_dataset("", KOLO_TRAIN));
    assert_failure(KOLO_INVALID, "got an empty name", NULL);
    assert_null(kolo_dataset("home/mnist/train-images-idx3-ubyte", KOLO_TRAIN));
    assert_failure(KOLO_FORMAT, "wanted a folder", "got a file", NULL);
    assert_null(kolo_dataset("synthetic", (kolo_split)7));
    assert_failure(KOLO_INVALID, "wanted KOLO_TRAIN or KOLO_TEST, got 7", NULL);
    char name[8192];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_null(kolo_dataset(name, KOLO_TRAIN));
    kolo_clear_error();
    setenv("KOLO_DATA", name, 1);
    assert_null(kolo_mnist(KOLO_TRAIN));
    kolo_clear_error();
}

/* What stderr gets while body runs. */
static size_t listen(char *heard, size_t room, kolo_data **data)
{
    int saved = dup(STDERR_FILENO), file = open("stderr", O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(file, STDERR_FILENO);
    for (int i = 0; i < 2; i++) data[i] = kolo_mnist(i ? KOLO_TEST : KOLO_TRAIN);
    dup2(saved, STDERR_FILENO);
    close(saved);
    ssize_t size = pread(file, heard, room - 1, 0);
    close(file);
    heard[size] = 0;
    return (size_t)size;
}

static void without_kolo_data_digits_are_drawn_and_said_once(void **state)
{
    (void)state;
    char heard[1024];
    kolo_data *data[2];
    unsetenv("KOLO_DATA");
    listen(heard, sizeof heard, data);
    const char *sentence = strstr(heard, "KOLO_DATA is not set");
    assert_non_null(sentence);
    assert_null(strstr(sentence + 1, "KOLO_DATA is not set"));
    assert_true(kolo_data_get_info(data[0]).synthetic);
    assert_int_equal(kolo_data_get_info(data[0]).samples, 60000);
    assert_int_equal(kolo_data_get_info(data[1]).samples, 10000);
    kolo_data_free(&data[0]);
    kolo_data_free(&data[1]);
}

static void without_kolo_data_other_sets_are_drawn_too(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int shape[4], classes;
    } sets[] = {{"fashion-mnist", {28, 28, 1}, 10}, {"cifar-10", {32, 32, 3}, 10}, {"higgs", {28}, 2}};
    unsetenv("KOLO_DATA");
    assert_int_equal(system("rm -rf fashion-mnist"), 0); /* of another test, in the working folder */
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        kolo_data *data = kolo_dataset(sets[i].name, KOLO_TEST);
        kolo_data_info info = kolo_data_get_info(data);
        assert_true(info.synthetic);
        assert_memory_equal(info.shape, sets[i].shape, sizeof info.shape);
        assert_int_equal(info.classes, sets[i].classes);
        kolo_data_free(&data);
    }
}

static void what_was_fetched_is_found_without_kolo_data(void **state)
{
    (void)state;
    char cache[512], folder[256];
    assert_non_null(getcwd(folder, sizeof folder));
    snprintf(cache, sizeof cache, "%s/home", folder);
    mkdir("home/kolo", 0755);
    write_set("home/kolo/mnist", "%s-images-idx3-ubyte", "%s-labels-idx1-ubyte", 20);
    unsetenv("KOLO_DATA");
    setenv("XDG_CACHE_HOME", cache, 1);
    assert_samples(NULL, KOLO_TRAIN, 20);
    assert_samples("mnist", KOLO_TEST, 21);
    setenv("KOLO_DATA", folder, 1); /* which then decides alone */
    assert_null(kolo_mnist(KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "got neither", NULL);
}

static void each_set_by_its_own_call(void **state)
{
    (void)state;
    assert_null(kolo_cifar10(KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "kolo_cifar10: KOLO_DATA=home: wanted a folder cifar-10 or CIFAR's binary batches",
                   NULL);
    assert_null(kolo_higgs(KOLO_TRAIN));
    assert_failure(KOLO_NOT_FOUND, "kolo_higgs: KOLO_DATA=home: wanted a folder higgs or a HIGGS table", NULL);
    mkdir("home/higgs", 0755);
    assert_null(kolo_higgs(KOLO_TEST));
    assert_failure(KOLO_NOT_FOUND, "home/higgs: wanted a file HIGGS.csv", "got none", NULL);
    assert_null(kolo_cifar10((kolo_split)3));
    assert_failure(KOLO_INVALID, "wanted KOLO_TRAIN or KOLO_TEST, got 3", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(names_are_folders_of_kolo_data, home),
        cmocka_unit_test_setup(kolo_data_may_be_the_files_themselves, home),
        cmocka_unit_test_setup(what_is_missing_is_said, home),
        cmocka_unit_test_setup(unknown_names_hear_what_there_is, home),
        cmocka_unit_test_setup(without_kolo_data_digits_are_drawn_and_said_once, home),
        cmocka_unit_test_setup(without_kolo_data_other_sets_are_drawn_too, home),
        cmocka_unit_test_setup(what_was_fetched_is_found_without_kolo_data, home),
        cmocka_unit_test_setup(each_set_by_its_own_call, home),
    };
    return cmocka_run_group_tests_name("data/dataset", tests, enter_folder, leave_folder);
}
