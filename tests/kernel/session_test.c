/* A session that cannot be opened says so, and leaves the process's descriptors as they were. The number of descriptors
 * that the process may still open chooses which step fails. */
#define _GNU_SOURCE
#include "folder.h"
#include "front.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* The thread sanitizer calls it: libclang is not built with the sanitizer, which does not see how its threads agree. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "ignore_noninstrumented_modules=1";
}

enum { MOST = 40 /* descriptors, with which any session opens */ };

static char kernel[4096], folder[] = "/tmp/session_test-XXXXXX";

static int prepare(void **state)
{
    (void)state;
    char link[3500] = "";
    if (!mkdtemp(folder) || setenv("XDG_RUNTIME_DIR", folder, 1)) return -1;
    if (readlink("/proc/self/exe", link, sizeof link - 1) < 0) return -1;
    *strstr(link, "/tests/kernel/") = 0;
    snprintf(kernel, sizeof kernel, "%s/bin/kolo-kernel", link);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    folder_remove(folder); /* where no descriptor was left, the session could not read it */
    return 0;
}

static unsigned entries(const char *path)
{
    unsigned count = 0;
    DIR *all = opendir(path);
    assert_non_null(all);
    while (readdir(all)) count++;
    closedir(all);
    return count;
}

static void publish(void *self, const char *type, const char *content)
{
    (void)self;
    (void)type;
    (void)content;
}

static char *ask(void *self, const char *prompt)
{
    (void)self;
    (void)prompt;
    return NULL;
}

/* Opens a session that may have `most` descriptors more than there are now. */
static session *open_with(unsigned most, char **problem)
{
    static const front nobody = {NULL, publish, ask};
    struct rlimit before, low;
    int first = dup(0);
    assert_true(first > 2);
    close(first);
    getrlimit(RLIMIT_NOFILE, &before);
    low = before;
    low.rlim_cur = (rlim_t)first + most;
    setrlimit(RLIMIT_NOFILE, &low);
    session *s = session_open(&nobody, kernel, problem);
    setrlimit(RLIMIT_NOFILE, &before);
    return s;
}

/* "": the standard descriptors are what they were, and no other has come but the lock of the session's folder, which
 * stays to the process's end. fail_msg() cannot be used: the kernel has a print_error(), too. */
static const char *trouble(unsigned most, const struct stat *before, unsigned descriptors)
{
    static char words[200];
    struct stat now;
    unsigned open_now = entries("/proc/self/fd");
    words[0] = 0;
    if (open_now > descriptors + 1)
        snprintf(words, sizeof words, "with %u: %u open before, %u after", most, descriptors, open_now);
    for (int i = 0; i < 3; i++) {
        if (fstat(i, &now) || now.st_ino != before[i].st_ino || now.st_dev != before[i].st_dev)
            snprintf(words, sizeof words, "with %u: descriptor %d has been closed", most, i);
    }
    return words;
}

static void a_session_that_cannot_open_leaves_nothing(void **state)
{
    (void)state;
    static const char *const sentences[] = {"no folder can be made under ", "kolo-worker cannot be started beside "};
    unsigned failed = 0;
    session *opened = NULL;
    while (!opened && failed < MOST) {
        char *problem = NULL;
        struct stat before[3];
        unsigned descriptors = entries("/proc/self/fd");
        for (int i = 0; i < 3; i++) assert_int_equal(fstat(i, &before[i]), 0);
        opened = open_with(failed, &problem);
        if (opened) break;
        assert_string_equal(trouble(failed, before, descriptors), "");
        assert_non_null(problem);
        const char *sentence = sentences[failed > 0];
        assert_memory_equal(problem, sentence, strlen(sentence));
        free(problem);
        if (failed++ == 0) assert_int_equal(entries(folder), 2); /* a folder without a lock would stay for ever */
    }
    assert_in_range(failed, 4, MOST - 1); /* the folder, the display, the worker's processes and pipes */
    session_close(opened, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_session_that_cannot_open_leaves_nothing)};
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
