/* Texts in columns: see table.h. */
#include "core/table.h"

#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"

struct kolo_table {
    int columns, numbers, rows;
    char *(*cells)[KOLO_TABLE_COLUMNS]; /* [rows]; row 0 has the headings */
};

kolo_status kolo_table_open(int columns, int numbers, const char *const *headings, kolo_table **table)
{
    *table = calloc(1, sizeof **table);
    if (!*table) return kolo_fail_memory(sizeof **table, "a table");
    (*table)->columns = columns;
    (*table)->numbers = numbers;
    return kolo_table_add(*table, headings);
}

kolo_status kolo_table_add(kolo_table *table, const char *const *cells)
{
    size_t bytes = (size_t)(table->rows + 1) * sizeof *table->cells;
    char *(*grown)[KOLO_TABLE_COLUMNS] = realloc(table->cells, bytes);
    if (!grown) return kolo_fail_memory(bytes, "a table");
    table->cells = grown;
    char **row = grown[table->rows++];
    bool fine = true;
    for (int c = 0; c < KOLO_TABLE_COLUMNS; c++) {
        row[c] = c < table->columns ? strdup(cells[c]) : NULL;
        fine = fine && (row[c] || c >= table->columns);
    }
    return fine ? KOLO_OK : kolo_fail_memory(bytes, "a table");
}

static int column_width(const kolo_table *table, int column)
{
    int widest = 0;
    for (int r = 0; r < table->rows; r++) {
        int own = kolo_utf8_count(table->cells[r][column]);
        if (own > widest) widest = own;
    }
    return widest;
}

static void write_row(FILE *out, const kolo_table *table, int row, const int *widths)
{
    for (int c = 0; c < table->columns; c++) {
        const char *cell = table->cells[row][c], *gap = c > 0 ? "  " : "";
        int padding = widths[c] - kolo_utf8_count(cell);
        bool last = c == table->columns - 1;
        if (c >= table->numbers) fprintf(out, "%s%*s%s", gap, padding, "", cell);
        else fprintf(out, "%s%s%*s", gap, cell, last ? 0 : padding, "");
    }
    fputc('\n', out);
}

void kolo_table_write(FILE *out, const kolo_table *table)
{
    int widths[KOLO_TABLE_COLUMNS] = {0}, all = -2;
    for (int c = 0; c < table->columns; c++) {
        widths[c] = column_width(table, c);
        all += widths[c] + 2;
    }
    for (int r = 0; r < table->rows; r++) {
        write_row(out, table, r, widths);
        for (int i = 0; r == 0 && i < all; i++) fprintf(out, "─%s", i == all - 1 ? "\n" : "");
    }
}

void kolo_table_print(const kolo_table *table)
{
    kolo_table_write(stdout, table);
    fflush(stdout);
}

void kolo_table_close(kolo_table **table)
{
    kolo_table *closed = *table;
    *table = NULL;
    if (!closed) return;
    for (int r = 0; r < closed->rows; r++)
        for (int c = 0; c < closed->columns; c++) free(closed->cells[r][c]);
    free(closed->cells);
    free(closed);
}

const char *kolo_bytes_text(double bytes)
{
    if (bytes < 1e3) return kolo_phrase("%.0f B", bytes);
    if (bytes < 1e6) return kolo_phrase("%.1f KB", bytes / 1e3);
    if (bytes < 1e9) return kolo_phrase("%.1f MB", bytes / 1e6);
    return kolo_phrase("%.1f GB", bytes / 1e9);
}
