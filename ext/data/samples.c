/* Shows some samples of a data set: as pictures with their labels, or as rows of numbers if they are not pictures.
 * See bundle.h. */
#include "core/file.h"
#include "core/utf8.h"
#include "data/data.h"
#include "show/bundle.h"
#include "show/display.h"
#include "show/gnuplot.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS = 10,
    SHOWN = 2 * COLUMNS,
    SHOWN_MAX = 1000,
    COLUMNS_MAX = 100,
    LARGEST = 64,
    GAP = 4,
    LABEL = 18,
    NUMBERS = 8,
    WORDS = 12
};

/* The layout of samples in one picture, in its pixels. Small samples are magnified; of samples with a side above
 * LARGEST pixels only every `step`-th pixel is shown. */
typedef struct sheet {
    int height, width, channels; /* of a sample */
    int step, zoom;              /* every step-th pixel is shown, zoom × zoom large */
    int tall, wide;              /* height and width of a sample in the picture */
    int across, down;            /* samples per row, rows */
    int label;                   /* height of a label; 0: there are no labels */
    float low, high;             /* the features that are black and white: at most 0, at least 1 */
} sheet;

static bool is_picture(kolo_shape shape)
{
    bool channels = shape.rank == 3 && (shape.dim[2] == 1 || shape.dim[2] == 3);
    return (channels || shape.rank == 2) && shape.dim[0] >= 4 && shape.dim[1] >= 4;
}

/* The samples that are shown. */
typedef struct shown {
    const kolo_data *data;
    int64_t first;
    int count, columns;
    float *features; /* [count][elements] */
    int32_t *labels; /* [count]; -1: the data has no labels, or several per sample */
} shown;

static sheet sheet_of(const shown *of)
{
    const kolo_data *data = of->data;
    const float *features = of->features;
    int count = of->count;
    sheet s = {.height = data->shape.dim[0], .width = data->shape.dim[1], .high = 1};
    s.channels = data->shape.rank == 3 ? data->shape.dim[2] : 1;
    int side = s.height > s.width ? s.height : s.width;
    s.step = (side + LARGEST - 1) / LARGEST;
    s.zoom = side < LARGEST ? LARGEST / side : 1;
    s.tall = (s.height + s.step - 1) / s.step * s.zoom;
    s.wide = (s.width + s.step - 1) / s.step * s.zoom;
    s.across = count < of->columns ? count : of->columns;
    s.down = (count + s.across - 1) / s.across;
    s.label = of->labels[0] < 0 ? 0 : LABEL;
    int64_t total = kolo_shape_count(data->shape) * count;
    for (int64_t i = 0; i < total; i++) {
        if (features[i] < s.low) s.low = features[i];
        if (features[i] > s.high) s.high = features[i];
    }
    return s;
}

/* Writes one pixel of a sample's picture as three bytes. */
static void put_pixel(FILE *script, const sheet *s, const float *sample, int y, int x)
{
    ptrdiff_t row = (ptrdiff_t)y / s->zoom * s->step, column = (ptrdiff_t)x / s->zoom * s->step;
    const float *at = sample + (row * s->width + column) * s->channels;
    for (int i = 0; i < 3; i++) {
        float value = (at[s->channels == 3 ? i : 0] - s->low) / (s->high - s->low);
        fputc(isfinite(value) ? (int)(fminf(fmaxf(value, 0), 1) * 255 + 0.5f) : 0, script);
    }
}

/* Writes the pixels of one row of samples. */
static void put_strip(FILE *script, const sheet *s, const float *features, int first, int count)
{
    ptrdiff_t elements = (ptrdiff_t)s->height * s->width * s->channels;
    for (int y = 0; y < s->tall; y++) {
        for (int x = 0; x < s->across * (s->wide + GAP); x++) {
            int sample = first + x / (s->wide + GAP), column = x % (s->wide + GAP) - GAP / 2;
            if (column >= 0 && column < s->wide && sample < count)
                put_pixel(script, s, features + sample * elements, y, column);
            else fputs("\xff\xff\xff", script);
        }
    }
}

/* A class's name if it is short and needs no quoting, else its number; in a buffer of kolo_phrase(). */
static const char *class_text(const kolo_data *data, int32_t label)
{
    const char *name = data->class_names && label < data->classes ? data->class_names[label] : NULL;
    bool plain = name && *name && strlen(name) < 13;
    for (const char *c = name; plain && *c; c++) plain = isalnum((unsigned char)*c) || strchr(" -_+.", *c);
    return plain ? kolo_phrase("%s", name) : kolo_phrase("%d", (int)label);
}

/* Writes a gnuplot script that draws the samples, each below its label. */
static void write_sheet(FILE *script, const sheet *s, const shown *of)
{
    const int32_t *labels = of->labels;
    int gap = s->label ? s->label : GAP, strip = s->tall + gap, width = s->across * (s->wide + GAP),
        height = s->down * strip, count = of->count;
    fprintf(script, "set terminal pngcairo size %d,%d font 'DejaVu Sans,9' background '#ffffff' noenhanced\n", width,
            height);
    fprintf(script, "unset border\nunset tics\nunset key\nset margins 0,0,0,0\nset xrange [-0.5:%d.5]\n", width - 1);
    fprintf(script, "set yrange [%d.5:-0.5]\n", height - 1);
    for (int i = 0; i < count && labels[i] >= 0; i++)
        fprintf(script, "set label '%s' at %g,%d center textcolor '#333333' noenhanced\n",
                class_text(of->data, labels[i]), (i % s->across + 0.5) * (s->wide + GAP),
                i / s->across * strip + LABEL / 2);
    for (int row = 0; row < s->down; row++)
        fprintf(script, "%s '-' binary array=(%d,%d) origin=(0,%d) format='%%uchar' using 1:2:3 with rgbimage",
                row ? "," : "plot", width, s->tall, row * strip + gap);
    fputc('\n', script);
    for (int row = 0; row < s->down; row++) put_strip(script, s, of->features, row * s->across, count);
}

static kolo_status draw_samples(const shown *of, char **png, size_t *size)
{
    char *text = NULL;
    size_t length = 0;
    sheet s = sheet_of(of);
    FILE *script = open_memstream(&text, &length);
    if (!script) return kolo_fail_memory(1 << 16, "sample images");
    write_sheet(script, &s, of);
    fclose(script);
    kolo_status status = kolo_gnuplot(text, length, png, size);
    free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------ text */

static void write_counts(FILE *out, const kolo_data *data)
{
    enum { CLASSES = 20 };
    int64_t counts[CLASSES] = {0};
    if (data->has_targets) fprintf(out, "\ntargets of shape %s", kolo_shape_text(data->target_shape));
    if (!data->has_labels || data->classes < 1) {
        if (!data->has_targets) fputs("\nno labels", out);
        return;
    }
    fprintf(out, "\n%d %s", data->classes, data->has_tokens ? "words" : "classes");
    if (data->classes > CLASSES || data->label_count > 1) return;
    for (int64_t i = 0; i < data->samples; i++) {
        int32_t label = -1;
        kolo_data_gather(data, NULL, NULL, i, 1, &(kolo_gathered){.labels = &label});
        if (label >= 0 && label < data->classes) counts[label]++;
    }
    for (int k = 0; k < data->classes; k++)
        fprintf(out, "%s%s: %" PRId64, k ? ", " : ", samples of each: ", class_text(data, k), counts[k]);
}

/* Writes the first words of a text, up to the padding; a word without a name as its number in [ ]. */
static void write_words(FILE *out, const kolo_data *data, const float *features)
{
    int64_t elements = kolo_shape_count(data->shape);
    for (int k = 0; k < elements && k < WORDS && features[k] > 0; k++) {
        int word = (int)features[k];
        if (data->class_names && word < data->classes) fprintf(out, "%s%s", k ? " " : ": ", data->class_names[word]);
        else fprintf(out, "%s[%d]", k ? " " : ": ", word);
    }
}

static void write_numbers(FILE *out, const shown *of)
{
    const kolo_data *data = of->data;
    const float *features = of->features;
    const int32_t *labels = of->labels;
    int64_t elements = kolo_shape_count(data->shape);
    for (int i = 0; i < of->count && i < 5; i++) {
        fprintf(out, "\nsample %" PRId64, of->first + i);
        if (labels[i] >= 0) fprintf(out, " (label %s)", class_text(data, labels[i]));
        if (data->has_tokens) {
            write_words(out, data, features + i * elements);
            continue;
        }
        for (int k = 0; k < elements && k < NUMBERS; k++)
            fprintf(out, "%s%.6g", k ? ", " : ": ", (double)features[i * elements + k]);
        if (elements > NUMBERS) fputs(", …", out);
    }
}

/* Replaces bytes that are not UTF-8, which the names of classes may contain. Frees text; the result is from malloc,
 * or NULL. */
static char *repaired(char *text, size_t *size)
{
    char *whole = NULL;
    size_t length = *size;
    FILE *out = text ? open_memstream(&whole, size) : NULL;
    for (size_t i = 0; out && i < length;) {
        size_t bytes = kolo_utf8_size(text + i, length - i);
        if (bytes) fwrite(text + i, 1, bytes, out);
        else fputs(KOLO_UTF8_UNKNOWN, out);
        i += bytes ? bytes : 1;
    }
    if (out) fclose(out);
    free(text);
    return whole;
}

static char *describe(const shown *of, size_t *size)
{
    const kolo_data *data = of->data;
    char *text = NULL;
    FILE *out = open_memstream(&text, size);
    if (!out) return NULL;
    fprintf(out, "%" PRId64 " samples of shape %s", data->samples, kolo_shape_text(data->shape));
    if (data->source[0]) fprintf(out, ", from %s", data->source);
    write_counts(out, data);
    if (is_picture(data->shape)) {
        for (int i = 0; i < of->count && i < SHOWN && of->labels[i] >= 0; i++)
            fprintf(out, "%s%s",
                    i           ? ", "
                    : of->first ? "\nlabels: "
                                : "\nthe first labels: ",
                    class_text(data, of->labels[i]));
    } else {
        write_numbers(out, of);
    }
    fclose(out);
    return repaired(text, size);
}

/* ------------------------------------------------------------------------------------------ the samples that are shown
 */

static kolo_status gather(shown *of)
{
    int64_t elements = kolo_shape_count(of->data->shape);
    bool fits = elements > 0 && elements * of->count < 1 << 28;
    of->features = fits ? calloc((size_t)(elements * of->count), sizeof *of->features) : NULL;
    of->labels = calloc((size_t)of->count, sizeof *of->labels);
    if (!of->features || !of->labels) return kolo_fail_memory((size_t)(elements * of->count) * 4, "samples to show");
    for (int i = 0; i < of->count; i++) of->labels[i] = -1;
    int32_t *labels = of->data->label_count == 1 ? of->labels : NULL;
    kolo_gather_call call = {.training = true, .stoppable = true}; /* augmented as in step 0 */
    kolo_gathered to = {.features = of->features, .labels = labels};
    return kolo_data_gather(of->data, &call, NULL, of->first, of->count, &to);
}

static void release(shown *of)
{
    free(of->features), free(of->labels);
}

char *kolo_data_bundle(const kolo_data *data)
{
    if (!data || data->samples < 1 || data->shape.rank < 1 || data->shape.rank > 4) return NULL;
    shown of = {.data = data, .count = data->samples < SHOWN ? (int)data->samples : SHOWN, .columns = COLUMNS};
    char *png = NULL, *json = NULL, *text = NULL;
    size_t png_size = 0, text_size = 0;
    kolo_scope scope = kolo_enter("showing data", (kolo_here){0});
    kolo_status status = gather(&of);
    if (status == KOLO_OK) text = describe(&of, &text_size);
    if (status == KOLO_OK && is_picture(data->shape)) status = draw_samples(&of, &png, &png_size);
    kolo_mime forms[] = {{"text/plain", text, text_size, false}, {"image/png", png, png_size, false}};
    if (text) kolo_display_json(forms, png ? 2 : 1, &json);
    kolo_leave(scope, status);
    release(&of), free(text), free(png);
    return json;
}

static kolo_status check(const kolo_plot_samples_args *args)
{
    kolo_data_info info = kolo_data_get_info(args->data);
    if (!args->data) return kolo_failed() ? KOLO_INVALID : kolo_fail(KOLO_INVALID, "wanted data, got NULL");
    if (args->first < 0 || args->first >= info.samples)
        return kolo_fail(KOLO_INVALID, "first: wanted one of %" PRId64 " samples, got %" PRId64, info.samples,
                         args->first);
    if (args->count < 0 || args->count > SHOWN_MAX)
        return kolo_fail(KOLO_INVALID, "count: wanted 1 to %d samples, got %d", SHOWN_MAX, args->count);
    if (args->columns < 0 || args->columns > COLUMNS_MAX)
        return kolo_fail(KOLO_INVALID, "columns: wanted 1 to %d, got %d", COLUMNS_MAX, args->columns);
    if (args->file && !(strlen(args->file) > 4 && kolo_ends_with(args->file, ".png")))
        return kolo_fail(KOLO_INVALID, "wanted a .file that ends in .png, got \"%s\"", args->file);
    if (args->file && !is_picture(args->data->shape))
        return kolo_fail(KOLO_INVALID,
                         "file: wanted samples that are pictures, {height, width} or with 1 or 3 channels"
                         ", got samples of shape %s",
                         kolo_shape_text(args->data->shape));
    return KOLO_OK;
}

static kolo_status show(const shown *of, const char *file)
{
    char *png = NULL, *text = NULL;
    size_t png_size = 0, text_size = 0;
    kolo_status status = KOLO_OK;
    if (is_picture(of->data->shape) && (file || kolo_display_expected())) status = draw_samples(of, &png, &png_size);
    if (status == KOLO_OK && file) status = kolo_file_write(file, png, png_size);
    text = describe(of, &text_size);
    kolo_mime forms[] = {{"text/plain", text, text_size, false}, {"image/png", png, png_size, false}};
    if (status == KOLO_OK && text) status = kolo_display_bundle(NULL, forms, png ? 2 : 1);
    free(text), free(png);
    return status;
}

static kolo_status plot_samples(const kolo_plot_samples_args *args)
{
    KOLO_TRY(check(args));
    int64_t left = args->data->samples - args->first;
    shown of = {.data = args->data, .first = args->first, .count = args->count ? args->count : SHOWN};
    of.columns = args->columns ? args->columns : COLUMNS;
    if (of.count > left) of.count = (int)left;
    kolo_status status = gather(&of);
    if (status == KOLO_OK) status = show(&of, args->file);
    release(&of);
    return status;
}

kolo_status kolo_plot_samples_at(const kolo_plot_samples_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_plot_samples", here);
    return kolo_leave(scope, plot_samples(args));
}
