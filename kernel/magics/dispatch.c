/* A cell as the user wrote it: `%%magic` cells, `%magic` lines among C, `name?`. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "help/help.h"
#include "print.h"
#include "run.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static size_t name_size(const char *p)
{
    size_t size = 0;
    while (isalnum((unsigned char)p[size]) || p[size] == '_') size++;
    return size;
}

static result unknown(const session *s, const char *name, size_t size, bool whole_cell)
{
    const char *percent = whole_cell ? "%%" : "%";
    if (!size) return error_result("UsageError", "a magic's name must follow %s (%%lsmagic lists them)", percent);
    char *said = about_unknown_magic(s, name, size, whole_cell);
    result r = error_result("UnknownMagic", "%s", said);
    free(said);
    return r;
}

static const magic *with_form(const session *s, const char *name, size_t size, bool whole_cell)
{
    const char *alias = whole_cell ? magic_alias(name, size) : NULL;
    if (alias) size = strlen(name = alias);
    for (const magic *m = s->magics; m->name; m++) {
        bool form = whole_cell ? m->cell != NULL : m->line != NULL;
        if (form && strlen(m->name) == size && !memcmp(m->name, name, size)) return m;
    }
    return NULL;
}

/* Notes where a magic's words stand. */
static void note_place(session *s, const char *code, const char *words)
{
    size_t at = (size_t)(words - code);
    s->word_line = line_number(code, at);
    s->word_column = (unsigned)(at - line_start(code, at));
}

/* `at` is the '%' of a line magic. */
static result run_line_magic(session *s, const char *code, const char *at, const char *name)
{
    const char *word = at + 1 + strspn(at + 1, " \t");
    size_t size = name_size(word);
    const magic *m = with_form(s, word, size, false);
    if (m) {
        const char *rest = word + size + strspn(word + size, " \t");
        note_place(s, code, rest);
        size_t length = strcspn(rest, "\n");
        while (length && isspace((unsigned char)rest[length - 1])) length--;
        char *words = copy_of_bytes(rest, length);
        if (!m->quiet) journal_comment(&s->journal, at, strcspn(at, "\n"));
        s->journal.paused += !m->runs_code;
        result r = m->line(s, words, name);
        s->journal.paused -= !m->runs_code;
        free(words);
        return r;
    }
    const magic *other = with_form(s, word, size, true);
    if (other)
        return error_result("UsageError", "%%%%%s is for whole cells: write %s in the first line", other->name,
                            other->usage);
    return unknown(s, word, size, false);
}

/* `code` is the cell from its magic on. */
static result run_cell_magic(session *s, const char *whole, const char *code, const char *name)
{
    const char *word = code + 2 + strspn(code + 2, " \t");
    size_t size = name_size(word), line = strcspn(code, "\n");
    const magic *m = with_form(s, word, size, true);
    if (!m && with_form(s, word, size, false))
        return error_result("UsageError", "%%%.*s is for a line: write it with one %%", (int)size, word);
    if (!m) return unknown(s, word, size, true);
    const char *rest = word + size + strspn(word + size, " \t");
    note_place(s, whole, rest);
    size_t length = (size_t)(code + line - rest);
    while (length && isspace((unsigned char)rest[length - 1])) length--;
    char *words = copy_of_bytes(rest, length);
    if (!m->quiet) journal_comment(&s->journal, code, strlen(code));
    s->journal.paused += !m->runs_code;
    result r = m->cell(s, words, code[line] ? code + line + 1 : code + line, name);
    s->journal.paused -= !m->runs_code;
    free(words);
    return r;
}

/* Is the line `%name …`? It may be C's remainder still. */
static bool like_magic(const char *line)
{
    const char *p = line + strspn(line, " \t");
    if (*p != '%') return false;
    const char *word = p + 1 + strspn(p + 1, " \t");
    return isalpha((unsigned char)*word) || !*word || *word == '\n';
}

/* Could a statement begin at that line? Not within brackets, not after an operator. */
static bool statement_may_begin(const char *code, const char *line)
{
    char *before = copy_of_bytes(code, (size_t)(line - code));
    cell c = cell_split(before);
    const piece *last = c.count ? &c.pieces[c.count - 1] : NULL;
    bool open = c.unbalanced || (last && last->kind == PIECE_EXPRESSION && last->last > 0);
    cell_free(&c);
    free(before);
    return !open;
}

/* Runs the C between two magic lines; lines before it are blank, so that its messages have the cell's line numbers. */
static result run_stretch(session *s, const char *code, size_t begin, size_t end, const char *name)
{
    text lines = {0};
    for (size_t i = 0; i < begin; i++) {
        if (code[i] == '\n') text_add(&lines, "\n");
    }
    size_t blank = begin;
    while (blank < end && isspace((unsigned char)code[blank])) blank++;
    text_add_bytes(&lines, code + begin, end - begin);
    result r = {0};
    if (blank < end && no_assigned_magic(s, lines.data, name, &r)) r = run_c(s, lines.data, name);
    text_free(&lines);
    return r;
}

enum { MOST_REMAINDERS = 100 };

result run_stretches(session *s, const char *code, const char *name)
{
    result r = {0};
    size_t begin = 0, at = 0, total = strlen(code);
    unsigned remainders = 0; /* each has cost a look at all that stands before it */
    while (at < total && !r.failed) {
        size_t line = strcspn(code + at, "\n");
        bool like = remainders < MOST_REMAINDERS && like_magic(code + at);
        bool found = like && statement_may_begin(code + begin, code + at);
        remainders += like && !found;
        if (found) {
            r = run_stretch(s, code, begin, at, name);
            if (!r.failed) r = run_line_magic(s, code, code + at + strspn(code + at, " \t"), name);
            begin = at + line;
        }
        at += line + (code[at + line] == '\n');
    }
    if (!r.failed && begin < total) {
        result_free(&r);
        r = run_stretch(s, code, begin, total, name);
    }
    return r;
}

/* `printf?` as the last line below C. No C ends with a '?'. */
static char *question_below(const char *code, size_t *line, int *detail)
{
    size_t end = strlen(code);
    while (end && isspace((unsigned char)code[end - 1])) end--;
    *line = line_start(code, end);
    char *last = copy_of_bytes(code + *line, end - *line);
    char *asked = *line ? question_of(last + strspn(last, " \t"), detail) : NULL;
    free(last);
    return asked;
}

static result answer(session *s, char *asked, int detail)
{
    result r = answer_question(s, asked, detail);
    free(asked);
    return r;
}

static bool only_marks(const char *start)
{
    size_t marks = strspn(start, "?");
    return marks && !start[marks + strspn(start + marks, " \t\r\n")];
}

static result run_with_question(session *s, const char *code, size_t line, const char *name, char *asked, int detail)
{
    char *above = copy_of_bytes(code, line);
    result r = run_stretches(s, above, name);
    free(above);
    if (r.failed) {
        free(asked);
        return r;
    }
    result_free(&r);
    return answer(s, asked, detail);
}

result run_cell(session *s, const char *code, const char *name)
{
    const char *start = code + strspn(code, " \t\r\n");
    int detail = 0;
    size_t line;
    char *asked = question_of(start, &detail);
    if (asked) return answer(s, asked, detail);
    if (only_marks(start)) {
        print_out(s, "NAME? shows help on a name or a magic, as in %time?; %lsmagic lists the magics\n");
        return (result){0};
    }
    if (start[0] == '%' && start[1] == '%') return run_cell_magic(s, code, start, name);
    asked = question_below(code, &line, &detail);
    return asked ? run_with_question(s, code, line, name, asked, detail) : run_stretches(s, code, name);
}
