/* The rows of a CSV file, by libcsv: RFC 4180 with quotes, any line ends, a byte order mark or none. */
#ifndef KOLO_DATA_CSV_SCAN_H
#define KOLO_DATA_CSV_SCAN_H

#include "core/error.h"

#include <locale.h>

typedef struct kolo_csv_cell {
    const char *text; /* followed by a 0 that length does not count */
    size_t length;
} kolo_csv_cell;

/* Called for each row that is not empty; `line` is where it begins, from 1. */
typedef kolo_status (*kolo_csv_row)(void *user, int64_t line, const kolo_csv_cell *cells, int count);

/* separator 0: the one of , ; tab and | that the first line has most of. */
kolo_status kolo_csv_scan(const char *path, char separator, kolo_csv_row row, void *user);

/* Whether a whole cell is a decimal number, or "inf" or "infinity" with or without a sign. Rounded correctly; `c` is
 * the "C" locale, in which a number has a point. */
bool kolo_csv_number(kolo_csv_cell cell, locale_t c, double *number);
/* Whether a cell says that there is nothing: empty, NA, N/A, NaN, NULL, None in any case, or `text` if that is given.*/
bool kolo_csv_missing(kolo_csv_cell cell, const char *text);

#endif
