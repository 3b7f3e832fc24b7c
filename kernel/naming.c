/* Link names: the compiler's `f` is `f$1` for the loader. Read first: build.h, cells/symbols.h. */
#define _GNU_SOURCE
#include "build.h"
#include "worker/protocol.h"
#include "session_worker.h"

#include <stdlib.h>
#include <string.h>

static const char *own(build *b, char *string)
{
    names_add(&b->owned, string);
    free(string);
    return b->owned.items[b->owned.count - 1];
}

static void add_link(build *b, const char *name, const char *link, const char *definition)
{
    b->links = need_grown(b->links, b->link_count, &b->link_capacity, sizeof *b->links);
    const char *kept = own(b, copy_of(link));
    b->links[b->link_count++] = (link_name){own(b, copy_of(name)), kept, definition == link ? kept : definition};
}

static char *new_link(build *b, const char *name)
{
    return format_text("%s$%u", name, symbols_next_version(b->s->symbols, name));
}

static entity *old_of(const build *b, const entity *e)
{
    return symbols_find_bytes(b->s->symbols, 'o', e->name, strlen(e->name));
}

bool library_has(session *s, const char *name)
{
    return ensure_worker(s) && worker_ask(&s->worker, MESSAGE_RESOLVE, name, strlen(name) + 1) == OUTCOME_ANSWER &&
           s->worker.payload_size == 0;
}

static void bind(build *b, const char *slot_of, const char *definition)
{
    char *slot = format_text("%s$slot", slot_of);
    text_add_bytes(&b->bindings, slot, strlen(slot) + 1);
    text_add_bytes(&b->bindings, definition, strlen(definition) + 1);
    free(slot);
}

static void bind_trap(build *b, const char *link)
{
    char *trap = format_text("%s$none", link);
    bind(b, link, trap);
    free(trap);
}

static bool is_stale(const build *b, const entity *e)
{
    for (size_t i = 0; i < b->stale_count; i++) {
        if (b->stale[i].function == e) return true;
    }
    return false;
}

/* `int f()` says nothing of parameters: it is the same function as `int f(int)`. */
static bool same_function(const entity *old, const entity *e)
{
    if (!old->type || !e->type) return false;
    if (!strcmp(old->type, e->type)) return true;
    size_t a = strlen(old->type), b = strlen(e->type);
    bool open = (a > 2 && !strcmp(old->type + a - 2, "()")) || (b > 2 && !strcmp(e->type + b - 2, "()"));
    return open && strcspn(old->type, "(") == strcspn(e->type, "(") &&
           !strncmp(old->type, e->type, strcspn(old->type, "("));
}

static void name_function(build *b, parsed_item *item)
{
    entity *e = item->what, *old = old_of(b, e);
    bool ours = old && old->kind == ENTITY_FUNCTION && old->link;
    if (!e->defined && !ours && library_has(b->s, e->name)) return; /* a library's function, declared by hand */
    const char *known = e->type ? symbols_link_of(b->s->symbols, e->name, e->type) : NULL;
    if (ours && same_function(old, e)) {
        e->link = copy_of(old->link);
    } else if (known) { /* a signature that comes back: pointers taken then are good again */
        e->link = copy_of(known);
    } else {
        e->link = new_link(b, e->name);
        stub_of(e->link, &b->assembly);
    }
    if (ours && strcmp(old->link, e->link)) bind_trap(b, old->link);
    const char *definition = NULL;
    if (e->defined) {
        definition = own(b, format_text("%s$%u", e->link, b->cell.serial));
        if (is_stale(b, e)) bind_trap(b, e->link);
        else bind(b, e->link, definition);
    }
    add_link(b, e->name, e->link, definition);
}

/* A const whose value is known when compiled is defined in each unit that sees it; the kernel's own copy is not
 * used. */
static const char *constant_copy(build *b, const entity *e)
{
    return e->constant ? own(b, format_text("%s$copy%u", e->link, b->cell.serial)) : NULL;
}

static void name_variable(build *b, parsed_item *item)
{
    entity *e = item->what, *old = old_of(b, e);
    bool ours = old && old->kind == ENTITY_VARIABLE && old->link;
    if (!e->defined && !ours) return; /* a library's, or missing */
    bool same = ours && old->layout == e->layout && !e->natural && !old->natural;
    if (same || !e->defined) {
        e->link = copy_of(old->link);
    } else {
        e->link = new_link(b, e->name);
        if (!e->natural) storage_of(e->link, e->size, e->align, &b->assembly);
    }
    add_link(b, e->name, e->link, e->natural && e->defined ? e->link : constant_copy(b, e));
}

static void add_marked(entity *e, void *closure)
{
    build *b = closure;
    if (!e->link || e->mark != b->mark) return;
    bool again = false;
    for (size_t i = 0; i < b->cell.again_count; i++) again |= b->cell.again[i] == e;
    if (!again) add_link(b, e->name, e->link, constant_copy(b, e));
}

/* Declared, then defined, in one cell: the definition's name serves both. */
static bool named_by_another(const build *b, size_t at)
{
    const entity *e = b->cell.items[at].what;
    for (size_t k = 0; k < b->cell.count; k++) {
        const entity *other = b->cell.items[k].what;
        if (k == at || !other->name || other->kind != e->kind || strcmp(other->name, e->name)) continue;
        if (other->defined ? !e->defined || k > at : k < at && !e->defined) return true;
    }
    return false;
}

void name_all(build *b)
{
    for (size_t i = 0; i < b->cell.count; i++) {
        parsed_item *item = &b->cell.items[i];
        if (!item->what->name || item->what->link || named_by_another(b, i)) continue;
        if (item->what->kind == ENTITY_FUNCTION) name_function(b, item);
        if (item->what->kind == ENTITY_VARIABLE) name_variable(b, item);
    }
    for (size_t i = 0; i < b->cell.again_count; i++) {
        entity *e = b->cell.again[i];
        const char *definition = own(b, format_text("%s$%u", e->link, b->cell.serial));
        add_link(b, e->name, e->link, definition);
        char *keeping = format_text("%c%s", KEEPS_STATICS, definition);
        bind(b, e->link, keeping);
        free(keeping);
    }
    for (size_t i = 0; i < b->stale_count; i++) {
        if (b->stale[i].function->serial != b->cell.serial) bind_trap(b, b->stale[i].function->link);
    }
    for (size_t i = 0; i < b->missing.count; i++) { /* the linker needs a definition; a use of it traps first */
        char *link = format_text("%s$missing%u", b->missing.items[i], b->cell.serial);
        storage_of(link, 1, 1, &b->assembly);
        add_link(b, b->missing.items[i], link, NULL);
        free(link);
    }
    symbols_each(b->s->symbols, add_marked, b);
}
