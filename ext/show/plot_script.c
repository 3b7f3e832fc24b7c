/* The gnuplot script of a plot. Text from the user is quoted by quote(), and shown with `noenhanced`, so that no
 * character has a special meaning. */
#include "show/plot.h"

#include <math.h>
#include <string.h>

/* Okabe and Ito's colours, which colour-blind people can distinguish, without their yellow, too light on white. */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555"};
#define COLOURS ((int)(sizeof colours / sizeof *colours))

#define BAR_GROUP 0.8 /* width of a group of bars, as a fraction of the distance between two labels */

/* Whether a character has no meaning to gnuplot. Others are written as octal escapes ("\\047") in double quotes,
 * where gnuplot would execute `commands` and interpret escapes. Single quotes are no alternative: they lose a text
 * that begins with one. */
static bool harmless(unsigned char c)
{
    return c > ' ' && !strchr("\"\\'`@$", c);
}

static void quote(FILE *script, const char *text)
{
    fputc('"', script);
    for (; text && *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (harmless(c)) fputc(c, script);
        else if (c <= ' ') fputc(' ', script);
        else fprintf(script, "\\%03o", c);
    }
    fputc('"', script);
}

/* Quotes the label of a tick, which is a format: a % is doubled. */
static void quote_label(FILE *script, const char *label)
{
    char text[256];
    size_t used = 0;
    for (; *label && used < sizeof text - 2; label++) {
        text[used++] = *label;
        if (*label == '%') text[used++] = '%';
    }
    text[used] = 0;
    quote(script, text);
}

static void set_text(FILE *script, const char *what, const char *text, const char *how)
{
    if (!text || !*text) return;
    fprintf(script, "set %s ", what);
    quote(script, text);
    fprintf(script, " noenhanced %s\n", how);
}

static void set_terminal(FILE *script, const kolo_plot_plan *plan, int rows, int columns, kolo_picture picture)
{
    int width = plan->width * columns, height = plan->height * rows;
    if (picture == KOLO_PICTURE_SVG)
        fprintf(script,
                "set terminal svg size %d,%d font 'DejaVu Sans,Helvetica,Arial,sans-serif,12' background '#ffffff' "
                "noenhanced\n",
                width, height);
    else if (picture == KOLO_PICTURE_PNG)
        fprintf(script, "set terminal pngcairo size %d,%d font 'DejaVu Sans,9' background '#ffffff' noenhanced\n",
                width, height);
    else fprintf(script, "set terminal dumb size %d,%d noenhanced\n", plan->columns, plan->rows);
}

static void set_look(FILE *script, const kolo_plot_plan *plan, kolo_picture picture)
{
    bool drawn = picture != KOLO_PICTURE_TEXT;
    fputs("set encoding utf8\nset tics nomirror out scale 0.5\n", script);
    if (drawn) {
        fputs("set border 3 linecolor '#666666' linewidth 1\nset tics textcolor '#333333'\n"
              "set grid ytics linecolor '#dddddd' linewidth 1 linetype 1, linecolor '#eeeeee' linewidth 1 linetype 1\n",
              script);
        if (!plan->args->labels) fputs("set grid xtics\n", script);
    }
    set_text(script, "title", plan->args->title, drawn ? "textcolor '#222222'" : "");
    set_text(script, "xlabel", plan->args->x_label, drawn ? "textcolor '#333333'" : "");
    set_text(script, "ylabel", plan->args->y_label, drawn ? "textcolor '#333333'" : "");
    bool named = plan->series > 1 || (plan->args->series[0].name && *plan->args->series[0].name);
    if (named)
        fputs("set key bmargin center horizontal reverse Left noenhanced samplen 2.5 height 1\n",
              script); /* never over the data */
    else fputs("set key off\n", script);
}

/* ------------------------------------------------------------------------------------------ values over bars */

/* Approximately, in pixels. */
#define CHARACTER_WIDTH  7.5
#define CHARACTER_HEIGHT 12
#define MARGIN_WIDTH     90 /* of axis and borders */
#define MARGIN_HEIGHT    120
#define VALUE_MAX        32

typedef enum values { VALUES_NONE, VALUES_ACROSS, VALUES_UPRIGHT } values;

static const char *value_text(double value, char text[VALUE_MAX])
{
    snprintf(text, VALUE_MAX, fabs(value) >= 1000 && fabs(value) < 1e9 ? "%.0f" : "%.3g", value);
    return text;
}

/* The width of the longest value, in pixels. */
static double label_pixels(const kolo_plot_plan *plan)
{
    size_t longest = 0;
    char text[VALUE_MAX];
    for (int s = 0; s < plan->series; s++) {
        for (int i = 0; i < plan->args->series[s].count; i++) {
            size_t length = strlen(value_text(kolo_plot_y(plan, s, i), text));
            if (length > longest) longest = length;
        }
    }
    return CHARACTER_WIDTH * (double)(longest + 1);
}

/* How values are written over their bars: across if they fit, else upright, else not at all; they never overlap. */
static values values_of(const kolo_plot_plan *plan, kolo_picture picture)
{
    if (picture == KOLO_PICTURE_TEXT) return VALUES_NONE;
    double bar = (plan->width - MARGIN_WIDTH) / (double)plan->longest * BAR_GROUP / plan->series;
    double label = label_pixels(plan);
    if (label <= bar) return VALUES_ACROSS;
    return bar >= CHARACTER_HEIGHT && plan->height - MARGIN_HEIGHT >= 3 * label ? VALUES_UPRIGHT : VALUES_NONE;
}

/* Writes values above positive bars and below negative ones. */
static void plot_values(FILE *script, const kolo_plot_plan *plan, kolo_picture picture)
{
    static const char *const above[] = {
        [VALUES_ACROSS] = "offset 0,0.6", [VALUES_UPRIGHT] = "rotate left offset 0,0.4"};
    static const char *const below[] = {
        [VALUES_ACROSS] = "offset 0,-0.6", [VALUES_UPRIGHT] = "rotate right offset 0,-0.4"};
    values shown = values_of(plan, picture);
    for (int s = 0; shown != VALUES_NONE && s < plan->series; s++) {
        const char *plots = ", $series%d using 1:(%s ? $2 : NaN):3 with labels %s textcolor '#333333' notitle";
        fprintf(script, plots, s, "$2 >= 0", above[shown]);
        if (plan->y_low < 0) fprintf(script, plots, s, "$2 < 0", below[shown]);
    }
}

/* ------------------------------------------------------------------------------------------ axes */

/* A logarithmic axis, in pixels, or in characters as text. */
typedef struct axis {
    char name; /* x or y */
    double low, high;
    double length, character; /* of the axis; of a character, along the axis */
} axis;

static axis axis_of(const kolo_plot_plan *plan, kolo_picture picture, char name, double low, double high)
{
    bool across = name == 'x';
    if (picture == KOLO_PICTURE_TEXT) return (axis){name, low, high, across ? plan->columns - 12 : plan->rows - 7, 1};
    return (axis){name, low, high, across ? plan->width - MARGIN_WIDTH : plan->height - MARGIN_HEIGHT,
                  across ? CHARACTER_WIDTH : CHARACTER_HEIGHT};
}

/* Counts the ticks in[i] · 10^n that lie on the axis, and writes them as "1, 2, 5, 10" unless script is NULL. in[]
 * ends with 0. A negative count: the labels would touch. */
static int decade_ticks(FILE *script, const axis *a, const double *in)
{
    int count = 0;
    double end = -a->length;
    bool touch = false;
    for (int decade = (int)floor(log10(a->low)); decade <= (int)floor(log10(a->high)); decade++) {
        for (int i = 0; in[i] > 0; i++) {
            char label[VALUE_MAX];
            double tick = in[i] * pow(10, decade), at = a->length * log(tick / a->low) / log(a->high / a->low);
            if (tick < a->low || tick > a->high) continue;
            int letters = snprintf(label, sizeof label, "%.3g", tick);
            double half = a->character * (a->name == 'x' ? letters + 1 : 1) / 2;
            touch = touch || at - half < end;
            end = at + half;
            if (script) fprintf(script, "%s%s", count ? ", " : "", label);
            count++;
        }
    }
    return touch ? -count : count;
}

/* Writes evenly spaced ticks. Their step is 1, 2 or 5 times a power of ten, at most a quarter of the axis. */
static void even_ticks(FILE *script, double low, double high)
{
    double about = (high - low) / 4, power = pow(10, floor(log10(about))), steps = about / power;
    double step = power * (steps < 2 ? 1 : steps < 5 ? 2 : 5), first = ceil(low / step);
    for (int i = 0; (first + i) * step <= high; i++) fprintf(script, "%s%.10g", i ? ", " : "", (first + i) * step);
}

/* Chooses the ticks of an axis of few decades, on which gnuplot would label one number or none. If even the numbers
 * of `more` are too coarse, the axis is nearly linear and gets evenly spaced ticks. */
static void set_log_ticks(FILE *script, axis a)
{
    static const double some[] = {1, 2, 5, 0}, more[] = {1, 1.5, 2, 3, 4, 5, 7, 0};
    const int enough = 4;
    int few = decade_ticks(NULL, &a, some), many = decade_ticks(NULL, &a, more);
    if (few <= -enough) return; /* leaves gnuplot's ticks: one per decade, or fewer */
    const double *in = few >= enough ? some : many >= enough ? more : many <= -enough && few > 1 ? some : NULL;
    fprintf(script, "set %ctics (", a.name);
    if (in) decade_ticks(script, &a, in);
    else even_ticks(script, a.low, a.high);
    fputs(")\n", script);
}

/* Sets the x axis, with a little room around the points; whole numbers get whole ticks. */
static void set_x(FILE *script, const kolo_plot_plan *plan, kolo_picture picture)
{
    double low = plan->x_low, high = plan->x_high, span = high - low;
    if (plan->args->log_x) {
        fprintf(script, "set logscale x %d\n", plan->doubling_x ? 2 : 10);
        double room = high > low ? pow(high / low, 0.04) : 1.5;
        fprintf(script, "set xrange [%.17g:%.17g]\nset format x '%s'\n", low / room, high * room,
                plan->doubling_x ? "%.0f" : "%g");
        if (!plan->doubling_x) set_log_ticks(script, axis_of(plan, picture, 'x', low / room, high * room));
        return;
    }
    double room = span > 0 ? 0.03 * span : 0.5;
    fprintf(script, "set xrange [%.17g:%.17g]\n", low - room, high + room);
    if (plan->whole_x && span <= 16) fputs("set xtics 1\n", script);
}

/* The room above and below the values, as a fraction of the range from the lowest to the highest. */
static double room_of(const kolo_plot_plan *plan, kolo_picture picture)
{
    if (!plan->args->labels) return plan->args->log_y ? 0.08 : 0.05;
    double upright = label_pixels(plan), all = plan->height - MARGIN_HEIGHT;
    return values_of(plan, picture) == VALUES_UPRIGHT ? upright / (all - upright) : 0.12;
}

static void set_y(FILE *script, const kolo_plot_plan *plan, kolo_picture picture)
{
    bool bars = plan->args->labels, zero = (plan->args->y_from_zero || bars) && !plan->args->log_y;
    double low = plan->y_low, high = plan->y_high, share = room_of(plan, picture);
    if (zero) low = fmin(low, 0), high = fmax(high, 0);
    if (plan->args->log_y) {
        double room = high > low ? pow(high / low, share) : 1.5;
        low /= bars ? 2 * room : room, high *= room;
        fprintf(script, "set logscale y 10\nset format y '%%g'\nset yrange [%.17g:%.17g]\n", low, high);
        set_log_ticks(script, axis_of(plan, picture, 'y', low, high));
        return;
    }
    double span = high > low ? high - low : fabs(high) > 0 ? fabs(high) : 1, room = share * span;
    fprintf(script, "set yrange [%.17g:%.17g]\n", zero && low >= 0 ? 0 : low - room,
            zero && high <= 0 && low < 0 ? 0 : high + room);
}

/* ------------------------------------------------------------------------------------------ data */

/* Writes a point. One that cannot be drawn becomes an empty line, at which gnuplot interrupts the curve. */
static void write_point(FILE *script, double x, double y)
{
    char value[VALUE_MAX];
    if (isnan(x) || isnan(y)) fputc('\n', script);
    else fprintf(script, "%.17g %.17g %s\n", x, y, value_text(y, value));
}

static void write_data(FILE *script, const kolo_plot_plan *plan)
{
    double width = BAR_GROUP / plan->series;
    for (int s = 0; s < plan->series; s++) {
        fprintf(script, "$series%d << KOLO_END_OF_DATA\n", s);
        for (int i = 0; i < plan->args->series[s].count; i++) {
            double x = plan->args->labels ? i + (s - (plan->series - 1) / 2.0) * width : kolo_plot_x(plan, s, i);
            write_point(script, x, kolo_plot_y(plan, s, i));
        }
        fputs("KOLO_END_OF_DATA\n", script);
    }
}

static void name_series(FILE *script, const kolo_plot_plan *plan, int s)
{
    const char *name = plan->args->series[s].name;
    if (!name || !*name) {
        fputs(" notitle", script);
        return;
    }
    fputs(" title ", script);
    quote(script, name);
}

static bool is_gap(const kolo_plot_plan *plan, int s, int i)
{
    bool there = i >= 0 && i < plan->args->series[s].count;
    return !there || isnan(kolo_plot_x(plan, s, i)) || isnan(kolo_plot_y(plan, s, i));
}

/* Whether a point lies between two gaps, so that a curve without points would not show it. */
static bool any_alone(const kolo_plot_plan *plan)
{
    for (int s = 0; s < plan->series; s++)
        for (int i = 0; i < plan->args->series[s].count; i++)
            if (is_gap(plan, s, i - 1) && !is_gap(plan, s, i) && is_gap(plan, s, i + 1)) return true;
    return false;
}

static void plot_lines(FILE *script, const kolo_plot_plan *plan, kolo_picture picture)
{
    bool many = plan->longest > 60 && !any_alone(plan); /* points would run together */
    for (int s = 0; s < plan->series; s++) {
        fprintf(script, "%s $series%d using 1:2 with %s", s ? "," : "plot", s, many ? "lines" : "linespoints");
        if (picture != KOLO_PICTURE_TEXT)
            fprintf(script, " linecolor '%s' linewidth 2 dashtype %d", colours[s % COLOURS], s < COLOURS ? 1 : 2);
        if (picture != KOLO_PICTURE_TEXT && !many) fprintf(script, " pointtype %d pointsize 0.7", s < COLOURS ? 7 : 5);
        name_series(script, plan, s);
    }
    fputc('\n', script);
}

static void plot_bars(FILE *script, const kolo_plot_plan *plan, kolo_picture picture)
{
    fprintf(script, "set xrange [-0.6:%.17g]\nset boxwidth %.17g\nset style fill solid 0.9 noborder\n",
            plan->longest - 0.4, BAR_GROUP / plan->series * (plan->series > 1 ? 0.92 : 0.8));
    fputs("set xtics (", script);
    for (int i = 0; i < plan->longest; i++) {
        fputs(i ? ", " : "", script);
        quote_label(script, plan->args->labels[i]);
        fprintf(script, " %d", i);
    }
    fputs(") noenhanced\n", script);
    for (int s = 0; s < plan->series; s++) {
        fprintf(script, "%s $series%d using 1:2 with boxes", s ? "," : "plot", s);
        if (picture != KOLO_PICTURE_TEXT) fprintf(script, " linecolor '%s'", colours[s % COLOURS]);
        name_series(script, plan, s);
    }
    plot_values(script, plan, picture);
    fputc('\n', script);
}

static void draw_panel(FILE *script, const kolo_plot_plan *plan, kolo_picture picture)
{
    set_look(script, plan, picture);
    if (!plan->args->labels) set_x(script, plan, picture);
    set_y(script, plan, picture);
    write_data(script, plan);
    (plan->args->labels ? plot_bars : plot_lines)(script, plan, picture);
}

void kolo_plot_script(FILE *script, const kolo_plot_plan *plans, int count, kolo_picture picture)
{
    int columns = count < 2 ? count : 2, rows = (count + columns - 1) / columns;
    set_terminal(script, plans, rows, columns, picture);
    if (count > 1) fprintf(script, "set multiplot layout %d,%d\n", rows, columns);
    for (int i = 0; i < count; i++) draw_panel(script, &plans[i], picture);
    if (count > 1) fputs("unset multiplot\n", script);
}
