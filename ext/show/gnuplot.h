/* Runs gnuplot as a child process, to draw one picture. */
#ifndef KOLO_SHOW_GNUPLOT_H
#define KOLO_SHOW_GNUPLOT_H

#include "core/error.h"

/* Runs a script. Its standard output becomes *output, from malloc, followed by a 0. KOLO_UNSUPPORTED: there is no
 * gnuplot. gnuplot is killed after twenty seconds. */
kolo_status kolo_gnuplot(const char *script, size_t script_size, char **output, size_t *output_size);

#endif
