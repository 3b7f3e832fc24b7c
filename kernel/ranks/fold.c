/* The foldable display of what ranks have printed. Read first: transcript.h. */
#include "ranks/transcript.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW = 2,            /* lines of a rank that need no folding */
    LARGEST = 300000,   /* bytes: more stays a stream, which JupyterLab scrolls well */
    OPEN = 60,          /* lines in all up to which the parts are open at first */
};

static void add_escaped(text *into, const char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == '<') text_add(into, "&lt;");
        else if (bytes[i] == '>') text_add(into, "&gt;");
        else if (bytes[i] == '&') text_add(into, "&amp;");
        else text_add_bytes(into, &bytes[i], 1);
    }
}

static const char *colour_of(int code)
{
    static const char *const colours[] = {"#3e424d", "#e75c58", "#00a250", "#ddb62b",
                                          "#208ffb", "#d160c4", "#60c6c8", "#a1a6b2"};
    if (code == 196) return "#ff0000"; /* colours.h: 38;5;196 */
    if (code == 164) return "#d700d7";
    if (code >= 30 && code <= 37) return colours[code - 30];
    return code >= 90 && code <= 97 ? colours[code - 90] : NULL;
}

/* A colour sequence "\033[1;31m" becomes a span; any other is left out. Returns its length. */
static size_t add_colour(text *into, const char *at, size_t size, bool *open)
{
    size_t length = 2;
    while (length < size && (unsigned char)at[length] < 0x40) length++;
    if (length >= size || at[length] != 'm') return length < size ? length + 1 : size;
    if (*open) text_add(into, "</span>");
    *open = false;
    const char *colour = NULL;
    bool bold = false;
    for (const char *p = at + 2; p < at + length;) {
        char *end;
        int code = (int)strtol(p, &end, 10);
        if (code == 38 || code == 48) break; /* "38;5;196", a colour of 256: its numbers are no codes */
        if (colour_of(code)) colour = colour_of(code);
        bold |= code == 1;
        p = end == p ? p + 1 : end;
    }
    if (colour || bold) {
        text_addf(into, "<span style=\"%s%s%s\">", colour ? "color:" : "", colour ? colour : "",
                  !bold    ? ""
                  : colour ? ";font-weight:bold"
                           : "font-weight:bold");
        *open = true;
    }
    return length + 1;
}

static void add_html_line(text *into, const char *line, size_t size)
{
    bool wrong = size && *line == STDERR_MARK, open = false;
    if (wrong) text_add(into, "<span style=\"background:rgba(231,92,88,0.2)\">");
    for (size_t at = wrong ? 1 : 0; at < size;) {
        if (line[at] == '\033' && at + 1 < size && line[at + 1] == '[') {
            at += add_colour(into, line + at, size - at, &open);
        } else {
            add_escaped(into, line + at, 1);
            at++;
        }
    }
    text_add(into, open ? "</span>" : "");
    text_add(into, wrong ? "</span>\n" : "\n");
}

/* A closed part shows its rank's last line. */
static void add_last_line(const rank_output *v, text *html)
{
    size_t end = v->said.size;
    while (end && v->said.data[end - 1] == '\n') end--;
    size_t begin = end;
    while (begin && v->said.data[begin - 1] != '\n') begin--;
    text line = {0};
    add_html_line(&line, v->said.data + begin, end - begin);
    text_addf(html, " · <code>%.*s</code>", line.size ? (int)line.size - 1 : 0, line.data);
    text_free(&line);
}

static void add_rank(const transcript *t, int rank, bool open, text *html, text *plain)
{
    const rank_output *v = &t->outputs[rank];
    text_addf(html, "<details%s><summary style=\"cursor:pointer\"><b>rank %d</b> · %zu %s", open ? " open" : "", rank,
              v->count, v->count == 1 ? "line" : "lines");
    if (!open) add_last_line(v, html);
    text_add(html, "</summary><pre style=\"margin:0 0 0 1em\">");
    for (const char *line = v->said.data; line && *line;) {
        size_t size = strcspn(line, "\n"), mark = *line == STDERR_MARK;
        add_html_line(html, line, size);
        text_addf(plain, "[%d] %.*s\n", rank, (int)(size - mark), line + mark);
        line += size + 1;
    }
    text_add(html, "</pre></details>");
}

/* The output of one rank alone, as of rank 0 in a training run, is shown as it is. */
static bool worth_folding(const transcript *t)
{
    bool many = false;
    int speakers = 0;
    for (int rank = 0; rank < t->count; rank++) {
        many |= t->outputs[rank].count > FEW;
        speakers += t->outputs[rank].count > 0;
    }
    return many && speakers > 1 && !t->displays && !t->dropped && t->printed == t->out->total && !t->out->capped &&
           !t->out->silent && t->total <= LARGEST;
}

void transcript_fold(transcript *t)
{
    if (!worth_folding(t)) return;
    text html = {0}, plain = {0};
    size_t all = 0;
    for (int rank = 0; rank < t->count; rank++) all += t->outputs[rank].count;
    for (int rank = 0; rank < t->count; rank++) {
        if (t->outputs[rank].count) add_rank(t, rank, all <= OPEN, &html, &plain);
    }
    json_t *content = json_pack("{s:{s:s%, s:s%}, s:{}, s:{}}", "data", "text/html", html.data, html.size, "text/plain",
                                plain.data, plain.size, "metadata", "transient");
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) {
        output_publish(t->out, "clear_output", "{\"wait\":true}");
        output_publish(t->out, "display_data", dump);
        t->displays = true;
    }
    free(dump);
    json_decref(content);
    text_free(&html);
    text_free(&plain);
}
