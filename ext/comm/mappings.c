/* See mappings.h. */
#include "comm/mappings.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum usable { UNKNOWN, NO, YES } usable;

typedef struct mapping {
    uint64_t serial; /* of the block; 0: this entry is free */
    pid_t process;
    ino_t inode;
    char *address; /* NULL: not mapped */
    size_t bytes;
    uint64_t used; /* number of the last use */
    usable usable;
    bool own; /* the block is this process's, and is not mapped a second time */
} mapping;

struct kolo_mappings {
    int size;
    uint64_t uses;
    mapping entries[][KOLO_MAPPINGS_KEPT]; /* [size] */
};

kolo_status kolo_mappings_open(int size, kolo_mappings **mappings)
{
    size_t bytes = sizeof **mappings + (size_t)size * sizeof(*mappings)->entries[0];
    *mappings = calloc(1, bytes);
    if (!*mappings) return kolo_fail_memory(bytes, "a group of ranks");
    (*mappings)->size = size;
    return KOLO_OK;
}

static void clear(mapping *entry)
{
    if (entry->address && !entry->own) munmap(entry->address, entry->bytes);
    *entry = (mapping){0};
}

void kolo_mappings_close(kolo_mappings **mappings)
{
    kolo_mappings *closed = *mappings;
    *mappings = NULL;
    if (!closed) return;
    for (int member = 0; member < closed->size; member++)
        for (int i = 0; i < KOLO_MAPPINGS_KEPT; i++) clear(&closed->entries[member][i]);
    free(closed);
}

static mapping *find(const kolo_mappings *mappings, int member, const kolo_shareable_place *place)
{
    for (int i = 0; i < KOLO_MAPPINGS_KEPT; i++) {
        const mapping *entry = &mappings->entries[member][i];
        bool same = entry->serial == place->serial && entry->process == place->file.process;
        if (same && entry->inode == place->file.inode) return (mapping *)entry;
    }
    return NULL;
}

bool kolo_mappings_has(kolo_mappings *mappings, int member, const kolo_shareable_place *place)
{
    mapping *entry = find(mappings, member, place);
    if (entry) entry->used = ++mappings->uses;
    return entry != NULL;
}

/* Free entries were never used. */
static mapping *least_used(kolo_mappings *mappings, int member)
{
    mapping *entries = mappings->entries[member], *least = &entries[0];
    for (int i = 1; i < KOLO_MAPPINGS_KEPT; i++)
        if (entries[i].used < least->used) least = &entries[i];
    return least;
}

static void *map(const kolo_shareable_place *place)
{
    int number = kolo_memory_file_open(&place->file);
    void *mapped = number < 0 ? MAP_FAILED : mmap(NULL, place->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
    if (number >= 0) close(number);
    return mapped == MAP_FAILED ? NULL : mapped;
}

bool kolo_mappings_add(kolo_mappings *mappings, int member, const kolo_shareable_place *place)
{
    mapping *entry = least_used(mappings, member);
    clear(entry);
    char *own = kolo_shareable_own(place);
    *entry = (mapping){.serial = place->serial,
                       .process = place->file.process,
                       .inode = place->file.inode,
                       .address = own ? own - place->offset : map(place),
                       .bytes = place->bytes,
                       .used = ++mappings->uses,
                       .own = own != NULL};
    return entry->address != NULL;
}

void kolo_mappings_settle(kolo_mappings *mappings, bool all)
{
    for (int member = 0; member < mappings->size; member++) {
        for (int i = 0; i < KOLO_MAPPINGS_KEPT; i++) {
            mapping *entry = &mappings->entries[member][i];
            if (entry->serial != 0 && entry->usable == UNKNOWN) entry->usable = all ? YES : NO;
        }
    }
}

void *kolo_mappings_at(const kolo_mappings *mappings, int member, const kolo_shareable_place *place)
{
    const mapping *entry = find(mappings, member, place);
    return entry && entry->usable == YES ? entry->address + place->offset : NULL;
}
