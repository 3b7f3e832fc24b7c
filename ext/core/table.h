/* Tables of texts for printing; each column is as wide as its widest cell. */
#ifndef KOLO_CORE_TABLE_H
#define KOLO_CORE_TABLE_H

#include <stdio.h>

#include "core/error.h"

#define KOLO_TABLE_COLUMNS 20

typedef struct kolo_table kolo_table;

/* Makes a table with headings[columns]. Columns from number `numbers` on are right-aligned. The table must be closed on
 * failure, too. */
kolo_status kolo_table_open(int columns, int numbers, const char *const *headings, kolo_table **table);
/* Adds a row with copies of cells[columns]. */
kolo_status kolo_table_add(kolo_table *table, const char *const *cells);
void kolo_table_write(FILE *out, const kolo_table *table);
void kolo_table_print(const kolo_table *table); /* on stdout */
void kolo_table_close(kolo_table **table); /* *table may be NULL */

/* Formats 1234567 as "1.2 MB", in a buffer of kolo_phrase(). */
const char *kolo_bytes_text(double bytes);

#endif
