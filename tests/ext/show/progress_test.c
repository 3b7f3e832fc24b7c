/* The progress line: Keras 3's format in a log, a terminal and a notebook, and nothing from other ranks. */
#include "ext/data/files.h"
#include "show/show.h"

#include <math.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static char seen[1 << 16];

/* A training of 2 epochs of 59 steps, `pause` seconds each. */
static void train(int verbose, double pause)
{
    kolo_progress progress;
    kolo_progress_begin(&progress, verbose, 2, 59);
    for (int epoch = 0; epoch < 2; epoch++) {
        kolo_progress_epoch(&progress, epoch, 0);
        for (int step = 1; step <= 59; step++) {
            if (pause > 0) usleep((unsigned)(pause * 1e6));
            const kolo_measure running[] = {{"accuracy", step / 100.0}, {"loss", step < 59 ? 123.456 : 0.5}};
            kolo_progress_step(&progress, step, running, 2);
        }
        const kolo_measure last[] = {
            {"accuracy", 0.9012}, {"loss", 0.00034}, {"val_accuracy", NAN}, {"val_loss", 1e-3}};
        kolo_progress_end(&progress, 59, 11.8, last, 4);
    }
}

/* What a child prints on a file. */
static void record_file(int verbose)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(open("log", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
        train(verbose, 0);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    seen[read_whole("log", (unsigned char *)seen, sizeof seen - 1)] = 0;
}

#define TAIL "accuracy: 0.9012 - loss: 3.4000e-04 - val_accuracy: nan - val_loss: 1.0000e-03\n"

static void a_log_gets_a_line_an_epoch(void **state)
{
    (void)state;
    static const char expected[] =
        "Epoch 1/2\n59/59 - 12s - 200ms/step - " TAIL "Epoch 2/2\n59/59 - 12s - 200ms/step - " TAIL;
    record_file(0);
    assert_string_equal(seen, expected);
    record_file(2);
    assert_string_equal(seen, expected);
}

static void a_bar_in_a_log_is_not_redrawn(void **state)
{
    (void)state;
#define BAR "━━━━━━━━━━━━━━━━━━━━"
    record_file(1);
    assert_string_equal(seen, "Epoch 1/2\n59/59 " BAR " 12s 200ms/step - " TAIL "Epoch 2/2\n59/59 " BAR
                              " 12s 200ms/step - " TAIL);
}

static void nothing_is_nothing(void **state)
{
    (void)state;
    record_file(KOLO_NONE);
    assert_string_equal(seen, "");
}

/* One epoch is not numbered, as in Keras; the units of a step are Keras's. */
static void units_follow_the_time(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{250, "250s - 3s/step"}, {80, "80s - 1s/step"},     {40, "40s - 500ms/step"},
                 {0.08, "0s - 1ms/step"}, {0.04, "0s - 500us/step"}, {0, "0s - 0s/step"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fflush(stdout);
        if (fork() == 0) {
            kolo_progress progress;
            dup2(open("log", O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
            kolo_progress_begin(&progress, 2, 1, 80);
            kolo_progress_epoch(&progress, 0, 0);
            kolo_progress_end(&progress, 80, cases[i].seconds, NULL, 0);
            _exit(0);
        }
        wait(NULL);
        char expected[64];
        snprintf(expected, sizeof expected, "80/80 - %s\n", cases[i].text);
        seen[read_whole("log", (unsigned char *)seen, sizeof seen - 1)] = 0;
        assert_string_equal(seen, expected);
    }
}

/* ------------------------------------------------------------------------------------------ a terminal */

/* What a child prints on a terminal of so many columns. */
static void record_terminal(unsigned short columns, void (*body)(void))
{
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    ioctl(terminal, TIOCSWINSZ, &(struct winsize){.ws_row = 24, .ws_col = columns});
    int other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(other, STDOUT_FILENO);
        body();
        fflush(stdout);
        _exit(0);
    }
    close(other);
    size_t size = 0;
    for (;;) {
        ssize_t got = read(terminal, seen + size, sizeof seen - 1 - size);
        if (got <= 0) break;
        size += (size_t)got;
    }
    seen[size] = 0;
    close(terminal);
    waitpid(child, NULL, 0);
}

/* The screen's lines after all that was seen: "\r" goes back, colours take no room, a full line wraps. */
static int render(char screen[40][200], int columns)
{
    int row = 0, column = 0;
    memset(screen, ' ', 40 * 200);
    for (const char *at = seen; *at && row < 40; at++) {
        if (*at == '\033') {
            at += strcspn(at, "mK");
        } else if (*at == '\r') {
            column = 0;
        } else if (*at == '\n') {
            row++, column = 0;
        } else if (((unsigned char)*at & 0xc0) != 0x80) {
            if (column == columns) row++, column = 0;
            screen[row][column++] = (unsigned char)*at < 128 ? *at : '=';
        }
    }
    for (int i = 0; i < 40; i++) {
        int end = 199;
        while (end > 0 && screen[i][end - 1] == ' ') end--;
        screen[i][end] = 0;
    }
    return row;
}

static void slow_training(void)
{
    setenv("TERM", "xterm", 1);
    train(0, 0.003);
}

static void a_terminal_is_redrawn_in_place(void **state)
{
    (void)state;
    static char screen[40][200];
    record_terminal(150, slow_training);
    assert_int_equal(render(screen, 150), 4);
    assert_string_equal(screen[0], "Epoch 1/2");
    assert_string_equal(screen[1], "59/59 ==================== 12s 200ms/step - accuracy: 0.9012 - loss: 3.4000e-04 - "
                                   "val_accuracy: nan - val_loss: 1.0000e-03");
    assert_string_equal(screen[2], "Epoch 2/2");
    assert_non_null(strstr(seen, "\033[32m━")); /* Keras's green */
    assert_non_null(strstr(seen, "loss: 123.4560"));
    int redraws = 0;
    for (const char *at = seen; (at = strchr(at, '\r')); at++) redraws += at[1] != '\n';
    assert_in_range(redraws, 4, 40); /* of 118 steps in about 0.4 s or more, 50 ms apart */
}

static void a_narrow_terminal_never_wraps_while_running(void **state)
{
    (void)state;
    static char screen[40][200];
    for (unsigned short columns = 12; columns <= 48; columns = (unsigned short)(columns + 18)) {
        record_terminal(columns, slow_training);
        render(screen, columns);
        assert_string_equal(screen[0], "Epoch 1/2");
        /* A redraw that wrapped would leave its beginning on a line of its own. */
        int begins = 0;
        for (int i = 0; i < 40; i++)
            begins += strncmp(screen[i], "59/59", 5) == 0 || strstr(screen[i], "/59 ") == screen[i] + 2;
        assert_int_equal(begins, 2);
    }
}

static void interrupted(void)
{
    kolo_progress progress;
    kolo_progress_begin(&progress, 0, 1, 59);
    kolo_progress_epoch(&progress, 0, 0);
    kolo_progress_step(&progress, 3, &(kolo_measure){"loss", 1}, 1);
    kolo_progress_break(&progress);
    kolo_progress_break(&progress);
    printf("stopped\n");
}

static void a_break_ends_the_line_once(void **state)
{
    (void)state;
    static char screen[40][200];
    record_terminal(100, interrupted);
    assert_int_equal(render(screen, 100), 2);
    assert_int_equal(strncmp(screen[0], " 3/59 ", 6), 0);
    assert_string_equal(screen[1], "stopped");
}

/* ------------------------------------------------------------------------------------------ a notebook */

/* Through a pipe, as a cell's output is. */
static void a_notebook_is_redrawn_more_slowly(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    if (fork() == 0) {
        setenv("KOLO_DISPLAY", "/nowhere", 1);
        dup2(ends[1], STDOUT_FILENO);
        train(0, 0.01);
        _exit(0);
    }
    close(ends[1]);
    size_t size = 0;
    for (ssize_t got; (got = read(ends[0], seen + size, sizeof seen - 1 - size)) > 0;) size += (size_t)got;
    seen[size] = 0;
    close(ends[0]);
    wait(NULL);
    static char screen[40][200];
    assert_int_equal(render(screen, 198), 4);
    int redraws = 0;
    for (const char *at = seen; (at = strchr(at, '\r')); at++) redraws++;
    assert_in_range(redraws, 4, 24); /* of 118 steps in 1.2 s or more, 200 ms apart */
    assert_null(strchr(seen, '\033'));
    assert_non_null(strstr(seen, "─ "));
}

static void a_file_beside_a_notebook_is_a_log(void **state)
{
    (void)state;
    setenv("KOLO_DISPLAY", "/nowhere", 1);
    record_file(0);
    unsetenv("KOLO_DISPLAY");
    assert_null(strchr(seen, '\r'));
    assert_non_null(strstr(seen, "59/59 - 12s"));
}

/* Four decimals where they say something, as in Keras; an exponent where they would not. */
static void numbers_of_any_size_are_short(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.90125, "m: 0.9012"},   {2e-4, "m: 2.0000e-04"},       {0, "m: 0.0000e+00"},
                 {-3.5, "m: -3.5000"},     {123456.75, "m: 123456.7500"}, {1e30, "m: 1.0000e+30"},
                 {-2e9, "m: -2.0000e+09"}, {INFINITY, "m: inf"},          {NAN, "m: nan"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(kolo_measure_text(&(kolo_measure){"m", cases[i].value}), cases[i].text);
}

int main(void)
{
    unsetenv("KOLO_DISPLAY");
    unsetenv("NO_COLOR");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_any_size_are_short),
        cmocka_unit_test(a_log_gets_a_line_an_epoch),
        cmocka_unit_test(a_bar_in_a_log_is_not_redrawn),
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(units_follow_the_time),
        cmocka_unit_test(a_terminal_is_redrawn_in_place),
        cmocka_unit_test(a_narrow_terminal_never_wraps_while_running),
        cmocka_unit_test(a_break_ends_the_line_once),
        cmocka_unit_test(a_notebook_is_redrawn_more_slowly),
        cmocka_unit_test(a_file_beside_a_notebook_is_a_log),
    };
    return cmocka_run_group_tests_name("show/progress", tests, enter_folder, leave_folder);
}
