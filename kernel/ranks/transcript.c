#define _GNU_SOURCE
#include "ranks/transcript.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST = 64 * 1024 }; /* bytes of a line */

static const double UNFINISHED = 0.2; /* seconds after which an unfinished line is shown */

void transcript_begin(transcript *t, output *out, int count)
{
    transcript_free(t);
    *t = (transcript){
        .out = out, .count = count, .bar = -1, .outputs = need_zeroed((size_t)count * sizeof(rank_output))};
}

void transcript_free(transcript *t)
{
    for (int i = 0; i < t->count; i++) {
        for (int stream = 1; stream <= 2; stream++) {
            text_free(&t->outputs[i].unit[stream]);
            text_free(&t->outputs[i].drawn[stream]);
        }
        text_free(&t->outputs[i].said);
    }
    free(t->outputs);
    text_free(&t->bar_text);
    *t = (transcript){.bar = -1};
}

static void print(transcript *t, int stream, const text *words)
{
    if (words->size) output_add(t->out, stream, words->data, words->size);
    t->printed += words->size;
}

/* Columns of a text: bytes that begin a character, colours left out. */
static int columns_of(const text *line)
{
    int columns = 0;
    for (size_t i = 0; i < line->size; i++) {
        if (line->data[i] == '\033' && i + 1 < line->size && line->data[i + 1] == '[') {
            for (i += 2; i < line->size && (unsigned char)line->data[i] < 0x40; i++) continue;
        } else if (((unsigned char)line->data[i] & 0xc0) != 0x80) {
            columns++;
        }
    }
    return columns;
}

static void erase_bar(transcript *t)
{
    if (t->bar < 0) return;
    text blank = {0};
    text_addf(&blank, "\r%*s\r", columns_of(&t->bar_text), "");
    print(t, t->bar_stream, &blank);
    text_free(&blank);
}

static void forget_bar(transcript *t)
{
    t->bar = -1;
    text_clear(&t->bar_text);
}

static void tag(text *into, int rank, const text *unit)
{
    text_addf(into, "[%d] ", rank);
    text_add_bytes(into, unit->data ? unit->data : "", unit->size);
    if (unit->data && memchr(unit->data, '\033', unit->size)) text_add(into, "\033[0m");
}

/* There is room for one bar below the lines: the lowest rank's. */
static void show_bar(transcript *t, int rank, int stream, const text *unit)
{
    if (!unit->size || (t->bar >= 0 && t->bar < rank)) return;
    erase_bar(t);
    forget_bar(t);
    t->bar = rank;
    t->bar_stream = stream;
    tag(&t->bar_text, rank, unit);
    print(t, stream, &t->bar_text);
}

static void emit(transcript *t, int rank, int stream, text *unit)
{
    rank_output *v = &t->outputs[rank];
    text line = {0};
    tag(&line, rank, unit);
    text_add(&line, "\n");
    erase_bar(t);
    if (t->bar == rank && t->bar_stream == stream) forget_bar(t);
    print(t, stream, &line);
    if (t->bar >= 0) print(t, t->bar_stream, &t->bar_text);
    char mark = STDERR_MARK;
    if (stream == 2) text_add_bytes(&v->said, &mark, 1);
    text_add_bytes(&v->said, unit->data ? unit->data : "", unit->size);
    text_add(&v->said, "\n");
    v->count++;
    t->total += line.size;
    text_free(&line);
    text_clear(unit);
}

/* The end of a line. After "\r\n" the line is what stood before the "\r". */
static void end_line(transcript *t, int rank, int stream)
{
    rank_output *v = &t->outputs[rank];
    bool returned = !v->unit[stream].size && v->drawn[stream].size;
    emit(t, rank, stream, returned ? &v->drawn[stream] : &v->unit[stream]);
    text_clear(&v->drawn[stream]);
    v->since[stream] = 0;
}

static void take_return(rank_output *v, int stream)
{
    if (!v->unit[stream].size) return;
    text_clear(&v->drawn[stream]);
    text_add_bytes(&v->drawn[stream], v->unit[stream].data, v->unit[stream].size);
    text_clear(&v->unit[stream]);
}

void transcript_add(transcript *t, int rank, int stream, const char *bytes, size_t size)
{
    rank_output *v = &t->outputs[rank];
    bool redrawn = false;
    for (size_t at = 0; at < size;) {
        size_t run = 0;
        while (at + run < size && bytes[at + run] != '\n' && bytes[at + run] != '\r') run++;
        text_add_bytes(&v->unit[stream], bytes + at, run);
        if (v->unit[stream].size && v->since[stream] == 0) v->since[stream] = seconds_now();
        at += run;
        if (at == size) break;
        redrawn = bytes[at] == '\r';
        if (redrawn) take_return(v, stream);
        else end_line(t, rank, stream);
        at++;
    }
    if (v->unit[stream].size > LONGEST) end_line(t, rank, stream);
    redrawn = redrawn || v->drawn[stream].size;
    if (redrawn) show_bar(t, rank, stream, v->unit[stream].size ? &v->unit[stream] : &v->drawn[stream]);
}

void transcript_tick(transcript *t)
{
    double now = seconds_now();
    for (int rank = 0; rank < t->count; rank++) {
        for (int stream = 1; stream <= 2; stream++) {
            rank_output *v = &t->outputs[rank];
            if (v->since[stream] == 0 || now - v->since[stream] < UNFINISHED) continue;
            v->since[stream] = 0;
            show_bar(t, rank, stream, &v->unit[stream]);
        }
    }
}

void transcript_end(transcript *t, int rank)
{
    for (int stream = 1; stream <= 2; stream++) {
        if (t->outputs[rank].unit[stream].size || t->outputs[rank].drawn[stream].size) end_line(t, rank, stream);
    }
}
