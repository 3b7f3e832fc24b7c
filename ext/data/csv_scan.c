/* The rows and cells of a CSV file: see csv_scan.h. */
#define _GNU_SOURCE
#include "data/csv_scan.h"
#include "core/grow.h"
#include "data/reader.h"

#include <csv.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHUNK        65536
#define COLUMNS_MAX  1000000
#define BETWEEN_ROWS 0 /* libcsv's state before a row's first character */

typedef struct scan {
    const char *path;
    kolo_csv_row row;
    void *user;
    struct csv_parser parser;
    int64_t line, begins; /* number of the current line, and of the first line of its row; from 1 */
    char *text;           /* the row's cells, one after the other, each followed by a 0 */
    size_t size, room;
    kolo_csv_cell *cells;
    size_t count, cell_room;
    kolo_status status;
} scan;

/* ------------------------------------------------------------------------------------------ hooks of libcsv */

static kolo_status add_cell(scan *s, const void *text, size_t length)
{
    if (s->count == COLUMNS_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: line %" PRId64 ": wanted at most %d columns, got more", s->path, s->begins,
                         COLUMNS_MAX);
    if (length && memchr(text, 0, length))
        return kolo_fail(KOLO_FORMAT, "%s: line %" PRId64 ": wanted text, got a byte of 0", s->path, s->begins);
    KOLO_TRY(kolo_make_room(&s->text, &s->room, s->size + length + 1, 1, "a row of a CSV file"));
    KOLO_TRY(kolo_make_room(&s->cells, &s->cell_room, s->count + 1, sizeof *s->cells, "a row of a CSV file"));
    if (length) memcpy(s->text + s->size, text, length);
    s->text[s->size + length] = 0;
    s->cells[s->count++].length = length;
    s->size += length + 1;
    return KOLO_OK;
}

static void on_cell(void *text, size_t length, void *user)
{
    scan *s = user;
    if (s->status == KOLO_OK) s->status = add_cell(s, text, length);
}

static void on_row(int end, void *user)
{
    scan *s = user;
    (void)end;
    char *at = s->text;
    for (size_t i = 0; i < s->count; i++) {
        s->cells[i].text = at;
        at += s->cells[i].length + 1;
    }
    if (s->status == KOLO_OK && s->count > 0) s->status = s->row(s->user, s->begins, s->cells, (int)s->count);
    s->size = s->count = 0;
}

/* ------------------------------------------------------------------------------------------ a file */

static kolo_status parse(scan *s, const char *text, size_t size)
{
    if (csv_parse(&s->parser, text, size, on_cell, on_row, s) == size) return s->status;
    if (s->status != KOLO_OK) return s->status;
    if (csv_error(&s->parser) == CSV_ENOMEM) return kolo_fail_memory(CHUNK, "a row of a CSV file");
    return kolo_fail(KOLO_FORMAT,
                     "%s: line %" PRId64 ": wanted quotes around a whole cell and doubled within, got a"
                     " stray quote",
                     s->path, s->line);
}

/* Parses line by line, because libcsv does not count lines. A row takes several lines if a quoted cell holds a line
 * end. */
static kolo_status parse_lines(scan *s, const char *text, size_t size)
{
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t length = end ? (size_t)(end - text) + 1 : size;
        if (s->parser.pstate == BETWEEN_ROWS) s->begins = s->line;
        KOLO_TRY(parse(s, text, length));
        s->line += end != NULL;
        text += length, size -= length;
    }
    return KOLO_OK;
}

static char likeliest_separator(const char *text, size_t size)
{
    static const char candidates[] = ",;\t|";
    size_t counts[4] = {0}, best = 0;
    bool quoted = false;
    for (size_t i = 0; i < size && (quoted || (text[i] != '\n' && text[i] != '\r')); i++) {
        const char *found = text[i] ? strchr(candidates, text[i]) : NULL;
        if (text[i] == '"') quoted = !quoted;
        else if (found && !quoted) counts[found - candidates]++;
    }
    for (size_t i = 1; i < 4; i++)
        if (counts[i] > counts[best]) best = i;
    return candidates[best];
}

/* Looks at the file's first chunk: skips a byte order mark, and sets the separator. */
static kolo_status begin(scan *s, char separator, const char **text, size_t *size)
{
    if (*size >= 2 && (memcmp(*text, "\xff\xfe", 2) == 0 || memcmp(*text, "\xfe\xff", 2) == 0))
        return kolo_fail(KOLO_FORMAT, "%s: wanted text in UTF-8, got UTF-16", s->path);
    if (*size >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0) *text += 3, *size -= 3;
    csv_set_delim(&s->parser, (unsigned char)(separator ? separator : likeliest_separator(*text, *size)));
    return KOLO_OK;
}

static kolo_status scan_file(scan *s, kolo_reader *file, char separator, char *chunk)
{
    for (bool first = true;; first = false) {
        int64_t got;
        const char *text = chunk;
        KOLO_TRY(kolo_reader_read(file, chunk, CHUNK, &got));
        size_t size = (size_t)got;
        if (first) KOLO_TRY(begin(s, separator, &text, &size));
        KOLO_TRY(parse_lines(s, text, size));
        if (got < CHUNK) break;
    }
    if (csv_fini(&s->parser, on_cell, on_row, s) != 0)
        return kolo_fail(KOLO_FORMAT, "%s: line %" PRId64 ": truncated: a quoted cell that begins here has no end",
                         s->path, s->begins);
    return s->status;
}

kolo_status kolo_csv_scan(const char *path, char separator, kolo_csv_row row, void *user)
{
    kolo_reader *file;
    scan s = {.path = path, .row = row, .user = user, .line = 1, .begins = 1};
    KOLO_TRY(kolo_reader_open(&file, path, "a CSV file"));
    char *chunk = malloc(CHUNK);
    if (!chunk || csv_init(&s.parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        kolo_reader_close(file);
        free(chunk);
        return kolo_fail_memory(CHUNK, "reading a CSV file");
    }
    csv_set_blk_size(&s.parser, CHUNK);
    kolo_status status = scan_file(&s, file, separator, chunk);
    csv_free(&s.parser);
    kolo_reader_close(file);
    free(chunk), free(s.text), free(s.cells);
    return status;
}

/* ------------------------------------------------------------------------------------------ cells */

static bool infinity(const char *text, double *number)
{
    bool negative = *text == '-';
    if (*text == '-' || *text == '+') text++;
    if (strcasecmp(text, "inf") != 0 && strcasecmp(text, "infinity") != 0) return false;
    *number = negative ? -__builtin_inf() : __builtin_inf();
    return true;
}

/* A decimal number: ±mantissa · 10^exponent, if `exact`. */
typedef struct decimal {
    uint64_t mantissa;
    int exponent;
    bool negative, exact; /* digits that the mantissa does not hold are all 0 */
} decimal;

static const char *read_digits(const char *at, decimal *d, int shift, int *digits)
{
    for (; *at >= '0' && *at <= '9'; at++, ++*digits) {
        if (d->mantissa < 1000000000000000000u) {
            d->mantissa = d->mantissa * 10 + (uint64_t)(*at - '0');
            d->exponent += shift;
        } else {
            d->exact = d->exact && *at == '0';
            d->exponent += shift + 1;
        }
    }
    return at;
}

static bool read_decimal(const char *at, decimal *d)
{
    int digits = 0;
    *d = (decimal){.negative = *at == '-', .exact = true};
    if (*at == '-' || *at == '+') at++;
    at = read_digits(at, d, 0, &digits);
    if (*at == '.') at = read_digits(at + 1, d, -1, &digits);
    if (digits == 0) return false;
    if (*at == 'e' || *at == 'E') {
        bool negative = at[1] == '-';
        int exponent = 0;
        at += 1 + (at[1] == '-' || at[1] == '+');
        if (*at < '0' || *at > '9') return false;
        for (; *at >= '0' && *at <= '9'; at++) exponent = exponent < 100000 ? exponent * 10 + (*at - '0') : exponent;
        d->exponent += negative ? -exponent : exponent;
    }
    return *at == 0;
}

/* Where mantissa and power of ten are exact, one multiplication or division rounds correctly (Clinger 1990). */
bool kolo_csv_number(kolo_csv_cell cell, locale_t c, double *number)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal d;
    if (cell.length == 0 || cell.length > 1000000 || strlen(cell.text) != cell.length) return false;
    if (!read_decimal(cell.text, &d)) return infinity(cell.text, number);
    while (d.mantissa > 0 && d.mantissa % 10 == 0 && d.exponent < 0) d.mantissa /= 10, d.exponent++;
    if (d.exact && d.mantissa <= (uint64_t)1 << 53 && d.exponent >= -22 && d.exponent <= 22) {
        double value = (double)d.mantissa;
        value = d.exponent < 0 ? value / powers[-d.exponent] : value * powers[d.exponent];
        *number = d.negative ? -value : value;
    } else *number = strtod_l(cell.text, NULL, c);
    return true;
}

bool kolo_csv_missing(kolo_csv_cell cell, const char *text)
{
    static const char *const words[] = {"NA", "N/A", "NaN", "-NaN", "NULL", "None", "<NA>"};
    if (cell.length == 0 || (text && strcmp(cell.text, text) == 0)) return true;
    if (cell.length > 4) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(cell.text, words[i]) == 0) return true;
    return false;
}
