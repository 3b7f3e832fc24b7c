/* The shim finds what a device would do wrong: each kernel of shim/mistakes.cu ends the program with a sentence that
 * says so, in whatever order threads run. What the real plugin does not have is skipped. */
#include "device.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int (*mistake)(const char *name);

/* A mistake, and what is said of it, or, as the order may be, that; NULL: the launch is refused. */
static const struct {
    const char *name, *says[2];
} mistakes[] = {
    {"no barrier", {"with nothing in between", "nobody has written"}},
    {"no __syncwarp", {"with nothing in between", "nobody has written"}},
    {"written too early", {"with nothing in between"}},
    {"all blocks write", {"with nothing in between"}},
    {"another block's", {"with nothing in between"}},
    {"reads behind", {"0 behind an array of 256"}},
    {"writes behind", {"0 behind an array of 256"}},
    {"writes shared behind", {"0 behind the block's 256"}},
    {"unknown", {"nobody has written"}},
    {"unknown shared", {"nobody has written"}},
    {"of the host", {"no memory of the device's"}},
    {"misaligned", {"a multiple of 16"}},
    {"gone", {"lane 5 has, which has ended"}},
    {"half a barrier", {"not all threads come to"}},
    {"before it comes", {"with nothing in between", "nobody has written"}},
    {"too much shared", {"32768 bytes of static and 20480 of dynamic"}},
    {"constant", {"__ldg()"}},
    {"touched by the host", {"touched by the host"}},
    {"no blocks", {NULL}},
    {"much dynamic", {NULL}},
    {"many threads", {NULL}},
    {"high grid", {NULL}},
    {"event of another device", {NULL}},
    {"a lower limit when a graph is made", {NULL}},
    {"a lower limit when a graph is launched", {NULL}},
};

/* What a process says that does this: text[room]. Its status. */
static int try(const char *name, const char *order, char *text, size_t room)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        setenv("KOLO_SHIM_ORDER", order, 1);
        _exit(mistake(name) == 0 ? 0 : 3);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], text + length, room - 1 - length)) > 0;) length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* A build with a sanitizer has no looks of the shim's own (SHIM_LOOKS in ext/backend/cuda/rules.mk). */
static void all_mistakes_are_found(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    static const char *const orders[] = {"forward", "backward", "1", "2"};
    char text[1024];
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        assert_int_equal(try("right", orders[o], text, sizeof text), 0);
        assert_int_equal(try("a smaller launch between", orders[o], text, sizeof text), 0);
        for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
            int status = try(mistakes[i].name, orders[o], text, sizeof text);
            const char *says = mistakes[i].says[0], *otherwise = mistakes[i].says[1];
            bool found = says ? WIFSIGNALED(status) && (strstr(text, says) || (otherwise && strstr(text, otherwise)))
                              : WIFEXITED(status) && WEXITSTATUS(status) == 3;
            if (!found) print_error("%s, %s: status %d, \"%s\"\n", mistakes[i].name, orders[o], status, text);
            assert_true(found);
        }
    }
}

static void wants_the_shim(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_mistakes_are_found)};
    const struct CMUnitTest none[] = {cmocka_unit_test(wants_the_shim)};
    setenv("KOLO_SHIM_DEVICES", "2", 1);
    const kolo_backend *backend = tested_backend();
    Dl_info plugin = {0};
    if (!backend) return 1;
    void *loaded = dladdr(backend, &plugin) ? dlopen(plugin.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (loaded) *(void **)&mistake = dlsym(loaded, "kolo_shim_mistake");
    if (!mistake) return cmocka_run_group_tests(none, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
