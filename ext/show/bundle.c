/* A model's table and a history's curves: see bundle.h. */
#include "show/bundle.h"
#include "core/model.h"
#include "show/display.h"
#include "show/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

char *kolo_model_bundle(const kolo_model *model)
{
    char *text = NULL, *json = NULL;
    size_t size = 0;
    FILE *out = model ? open_memstream(&text, &size) : NULL;
    if (!out) return NULL;
    kolo_scope scope = kolo_enter("showing a model", (kolo_here){0});
    kolo_status status = kolo_summary_write(model, out);
    fclose(out);
    kolo_mime form = {"text/plain", text, size ? size - 1 : 0, false}; /* the last line has no end */
    if (status == KOLO_OK) status = kolo_display_json(&form, 1, &json);
    kolo_leave(scope, status);
    free(text);
    return json;
}

/* ------------------------------------------------------------------------------------------ a history */

typedef struct measure {
    const char *name;
    size_t offset; /* in kolo_epoch */
    const char *format;
} measure;

static const measure measures[] = {
    {"loss", offsetof(kolo_epoch, loss), "%.4f"},         {"accuracy", offsetof(kolo_epoch, accuracy), "%.4f"},
    {"val_loss", offsetof(kolo_epoch, val_loss), "%.4f"}, {"val_accuracy", offsetof(kolo_epoch, val_accuracy), "%.4f"},
    {"seconds", offsetof(kolo_epoch, seconds), "%.2f"},   {"images/s", offsetof(kolo_epoch, images_per_second), "%.0f"},
};
#define MEASURES ((int)(sizeof measures / sizeof *measures))

static double value_of(const kolo_epoch *epoch, const measure *m)
{
    double value;
    memcpy(&value, (const char *)epoch + m->offset, sizeof value);
    return value;
}

static bool known(const kolo_history *history, const measure *m)
{
    for (int i = 0; i < history->epochs; i++)
        if (!isnan(value_of(&history->epoch[i], m))) return true;
    return false;
}

static void write_rows(FILE *out, const kolo_history *history)
{
    fputs("epoch", out);
    for (int k = 0; k < MEASURES; k++)
        if (known(history, &measures[k])) fprintf(out, "  %12s", measures[k].name);
    for (int i = 0; i < history->epochs; i++) {
        fprintf(out, "\n%5d", i + 1);
        for (int k = 0; k < MEASURES; k++) {
            const char *number = kolo_phrase(measures[k].format, value_of(&history->epoch[i], &measures[k]));
            if (known(history, &measures[k])) fprintf(out, "  %12s", number);
        }
    }
    if (history->epochs == 0) fputs("\nno epoch was completed", out);
    else if (history->stopped) fputs("\nstopped before its last epoch", out);
}

/* The points of one measure, or none where it is not known. */
static kolo_series series_of(const kolo_history *history, const measure *m, double *values)
{
    for (int i = 0; i < history->epochs; i++) values[i] = value_of(&history->epoch[i], m);
    return known(history, m) ? (kolo_series){m->name, NULL, values, history->epochs} : (kolo_series){0};
}

/* A panel for the loss and one for the accuracy, each with its validation's curve beside it. */
static kolo_status draw_curves(const kolo_history *history, double *values, char *bytes[2], size_t size[2])
{
    kolo_plot_args args[2];
    kolo_plot_plan plans[2];
    int panels = 0;
    for (int panel = 0; panel < 2; panel++) {
        kolo_plot_args *one = &args[panels];
        *one = (kolo_plot_args){.title = measures[panel].name, .x_label = "epoch", .width = 420, .height = 300};
        double *own = values + (ptrdiff_t)panel * 2 * history->epochs;
        one->series[0] = series_of(history, &measures[panel], own);
        int used = one->series[0].count > 0;
        one->series[used] = series_of(history, &measures[panel + 2], own + history->epochs);
        if (!one->series[0].count) continue;
        KOLO_TRY(kolo_plot_check(one, &plans[panels]));
        panels++;
    }
    if (panels == 0) return KOLO_OK;
    KOLO_TRY(kolo_plot_draw(plans, panels, KOLO_PICTURE_SVG, &bytes[0], &size[0]));
    return kolo_plot_draw(plans, panels, KOLO_PICTURE_PNG, &bytes[1], &size[1]);
}

char *kolo_history_bundle(const kolo_history *history)
{
    if (!history || history->epochs < 0 || (history->epochs > 0 && !history->epoch)) return NULL;
    char *text = NULL, *json = NULL, *bytes[2] = {NULL, NULL};
    size_t size = 0, sizes[2] = {0, 0};
    double *values = calloc((size_t)history->epochs * 4 + 1, sizeof *values);
    FILE *out = open_memstream(&text, &size);
    kolo_scope scope = kolo_enter("showing a history", (kolo_here){0});
    if (out) write_rows(out, history);
    if (out) fclose(out);
    kolo_status drawn = values ? draw_curves(history, values, bytes, sizes) : KOLO_OK;
    kolo_mime forms[3] = {{"text/plain", text, size, false}};
    int count = 1;
    if (bytes[0] && bytes[1]) {
        forms[count++] = (kolo_mime){"image/svg+xml", bytes[0], sizes[0], false};
        forms[count++] = (kolo_mime){"image/png", bytes[1], sizes[1], false};
    }
    if (text) kolo_display_json(forms, count, &json);
    kolo_leave(scope, drawn);
    free(text), free(values), free(bytes[0]), free(bytes[1]);
    return json;
}
