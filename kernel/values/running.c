/* Variables of a worker in which a cell runs, and which answers nobody: the address comes from the cell's object and
 * the process's mappings, the bytes from the system. Read first: running.h. */
#define _GNU_SOURCE
#include "values/running.h"
#include "mappings.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

static bool read_running(void *closure, uint64_t address, size_t size, void *into)
{
    const session *s = closure;
    struct iovec here = {into, size}, there = {(void *)(uintptr_t)address, size};
    return s->worker.process > 0 && process_vm_readv(s->worker.process, &here, 1, &there, 1, 0) == (ssize_t)size;
}

memory running_memory(session *s)
{
    return (memory){.read = read_running, .closure = s};
}

/* Are so many bytes at `at` within the object? */
static bool within(const text *object, uint64_t at, uint64_t size)
{
    return at <= object->size && size <= object->size - at;
}

/* The place of a variable that this table of symbols defines, relative to the object's beginning; 0: it defines none.
 */
static uint64_t place_in_table(const text *object, const Elf64_Shdr *table, const Elf64_Shdr *strings, const char *link)
{
    if (!within(object, table->sh_offset, table->sh_size) || !within(object, strings->sh_offset, strings->sh_size))
        return 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, object->data + table->sh_offset + at, sizeof symbol);
        const char *name = object->data + strings->sh_offset + symbol.st_name;
        bool defined = symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT;
        if (defined && symbol.st_name < strings->sh_size && !strcmp(name, link)) return symbol.st_value;
    }
    return 0;
}

static uint64_t place_in_object(const char *path, const char *link)
{
    text object = {0};
    Elf64_Ehdr head;
    uint64_t place = 0;
    bool good = read_bytes(path, &object) && object.size >= sizeof head;
    if (good) memcpy(&head, object.data, sizeof head);
    good = good && within(&object, head.e_shoff, (uint64_t)head.e_shnum * sizeof(Elf64_Shdr));
    for (unsigned i = 0; good && i < head.e_shnum && !place; i++) {
        Elf64_Shdr table, strings;
        memcpy(&table, object.data + head.e_shoff + i * sizeof table, sizeof table);
        if (table.sh_type != SHT_DYNSYM || table.sh_link >= head.e_shnum) continue;
        memcpy(&strings, object.data + head.e_shoff + table.sh_link * sizeof strings, sizeof strings);
        place = place_in_table(&object, &table, &strings, link);
    }
    text_free(&object);
    return place;
}

/* Where the worker has mapped the object's beginning; 0: nowhere. */
static uint64_t base_of(pid_t worker, const char *path)
{
    mapping m;
    uint64_t base = 0;
    FILE *maps = mappings_open(worker);
    while (!base && mapping_next(maps, &m)) {
        if (m.offset == 0 && !strcmp(m.file, path)) base = m.begin;
    }
    if (maps) fclose(maps);
    return base;
}

bool running_address(session *s, const char *link, uint64_t *address)
{
    for (size_t i = s->load_count; i-- > 0;) {
        const load *l = &s->loads[i];
        uint64_t place = l->path ? place_in_object(l->path, link) : 0;
        if (!place) continue;
        uint64_t base = base_of(s->worker.process, l->path);
        *address = base + place;
        return base != 0;
    }
    return false;
}
