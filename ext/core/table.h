/* A table of texts in columns as wide as their widest, for calls that print one. */
#ifndef KOLO_CORE_TABLE_H
#define KOLO_CORE_TABLE_H

#include <stdio.h>

#include "core/error.h"

#define KOLO_TABLE_COLUMNS 20

typedef struct kolo_table kolo_table;

/* The headings; columns from `numbers` on are set to the right. */
kolo_status kolo_table_open(int columns, int numbers, const char *const *headings, kolo_table **table);
/* cells[columns], each copied. */
kolo_status kolo_table_add(kolo_table *table, const char *const *cells);
void kolo_table_write(FILE *out, const kolo_table *table);
void kolo_table_print(const kolo_table *table); /* on stdout */
void kolo_table_close(kolo_table **table);      /* takes NULL */

/* 1234567 as "1.2 MB". In the thread's ring of texts, like kolo_phrase(). */
const char *kolo_bytes_text(double bytes);

#endif
