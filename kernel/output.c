#define _GNU_SOURCE
#include "output.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BURST  1200000.0 /* bytes at once; BURST + 3 s x RATE stays below the server's 3 MB in 3 s */
#define RATE   550000.0  /* bytes a second */
#define WINDOW 3.0       /* seconds over which the server counts */
#define CAP    (5u << 20)
#define CHUNK  65536u
#define LINGER 0.03

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
    o->capped = false;
    text_clear(&o->pending);
    o->partial_size[1] = o->partial_size[2] = 0;
    if (first) {
        o->credit = BURST;
        o->credit_time = seconds_now();
    }
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

static void cap(output *o)
{
    o->capped = true;
    output_flush(o);
    static const char notice[] = "\n[this cell's output goes on; more than 5 MB is not shown]\n";
    send_stream(o, 2, notice, sizeof notice - 1);
}

void output_add(output *o, int stream, const char *bytes, size_t size)
{
    o->total += size;
    if (o->capped || !size) return;
    if (o->pending.size && o->stream != stream) output_flush(o);
    if (!o->pending.size) o->since = seconds_now();
    o->stream = stream;
    text joined = {0};
    text_add_bytes(&joined, o->partial[stream], o->partial_size[stream]);
    o->partial_size[stream] = 0;
    text_add_bytes(&joined, bytes, size);
    append_valid(o, stream, joined.data, joined.size);
    text_free(&joined);
    if (o->pending.size >= CHUNK) output_flush(o);
    if (o->total > CAP) cap(o);
}

void output_flush(output *o)
{
    if (!o->pending.size) return;
    send_stream(o, o->stream, o->pending.data, o->pending.size);
    text_clear(&o->pending);
}

void output_end(output *o)
{
    output_flush(o);
    for (int stream = 1; stream <= 2; stream++) {
        if (o->partial_size[stream] && !o->capped) send_stream(o, stream, "\xef\xbf\xbd", 3);
        o->partial_size[stream] = 0;
    }
}

double output_delay(const output *o)
{
    if (!o->pending.size) return -1;
    double left = o->since + LINGER - seconds_now();
    return left > 0 ? left : 0;
}

void output_tick(output *o)
{
    if (o->pending.size && seconds_now() >= o->since + LINGER) output_flush(o);
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
