/* Plots that were checked and can be written as a gnuplot script; shared by plot.c and plot_script.c. */
#ifndef KOLO_SHOW_PLOT_H
#define KOLO_SHOW_PLOT_H

#include "core/error.h"

#include <stdio.h>

typedef enum kolo_picture { KOLO_PICTURE_SVG, KOLO_PICTURE_PNG, KOLO_PICTURE_TEXT } kolo_picture;

typedef struct kolo_plot_plan {
    const kolo_plot_args *args;
    int series;            /* number of series */
    int longest;           /* points of the longest series */
    int width, height;     /* pixels */
    int columns, rows;     /* characters, for the text form */
    double x_low, x_high;  /* range of the points that can be drawn */
    double y_low, y_high;
    bool whole_x;          /* all x are whole numbers: epochs, ranks */
    bool doubling_x;       /* all x are powers of two, at least 1 */
} kolo_plot_plan;

/* Point i of a series; NaN where it cannot be drawn (not finite, or not above 0 on a logarithmic axis). */
double kolo_plot_x(const kolo_plot_plan *plan, int series, int i);
double kolo_plot_y(const kolo_plot_plan *plan, int series, int i);

/* The usual size of one of several panels, pixels: two fit side by side into a notebook's cell. */
enum { KOLO_PANEL_WIDTH = 370, KOLO_PANEL_HEIGHT = 300 };

/* Writes a script that draws panels in rows of at most two, each of the first one's size. As text: only one panel.
 */
void kolo_plot_script(FILE *script, const kolo_plot_plan *plans, int count, kolo_picture picture);

/* plot.c: blanks in an SVG of gnuplot what a reader would see beside the picture: default titles, and the XML
 * declaration. */
void kolo_plot_blank(char *svg);
/* plot.c: checks a plot, except its .file, and fills in the plan; draws panels into *bytes, from malloc. */
kolo_status kolo_plot_check(const kolo_plot_args *args, kolo_plot_plan *plan);
kolo_status kolo_plot_draw(const kolo_plot_plan *plans, int count, kolo_picture picture, char **bytes, size_t *size);
/* Writes panels to `file`, unless it is NULL, and shows them in the notebook or terminal. Without gnuplot shows
 * tables, and fails with KOLO_UNSUPPORTED. */
kolo_status kolo_plot_show(const kolo_plot_plan *plans, int count, const char *file);

#endif
