/* kill -9 at any moment of a save leaves the old file or the new one, and nothing else once another save has run. */
#include "ext/data/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define KILLS   200
#define WEIGHTS 90000

static atomic_bool names_only; /* as on a file system that knows no files without a name */

/* In the place of the C library's, for libkolo too. */
int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(arguments, int) : 0;
    va_end(arguments);
    if (names_only && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static kolo_model *large_model(void)
{
    kolo_model *model = kolo_sequential(kolo_input(300), kolo_dense(300, .no_bias = true));
    assert_int_equal(kolo_compile(model, .seed = 1, .backend = "reference"), KOLO_OK);
    return model;
}

static void fill(kolo_model *model, float value)
{
    float *values = kolo_weight_get(model, 0).values;
    for (int i = 0; i < WEIGHTS; i++) values[i] = value;
}

/* Saves 1, 2, 3, … until it is killed, and says when it begins. */
static void save_for_ever(kolo_model *model, int listener)
{
    for (float value = 1;; value++) {
        fill(model, value);
        if (value == 1) (void)!write(listener, "!", 1);
        if (kolo_save(model, "target") != KOLO_OK) _exit(1);
    }
}

static int leftovers(void)
{
    int count = 0;
    DIR *listing = opendir(".");
    for (struct dirent *entry; (entry = readdir(listing));) count += strncmp(entry->d_name, ".kolo-", 6) == 0;
    closedir(listing);
    return count;
}

static void kill_after(kolo_model *model, useconds_t moment)
{
    int fds[2], status;
    char ready;
    assert_int_equal(pipe(fds), 0);
    pid_t saver = fork();
    if (saver == 0) save_for_ever(model, fds[1]);
    close(fds[1]);
    assert_int_equal(read(fds[0], &ready, 1), 1);
    close(fds[0]);
    usleep(moment);
    kill(saver, SIGKILL);
    assert_int_equal(waitpid(saver, &status, 0), saver);
    assert_true(WIFSIGNALED(status));
}

static void assert_whole(kolo_model *model)
{
    assert_int_equal(kolo_load(model, "target"), KOLO_OK);
    const float *values = kolo_weight_get(model, 0).values;
    for (int i = 1; i < WEIGHTS; i++) assert_float_equal(values[i], values[0], 0);
}

static void kill_many(void)
{
    kolo_model *model = large_model();
    int most = 0, seen = 0;
    srand(1);
    fill(model, 0);
    assert_int_equal(kolo_save(model, "target"), KOLO_OK);
    for (int i = 0; i < KILLS; i++) {
        kill_after(model, (useconds_t)(rand() % 6000));
        assert_whole(model);
        int left = leftovers();
        seen += left > 0;
        most = left > most ? left : most;
    }
    assert_in_range(most, 0, 1); /* the next saver removes what the last one left */
    if (names_only) assert_true(seen > 0); /* else the kills never met a save */
    assert_int_equal(kolo_save(model, "target"), KOLO_OK);
    assert_int_equal(leftovers(), 0);
    kolo_model_free(&model);
}

static void files_without_a_name(void **state)
{
    (void)state;
    names_only = false;
    kill_many();
}

static void files_with_a_name(void **state)
{
    (void)state;
    names_only = true;
    kill_many();
    names_only = false;
}

/* What a living process writes is no leftover. */
static void another_writer_is_left_alone(void **state)
{
    (void)state;
    kolo_model *model = large_model();
    names_only = true;
    int fds[2], status;
    char ready;
    assert_int_equal(pipe(fds), 0);
    pid_t saver = fork();
    if (saver == 0) {
        close(fds[0]);
        for (int i = 0; i < 50; i++) {
            if (kolo_save(model, "other") != KOLO_OK) _exit(1);
            if (i == 0) (void)!write(fds[1], "!", 1);
        }
        _exit(0);
    }
    assert_int_equal(read(fds[0], &ready, 1), 1);
    while (waitpid(saver, &status, WNOHANG) == 0) assert_int_equal(kolo_save(model, "target"), KOLO_OK);
    assert_int_equal(status, 0);
    assert_int_equal(leftovers(), 0);
    close(fds[0]);
    close(fds[1]);
    kolo_model_free(&model);
    names_only = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_without_a_name),
        cmocka_unit_test(files_with_a_name),
        cmocka_unit_test(another_writer_is_left_alone),
    };
    return cmocka_run_group_tests_name("core/kill", tests, enter_folder, leave_folder);
}
