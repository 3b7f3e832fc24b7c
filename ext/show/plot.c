/* kolo_plot: checks a plot, runs gnuplot, and shows the picture in the notebook or the terminal. Read plot.h. */
#include "show/plot.h"
#include "core/file.h"
#include "core/utf8.h"
#include "show/display.h"
#include "show/gnuplot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SIZE_MIN        100
#define SIZE_MAX_PIXELS 8000

double kolo_plot_x(const kolo_plot_plan *plan, int series, int i)
{
    const double *x = plan->args->series[series].x;
    double value = x ? x[i] : i + 1;
    return isfinite(value) && (value > 0 || !plan->args->log_x) ? value : NAN;
}

double kolo_plot_y(const kolo_plot_plan *plan, int series, int i)
{
    double value = plan->args->series[series].y[i];
    return isfinite(value) && (value > 0 || !plan->args->log_y) ? value : NAN;
}

/* ------------------------------------------------------------------------------------------ checks */

static kolo_status count_series(kolo_plot_plan *plan)
{
    for (int s = 0; s < KOLO_SERIES_MAX; s++) {
        const kolo_series *series = &plan->args->series[s];
        if (series->count == 0 && !series->y) break;
        if (series->count < 1 || !series->y)
            return kolo_fail(KOLO_INVALID, "series %d: wanted values and a count of at least 1, got %s and %d", s,
                             series->y ? "values" : "NULL", series->count);
        if (series->count > plan->longest) plan->longest = series->count;
        plan->series++;
    }
    if (plan->series == 0) return kolo_fail(KOLO_INVALID, "wanted a series to plot, got none");
    for (int i = 0; plan->args->labels && i < plan->longest; i++)
        if (!plan->args->labels[i])
            return kolo_fail(KOLO_INVALID, "wanted a label for each of %d bars, got NULL for bar %d", plan->longest, i);
    return KOLO_OK;
}

static kolo_status check_size(kolo_plot_plan *plan)
{
    const kolo_plot_args *args = plan->args;
    plan->width = args->width ? args->width : 640;
    plan->height = args->height ? args->height : 360;
    if (plan->width < SIZE_MIN || plan->width > SIZE_MAX_PIXELS || plan->height < SIZE_MIN ||
        plan->height > SIZE_MAX_PIXELS)
        return kolo_fail(KOLO_INVALID, "wanted a width and height of %d to %d pixels, got %d × %d", SIZE_MIN,
                         SIZE_MAX_PIXELS, plan->width, plan->height);
    struct winsize window;
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col >= 40;
    plan->columns = known && window.ws_col < 79 ? window.ws_col : 79;
    plan->rows = 22;
    return KOLO_OK;
}

static void see_x(kolo_plot_plan *plan, double x)
{
    int exponent;
    if (x < plan->x_low) plan->x_low = x;
    if (x > plan->x_high) plan->x_high = x;
    if (x != nearbyint(x) || fabs(x) > 1e9) plan->whole_x = false;
    if (frexp(x, &exponent) != 0.5 || x < 1) plan->doubling_x = false;
}

static kolo_status find_ranges(kolo_plot_plan *plan)
{
    plan->x_low = plan->y_low = INFINITY;
    plan->x_high = plan->y_high = -INFINITY;
    plan->whole_x = plan->doubling_x = true;
    for (int s = 0; s < plan->series; s++) {
        for (int i = 0; i < plan->args->series[s].count; i++) {
            double x = kolo_plot_x(plan, s, i), y = kolo_plot_y(plan, s, i);
            if (isnan(x) || isnan(y)) continue;
            see_x(plan, x);
            if (y < plan->y_low) plan->y_low = y;
            if (y > plan->y_high) plan->y_high = y;
        }
    }
    bool logarithmic = plan->args->log_x || plan->args->log_y;
    if (plan->x_high < plan->x_low)
        return kolo_fail(KOLO_INVALID, "wanted at least one finite point%s, got none",
                         logarithmic ? " above 0 on a logarithmic axis" : "");
    return KOLO_OK;
}

static kolo_status check_file(const char *file)
{
    if (!file || (strlen(file) > 4 && (kolo_ends_with(file, ".svg") || kolo_ends_with(file, ".png")))) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted a .file that ends in .svg or .png, got \"%s\"", file);
}

/* ------------------------------------------------------------------------------------------ pictures */

/* gnuplot gives every SVG the title "Gnuplot", and curves without a name "gnuplot_plot_1"; browsers show these as
 * tooltips. Of an output that is folded JupyterLab shows the first line: the XML declaration, which says nothing that
 * is not the default. */
void kolo_plot_blank(char *svg)
{
    char *declared = strncmp(svg, "<?xml", 5) == 0 ? strstr(svg, "?>") : NULL;
    if (declared) memset(svg, ' ', (size_t)(declared - svg) + 2);
    static const char open_tag[] = "<title>", close_tag[] = "</title>";
    for (char *title = svg; (title = strstr(title, open_tag)); title++) {
        const char *name = title + strlen(open_tag), *end = strstr(name, close_tag);
        bool own = strncmp(name, "Gnuplot<", 8) == 0 || strncmp(name, "gnuplot_plot_", 13) == 0;
        if (end && own) memset(title, ' ', (size_t)(end - title) + strlen(close_tag));
    }
}

/* Removes the blanks with which gnuplot pads lines, form feeds, and blank lines at both ends. Returns the new size. */
static size_t trim(char *text, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\f') continue;
        if (text[i] == '\n') {
            while (kept > 0 && text[kept - 1] == ' ') kept--;
            if (kept == 0) continue;
        }
        text[kept++] = text[i];
    }
    while (kept > 0 && (text[kept - 1] == '\n' || text[kept - 1] == ' ')) kept--;
    return kept;
}

static kolo_status draw(const kolo_plot_plan *plans, int count, kolo_picture picture, char **bytes, size_t *size)
{
    char *text = NULL;
    size_t length = 0;
    FILE *script = open_memstream(&text, &length);
    *bytes = NULL;
    if (!script) return kolo_fail_memory(1 << 12, "a plot");
    kolo_plot_script(script, plans, count, picture);
    bool whole = !ferror(script);
    if (fclose(script) != 0 || !whole) {
        free(text);
        return kolo_fail_memory(1 << 12, "a plot");
    }
    kolo_status status = kolo_gnuplot(text, length, bytes, size);
    if (status == KOLO_OK && picture == KOLO_PICTURE_SVG) kolo_plot_blank(*bytes);
    if (status == KOLO_OK && picture == KOLO_PICTURE_TEXT) *size = trim(*bytes, *size);
    free(text);
    return status;
}

/* Draws panels as text, one below the other. */
static kolo_status draw_texts(const kolo_plot_plan *plans, int count, char **bytes, size_t *size)
{
    kolo_status status = KOLO_OK;
    FILE *all = open_memstream(bytes, size);
    if (!all) return kolo_fail_memory(1 << 12, "a plot");
    for (int i = 0; i < count && status == KOLO_OK; i++) {
        char *text = NULL;
        size_t length = 0;
        status = draw(&plans[i], 1, KOLO_PICTURE_TEXT, &text, &length);
        if (status == KOLO_OK) fprintf(all, "%s%.*s", i ? "\n\n" : "", (int)length, text);
        free(text);
    }
    fclose(all);
    return status;
}

kolo_status kolo_plot_draw(const kolo_plot_plan *plans, int count, kolo_picture picture, char **bytes, size_t *size)
{
    if (picture == KOLO_PICTURE_TEXT) return draw_texts(plans, count, bytes, size);
    return draw(plans, count, picture, bytes, size);
}

static kolo_status write_picture(const kolo_plot_plan *plans, int count, const char *file)
{
    char *bytes;
    size_t size;
    if (!file) return KOLO_OK;
    bool svg = kolo_ends_with(file, ".svg");
    KOLO_TRY(kolo_plot_draw(plans, count, svg ? KOLO_PICTURE_SVG : KOLO_PICTURE_PNG, &bytes, &size));
    kolo_status status = kolo_file_write(file, bytes, size);
    free(bytes);
    return status;
}

/* Writes the values as a table, for use without gnuplot. */
static void write_table(FILE *table, const kolo_plot_plan *plan)
{
    const kolo_plot_args *args = plan->args;
    if (args->title) fprintf(table, "%s\n", args->title);
    fprintf(table, "%14s", args->x_label ? args->x_label : "");
    for (int s = 0; s < plan->series; s++) fprintf(table, " %14s", args->series[s].name ? args->series[s].name : "");
    for (int i = 0; i < plan->longest; i++) {
        if (args->labels) fprintf(table, "\n%14s", args->labels[i]);
        else fprintf(table, "\n%14.6g", i < args->series[0].count ? kolo_plot_x(plan, 0, i) : NAN);
        for (int s = 0; s < plan->series; s++) {
            if (i < args->series[s].count) fprintf(table, " %14.6g", args->series[s].y[i]);
            else fprintf(table, " %14s", "");
        }
    }
    fputc('\n', table);
}

static kolo_status show_tables(const kolo_plot_plan *plans, int count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *table = open_memstream(&text, &size);
    if (!table) return kolo_fail_memory(1 << 12, "a table");
    for (int i = 0; i < count; i++) write_table(table, &plans[i]);
    fclose(table);
    kolo_mime form = {"text/plain", text, size, false};
    kolo_status status = kolo_display_bundle(NULL, &form, 1);
    free(text);
    return status;
}

static kolo_status show_pictures(const kolo_plot_plan *plans, int panels)
{
    static const char *const types[] = {"image/svg+xml", "image/png", "text/plain"}; /* by kolo_picture */
    kolo_mime forms[3];
    char *bytes[3] = {NULL};
    int count = 0;
    kolo_status status = KOLO_OK;
    for (int picture = kolo_display_expected() ? 0 : KOLO_PICTURE_TEXT; picture < 3 && status == KOLO_OK; picture++) {
        size_t size;
        status = kolo_plot_draw(plans, panels, (kolo_picture)picture, &bytes[picture], &size);
        if (status == KOLO_OK) forms[count++] = (kolo_mime){types[picture], bytes[picture], size, false};
    }
    if (status == KOLO_OK) status = kolo_display_bundle(NULL, forms, count);
    for (int i = 0; i < 3; i++) free(bytes[i]);
    return status;
}

kolo_status kolo_plot_check(const kolo_plot_args *args, kolo_plot_plan *plan)
{
    *plan = (kolo_plot_plan){.args = args};
    KOLO_TRY(count_series(plan));
    KOLO_TRY(check_size(plan));
    return find_ranges(plan);
}

kolo_status kolo_plot_show(const kolo_plot_plan *plans, int count, const char *file)
{
    KOLO_TRY(check_file(file));
    kolo_status status = write_picture(plans, count, file);
    if (status == KOLO_OK) status = show_pictures(plans, count);
    if (status == KOLO_UNSUPPORTED) show_tables(plans, count); /* the failure is still reported */
    return status;
}

static kolo_status plot(const kolo_plot_args *args)
{
    kolo_plot_plan plan;
    KOLO_TRY(kolo_plot_check(args, &plan));
    return kolo_plot_show(&plan, 1, args->file);
}

kolo_status kolo_plot_at(const kolo_plot_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_plot", here);
    return kolo_leave(scope, plot(args));
}
