/* Histories as charts and as tables: see bundle.h and kolo_plot_history(). Read plot.h first. */
#include "show/bundle.h"
#include "show/display.h"
#include "show/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PANELS (KOLO_METRICS_MAX + 1)

/* One chart for each measure, over the epochs. */
typedef struct charts {
    int count;
    kolo_plot_args args[PANELS];
    kolo_plot_plan plans[PANELS];
    double *points; /* for each measure and its validation's measure: two numbers per epoch */
} charts;

static bool known(const kolo_history *history, const char *name)
{
    for (int i = 0; i < history->epochs; i++)
        if (!isnan(kolo_history_get(history, i, name))) return true;
    return false;
}

/* A series of one measure, over the epochs that have it (not all are validated); count 0: none has. The series points
 * to `name` and to `points`, which has room for two numbers per epoch. */
static kolo_series series_of(const kolo_history *history, const char *name, double *points)
{
    double *epochs = points, *values = points + history->epochs;
    int count = 0;
    for (int i = 0; i < history->epochs; i++) {
        epochs[count] = history->first_epoch + i + 1;
        values[count] = kolo_history_get(history, i, name);
        count += !isnan(values[count]);
    }
    return count > 0 ? (kolo_series){name, epochs, values, count} : (kolo_series){0};
}

/* Writes "val_accuracy" for "accuracy". */
static const char *validated(const char *name, char text[KOLO_METRIC_NAME + 4])
{
    snprintf(text, KOLO_METRIC_NAME + 4, "val_%.*s", KOLO_METRIC_NAME - 1, name);
    return text;
}

static kolo_status add_chart(charts *c, const kolo_history *history, const char *name, const char *val_name)
{
    int n = history->epochs;
    double *own = c->points + (ptrdiff_t)4 * c->count * n;
    kolo_plot_args *args = &c->args[c->count];
    args->title = name;
    args->x_label = "epoch";
    args->series[0] = series_of(history, name, own);
    args->series[args->series[0].count > 0] = series_of(history, val_name, own + (ptrdiff_t)2 * n);
    if (!args->series[0].count) return KOLO_OK;
    KOLO_TRY(kolo_plot_check(args, &c->plans[c->count]));
    c->count++;
    return KOLO_OK;
}

static kolo_status open_charts(charts *c, const kolo_history *history, const char *const *names, int count, int width,
                               int height, char val_names[PANELS][KOLO_METRIC_NAME + 4])
{
    size_t bytes = ((size_t)history->epochs * 4 * PANELS + 1) * sizeof *c->points;
    c->points = malloc(bytes);
    if (!c->points) return kolo_fail_memory(bytes, "a plot");
    for (int i = 0; i < count; i++) {
        c->args[c->count].width = width ? width : KOLO_PANEL_WIDTH;
        c->args[c->count].height = height ? height : KOLO_PANEL_HEIGHT;
        KOLO_TRY(add_chart(c, history, names[i], validated(names[i], val_names[i])));
    }
    return KOLO_OK;
}

/* Lists the loss and every metric; returns their number. */
static int all_names(const kolo_history *history, const char *names[PANELS])
{
    names[0] = "loss";
    for (int m = 0; m < history->metrics; m++) names[m + 1] = history->metric_name[m];
    return history->metrics + 1;
}

/* ------------------------------------------------------------------------------------------ kolo_plot_history */

static kolo_status choose_names(const kolo_plot_history_args *args, const char *names[PANELS], int *count)
{
    *count = 0;
    for (int i = 0; i < KOLO_METRICS_MAX && args->metrics[i]; i++) {
        if (!known(args->history, args->metrics[i]))
            return kolo_fail(KOLO_INVALID, ".metrics: wanted what the history tells of, got \"%s\"", args->metrics[i]);
        names[(*count)++] = args->metrics[i];
    }
    if (*count == 0) *count = all_names(args->history, names);
    return KOLO_OK;
}

static kolo_status plot_history(const kolo_plot_history_args *args)
{
    charts c = {0};
    const char *names[PANELS];
    char val_names[PANELS][KOLO_METRIC_NAME + 4];
    int count;
    kolo_status status;
    if (!args->history) return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "wanted a history, got NULL");
    KOLO_TRY(choose_names(args, names, &count));
    KOLO_GO(done, open_charts(&c, args->history, names, count, args->width, args->height, val_names));
    if (c.count == 0) KOLO_GO(done, kolo_fail(KOLO_INVALID, "wanted a history with numbers in it, got one without"));
    status = kolo_plot_show(c.plans, c.count, args->file);
done:
    free(c.points);
    return status;
}

kolo_status kolo_plot_history_at(const kolo_plot_history_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_plot_history", here);
    return kolo_leave(scope, plot_history(args));
}

/* ------------------------------------------------------------------------------------------ the output of a cell */

/* Writes a measure of an epoch, or its heading if epoch is -1; nothing if no epoch has it. */
static void write_column(FILE *out, const kolo_history *history, int epoch, const char *name)
{
    bool rate = strcmp(name, "images_per_second") == 0, time = strcmp(name, "seconds") == 0;
    const char *heading = rate ? "images/s" : name, *text = heading;
    double value = kolo_history_get(history, epoch, name);
    bool plain = isinf(value) || (fabs(value) < 1e8 && (fabs(value) > 1e-3 || value == 0));
    if (!known(history, name)) return;
    if (epoch >= 0) text = kolo_phrase(rate ? "%.0f" : time ? "%.2f" : plain ? "%.4f" : "%.4e", value);
    if (epoch >= 0 && isnan(value)) text = "-";
    fprintf(out, "  %*s", strlen(heading) > 12 ? (int)strlen(heading) : 12, text);
}

static void write_row(FILE *out, const kolo_history *history, int epoch)
{
    const char *names[PANELS];
    int count = all_names(history, names);
    char val_name[KOLO_METRIC_NAME + 4];
    for (int i = 0; i < count; i++) write_column(out, history, epoch, names[i]);
    for (int i = 0; i < count; i++) write_column(out, history, epoch, validated(names[i], val_name));
    write_column(out, history, epoch, "seconds");
    write_column(out, history, epoch, "images_per_second");
}

static void write_rows(FILE *out, const kolo_history *history)
{
    fputs("epoch", out);
    write_row(out, history, -1);
    for (int i = 0; i < history->epochs; i++) {
        fprintf(out, "\n%5d", history->first_epoch + i + 1);
        write_row(out, history, i);
    }
    if (history->epochs == 0) fputs("\nno epoch was completed", out);
    else if (history->stopped) fputs("\nstopped before its last epoch", out);
}

static kolo_status draw_curves(const kolo_history *history, char *bytes[2], size_t size[2])
{
    charts c = {0};
    const char *names[PANELS];
    char val_names[PANELS][KOLO_METRIC_NAME + 4];
    int count = all_names(history, names);
    kolo_status status = open_charts(&c, history, names, count, 0, 0, val_names);
    for (int picture = 0; picture < 2 && status == KOLO_OK && c.count > 0; picture++)
        status = kolo_plot_draw(c.plans, c.count, picture ? KOLO_PICTURE_PNG : KOLO_PICTURE_SVG, &bytes[picture],
                                &size[picture]);
    free(c.points);
    return status;
}

char *kolo_history_bundle(const kolo_history *history)
{
    if (!history || history->epochs < 0 || (history->epochs > 0 && !history->epoch)) return NULL;
    char *text = NULL, *json = NULL, *bytes[2] = {NULL, NULL};
    size_t size = 0, sizes[2] = {0, 0};
    FILE *out = open_memstream(&text, &size);
    kolo_scope scope = kolo_enter("showing a history", (kolo_here){0});
    if (out) write_rows(out, history);
    if (out) fclose(out);
    kolo_status drawn = draw_curves(history, bytes, sizes);
    kolo_mime forms[3] = {{"text/plain", text, size, false}};
    int count = 1;
    if (bytes[0] && bytes[1]) {
        forms[count++] = (kolo_mime){"image/svg+xml", bytes[0], sizes[0], false};
        forms[count++] = (kolo_mime){"image/png", bytes[1], sizes[1], false};
    }
    if (text) kolo_display_json(forms, count, &json);
    kolo_leave(scope, drawn);
    free(text), free(bytes[0]), free(bytes[1]);
    return json;
}
