#define _GNU_SOURCE
#include "output.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST            1200000.0 /* bytes at once; BURST + 3 s x RATE stays below the server's 3 MB in 3 s */
#define RATE             550000.0  /* bytes a second */
#define WINDOW           3.0       /* seconds over which the server counts */
#define CAP              (5u << 20)
#define LINES            20000u  /* a notebook's page with many more freezes */
#define LAST             2000u   /* bytes of the end that are shown all the same */
#define CHUNK            65536u
#define LINGER           0.03
#define HOLD             0.12    /* seconds that a question may wait for its scanf */
#define LONGEST_QUESTION 200u

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void output_begin(output *o, const front *f, bool silent)
{
    bool first = !o->front;
    o->front = f;
    o->silent = silent;
    o->total = 0;
    o->capped = o->holds = false;
    o->lines = o->left_lines = o->left_bytes = 0;
    text_clear(&o->last);
    text_clear(&o->pending);
    o->partial_size[1] = o->partial_size[2] = 0;
    if (first) {
        o->credit = BURST;
        o->credit_time = seconds_now();
    }
}

void output_free(output *o)
{
    text_free(&o->pending);
    text_free(&o->last);
}

static void spend(output *o, size_t bytes)
{
    double now = seconds_now();
    o->credit += (now - o->credit_time) * RATE;
    if (o->credit > BURST) o->credit = BURST;
    o->credit_time = now;
    if (bytes) o->sent_last = now;
    o->credit -= (double)bytes;
    if (o->credit < -WINDOW * RATE) o->credit = -WINDOW * RATE; /* what lies further back than that is forgotten */
}

static void send_stream(output *o, int stream, const char *bytes, size_t size)
{
    if (o->silent || !size) return;
    json_t *content = json_pack("{s:s, s:s%}", "name", stream == 1 ? "stdout" : "stderr", "text", bytes, size);
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    json_decref(content);
    if (!dump) return;
    spend(o, strlen(dump));
    o->front->publish(o->front->self, "stream", dump);
    free(dump);
}

/* The length of the character at `p`, 0 when it may continue beyond `size`, negative when it is no UTF-8. */
static int character(const unsigned char *p, size_t size)
{
    if (*p < 0x80) return *p ? 1 : -1;
    int length = *p >= 0xf0 && *p < 0xf5 ? 4 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xc2 && *p < 0xe0 ? 2 : -1;
    if (length < 0) return -1;
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= size) return 0;
        if ((p[i] & 0xc0) != 0x80) return -1;
    }
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
        (*p == 0xf4 && p[1] > 0x8f))
        return -1;
    return length;
}

static void append_valid(output *o, int stream, const char *bytes, size_t size)
{
    size_t at = 0, from = 0;
    while (at < size) {
        int length = character((const unsigned char *)bytes + at, size - at);
        if (length > 0) {
            at += (size_t)length;
            continue;
        }
        text_add_bytes(&o->pending, bytes + from, at - from);
        if (length == 0) {
            o->partial_size[stream] = size - at;
            memcpy(o->partial[stream], bytes + at, size - at);
            return;
        }
        text_add(&o->pending, "\xef\xbf\xbd");
        from = ++at;
    }
    text_add_bytes(&o->pending, bytes + from, at - from);
}

/* From here on the cell's output is counted, and its end kept. */
static void leave_out(output *o, const char *bytes, size_t size)
{
    o->left_bytes += size;
    for (size_t i = 0; i < size; i++) o->left_lines += bytes[i] == '\n';
    if (size > LAST) bytes += size - LAST, size = LAST;
    if (o->last.size + size > 2 * LAST) {
        size_t drop = o->last.size - LAST;
        memmove(o->last.data, o->last.data + drop, LAST + 1);
        o->last.size = LAST;
    }
    text_add_bytes(&o->last, bytes, size);
}

/* The bytes that may still be shown: up to the last line, or byte, of the cell's share. */
static size_t within_share(output *o, const char *bytes, size_t size)
{
    size_t room = o->total < CAP ? CAP - o->total : 0, most = size < room ? size : room;
    for (size_t i = 0; i < most; i++) {
        o->lines += bytes[i] == '\n';
        if (o->lines >= LINES) return i + 1;
    }
    return most;
}

/* Says how much output was left out, and shows its last lines. */
static void tell_what_was_left(output *o)
{
    if (!o->left_bytes) return;
    const char *end = o->last.data ? o->last.data : "";
    size_t from = o->last.size > LAST ? o->last.size - LAST : 0;
    const char *line = o->left_bytes > LAST ? strchr(end + from, '\n') : NULL;
    if (line) from = (size_t)(line + 1 - end);
    while (from < o->last.size && character((const unsigned char *)end + from, o->last.size - from) <= 0) from++;
    char *said =
        format_text("\n[%zu lines (%.1f MB) of this cell's output are left out here. All of it goes into a file "
                    "with freopen(\"all.txt\", \"w\", stdout); as the cell's first line. The last lines:]\n",
                    o->left_lines, (double)o->left_bytes / 1e6);
    send_stream(o, 2, said, strlen(said));
    free(said);
    text_clear(&o->pending);
    o->partial_size[1] = 0;
    append_valid(o, 1, end + from, o->last.size - from);
    send_stream(o, 1, o->pending.data ? o->pending.data : "", o->pending.size);
    text_clear(&o->pending);
    o->left_bytes = 0;
}

void output_add(output *o, int stream, const char *bytes, size_t size)
{
    if (!size) return;
    size_t shown = o->capped ? 0 : within_share(o, bytes, size);
    o->total += size;
    if (shown < size || o->capped) leave_out(o, bytes + shown, size - shown);
    if (o->capped || !shown) {
        o->capped = true;
        return;
    }
    if (o->pending.size && o->stream != stream) output_flush(o);
    if (!o->pending.size) o->since = seconds_now();
    o->stream = stream;
    text joined = {0};
    text_add_bytes(&joined, o->partial[stream], o->partial_size[stream]);
    o->partial_size[stream] = 0;
    text_add_bytes(&joined, bytes, shown);
    append_valid(o, stream, joined.data, joined.size);
    text_free(&joined);
    if (o->pending.size >= CHUNK || shown < size) output_flush(o);
    o->capped |= shown < size;
}

void output_flush(output *o)
{
    if (!o->pending.size) return;
    send_stream(o, o->stream, o->pending.data, o->pending.size);
    text_clear(&o->pending);
}

/* Where the line begins that may be a question; the end of what is pending when there is none. */
static size_t question_begin(const output *o)
{
    size_t begin = o->pending.size;
    if (!begin || o->stream != 1) return begin;
    while (begin > 0 && !strchr("\n\r", o->pending.data[begin - 1])) begin--;
    return o->pending.size - begin > LONGEST_QUESTION ? o->pending.size : begin;
}

static void flush_up_to(output *o, size_t end)
{
    send_stream(o, o->stream, o->pending.data, end);
    memmove(o->pending.data, o->pending.data + end, o->pending.size - end + 1);
    o->pending.size -= end;
}

char *output_take_question(output *o)
{
    size_t begin = question_begin(o);
    if (begin == o->pending.size) {
        output_flush(o);
        return copy_of("");
    }
    char *question = copy_of(o->pending.data + begin);
    flush_up_to(o, begin);
    text_clear(&o->pending);
    return question;
}

void output_end(output *o)
{
    output_flush(o);
    for (int stream = 1; stream <= 2; stream++) {
        if (o->partial_size[stream] && !o->capped) send_stream(o, stream, "\xef\xbf\xbd", 3);
        o->partial_size[stream] = 0;
    }
    tell_what_was_left(o);
}

double output_delay(const output *o)
{
    if (!o->pending.size) return -1;
    bool question = o->holds && question_begin(o) == 0;
    double left = o->since + (question ? HOLD : LINGER) - seconds_now();
    return left > 0 ? left : 0;
}

void output_tick(output *o)
{
    double passed = seconds_now() - o->since;
    if (!o->pending.size || passed < LINGER) return;
    size_t begin = o->holds && passed < HOLD ? question_begin(o) : o->pending.size;
    if (begin == o->pending.size) output_flush(o);
    else if (begin) flush_up_to(o, begin);
}

bool output_has_room(output *o)
{
    if (o->capped) return true;
    spend(o, 0);
    return o->credit > 0;
}

bool output_may_publish(output *o, size_t bytes)
{
    spend(o, 0);
    if (o->silent || (double)bytes <= o->credit) return true;
    return (double)bytes > BURST && seconds_now() > o->sent_last + WINDOW;
}

void output_publish(output *o, const char *type, const char *content)
{
    output_flush(o);
    if (o->silent) return;
    spend(o, strlen(content));
    o->front->publish(o->front->self, type, content);
}
