/* kolo_show_timeline: a row for each thread of each rank, a colour for each category. See timeline.h. */
#include "show/timeline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/file.h"
#include "core/utf8.h"
#include "core/written.h"
#include "show/display.h"
#include "show/gnuplot.h"
#include "show/plot.h"

enum {
    ROWS_MOST = 256, /* that are drawn */
    ROW_PIXELS = 18,
    FRAME_PIXELS = 150, /* of title, axis and key */
    LABEL_PIXELS = 190, /* of the rows' names */
    MARGIN_PIXELS = 40, /* beside the key */
    KEY_ROW_PIXELS = 18,
    KEY_COLUMN_PIXELS = 110,
};

/* Colours that a colour-blind reader can tell apart (Okabe and Ito 2008), and letters for a terminal. */
static const struct look {
    const char *colour;
    char letter;
} looks[KOLO_SPANS] = {
    [KOLO_SPAN_STEP] = {"#d0d0d0", '-'},       [KOLO_SPAN_INPUT] = {"#F0E442", 'i'},
    [KOLO_SPAN_FORWARD] = {"#56B4E9", 'f'},    [KOLO_SPAN_BACKWARD] = {"#0072B2", 'b'},
    [KOLO_SPAN_WAIT] = {"#f2b8a8", '.'},       [KOLO_SPAN_PACK] = {"#b59be0", 'p'},
    [KOLO_SPAN_REDUCE] = {"#D55E00", 'r'},     [KOLO_SPAN_UNPACK] = {"#CC79A7", 'u'},
    [KOLO_SPAN_UPDATE] = {"#009E73", 'U'},     [KOLO_SPAN_EXCHANGE] = {"#E69F00", 'x'},
    [KOLO_SPAN_COLLECTIVE] = {"#8c510a", 'c'}, [KOLO_SPAN_VALIDATION] = {"#9ad0c2", 'v'},
    [KOLO_SPAN_SAVE] = {"#000000", 's'},       [KOLO_SPAN_ENQUEUE] = {"#777777", 'e'},
};

/* The rows that are drawn, painted. */
typedef struct drawing {
    const kolo_chart *chart;
    int columns, rows;
    int row[ROWS_MOST]; /* of the chart */
    unsigned char *spans[ROWS_MOST]; /* [columns] */
    int width; /* pixels */
    bool seen[KOLO_SPANS];
} drawing;

static void close_drawing(drawing *d)
{
    for (int i = 0; i < d->rows; i++) free(d->spans[i]);
}

static kolo_status paint_rows(drawing *d)
{
    for (size_t i = 0; i < d->chart->row_count && d->rows < ROWS_MOST; i++) {
        if (!d->chart->rows[i].used) continue;
        KOLO_TRY(kolo_chart_paint(d->chart, (int)i, d->columns, &d->spans[d->rows]));
        d->row[d->rows++] = (int)i;
        for (int c = 0; c < d->columns; c++)
            if (d->spans[d->rows - 1][c] < KOLO_SPANS) d->seen[d->spans[d->rows - 1][c]] = true;
    }
    return KOLO_OK;
}

/* "rank 0, device 0": without the host, which takes much room. */
static const char *label_of(const drawing *d, int row)
{
    const kolo_chart_row *named = &d->chart->rows[d->row[row]];
    int length = (int)strcspn(named->rank, "(");
    while (length > 0 && named->rank[length - 1] == ' ') length--;
    return kolo_phrase("%.*s, %.60s", length, named->rank, named->name);
}

static const char *title_of(const kolo_chart *chart)
{
    if (chart->first < 0) return "The whole recording";
    if (chart->first == chart->last) return kolo_phrase("Step %d", chart->first);
    return kolo_phrase("Steps %d to %d", chart->first, chart->last);
}

/* ---------------------------------------------------------------- a picture */

/* In single quotes gnuplot replaces nothing. */
static void write_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text; text++) {
        if (*text == '\'') fputc('\'', script);
        fputc((unsigned char)*text < 0x20 ? ' ' : *text, script);
    }
    fputc('\'', script);
}

/* gnuplot centres the key below the rows and does not break it. */
static int key_columns(const drawing *d)
{
    int columns = (d->width - LABEL_PIXELS - MARGIN_PIXELS) / KEY_COLUMN_PIXELS;
    return columns < 1 ? 1 : columns;
}

static int key_rows(const drawing *d)
{
    int seen = 0, columns = key_columns(d);
    for (int s = 0; s < KOLO_SPANS; s++) seen += d->seen[s];
    return (seen + columns - 1) / columns;
}

static void write_frame(FILE *script, const drawing *d, kolo_picture picture)
{
    bool svg = picture == KOLO_PICTURE_SVG;
    int height = FRAME_PIXELS + d->rows * ROW_PIXELS + (key_rows(d) - 1) * KEY_ROW_PIXELS;
    fprintf(script, "set terminal %s size %d,%d font '%s' background '#ffffff' noenhanced\nset encoding utf8\n",
            svg ? "svg" : "pngcairo", d->width, height,
            svg ? "DejaVu Sans,Helvetica,Arial,sans-serif,12" : "DejaVu Sans,9");
    fprintf(script,
            "set border 1 linecolor '#666666'\nset tics nomirror out scale 0.5 textcolor '#333333'\n"
            "set key bmargin center horizontal reverse Left noenhanced samplen 1.5 height 1 maxcols %d\n"
            "set style fill solid noborder\nset xlabel 'milliseconds'\nset title ",
            key_columns(d));
    write_quoted(script, title_of(d->chart));
    fprintf(script, "\nset xrange [0:%.6g]\nset yrange [%d:0]\nset ytics scale 0 (",
            (d->chart->end - d->chart->begin) / 1e3, d->rows);
    for (int i = 0; i < d->rows; i++) {
        if (i) fputs(", ", script);
        write_quoted(script, label_of(d, i));
        fprintf(script, " %d.5", i);
    }
    fputs(")\n", script);
}

/* Writes the boxes of one span: neighbouring columns are one box. A key without boxes would be an error. */
static void write_boxes(FILE *script, const drawing *d, int span)
{
    double scale = (d->chart->end - d->chart->begin) / 1e3 / d->columns;
    fprintf(script, "$s%d << EOD\n", span);
    for (int r = 0; r < d->rows; r++)
        for (int c = 0, end; c < d->columns; c = end) {
            for (end = c + 1; end < d->columns && d->spans[r][end] == d->spans[r][c];) end++;
            if (d->spans[r][c] != span) continue;
            fprintf(script, "%.6g %d.5 %.6g %.6g %g %g\n", (c + end) / 2.0 * scale, r, c * scale, end * scale, r + 0.12,
                    r + 0.88);
        }
    fputs("EOD\n", script);
}

static void write_script(FILE *script, const drawing *d, kolo_picture picture)
{
    const char *before = "plot ";
    write_frame(script, d, picture);
    for (int s = 0; s < KOLO_SPANS; s++)
        if (d->seen[s]) write_boxes(script, d, s);
    for (int s = 0; s < KOLO_SPANS; s++) {
        if (!d->seen[s]) continue;
        fprintf(script, "%s$s%d using 1:2:3:4:5:6 with boxxyerror linecolor '%s' title '%s'", before, s,
                looks[s].colour, kolo_timeline_spans[s]);
        before = ", ";
    }
    fputc('\n', script);
}

static kolo_status draw(const drawing *d, kolo_picture picture, char **bytes, size_t *size)
{
    char *text = NULL;
    size_t length = 0;
    FILE *script = open_memstream(&text, &length);
    *bytes = NULL;
    if (!script) return kolo_fail_memory(1 << 14, "a timeline");
    write_script(script, d, picture);
    bool whole = !ferror(script);
    if (fclose(script) != 0 || !whole) {
        free(text);
        return kolo_fail_memory(1 << 14, "a timeline");
    }
    kolo_status status = kolo_gnuplot(text, length, bytes, size);
    free(text);
    if (status == KOLO_OK && picture == KOLO_PICTURE_SVG) kolo_plot_blank(*bytes);
    return status;
}

/* ---------------------------------------------------------------- text */

static int terminal_columns(void)
{
    struct winsize window;
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col >= 60;
    return known ? window.ws_col - 1 : 99;
}

static int label_width(const drawing *d)
{
    int width = 0;
    for (int i = 0; i < d->rows; i++)
        if (kolo_utf8_count(label_of(d, i)) > width) width = kolo_utf8_count(label_of(d, i));
    return width;
}

static void write_text(FILE *out, const drawing *d, int width)
{
    fprintf(out, "%s: %.3f ms\n", title_of(d->chart), (d->chart->end - d->chart->begin) / 1e3);
    for (int r = 0; r < d->rows; r++) {
        const char *label = label_of(d, r);
        fprintf(out, "%s%*s|", label, width - kolo_utf8_count(label), "");
        for (int c = 0; c < d->columns; c++)
            fputc(d->spans[r][c] < KOLO_SPANS ? looks[d->spans[r][c]].letter : ' ', out);
        fputs("|\n", out);
    }
    for (int s = 0; s < KOLO_SPANS; s++)
        if (d->seen[s]) fprintf(out, "%c %s  ", looks[s].letter, kolo_timeline_spans[s]);
    fputc('\n', out);
}

static kolo_status make_text(const kolo_chart *chart, char **text, size_t *size)
{
    drawing d = {.chart = chart, .columns = 1};
    kolo_status status = paint_rows(&d);
    int width = status == KOLO_OK ? label_width(&d) : 0, columns = terminal_columns() - width - 2;
    close_drawing(&d);
    KOLO_TRY(status);
    d = (drawing){.chart = chart, .columns = columns > 20 ? columns : 20};
    status = paint_rows(&d);
    FILE *out = status == KOLO_OK ? open_memstream(text, size) : NULL;
    if (out) write_text(out, &d, width);
    if (out) fclose(out);
    else if (status == KOLO_OK) status = kolo_fail_memory(1 << 14, "a timeline");
    close_drawing(&d);
    return status;
}

/* ---------------------------------------------------------------- the call */

static kolo_status write_picture(const drawing *d, const char *file)
{
    char *bytes;
    size_t size;
    if (!file) return KOLO_OK;
    KOLO_TRY(draw(d, kolo_ends_with(file, ".svg") ? KOLO_PICTURE_SVG : KOLO_PICTURE_PNG, &bytes, &size));
    kolo_status status = kolo_file_write(file, bytes, size);
    free(bytes);
    return status;
}

/* A notebook gets pictures and text, a terminal text alone. */
static kolo_status show_forms(const drawing *d)
{
    static const char *const types[] = {"image/svg+xml", "image/png"}; /* by kolo_picture */
    kolo_mime forms[3];
    char *bytes[3] = {NULL};
    size_t size = 0;
    int count = 0;
    kolo_status status = KOLO_OK;
    for (int p = 0; p < 2 && status == KOLO_OK && kolo_display_expected(); p++) {
        status = draw(d, (kolo_picture)p, &bytes[p], &size);
        if (status == KOLO_OK) forms[count++] = (kolo_mime){types[p], bytes[p], size, false};
    }
    kolo_status written = make_text(d->chart, &bytes[2], &size);
    if (written == KOLO_OK) {
        forms[count++] = (kolo_mime){"text/plain", bytes[2], size, false};
        written = kolo_display_bundle(NULL, forms, count);
    }
    for (int i = 0; i < 3; i++) free(bytes[i]);
    return status == KOLO_OK ? written : status;
}

static kolo_status check(const kolo_show_timeline_args *args)
{
    bool fine = !args->file || kolo_ends_with(args->file, ".svg") || kolo_ends_with(args->file, ".png");
    if (!fine) return kolo_fail(KOLO_INVALID, "wanted a .file that ends in .svg or .png, got \"%s\"", args->file);
    if (args->steps < 0) return kolo_fail(KOLO_INVALID, ".steps: wanted at least 1, got %d", args->steps);
    if (args->step < 0 && args->step != KOLO_NONE)
        return kolo_fail(KOLO_INVALID, ".step: wanted at least 0, got %d", args->step);
    if (args->width == 0 || (args->width >= 300 && args->width <= 8000)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".width: wanted 300 to 8000 pixels, got %d", args->width);
}

static kolo_status show(const kolo_show_timeline_args *args)
{
    kolo_chart chart = {0};
    int step = args->step, width = args->width ? args->width : 740;
    drawing d = {.chart = &chart, .width = width, .columns = width - LABEL_PIXELS};
    kolo_status status;
    KOLO_TRY(check(args));
    kolo_keep_zero_int(args->_, "step", &step);
    KOLO_GO(done, kolo_chart_read(args->path,
                                  step == KOLO_NONE ? 0
                                  : step            ? step
                                                    : -1,
                                  args->steps ? args->steps : 1, &chart));
    KOLO_GO(done, paint_rows(&d));
    KOLO_GO(done, write_picture(&d, args->file));
    status = show_forms(&d);
done:
    close_drawing(&d);
    kolo_chart_close(&chart);
    return status;
}

kolo_status kolo_show_timeline_at(const kolo_show_timeline_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_show_timeline", here);
    return kolo_leave(scope, show(args));
}
