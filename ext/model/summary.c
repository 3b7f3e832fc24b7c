/* kolo_summary: the table of layers that Keras prints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"
#include "model/model.h"
#include "show/bundle.h"
#include "show/display.h"

#define COLUMNS 4
#define CELL    (KOLO_APPLY_MAX * 50) /* bytes of a cell: room for the names of all inputs of a layer */

/* The width of each column in characters, with a blank on either side. Only models with branches have the last column.
 */
typedef struct layout {
    int columns, width[COLUMNS];
} layout;

static const layout least = {3, {34, 24, 15, 20}};

static void rule(FILE *out, const layout *at, const char *left, const char *middle, const char *right, const char *dash)
{
    for (int column = 0; column < at->columns; column++) {
        fprintf(out, "%s", column == 0 ? left : middle);
        for (int i = 0; i < at->width[column]; i++) fprintf(out, "%s", dash);
    }
    fprintf(out, "%s\n", right);
}

/* Aligns the third column, the numbers, to the right. */
static void row(FILE *out, const layout *at, const char *bar, char cells[COLUMNS][CELL])
{
    for (int column = 0; column < at->columns; column++) {
        int padding = at->width[column] - 2 - kolo_utf8_count(cells[column]);
        if (column == 2) fprintf(out, "%s %*s%s ", bar, padding, "", cells[column]);
        else fprintf(out, "%s %s%*s ", bar, cells[column], padding, "");
    }
    fprintf(out, "%s\n", bar);
}

/* 1199882 as "1,199,882". */
static const char *with_commas(int64_t value)
{
    if (value < 1000) return kolo_phrase("%lld", (long long)value);
    return kolo_phrase("%s,%03d", with_commas(value / 1000), (int)(value % 1000));
}

/* The shape as Keras shows it, with the batch's axis: "(None, 26, 26, 32)". */
static const char *batch_shape(kolo_shape shape)
{
    const char *text = "(None";
    for (int axis = 0; axis < shape.rank; axis++) text = kolo_phrase("%s, %d", text, shape.dim[axis]);
    return kolo_phrase("%s)", text);
}

int64_t kolo_layer_weights(const kolo_model *model, const kolo_layer_node *node)
{
    int64_t count = 0;
    for (int i = 0; i < node->parameter_count; i++)
        count += kolo_shape_count(model->parameters[node->parameters[i]].shape);
    return count;
}

/* The number of weights in running means, which the optimizer does not train. */
static int64_t untrained_of(const kolo_model *model)
{
    int64_t count = 0;
    for (int i = 0; i < model->parameter_count; i++)
        if (model->parameters[i].momentum > 0) count += kolo_shape_count(model->parameters[i].shape);
    return count;
}

/* The last cell lists the layer's inputs: "add, dense_1". */
static void cells_of(const kolo_model *model, const kolo_layer_node *node, char cells[COLUMNS][CELL])
{
    snprintf(cells[0], CELL, "%s (%s)", node->name, node->recipe.kind->name);
    snprintf(cells[1], CELL, "%s", batch_shape(node->out));
    snprintf(cells[2], CELL, "%s", with_commas(kolo_layer_weights(model, node)));
    size_t length = 0;
    cells[3][0] = 0;
    for (int i = 0; i < node->from_count && length < CELL; i++)
        length += (size_t)snprintf(cells[3] + length, CELL - length, "%s%s", i > 0 ? ", " : "",
                                   model->layers[node->from[i]].name);
}

static layout layout_of(const kolo_model *model)
{
    layout at = least;
    for (int i = 0; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        char cells[COLUMNS][CELL];
        cells_of(model, node, cells);
        if (node->from_count > 1 || (node->from_count == 1 && node->from[0] != i - 1)) at.columns = COLUMNS;
        for (int column = 0; column < COLUMNS; column++) {
            int needed = kolo_utf8_count(cells[column]) + 2;
            if (needed > at.width[column]) at.width[column] = needed;
        }
    }
    return at;
}

static void count(FILE *out, const char *which, int64_t weights)
{
    double bytes = (double)weights * sizeof(float);
    fprintf(out, " %s params: %s (%.2f %s)\n", which, with_commas(weights), bytes >= 1e6 ? bytes / 1e6 : bytes / 1e3,
            bytes >= 1e6 ? "MB" : "KB");
}

kolo_status kolo_summary_write(const kolo_model *model, FILE *out)
{
    KOLO_TRY(kolo_model_check(model));
    char headings[COLUMNS][CELL] = {"Layer (type)", "Output shape", "Params", "Connected to"};
    layout at = layout_of(model);
    rule(out, &at, "┏", "┳", "┓", "━");
    row(out, &at, "┃", headings);
    rule(out, &at, "┡", "╇", "┩", "━");
    for (int i = 0; i < model->layer_count; i++) {
        char cells[COLUMNS][CELL];
        cells_of(model, &model->layers[i], cells);
        row(out, &at, "│", cells);
    }
    rule(out, &at, "└", "┴", "┘", "─");
    int64_t untrained = untrained_of(model);
    count(out, "Total", model->weight_count);
    if (untrained > 0) count(out, "Trainable", model->weight_count - untrained);
    if (untrained > 0) count(out, "Non-trainable", untrained);
    return KOLO_OK;
}

kolo_status kolo_summary_at(const kolo_model *model, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_summary", here);
    return kolo_leave(scope, kolo_summary_write(model, stdout));
}

char *kolo_model_bundle(const kolo_model *model)
{
    char *text = NULL, *json = NULL;
    size_t size = 0;
    FILE *out = model ? open_memstream(&text, &size) : NULL;
    if (!out) return NULL;
    kolo_scope scope = kolo_enter("showing a model", (kolo_here){0});
    kolo_status status = kolo_summary_write(model, out);
    fclose(out);
    kolo_mime form = {"text/plain", text, size ? size - 1 : 0, false}; /* without the newline at the end */
    if (status == KOLO_OK) status = kolo_display_json(&form, 1, &json);
    kolo_leave(scope, status);
    free(text);
    return json;
}
