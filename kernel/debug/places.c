#include "debug/places.h"

#include <stdlib.h>
#include <string.h>

/* No file is meant: JupyterLab shows "Cell [3]" in the place of a path where it finds ipykernel's word in it. */
void places_open(places *p, const char *folder)
{
    const char *slash = strrchr(folder, '/');
    *p = (places){.prefix = format_text("ipykernel_%s/", slash ? slash + 1 : folder), .breakpoints = json_object()};
}

void places_close(places *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].name);
        free(p->items[i].path);
        free(p->items[i].code);
    }
    free(p->items);
    free(p->prefix);
    json_decref(p->breakpoints);
}

/* MurmurHash2, 32 bits, as Jupyter's front ends compute it. */
static uint32_t murmur2(const char *bytes, size_t size, uint32_t seed)
{
    static const uint32_t m = 0x5bd1e995;
    const unsigned char *at = (const unsigned char *)bytes;
    uint32_t hash = seed ^ (uint32_t)size;
    for (; size >= 4; at += 4, size -= 4) {
        uint32_t k = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        k *= m;
        k ^= k >> 24;
        hash = (hash * m) ^ (k * m);
    }
    if (size == 3) hash ^= (uint32_t)at[2] << 16;
    if (size >= 2) hash ^= (uint32_t)at[1] << 8;
    if (size >= 1) hash = (hash ^ at[0]) * m;
    hash ^= hash >> 13;
    hash *= m;
    return hash ^ hash >> 15;
}

static char *path_of_code(const places *p, const char *code)
{
    return format_text("%s%u%s", p->prefix, (unsigned)murmur2(code, strlen(code), HASH_SEED), PLACES_SUFFIX);
}

const cell_place *places_add(places *p, const char *name, const char *code)
{
    char *path = path_of_code(p, code);
    const cell_place *there = name ? NULL : place_at(p, path);
    if (there) {
        free(path);
        return there;
    }
    p->items = need_grown(p->items, p->count, &p->capacity, sizeof *p->items);
    p->items[p->count] = (cell_place){name ? copy_of(name) : NULL, path, copy_of(code)};
    return &p->items[p->count++];
}

const cell_place *place_named(const places *p, const char *name)
{
    for (size_t i = p->count; i-- > 0;) {
        if (p->items[i].name && !strcmp(p->items[i].name, name)) return &p->items[i];
    }
    return NULL;
}

const cell_place *place_at(const places *p, const char *path)
{
    for (size_t i = p->count; i-- > 0;) {
        if (!strcmp(p->items[i].path, path)) return &p->items[i];
    }
    return NULL;
}
