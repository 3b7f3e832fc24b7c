/* A plot, checked and ready to be written as a gnuplot script: what plot.c and plot_script.c share. */
#ifndef KOLO_SHOW_PLOT_H
#define KOLO_SHOW_PLOT_H

#include "core/error.h"

#include <stdio.h>

typedef enum kolo_picture { KOLO_PICTURE_SVG, KOLO_PICTURE_PNG, KOLO_PICTURE_TEXT } kolo_picture;

typedef struct kolo_plot_plan {
    const kolo_plot_args *args;
    int series;            /* that have points */
    int longest;           /* points of the longest */
    int width, height;     /* pixels */
    int columns, rows;     /* characters, of the text form */
    double x_low, x_high;  /* of the points that can be drawn */
    double y_low, y_high;
    bool whole_x;          /* x are whole numbers: epochs, ranks */
    bool doubling_x;       /* and all of them powers of two */
} kolo_plot_plan;

/* Point i of a series; NaN where it cannot be drawn (not finite, or not above 0 on a logarithmic axis). */
double kolo_plot_x(const kolo_plot_plan *plan, int series, int i);
double kolo_plot_y(const kolo_plot_plan *plan, int series, int i);

/* Panels in rows of at most three, of the size of the first; as text, one alone. */
void kolo_plot_script(FILE *script, const kolo_plot_plan *plans, int count, kolo_picture picture);

/* plot.c: an SVG of gnuplot's without the names that browsers would show as tips. */
void kolo_plot_blank_titles(char *svg);
/* plot.c: checks a plot (not its .file), and draws panels into *bytes, from malloc. */
kolo_status kolo_plot_check(const kolo_plot_args *args, kolo_plot_plan *plan);
kolo_status kolo_plot_draw(const kolo_plot_plan *plans, int count, kolo_picture picture, char **bytes, size_t *size);
/* Shows panels where the reader is, and writes them to `file` unless NULL; as a table where there is no gnuplot. */
kolo_status kolo_plot_show(const kolo_plot_plan *plans, int count, const char *file);

#endif
