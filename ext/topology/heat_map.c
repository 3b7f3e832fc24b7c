/* Bandwidth reports as heat maps: see bundle.h and kolo_peer_bandwidth(). */
#include "show/bundle.h"
#include "show/display.h"
#include "show/gnuplot.h"
#include "show/plot.h"

#include <math.h>
#include <stdlib.h>

#include "topology/topology.h"

#define LEAST 0.001
enum { PANEL = 400, COLUMNS = 2 /* fit into a notebook's page */, MOST_WITH_FIGURES = 10 };

typedef const double matrix[KOLO_PEERS_MAX];

/* A figure for the logarithmic scale of colours, on which nothing may be 0; NaN, not measured, has no colour. */
static double figure_of(matrix *figures, int a, int b)
{
    return isnan(figures[a][b]) ? NAN : fmax(figures[a][b], LEAST);
}

/* Widens the range a little, since it would be empty if all figures were equal. */
static void write_range(FILE *script, const kolo_bandwidth_report *report, matrix *figures)
{
    double low = INFINITY, high = LEAST;
    for (int a = 0; a < report->count; a++)
        for (int b = 0; b < report->count; b++) {
            low = fmin(low, figure_of(figures, a, b));
            high = fmax(high, figure_of(figures, a, b));
        }
    fprintf(script, "set cbrange [%g:%g]\n", fmin(low, high) / 1.01, high * 1.01);
}

static void write_panel(FILE *script, const kolo_bandwidth_report *report, const char *title, matrix *figures)
{
    fputs("$figures << EOD\n", script);
    for (int a = 0; a < report->count; a++)
        for (int b = 0; b < report->count; b++)
            fprintf(script, "%.6g%c", figure_of(figures, a, b), b + 1 < report->count ? ' ' : '\n');
    fputs("EOD\n", script);
    write_range(script, report, figures);
    fprintf(script, "set title '%s'\nplot $figures matrix with image pixels", title);
    if (report->count <= MOST_WITH_FIGURES)
        fputs(", $figures matrix using 1:2:($3 == $3 ? sprintf('%.3g', $3) : '-') with labels textcolor '#222222'",
              script);
    fputc('\n', script);
}

static void write_tics(FILE *script, const char *axis, const kolo_bandwidth_report *report)
{
    fprintf(script, "set %stics (", axis);
    for (int i = 0; i < report->count; i++) fprintf(script, "%s'%s' %d", i ? ", " : "", report->name[i], i);
    fputs(") scale 0\n", script);
}

/* On GPUs each figure without peer access, and with it beside that. */
static void write_panels(FILE *script, const kolo_bandwidth_report *report)
{
    static const char *const titles[] = {"One way, GB/s", "Both ways at once, GB/s", "Latency, µs"};
    matrix *staged[] = {report->staged.one_way, report->staged.both_ways, report->staged.latency};
    matrix *direct[] = {report->direct.one_way, report->direct.both_ways, report->direct.latency};
    for (int i = 0; i < 3; i++) {
        if (report->gpus) write_panel(script, report, kolo_phrase("%s, peer access off", titles[i]), staged[i]);
        write_panel(script, report, kolo_phrase("%s%s", titles[i], report->gpus ? ", peer access on" : ""), direct[i]);
    }
}

static void write_script(FILE *script, const kolo_bandwidth_report *report, bool png)
{
    int rows = report->gpus ? 3 : 2;
    fprintf(script,
            "set encoding utf8\nset terminal %s size %d,%d font '%s' background '#ffffff' noenhanced\n"
            "set multiplot layout %d,%d\n",
            png ? "pngcairo" : "svg", COLUMNS * PANEL, rows * PANEL,
            png ? "DejaVu Sans,10" : "DejaVu Sans,Helvetica,Arial,sans-serif,10", rows, COLUMNS);
    fputs("unset key\nunset colorbox\nset logscale cb\nset border 0\n"
          "set palette defined (0 '#f3f8fc', 1 '#56B4E9')\nset ylabel 'from'\nset xlabel 'to'\n",
          script);
    fprintf(script, "set xrange [-0.5:%d.5]\nset yrange [%d.5:-0.5]\n", report->count - 1, report->count - 1);
    write_tics(script, "x", report), write_tics(script, "y", report);
    write_panels(script, report);
}

static kolo_status draw(const kolo_bandwidth_report *report, bool png, kolo_mime *form)
{
    char *text = NULL, *picture = NULL;
    size_t length = 0, size = 0;
    FILE *script = open_memstream(&text, &length);
    if (!script) return kolo_fail_memory(1 << 14, "heat maps");
    write_script(script, report, png);
    fclose(script);
    kolo_status status = kolo_gnuplot(text, length, &picture, &size);
    free(text);
    if (status == KOLO_OK && !png) kolo_plot_blank(picture);
    *form = (kolo_mime){png ? "image/png" : "image/svg+xml", picture, size, false};
    return status;
}

/* Without gnuplot the bundle has only the text. */
char *kolo_bandwidth_bundle(const kolo_bandwidth_report *report)
{
    char *text = NULL, *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    bool whole = report->count > 0 && report->count <= KOLO_PEERS_MAX;
    if (!whole || kolo_bandwidth_write(out, report) != KOLO_OK) fputs("no devices", out);
    fclose(out);
    kolo_scope scope = kolo_enter("showing bandwidths", (kolo_here){0});
    kolo_mime forms[3] = {{"text/plain", text, size, false}};
    kolo_status drawn = whole ? draw(report, false, &forms[1]) : KOLO_OK;
    if (whole && drawn == KOLO_OK) drawn = draw(report, true, &forms[2]);
    if (text) kolo_display_json(forms, whole && drawn == KOLO_OK ? 3 : 1, &json);
    kolo_leave(scope, drawn);
    free(text), free((char *)forms[1].data), free((char *)forms[2].data);
    return json;
}
