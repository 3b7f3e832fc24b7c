/* Plots: what gnuplot is asked to draw, the files, the three forms of a notebook, and what is refused. */
#include "ext/show/display_server.h"

#include <math.h>
#include <sys/wait.h>

static const double losses[] = {0.9, 0.5, NAN, 0.3}, ranks[] = {1, 2, 4, 8}, rates[] = {100, 190, 370, 700};
static const char *const names[] = {"one device", "eight's %d 9%", "<ranks> & co"};
static char text[1 << 20];

static int clear(void **state)
{
    (void)state;
    kolo_clear_error();
    return 0;
}

static size_t load(const char *path)
{
    size_t size = read_whole(path, (unsigned char *)text, sizeof text - 1);
    text[size] = 0;
    return size;
}

static void silent_plot(const kolo_plot_args *args, kolo_status expected)
{
    int saved = dup(STDOUT_FILENO), out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    kolo_status status = kolo_plot_at(args, KOLO_HERE);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(out);
    assert_int_equal(status, expected);
}

#define PLOT(...)       silent_plot(&(const kolo_plot_args){._ = 0, __VA_ARGS__}, KOLO_OK)
#define FAIL(code, ...) silent_plot(&(const kolo_plot_args){._ = 0, __VA_ARGS__}, code)

/* Gnuplot's own ways of saying more than text: none of them may do anything. */
#define STRANGE "a_b^2 {/Bold x} 'q' \"d\" <b> & `touch pwned` @x %d \\n $y"

static void titles_are_shown_as_they_are(void **state)
{
    (void)state;
    PLOT("'; system('touch pwned'); '" STRANGE, .x_label = STRANGE, .series = {{STRANGE, NULL, losses, 4}},
         .file = "p.svg");
    load("p.svg");
    assert_int_equal(access("pwned", F_OK), -1);
    assert_non_null(strstr(text, "a_b^2 {/Bold x} 'q' \"d\" &lt;b> &amp; `touch pwned` @x %d \\n $y"));
    PLOT("line\nset output 'pwned'\n!touch pwned\n", .series = {{"a\nb", NULL, losses, 4}});
    assert_int_equal(access("pwned", F_OK), -1);
}

static void pictures_are_files(void **state)
{
    (void)state;
    static const char *const outside[] = {"href", "url(", "<script", "<image"};
    PLOT("Loss", .x_label = "epoch", .series = {{"loss", NULL, losses, 4}}, .file = "p.png", .width = 300,
         .height = 200);
    assert_true(load("p.png") > 1000);
    assert_memory_equal(text, "\x89PNG\r\n\x1a\n", 8);
    assert_memory_equal(text + 16, "\0\0\1\x2c\0\0\0\xc8", 8); /* 300 × 200 */
    PLOT("Loss", .x_label = "epoch", .series = {{"loss", NULL, losses, 4}}, .file = "p.svg");
    load("p.svg");
    assert_non_null(strstr(text, "<svg"));
    assert_int_equal(text[strspn(text, " ")], '\n'); /* the first line, which JupyterLab shows of a folded output */
    assert_non_null(strstr(text, "width=\"640\" height=\"360\""));
    assert_non_null(strstr(text, ">epoch<"));
    assert_null(strstr(text, "Gnuplot</title>"));
    for (size_t i = 0; i < 4; i++)
        assert_null(strstr(strstr(text, "gnuplot_canvas"), outside[i]) && i != 0 ? "" : NULL);
}

/* Whether the picture in `text` has this colour. */
static bool has(const char *what)
{
    return strstr(text, what) != NULL;
}

static void series_have_colours_of_their_own(void **state)
{
    (void)state;
    PLOT("Rates", .series = {{"measured", ranks, rates, 4}, {"ideal", ranks, ranks, 4}}, .log_x = true, .log_y = true,
         .file = "p.svg");
    load("p.svg");
    assert_true(has("rgb(  0, 114, 178)") && has("rgb(213,  94,   0)")); /* Okabe and Ito's blue and vermilion */
    assert_true(has(">measured<") && has(">ideal<"));
    assert_true(has("> 8<") || has(">8<")); /* a tick at each doubling */
    assert_true(has("> 200<") || has(">200<"));
}

static void bars_have_labels_and_values(void **state)
{
    (void)state;
    PLOT("Bars", .series = {{"a", NULL, rates, 3}, {"b", NULL, losses, 3}}, .labels = names, .file = "p.svg");
    load("p.svg");
    assert_true(has("one device") && has("eight's %d 9%<") && has("&lt;ranks> &amp; co"));
    assert_true(has(">190<") && has(">0.5<"));
}

/* How many words of the picture in `text` look like this. */
static int count_of(const char *what)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, what)); at++) count++;
    return count;
}

/* Ten pairs of bars have no room for "0.398" side by side: the values stand upright, and all of them are there. */
static void values_of_narrow_bars_stand_upright(void **state)
{
    (void)state;
    static const double few[] = {0.398, 0.414, 0.486, 0.606, 0.318, 0.465, 0.4, 0.692, 0.653, 0.526};
    static const char *const what[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    PLOT("Bars", .series = {{"a", NULL, few, 10}, {"b", NULL, few, 10}}, .labels = what, .file = "p.svg");
    load("p.svg");
    assert_int_equal(count_of("rotate(270)"), 20);
    assert_int_equal(count_of(">0.398<"), 2);
    PLOT("Bars", .series = {{"a", NULL, few, 3}, {"b", NULL, few, 3}}, .labels = what, .file = "p.svg");
    load("p.svg");
    assert_int_equal(count_of("rotate(270)"), 0);
    assert_int_equal(count_of(">0.398<"), 2);
    PLOT("Bars", .series = {{"a", NULL, few, 10}, {"b", NULL, few, 10}, {"c", NULL, few, 10}, {"d", NULL, few, 10}},
         .labels = what, .width = 500, .file = "p.svg");
    load("p.svg");
    assert_int_equal(count_of(">0.398<"), 0); /* no room for either */
}

static void values_over_bars_are_not_rounded_away(void **state)
{
    (void)state;
    PLOT("Bars", .series = {{"a", NULL, (double[]){0.0125, 4000, -12}, 3}}, .labels = names, .file = "p.svg");
    load("p.svg");
    assert_true(has(">0.0125<") && has(">4000<") && has(">-12<"));
}

/* Labels of an axis that says one or two powers of ten, or none, are too few to read a value by. */
static void logarithmic_axes_have_labels(void **state)
{
    (void)state;
    static const char *const wanted[][5] = {{">1.5<", ">2<", ">3<", ">4<", ">5<"},
                                            {">1.5<", ">1.52<", ">1.54<", ">1.56<", ">1.58<"},
                                            {">2<", ">5<", ">10<", ">200<", ">500<"},
                                            {">1<", ">10<", ">100<", ">1000<", ">10000<"}};
    static const double values[][4] = {
        {5.4, 2.2, 1.3, 1.8}, {1.5, 1.52, 1.6, 1.55}, {1, 9, 300, 700}, {1, 2, 10000, 20}};
    for (int i = 0; i < 4; i++) {
        for (int x = 0; x < 2; x++) {
            kolo_plot_args args = {.title = "Logarithmic", .log_x = x == 1, .log_y = x == 0, .file = "p.svg"};
            args.series[0] = (kolo_series){"a", values[i], values[i], 4};
            silent_plot(&args, KOLO_OK);
            load("p.svg");
            for (int label = 0; label < 5; label++) assert_true(has(wanted[i][label]));
        }
    }
}

/* Where they would touch, in a small picture, there are fewer. */
static void labels_of_a_small_axis_do_not_touch(void **state)
{
    (void)state;
    static const double x[] = {1e-5, 1e-4, 1e-3, 1e-2};
    kolo_plot_args args = {.log_x = true, .width = 800, .series = {{NULL, x, losses, 4}}, .file = "p.svg"};
    silent_plot(&args, KOLO_OK);
    load("p.svg");
    assert_true(has(">2e-05<") && has(">0.005<"));
    args.width = 300;
    silent_plot(&args, KOLO_OK);
    load("p.svg");
    assert_false(has(">2e-05<") || has(">0.005<"));
    assert_true(has(">0.001<"));
}

/* Pieces of a series' line; the sample beside its name is one, too. */
static int pieces(const char *series)
{
    int count = 0;
    const char *curve = strstr(text, series);
    assert_non_null(curve);
    const char *path = strstr(curve, " d='M");
    assert_non_null(path);
    for (const char *at = path + 4; *at != '\''; at++) count += *at == 'M';
    return count;
}

static void what_is_not_finite_is_a_gap(void **state)
{
    (void)state;
    static double far[70];
    PLOT("Gap", .series = {{NULL, NULL, (double[]){1, 2, NAN, 3, 4, INFINITY, INFINITY, 5, 6}, 9}}, .file = "p.svg");
    load("p.svg");
    assert_int_equal(pieces("gnuplot_plot_1"), 3);
    PLOT("Gap", .series = {{NULL, NULL, (double[]){1, 2, 0, 3, 4}, 5}}, .log_y = true, .file = "p.svg");
    load("p.svg");
    assert_int_equal(pieces("gnuplot_plot_1"), 2);
    for (int i = 0; i < 70; i++) far[i] = i % 2 ? (double)NAN : i;
    PLOT("Alone", .series = {{"a", NULL, far, 70}}, .file = "p.svg");
    load("p.svg");
    assert_true(count_of("#gpPt") >= 35); /* a line alone would show nothing of them */
}

/* A history that was not validated in each epoch has no gaps: it knows of nothing between. */
static void epochs_that_were_not_validated_are_passed_over(void **state)
{
    (void)state;
    kolo_data *digits = kolo_synthetic_digits(.split = KOLO_TEST);
    kolo_data *few = kolo_data_slice(digits, 0, 64);
    kolo_model *model = kolo_sequential(kolo_input(28, 28, 1), kolo_flatten(), kolo_dense(10));
    kolo_compile(model, .optimizer = kolo_sgd(), .loss = KOLO_SPARSE_CROSSENTROPY, .seed = 1);
    const kolo_history *history =
        kolo_fit(model, few, .epochs = 6, .validation_data = few, .validation_freq = 2, .verbose = KOLO_NONE);
    assert_int_equal(kolo_plot_history(history, .file = "p.svg"), KOLO_OK);
    load("p.svg");
    assert_int_equal(pieces("gnuplot_plot_1"), 2);
    assert_int_equal(pieces("gnuplot_plot_2"), 2); /* the validation's */
    kolo_model_free(&model);
    kolo_data_free(&few);
    kolo_data_free(&digits);
}

static void in_a_terminal_it_is_characters(void **state)
{
    (void)state;
    PLOT("Loss of a training", .x_label = "epoch", .series = {{"loss", NULL, losses, 4}});
    load("out");
    assert_true(has("Loss of a training") && has("epoch") && has("0.9") && has("A"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        assert_in_range(strlen(line), 1, 79);
        assert_int_not_equal(line[strlen(line) - 1], ' ');
    }
}

static void twelve_series_and_many_points_are_drawn(void **state)
{
    (void)state;
    static double wave[5000];
    kolo_plot_args args = {.title = "Many", .file = "p.svg"};
    for (int i = 0; i < 5000; i++) wave[i] = sin(i / 100.0);
    for (int s = 0; s < KOLO_SERIES_MAX; s++) args.series[s] = (kolo_series){"wave", NULL, wave + 100 * s, 3800};
    silent_plot(&args, KOLO_OK);
    args = (kolo_plot_args){.series = {{NULL, NULL, wave + 7, 1}}};
    silent_plot(&args, KOLO_OK); /* a single point has no range */
    args.y_from_zero = true;
    silent_plot(&args, KOLO_OK);
    args.series[0].y = (double[]){-1e300};
    silent_plot(&args, KOLO_OK);
    args.series[0] = (kolo_series){"flat", NULL, (double[]){0, 0, 0}, 3};
    silent_plot(&args, KOLO_OK);
}

static void a_notebook_gets_three_forms(void **state)
{
    (void)state;
    assert_int_equal(kolo_plot("Loss", .series = {{"loss", NULL, losses, 4}}), KOLO_OK);
    assert_int_equal(FRAMES, 1);
    assert_string_equal(text_of(0, "kind"), "display");
    assert_non_null(strstr(data_of(0, "image/svg+xml"), "<svg"));
    assert_memory_equal(data_of(0, "image/png"), "iVBORw0KGgo", 11);
    assert_non_null(strstr(data_of(0, "text/plain"), "Loss"));
}

static void impossible_plots_are_one_sentence(void **state)
{
    (void)state;
    FAIL(KOLO_INVALID, "nothing");
    assert_failure(KOLO_INVALID, "kolo_plot: wanted a series to plot, got none", NULL);
    FAIL(KOLO_INVALID, "x", .series = {{"a", NULL, losses, 0}});
    assert_failure(KOLO_INVALID, "series 0: wanted values and a count of at least 1", NULL);
    FAIL(KOLO_INVALID, "x", .series = {{"a", NULL, NULL, 3}});
    assert_failure(KOLO_INVALID, "series 0", "got NULL", NULL);
    FAIL(KOLO_INVALID, "x", .series = {{"a", NULL, (double[]){NAN, INFINITY}, 2}});
    assert_failure(KOLO_INVALID, "wanted at least one finite point, got none", NULL);
    FAIL(KOLO_INVALID, "x", .series = {{"a", NULL, (double[]){0, -1}, 2}}, .log_y = true);
    assert_failure(KOLO_INVALID, "above 0 on a logarithmic axis", NULL);
    FAIL(KOLO_INVALID, "x", .series = {{"a", NULL, losses, 4}}, .width = 10);
    assert_failure(KOLO_INVALID, "pixels, got 10 × 360", NULL);
    FAIL(KOLO_INVALID, "x", .series = {{"a", NULL, losses, 4}}, .file = "p.gif");
    assert_failure(KOLO_INVALID, "wanted a .file that ends in .svg or .png, got \"p.gif\"", NULL);
    FAIL(KOLO_INVALID, "x", .series = {{"a", NULL, rates, 4}}, .labels = (const char *const[]){"a", "b", NULL, NULL});
    assert_failure(KOLO_INVALID, "got NULL for bar 2", NULL);
    FAIL(KOLO_NOT_FOUND, "x", .series = {{"a", NULL, losses, 4}}, .file = "nowhere/p.svg");
    assert_failure(KOLO_NOT_FOUND, "nowhere/p.svg: wanted a file that can be written", NULL);
    FAIL(KOLO_FORMAT, "\xff", .series = {{"a", NULL, losses, 4}});
    assert_failure(KOLO_FORMAT, "wanted text in UTF-8", NULL);
}

static void without_gnuplot_the_values_are_shown(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        setenv("PATH", "/nowhere", 1);
        silent_plot(&(const kolo_plot_args){.title = "Loss", .series = {{"loss", NULL, losses, 4}}}, KOLO_UNSUPPORTED);
        _exit(strstr(kolo_last_error().text, "gnuplot-nox") ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    load("out");
    assert_true(has("Loss") && has("0.9") && has("nan") && has("0.3"));
}

/* A gnuplot that fails, says why, or hangs is somebody else's fault and one sentence. */
static void a_failing_gnuplot_is_one_sentence(void **state)
{
    (void)state;
    mkdir("bin", 0755);
    write_file("bin/gnuplot", "#!/bin/sh\necho >&2; echo 'line 3: broken' >&2; exit 1\n", 53);
    chmod("bin/gnuplot", 0755);
    char path[4096], *before = strdup(getenv("PATH"));
    snprintf(path, sizeof path, "%s/bin:%s", test_folder, before);
    setenv("PATH", path, 1);
    FAIL(KOLO_INTERNAL, "x", .series = {{"a", NULL, losses, 4}});
    setenv("PATH", before, 1);
    free(before);
    assert_failure(KOLO_INTERNAL, "gnuplot could not draw the plot: line 3: broken", NULL);
}

int main(void)
{
    unsetenv("KOLO_DISPLAY");
#define TEST(test) cmocka_unit_test_setup(test, clear)
    const struct CMUnitTest tests[] = {
        TEST(titles_are_shown_as_they_are),
        TEST(pictures_are_files),
        TEST(series_have_colours_of_their_own),
        TEST(bars_have_labels_and_values),
        TEST(values_of_narrow_bars_stand_upright),
        TEST(values_over_bars_are_not_rounded_away),
        TEST(logarithmic_axes_have_labels),
        TEST(labels_of_a_small_axis_do_not_touch),
        TEST(what_is_not_finite_is_a_gap),
        TEST(epochs_that_were_not_validated_are_passed_over),
        TEST(in_a_terminal_it_is_characters),
        TEST(twelve_series_and_many_points_are_drawn),
        TEST(impossible_plots_are_one_sentence),
        TEST(without_gnuplot_the_values_are_shown),
        TEST(a_failing_gnuplot_is_one_sentence),
        cmocka_unit_test_setup_teardown(a_notebook_gets_three_forms, start, stop),
    };
    return cmocka_run_group_tests_name("show/plot", tests, enter_folder, leave_folder);
}
