/* The present value of a variable, read from the worker while no cell runs. See help_page.h. */
#define _GNU_SOURCE
#include "help/help_page.h"

#include <stdlib.h>
#include <string.h>

static bool address_of(session *s, const char *link, uint64_t *address)
{
    machine *m = &s->machine;
    if (machine_ask(m, MESSAGE_ADDRESS, link, strlen(link) + 1) != OUTCOME_ANSWER || m->last.code) return false;
    *address = m->last.address;
    return true;
}

/* A long value is cut: a page of help is no place for an array of thousands. */
static void add_shown(text *facts, const char *shown)
{
    enum { LIMIT = 400 };
    size_t size = strlen(shown);
    bool cut = size > LIMIT;
    while (cut && size > LIMIT) size--;
    while (cut && size && ((unsigned char)shown[size] & 0xc0) == 0x80) size--;
    text_addf(facts, "value: %.*s%s\n", (int)size, shown, cut ? "…" : "");
}

void add_value(session *s, const entity *e, CXType type, text *facts)
{
    uint64_t address = 0;
    bool there = e->link && e->size && e->defined && !e->threads && type.kind != CXType_Invalid;
    if (!there || s->cell_waiting || !machine_has_worker(&s->machine) || !address_of(s, e->link, &address)) return;
    memory worker = worker_memory(s);
    json_t *bundle = value_bundle(&worker, type, address, e->size);
    const char *shown = json_string_value(json_object_get(bundle, "text/plain"));
    if (shown) add_shown(facts, shown);
    json_decref(bundle);
}
