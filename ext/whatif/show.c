/* Answers as a table and as a chart, which both say that they are modelled. See what_if.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show/display.h"
#include "show/plot.h"
#include "whatif/what_if.h"

/* ---------------------------------------------------------------- the table */

static void write_head(FILE *out, const kolo_what_if_args *args, const kolo_replay *replay, const kolo_answers *answers)
{
    fprintf(out, "modelled  from %s: a step of %d samples in %.3f ms; links: %s\n", args->trace,
            answers->recorded_batch, 1e3 * answers->recorded, answers->links);
    if (replay->batch != answers->recorded_batch)
        fprintf(out, "modelled  with %.0f samples a device: computing %s\n", replay->batch,
                replay->other.steps ? "continued from two recordings" : "taken for proportional to them");
    fprintf(out, "modelled  %7s %8s %10s %10s %9s %11s %11s", "devices", "step, ms", "samples/s", "efficiency",
            "sums, ms", "exposed, ms", "waiting, ms");
    if (args->noise_scale > 0) fputs(" × steps  × time", out);
    if (args->steps > 0) fprintf(out, " %12s", "accuracy, s");
    fputc('\n', out);
}

static void write_answer(FILE *out, const kolo_what_if_args *args, const kolo_answer *a)
{
    fprintf(out, "modelled  %7d %8.3f %10.*f %8.1f %% %9.3f %11.3f %11.3f", a->devices, 1e3 * a->seconds,
            a->samples < 1e4, a->samples, 100 * a->efficiency, 1e3 * a->communication, 1e3 * a->exposed,
            1e3 * a->waiting);
    if (args->noise_scale > 0) fprintf(out, " %7.4g %7.4g", a->more_steps, a->more_time);
    if (args->steps > 0) fprintf(out, " %12.4g", a->accuracy_seconds);
    fputc('\n', out);
}

static kolo_status show_table(const kolo_what_if_args *args, const kolo_replay *replay, const kolo_answers *answers)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return kolo_fail_memory(1 << 12, "a table");
    write_head(out, args, replay, answers);
    for (int i = 0; i < answers->count; i++) write_answer(out, args, &answers->answer[i]);
    fclose(out);
    kolo_mime form = {"text/plain", text, size, false};
    kolo_status status = kolo_display_bundle(NULL, &form, 1);
    free(text);
    return status;
}

/* ---------------------------------------------------------------- the chart */

enum { PANELS = 3, SERIES = 4 };

typedef struct charts {
    double y[PANELS][SERIES][KOLO_WHAT_IF_MAX];
    char words[KOLO_WHAT_IF_MAX][16];
    const char *labels[KOLO_WHAT_IF_MAX];
    kolo_plot_args args[PANELS];
    kolo_plot_plan plans[PANELS];
    int count;
} charts;

static void fill_points(const kolo_answers *answers, charts *c)
{
    for (int i = 0; i < answers->count; i++) {
        const kolo_answer *a = &answers->answer[i];
        c->y[0][0][i] = a->samples;
        c->y[0][1][i] = a->samples / a->efficiency; /* N devices as fast as one each */
        c->y[1][0][i] = 1e3 * (a->seconds - a->waiting - a->exposed);
        c->y[1][1][i] = 1e3 * a->exposed;
        c->y[1][2][i] = 1e3 * a->waiting;
        c->y[2][0][i] = a->more_time;
        c->y[2][1][i] = a->more_steps;
        snprintf(c->words[i], sizeof c->words[i], "%d", a->devices);
        c->labels[i] = c->words[i];
    }
}

static kolo_status add_chart(const kolo_what_if_args *args, const kolo_answers *answers, const char *title,
                             const char *const *names, charts *c)
{
    kolo_plot_args *plot = &c->args[c->count];
    *plot = (kolo_plot_args){.title = title,
                             .x_label = "devices",
                             .labels = c->labels,
                             .y_from_zero = true,
                             .width = args->width ? args->width : KOLO_PANEL_WIDTH,
                             .height = args->height ? args->height : KOLO_PANEL_HEIGHT};
    for (int s = 0; names[s]; s++) plot->series[s] = (kolo_series){names[s], NULL, c->y[c->count][s], answers->count};
    KOLO_TRY(kolo_plot_check(plot, &c->plans[c->count]));
    c->count++;
    return KOLO_OK;
}

/* A terminal gets the first chart alone: it has the table. */
static kolo_status show_charts(const kolo_what_if_args *args, const kolo_answers *answers, charts *c)
{
    static const char *const rates[] = {"modelled", "perfect scaling", NULL};
    static const char *const parts[] = {"computing", "exposed sums", "waiting", NULL};
    static const char *const accuracy[] = {"time", "steps", NULL};
    fill_points(answers, c);
    KOLO_TRY(add_chart(args, answers, "modelled samples/s", rates, c));
    KOLO_TRY(add_chart(args, answers, "modelled step, ms", parts, c));
    if (args->noise_scale > 0) KOLO_TRY(add_chart(args, answers, "modelled to the same accuracy, ×", accuracy, c));
    return kolo_plot_show(c->plans, kolo_display_expected() || args->file ? c->count : 1, args->file);
}

kolo_status kolo_answers_show(const kolo_what_if_args *args, const kolo_replay *replay, const kolo_answers *answers)
{
    charts *c = calloc(1, sizeof *c);
    if (!c) return kolo_fail_memory(sizeof *c, "a plot");
    kolo_status status = show_table(args, replay, answers);
    if (status == KOLO_OK) status = show_charts(args, answers, c);
    free(c);
    return status;
}
