/* The objects that a new worker, or a rank, has to load: those of cells that defined something which still stands.
 * An object that only ran, or whose definitions have been replaced, is forgotten with its file, so that a long session
 * stays small.
 * Read first: session.h, cells/symbols.h. */
#define _GNU_SOURCE
#include "loads.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Which load fills a slot. */
typedef struct filling {
    char *slot;
    size_t by;
} filling;

static int by_slot(const void *a, const void *b)
{
    return strcmp(((const filling *)a)->slot, ((const filling *)b)->slot);
}

static void free_filling(void *one)
{
    free(((filling *)one)->slot);
    free(one);
}

static void forget(load *l)
{
    if (l->path) unlink(l->path);
    free(l->path);
    free(l->payload);
    *l = (load){0};
}

static void fill(session *s, const char *slot, size_t by)
{
    filling wanted = {.slot = (char *)(uintptr_t)slot};
    filling **found = tfind(&wanted, &s->fillings, by_slot);
    s->loads[by].fills++;
    if (!found) {
        filling *one = need_zeroed(sizeof *one);
        *one = (filling){copy_of(slot), by};
        need(tsearch(one, &s->fillings, by_slot));
        return;
    }
    load *before = &s->loads[(*found)->by];
    (*found)->by = by;
    if (--before->fills == 0 && !before->founds) forget(before);
}

void loads_add(session *s, const char *path, text *payload, bool founds)
{
    s->loads = need_grown(s->loads, s->load_count, &s->load_capacity, sizeof *s->loads);
    size_t at = s->load_count++, size = payload->size;
    s->loads[at] = (load){.path = copy_of(path), .size = size, .payload = text_take(payload), .founds = founds};
    const char *p = s->loads[at].payload, *end = p + size;
    p += strlen(p) + 1; /* the path */
    p += strlen(p) + 1; /* a library */
    while (p < end) {
        fill(s, p, at);
        p += strlen(p) + 1;
        p += strlen(p) + 1; /* the definition */
    }
}

void loads_settle(session *s)
{
    load *last = s->load_count ? &s->loads[s->load_count - 1] : NULL;
    bool heap = names_have(&s->worker.environment, "KOLO_HEAP_CHECK=1"); /* lists blocks by the lines of such cells */
    if (last && !last->founds && !last->fills && !heap) forget(last);
}

bool loads_again(session *s)
{
    for (size_t i = 0; i < s->load_count; i++) {
        const load *l = &s->loads[i];
        if (l->size && worker_ask(&s->worker, MESSAGE_LOAD, l->payload, l->size) != OUTCOME_ANSWER) return false;
    }
    return true;
}

void loads_clear(session *s)
{
    for (size_t i = 0; i < s->load_count; i++) forget(&s->loads[i]);
    tdestroy(s->fillings, free_filling);
    free(s->loads);
    s->loads = NULL;
    s->fillings = NULL;
    s->load_count = s->load_capacity = 0;
}
