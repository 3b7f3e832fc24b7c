/* The present value of a variable, which the worker tells, or which is read from it while a cell runs. See help_page.h.
 */
#define _GNU_SOURCE
#include "help/help_page.h"
#include "values/running.h"
#include "session_worker.h"

#include <stdlib.h>
#include <string.h>

static bool address_of(session *s, const char *link, uint64_t *address)
{
    worker_process *w = &s->worker;
    if (s->cell_waiting) return running_address(s, link, address);
    if (worker_ask(w, MESSAGE_ADDRESS, link, strlen(link) + 1) != OUTCOME_ANSWER || w->last.code) return false;
    *address = w->last.address;
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

json_t *value_now(session *s, const entity *e, CXType type)
{
    uint64_t address = 0;
    bool there = e->link && e->size && e->defined && !e->threads && type.kind != CXType_Invalid;
    if (!there || !worker_is_up(&s->worker) || !address_of(s, e->link, &address)) return NULL;
    memory worker = s->cell_waiting ? running_memory(s) : worker_memory(s);
    return value_bundle(&worker, type, address, e->size);
}

void add_value(session *s, const entity *e, CXType type, text *facts)
{
    json_t *bundle = value_now(s, e, type);
    const char *shown = json_string_value(json_object_get(bundle, "text/plain"));
    if (shown) add_shown(facts, shown);
    json_decref(bundle);
}
