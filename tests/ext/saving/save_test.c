/* Saving and loading: the bytes of the format, and that a failure leaves nothing half-written and nothing changed. */
#include "ext/data/files.h"
#include "core/file.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static kolo_model *model;

/* A model of 3·2 + 2 + 2·2 = 12 weights, the i-th of which is i + offset. */
static kolo_model *small_model(float offset)
{
    kolo_model *made = kolo_sequential(kolo_input(3), kolo_dense(2, .name = "first"),
                                       kolo_dense(2, .no_bias = true, .name = "second"));
    assert_int_equal(kolo_compile(made, .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1, .backend = "reference"), KOLO_OK);
    for (int i = 0, n = 0; i < kolo_weight_count(made); i++)
        for (int64_t k = 0; k < kolo_weight_get(made, i).count; k++)
            kolo_weight_get(made, i).values[k] = (float)n++ + offset;
    return made;
}

static void assert_weights(float offset)
{
    for (int i = 0, n = 0; i < kolo_weight_count(model); i++)
        for (int64_t k = 0; k < kolo_weight_get(model, i).count; k++)
            assert_float_equal(kolo_weight_get(model, i).values[k], (float)n++ + offset, 0);
}

static int begin(void **state)
{
    (void)state;
    model = small_model(0);
    kolo_clear_error();
    return 0;
}

static int end(void **state)
{
    (void)state;
    kolo_model_free(&model);
    return system("rm -rf ./* ./.kolo*");
}

static int files_here(const char *folder)
{
    int count = 0;
    DIR *listing = opendir(folder);
    for (struct dirent *entry; (entry = readdir(listing));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(listing);
    return count;
}

/* ------------------------------------------------------------------------------------------ safetensors */

static const char expected_header[] =
    "{\"__metadata__\":{\"format\":\"kolo\"},\"first.bias\":{\"data_offsets\":[24,32],\"dtype\":\"F32\",\"shape\":[2]},"
    "\"first.kernel\":{\"data_offsets\":[0,24],\"dtype\":\"F32\",\"shape\":[3,2]},"
    "\"second.kernel\":{\"data_offsets\":[32,48],\"dtype\":\"F32\",\"shape\":[2,2]}}";

static void the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    uint64_t length;
    float value;
    assert_int_equal(kolo_save(model, "a.safetensors"), KOLO_OK);
    size_t size = read_whole("a.safetensors", bytes, sizeof bytes);
    memcpy(&length, bytes, 8);
    assert_int_equal(length % 8, 0);
    assert_in_range(length, strlen(expected_header), strlen(expected_header) + 7);
    assert_memory_equal(bytes + 8, expected_header, strlen(expected_header));
    for (size_t i = strlen(expected_header); i < length; i++) assert_int_equal(bytes[8 + i], ' ');
    assert_int_equal(size, 8 + length + 48);
    for (int i = 0; i < 12; i++) {
        memcpy(&value, bytes + 8 + length + 4 * i, 4);
        assert_float_equal(value, i, 0);
    }
}

static void equal_weights_are_equal_files(void **state)
{
    (void)state;
    unsigned char a[1024], b[1024];
    assert_int_equal(kolo_save(model, "a"), KOLO_OK);
    assert_int_equal(kolo_save(model, "b"), KOLO_OK);
    size_t size = read_whole("a", a, sizeof a);
    assert_int_equal(read_whole("b", b, sizeof b), size);
    assert_memory_equal(a, b, size);
    assert_int_equal(files_here("."), 2);
}

static void what_is_saved_is_loaded(void **state)
{
    (void)state;
    assert_int_equal(kolo_save(model, "a"), KOLO_OK);
    kolo_model_free(&model);
    model = small_model(100);
    assert_int_equal(kolo_load(model, "a"), KOLO_OK);
    assert_weights(0);
}

/* Loads bytes that are no good: refused in one sentence, and the model as it was. */
static void assert_refused(const void *bytes, size_t size, kolo_status code)
{
    write_file("bad", bytes, size);
    assert_int_equal(kolo_load(model, "bad"), code);
    assert_failure(code, "kolo_load: bad: ", NULL);
    assert_weights(0);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    assert_int_equal(kolo_save(model, "a"), KOLO_OK);
    size_t size = read_whole("a", bytes, sizeof bytes);
    for (size_t cut = 0; cut < size; cut++) assert_refused(bytes, cut, KOLO_FORMAT);
    bytes[size] = 0;
    assert_refused(bytes, size + 1, KOLO_FORMAT);
}

/* A changed header is refused, or is the same header to a reader of JSON; never a crash, never a half-changed model. */
static void every_changed_byte_of_the_header_is_survived(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    uint64_t length;
    int refused = 0;
    assert_int_equal(kolo_save(model, "a"), KOLO_OK);
    size_t size = read_whole("a", bytes, sizeof bytes);
    memcpy(&length, bytes, 8);
    for (size_t at = 0; at < 8 + length; at++) {
        bytes[at] ^= 0x04;
        write_file("changed", bytes, size);
        if (kolo_load(model, "changed") == KOLO_OK) {
            kolo_load(model, "a");
        } else {
            refused++;
            assert_weights(0);
        }
        kolo_clear_error();
        bytes[at] ^= 0x04;
    }
    assert_true(refused > (int)length * 8 / 10);
}

static void write_tensors(const char *path, const char *header, size_t data)
{
    unsigned char bytes[2048] = {0};
    uint64_t length = strlen(header);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    write_file(path, bytes, 8 + length + data);
}

static void refuse(const char *header, size_t data, const char *word)
{
    write_tensors("bad", header, data);
    assert_int_equal(kolo_load(model, "bad"), KOLO_FORMAT);
    assert_failure(KOLO_FORMAT, "kolo_load: bad: ", word, NULL);
    assert_weights(0);
}

#define ENTRY(name, type, shape, begin, end)                                                                           \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"
#define BIAS   ENTRY("first.bias", "F32", "2", "24", "32")
#define SECOND ENTRY("second.kernel", "F32", "2,2", "32", "48")

static void what_does_not_fit_the_model_is_named(void **state)
{
    (void)state;
    refuse("{" ENTRY("first.kernel", "F32", "3,2", "0", "24") "," BIAS "}", 32, "wanted an array \"second.kernel\"");
    refuse("{" ENTRY("first.kernel", "F32", "2,3", "0", "24") "," BIAS "," SECOND "}", 48,
           "wanted the shape {3, 2}, got {2, 3}");
    refuse("{" ENTRY("first.kernel", "I64", "3,2", "0", "24") "," BIAS "," SECOND "}", 48,
           "wanted dtype F32, F16, BF16 or F64, got I64");
    refuse("{" ENTRY("first.kernel", "F32", "3,2", "0", "20") "," BIAS "," SECOND "}", 48, "wanted 24 bytes");
    refuse("{" ENTRY("first.kernel", "F32", "3,2", "-24", "0") "," BIAS "," SECOND "}", 48, "data_offsets [-24, 0]");
    refuse("{" ENTRY("first.kernel", "F32", "3,2", "40", "64") "," BIAS "," SECOND "}", 48,
           "truncated: \"first.kernel\": wanted 24 bytes within the file's 48 of arrays");
    refuse("{" ENTRY("first.kernel", "F32", "3,2", "9223372036854775800", "9223372036854775807") "," BIAS "," SECOND
                                                                                                 "}",
           48, "wanted 24 bytes");
    refuse("{" ENTRY("first.kernel", "F32", "3,2", "0", "24") "," BIAS "," SECOND
                                                              "," ENTRY("more", "F32", "0", "48", "48") "}",
           48, "got \"more\" too");
    refuse("{" ENTRY("first.kernel", "F32", "3,2", "0", "24") "," BIAS "," SECOND "}", 52,
           "wanted 48 bytes of arrays, got 52");
    refuse("[1, 2]", 48, "something else");
    refuse("{\"first.kernel\": 3}", 48, "wanted a dtype and a shape");
    refuse("{\"first.kernel\":{\"dtype\":\"F32\",\"shape\":[3,2]}}", 48, "wanted two data_offsets");
    refuse("{\"a\":1,\"a\":2}", 48, "wanted a safetensors header in JSON");
}

static void other_writers_orders_are_read(void **state)
{
    (void)state;
    unsigned char bytes[1024] = {0};
    write_tensors("other", "{" SECOND "," ENTRY("first.kernel", "F32", "3,2", "0", "24") "," BIAS "}", 48);
    size_t size = read_whole("other", bytes, sizeof bytes);
    for (int i = 0; i < 12; i++) memcpy(bytes + size - 48 + 4 * i, &(float){(float)i + 7}, 4);
    write_file("other", bytes, size);
    assert_int_equal(kolo_load(model, "other"), KOLO_OK);
    assert_weights(7);
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    assert_int_equal(kolo_load(model, "nothing"), KOLO_NOT_FOUND);
    assert_failure(KOLO_NOT_FOUND, "nothing: wanted a file to read, got: No such file", NULL);
    mkdir("folder", 0755);
    assert_int_equal(kolo_load(model, "folder"), KOLO_FORMAT);
    assert_failure(KOLO_FORMAT, "folder: wanted a safetensors file, got a folder", NULL);
    assert_int_equal(kolo_load(model, NULL), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "got NULL", NULL);
    assert_int_equal(kolo_save(model, NULL), KOLO_INVALID);
    assert_failure(KOLO_INVALID, "kolo_save: wanted the name of a file, got NULL", NULL);
    assert_int_equal(kolo_save(model, ""), KOLO_INVALID);
    kolo_clear_error();
    assert_int_not_equal(kolo_save(NULL, "a"), KOLO_OK);
    assert_int_not_equal(kolo_load(NULL, "a"), KOLO_OK);
    assert_int_equal(kolo_last_error().code, KOLO_OK);
}

/* ------------------------------------------------------------------------------------------ whole or not at all */

static int run_child(void (*body)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        body();
        _exit(9);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void save_under_a_limit(void)
{
    if (!freopen("/dev/null", "w", stderr)) _exit(2); /* the limit is also that of a file which tests write to */
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){100, 100}); /* the file takes about 300 bytes */
    bool failed = kolo_save(model, "target") == KOLO_IO;
    _exit(failed && strstr(kolo_last_error().text, "kolo_save: target: writing it failed: File too large") ? 0 : 1);
}

static void a_limit_on_file_sizes_microbatches_the_old_file(void **state)
{
    (void)state;
    char old[8] = {0};
    write_file("target", "old", 3);
    assert_int_equal(run_child(save_under_a_limit), 0);
    assert_int_equal(read_whole("target", (unsigned char *)old, sizeof old), 3);
    assert_string_equal(old, "old");
    assert_int_equal(files_here("."), 1);
}

static void a_full_disk_microbatches_the_old_file(void **state)
{
    (void)state;
    static unsigned char filling[1 << 16];
    mkdir("disk", 0755);
    if (mount("tmpfs", "disk", "tmpfs", 0, "size=64k") != 0) skip(); /* takes root */
    write_file("disk/target", "old", 3);
    FILE *file = fopen("disk/filling", "wb");
    for (int i = 0; i < 2; i++) (void)!fwrite(filling, 1, sizeof filling, file);
    fclose(file);
    kolo_status status = kolo_save(model, "disk/target");
    char old[8] = {0};
    size_t size = read_whole("disk/target", (unsigned char *)old, sizeof old);
    int files = files_here("disk");
    assert_int_equal(umount("disk"), 0);
    assert_int_equal(status, KOLO_IO);
    assert_failure(KOLO_IO, "disk/target: writing it failed: No space left on device", NULL);
    assert_int_equal(size, 3);
    assert_string_equal(old, "old");
    assert_int_equal(files, 2);
}

static void save_as_nobody(void)
{
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    bool folder = kolo_save(model, "closed/target") == KOLO_IO && strstr(kolo_last_error().text, "Permission denied");
    kolo_clear_error();
    bool file = kolo_save(model, "open/read-only") == KOLO_IO && strstr(kolo_last_error().text, "Permission denied");
    bool checked = kolo_check_writable("closed/x") == KOLO_IO && kolo_check_writable("open/x") == KOLO_OK;
    _exit(folder && file && checked ? 0 : 1);
}

static void no_permission_is_said(void **state)
{
    (void)state;
    assert_int_equal(chmod(test_folder, 0755), 0);
    mkdir("closed", 0755);
    chmod("closed", 0555);
    mkdir("open", 0777);
    chmod("open", 0777);
    write_file("open/read-only", "old", 3);
    chmod("open/read-only", 0444);
    assert_int_equal(run_child(save_as_nobody), 0);
    assert_int_equal(files_here("open"), 1);
    assert_int_equal(files_here("closed"), 0);
}

static void targets_that_are_no_files_are_refused(void **state)
{
    (void)state;
    mkdir("folder", 0755);
    assert_int_equal(kolo_save(model, "folder"), KOLO_IO);
    assert_failure(KOLO_IO, "folder: wanted a file to write, got a folder", NULL);
    assert_int_equal(kolo_save(model, "folder/"), KOLO_IO);
    assert_failure(KOLO_IO, "folder/: ", "Is a directory", NULL);
    assert_int_equal(kolo_save(model, "/dev/null"), KOLO_IO);
    assert_failure(KOLO_IO, "/dev/null: wanted a file to write, got a device", NULL);
    assert_int_equal(kolo_save(model, "/dev/full"), KOLO_IO);
    kolo_clear_error();
    assert_int_equal(kolo_save(model, "nowhere/a"), KOLO_NOT_FOUND);
    assert_failure(KOLO_NOT_FOUND, "nowhere/a: wanted a file that can be written, got: No such file", NULL);
    char name[400];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_int_equal(kolo_save(model, name), KOLO_IO);
    kolo_clear_error();
    assert_int_equal(files_here("."), 1);
}

static void links_stay_links(void **state)
{
    (void)state;
    struct stat info;
    mkdir("there", 0755);
    assert_int_equal(symlink("there/target", "link"), 0);
    assert_int_equal(symlink("link", "link-to-link"), 0);
    assert_int_equal(symlink("loop", "loop"), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(kolo_save(model, "link-to-link"), KOLO_OK); /* dangling at first */
    assert_int_equal(lstat("link", &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat("there/target", &info), 0);
    assert_true(S_ISREG(info.st_mode));
    assert_int_equal(files_here("there"), 1);
    assert_int_equal(kolo_save(model, "loop"), KOLO_IO);
    assert_failure(KOLO_IO, "loop: ", "symbolic links", NULL);
}

static void permissions_are_kept(void **state)
{
    (void)state;
    struct stat info;
    write_file("private", "old", 3);
    chmod("private", 0640);
    assert_int_equal(kolo_save(model, "private"), KOLO_OK);
    assert_int_equal(stat("private", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    mode_t mask = umask(022);
    assert_int_equal(kolo_save(model, "new"), KOLO_OK);
    umask(mask);
    assert_int_equal(stat("new", &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
}

static void checking_leaves_nothing(void **state)
{
    (void)state;
    assert_int_equal(kolo_check_writable("a"), KOLO_OK);
    assert_int_equal(files_here("."), 0);
    write_file("a", "old", 3);
    assert_int_equal(kolo_check_writable("a"), KOLO_OK);
    unsigned char old[8];
    assert_int_equal(read_whole("a", old, sizeof old), 3);
    assert_int_equal(files_here("."), 1);
}

/* ------------------------------------------------------------------------------------------ history */

static const kolo_epoch epochs[] = {
    {0.5, 0.25, NAN, NAN, 2, 1000.5, 2001, 3, 1e-3, {0}, {0}},
    {0.1, INFINITY, 0.75, 1.0 / 3, 1.25, 4e5, 49152, 24, 0.1, {0}, {0}},
};

static void the_history_is_json(void **state)
{
    (void)state;
    const kolo_history history = {.epochs = 2, .epoch = epochs, .ranks = 8, .devices = 1};
    assert_int_equal(kolo_history_save(&history, "h.json"), KOLO_OK);
    json_t *whole = json_load_file("h.json", 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(whole, "ranks")), 8);
    assert_int_equal(json_integer_value(json_object_get(whole, "devices")), 1);
    json_t *list = json_object_get(whole, "epochs"), *first = json_array_get(list, 0),
           *second = json_array_get(list, 1);
    assert_int_equal(json_array_size(list), 2);
    assert_float_equal(json_real_value(json_object_get(first, "loss")), 0.5, 0);
    assert_true(json_is_null(json_object_get(first, "val_loss")));
    assert_true(json_is_null(json_object_get(first, "val_accuracy")));
    assert_float_equal(json_real_value(json_object_get(first, "images_per_second")), 1000.5, 0);
    assert_int_equal(json_integer_value(json_object_get(first, "images")), 2001);
    assert_int_equal(json_integer_value(json_object_get(first, "steps")), 3);
    assert_true(json_is_null(json_object_get(second, "accuracy")));
    assert_float_equal(json_real_value(json_object_get(second, "val_accuracy")), 1.0 / 3, 1e-9);
    assert_float_equal(json_real_value(json_object_get(second, "learning_rate")), 0.1, 0);
    assert_float_equal(json_real_value(json_object_get(second, "seconds")), 1.25, 0);
    json_decref(whole);
    assert_int_equal(kolo_history_save(&history, "nowhere/h.json"), KOLO_NOT_FOUND);
    assert_failure(KOLO_NOT_FOUND, "kolo_history_save: nowhere/h.json", NULL);
    assert_int_not_equal(kolo_history_save(NULL, "h.json"), KOLO_OK);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(the_bytes_are_those_of_the_format),
        TEST(equal_weights_are_equal_files),
        TEST(what_is_saved_is_loaded),
        TEST(every_truncation_is_refused),
        TEST(every_changed_byte_of_the_header_is_survived),
        TEST(what_does_not_fit_the_model_is_named),
        TEST(other_writers_orders_are_read),
        TEST(what_is_no_file_is_refused),
        TEST(a_limit_on_file_sizes_microbatches_the_old_file),
        TEST(a_full_disk_microbatches_the_old_file),
        TEST(no_permission_is_said),
        TEST(targets_that_are_no_files_are_refused),
        TEST(links_stay_links),
        TEST(permissions_are_kept),
        TEST(checking_leaves_nothing),
        TEST(the_history_is_json),
    };
    return cmocka_run_group_tests_name("core/save", tests, enter_folder, leave_folder);
}
