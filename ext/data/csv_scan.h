/* The rows of a CSV file, parsed by libcsv: RFC 4180 with quotes, any line ends, with or without a byte order mark. */
#ifndef KOLO_DATA_CSV_SCAN_H
#define KOLO_DATA_CSV_SCAN_H

#include "core/error.h"

#include <locale.h>

typedef struct kolo_csv_cell {
    const char *text; /* followed by a 0 that length does not count */
    size_t length;
} kolo_csv_cell;

/* Called for each row that is not empty; `line` is the number of its first line, from 1. A failure ends the scan. */
typedef kolo_status (*kolo_csv_row)(void *user, int64_t line, const kolo_csv_cell *cells, int count);

/* Calls row(user, …) for each row. separator 0: the one of , ; tab and | that occurs most often in the first line. */
kolo_status kolo_csv_scan(const char *path, char separator, kolo_csv_row row, void *user);

/* Whether a whole cell is a decimal number, or "inf" or "infinity" with or without a sign. *number is rounded
 * correctly; `c` is the "C" locale, in which the decimal separator is a point. */
bool kolo_csv_number(kolo_csv_cell cell, locale_t c, double *number);
/* Whether a cell means a missing value: it is empty, NA, N/A, NaN, -NaN, NULL, None or <NA> in any case, or equals
 * `text`, which may be NULL. */
bool kolo_csv_missing(kolo_csv_cell cell, const char *text);

#endif
