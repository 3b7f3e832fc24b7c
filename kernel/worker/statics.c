/* A function's own `static` variables outlive its recompilation: when a macro or a type that it uses has changed, its
 * new code has new ones, which take over what the old ones held. Read first: worker.h, protocol.h. */
#define _GNU_SOURCE
#include "worker/statics.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct variable {
    char *slot, *name; /* its function's slot; "count.n" */
    unsigned char *address;
    size_t size;
} variable;

static struct {
    variable *items;
    size_t count, capacity;
} known;

typedef struct image {
    const unsigned char *bytes;
    size_t size;
    const Elf64_Shdr *sections, *symbols;
    const char *strings, *section_names;
} image;

static const void *place_in(const image *of, size_t offset)
{
    return of->bytes + offset;
}

static bool open_image(const char *path, image *of)
{
    *of = (image){0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat facts;
    if (file >= 0 && fstat(file, &facts) == 0 && facts.st_size > (off_t)sizeof(Elf64_Ehdr)) {
        void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) *of = (image){.bytes = bytes, .size = (size_t)facts.st_size};
    }
    if (file >= 0) close(file);
    if (!of->bytes) return false;
    const Elf64_Ehdr *header = place_in(of, 0);
    of->sections = place_in(of, header->e_shoff);
    of->section_names = (const char *)of->bytes + of->sections[header->e_shstrndx].sh_offset;
    for (size_t i = 0; i < header->e_shnum; i++) {
        if (of->sections[i].sh_type == SHT_SYMTAB) of->symbols = &of->sections[i];
    }
    if (of->symbols) of->strings = (const char *)of->bytes + of->sections[of->symbols->sh_link].sh_offset;
    return of->symbols != NULL;
}

static void close_image(const image *of)
{
    if (of->bytes) munmap((void *)(uintptr_t)of->bytes, of->size);
}

/* Is the symbol a variable "count.n" of the function whose slot is "count$1$slot"? A constant, which cannot be written,
 * is none. */
static bool belongs(const image *of, const Elf64_Sym *symbol, const char *slot)
{
    size_t size = strcspn(slot, "$");
    const char *name = of->strings + symbol->st_name;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || ELF64_ST_BIND(symbol->st_info) != STB_LOCAL) return false;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= SHN_LORESERVE) return false;
    const char *section = of->section_names + of->sections[symbol->st_shndx].sh_name;
    return !strncmp(name, slot, size) && name[size] == '.' && (!strcmp(section, ".data") || !strcmp(section, ".bss"));
}

static variable *known_as(const char *slot, const char *name)
{
    for (size_t i = 0; i < known.count; i++) {
        if (!strcmp(known.items[i].slot, slot) && !strcmp(known.items[i].name, name)) return &known.items[i];
    }
    return NULL;
}

static variable *remember(const char *slot, const char *name)
{
    if (known.count == known.capacity) {
        size_t capacity = known.capacity ? 2 * known.capacity : 16;
        variable *items = realloc(known.items, capacity * sizeof *items);
        if (!items) return NULL;
        known.items = items;
        known.capacity = capacity;
    }
    variable *one = &known.items[known.count];
    *one = (variable){.slot = strdup(slot), .name = strdup(name)};
    if (one->slot && one->name) return known.count++, one;
    free(one->slot);
    free(one->name);
    return NULL;
}

/* One of them may point to another, or to itself. */
static void mend_pointers(const variable *old, const variable *now, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at + sizeof(void *) <= now[i].size; at += sizeof(void *)) {
            unsigned char *pointer;
            memcpy(&pointer, now[i].address + at, sizeof pointer);
            for (size_t k = 0; k < count; k++) {
                if (pointer < old[k].address || pointer >= old[k].address + old[k].size) continue;
                pointer = now[k].address + (pointer - old[k].address);
                memcpy(now[i].address + at, &pointer, sizeof pointer);
                break;
            }
        }
    }
}

enum { MOST_STATICS = 256 }; /* of one function */

/* Keeps the values of all variables, or of none: where one has another size now, the old values of the others need not
 * fit. */
static void take_function(const image *of, const char *slot, unsigned char *base, bool keep)
{
    variable old[MOST_STATICS], now[MOST_STATICS];
    size_t count = 0;
    const Elf64_Sym *symbols = place_in(of, of->symbols->sh_offset);
    for (size_t i = 0; i < of->symbols->sh_info && count < MOST_STATICS; i++) {
        if (!belongs(of, &symbols[i], slot)) continue;
        const char *name = of->strings + symbols[i].st_name;
        variable *one = known_as(slot, name);
        old[count] = one ? *one : (variable){0};
        if (!one) one = remember(slot, name);
        if (!one) return;
        one->address = base + symbols[i].st_value;
        one->size = symbols[i].st_size;
        now[count++] = *one;
        keep &= !old[count - 1].address || old[count - 1].size == one->size;
    }
    for (size_t i = 0; keep && i < count; i++) {
        if (old[i].address) memcpy(now[i].address, old[i].address, now[i].size);
    }
    if (keep) mend_pointers(old, now, count);
}

void statics_take(const char *path, void *handle, const char *slots, size_t size)
{
    image of;
    struct link_map *map = handle;
    if (open_image(path, &of)) {
        for (const char *at = slots, *end = slots + size; at < end;) {
            const char *definition = at + strlen(at) + 1;
            if (definition >= end) break;
            take_function(&of, at, (unsigned char *)map->l_addr, *definition == KEEPS_STATICS);
            at = definition + strlen(definition) + 1;
        }
    }
    close_image(&of);
}
