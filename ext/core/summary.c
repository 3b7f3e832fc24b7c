/* kolo_summary: the table of layers that Keras prints. */
#include <stdio.h>
#include <string.h>

#include "core/model.h"

#define NAME_WIDTH  34 /* at least */
#define SHAPE_WIDTH 24
#define COUNT_WIDTH 15

static void rule(FILE *out, int name_width, const char *left, const char *middle, const char *right, const char *dash)
{
    const int widths[] = {name_width, SHAPE_WIDTH, COUNT_WIDTH};
    for (int column = 0; column < 3; column++) {
        fprintf(out, "%s", column == 0 ? left : middle);
        for (int i = 0; i < widths[column]; i++) fprintf(out, "%s", dash);
    }
    fprintf(out, "%s\n", right);
}

static void row(FILE *out, int name_width, const char *bar, const char *name, const char *shape, const char *count)
{
    fprintf(out, "%s %-*s%s %-*s%s %*s %s\n", bar, name_width - 1, name, bar, SHAPE_WIDTH - 1, shape, bar,
            COUNT_WIDTH - 2, count, bar);
}

/* 1199882 as "1,199,882". */
static const char *with_commas(int64_t value)
{
    if (value < 1000) return kolo_phrase("%lld", (long long)value);
    return kolo_phrase("%s,%03d", with_commas(value / 1000), (int)(value % 1000));
}

/* The shape with the batch in front, as Keras shows it. */
static const char *batch_shape(kolo_shape shape)
{
    const char *text = "(None";
    for (int axis = 0; axis < shape.rank; axis++) text = kolo_phrase("%s, %d", text, shape.dim[axis]);
    return kolo_phrase("%s)", text);
}

static int64_t weights_of(const kolo_model *model, const kolo_layer_node *node)
{
    int64_t count = 0;
    for (int i = 0; i < node->parameter_count; i++)
        count += kolo_shape_count(model->parameters[node->parameters[i]].shape);
    return count;
}

static const char *name_of(const kolo_layer_node *node)
{
    return kolo_phrase("%s (%s)", node->name, node->recipe.kind->name);
}

/* Of the first column: room for the longest name between two blanks. */
static int width_of_names(const kolo_model *model)
{
    int width = NAME_WIDTH;
    for (int i = 0; i < model->layer_count; i++) {
        int length = (int)strlen(name_of(&model->layers[i])) + 2;
        width = length > width ? length : width;
    }
    return width;
}

kolo_status kolo_summary_write(const kolo_model *model, FILE *out)
{
    KOLO_TRY(kolo_model_check(model));
    int width = width_of_names(model);
    rule(out, width, "┏", "┳", "┓", "━");
    row(out, width, "┃", "Layer (type)", "Output shape", "Params");
    rule(out, width, "┡", "╇", "┩", "━");
    for (int i = 0; i < model->layer_count; i++) {
        const kolo_layer_node *node = &model->layers[i];
        row(out, width, "│", name_of(node), batch_shape(node->out), with_commas(weights_of(model, node)));
    }
    rule(out, width, "└", "┴", "┘", "─");
    double bytes = (double)model->weight_count * sizeof(float);
    fprintf(out, " Total params: %s (%.2f %s)\n", with_commas(model->weight_count),
            bytes >= 1e6 ? bytes / 1e6 : bytes / 1e3, bytes >= 1e6 ? "MB" : "KB");
    return KOLO_OK;
}

kolo_status kolo_summary_at(const kolo_model *model, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_summary", here);
    return kolo_leave(scope, kolo_summary_write(model, stdout));
}
