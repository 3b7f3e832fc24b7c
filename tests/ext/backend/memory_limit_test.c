/* Training in less and less address space: it works, or fails with a sentence, and the process never ends by a signal.
 * Each limit is a process of its own. KOLO_LIMIT_STEP=1 in the environment tries every megabyte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <kolo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { samples = 32, side = 14, first = 40, last = 200 };

/* In the child: 0 where it worked or a sentence said why not. */
static int train(int megabytes)
{
    static float features[samples * side * side];
    static int32_t labels[samples];
    const struct rlimit limit = {(rlim_t)megabytes << 20, (rlim_t)megabytes << 20};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 2;
    kolo_data *data =
        kolo_data_from_arrays(features, labels, .samples = samples, .shape = {side, side, 1}, .classes = 10);
    kolo_model *model =
        kolo_sequential(kolo_input(side, side, 1), kolo_conv2d(32, .kernel = {3, 3}, .activation = KOLO_RELU),
                        kolo_conv2d(64, .kernel = {3, 3}, .activation = KOLO_RELU), kolo_max_pool2d(2, 2),
                        kolo_flatten(), kolo_dense(128, .activation = KOLO_RELU), kolo_dense(10));
    kolo_status status =
        kolo_compile(model, .loss = KOLO_SPARSE_CROSSENTROPY, .optimizer = kolo_sgd(.learning_rate = 1e-2));
    if (status == KOLO_OK && kolo_fit(model, data, .verbose = (int)KOLO_NONE)) return 0;
    return strlen(kolo_last_error().text) > 20 ? 0 : 1;
}

static void test_never_a_signal(void **state)
{
    (void)state;
    const char *given = getenv("KOLO_LIMIT_STEP");
    int step = given ? atoi(given) : 8, wrong = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* which take all of the address space */
#endif
    for (int megabytes = first; megabytes <= last; megabytes += step) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr)) _exit(2);
            alarm(60);
            _exit(train(megabytes));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        print_error("%d MB: status %d\n", megabytes, status);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_a_signal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
