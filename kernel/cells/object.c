#define _GNU_SOURCE
#include "cells/object.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

typedef struct object {
    char *bytes;
    size_t size;
    Elf64_Ehdr *header;
    Elf64_Shdr *sections, *symbols, *strings;
} object;

static void *place_in(char *bytes, size_t offset)
{
    return bytes + offset;
}

static bool read_object(const char *path, object *o)
{
    text whole = {0};
    bool read = read_bytes(path, &whole);
    *o = (object){.bytes = whole.data, .size = whole.size};
    if (!read || whole.size < sizeof(Elf64_Ehdr) || memcmp(whole.data, ELFMAG, SELFMAG) ||
        whole.data[EI_CLASS] != ELFCLASS64)
        return false;
    o->header = place_in(o->bytes, 0);
    o->sections = place_in(o->bytes, o->header->e_shoff);
    for (size_t i = 0; i < o->header->e_shnum; i++) {
        if (o->sections[i].sh_type == SHT_SYMTAB) o->symbols = &o->sections[i];
    }
    if (!o->symbols) return false;
    o->strings = &o->sections[o->symbols->sh_link];
    return true;
}

static const link_name *find(const link_name *table, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(table[i].name, name)) return &table[i];
    }
    return NULL;
}

static Elf64_Word add_string(text *strings, const char *name)
{
    Elf64_Word at = (Elf64_Word)strings->size;
    text_add_bytes(strings, name, strlen(name) + 1);
    return at;
}

/* A definition `f` becomes a reference to the stub, at its index, and a new symbol that defines. */
static void rename_symbol(Elf64_Sym *symbol, const link_name *as, text *strings, text *added)
{
    bool own = as->definition && !strcmp(as->definition, as->link); /* no stub stands between */
    if (symbol->st_shndx != SHN_UNDEF && as->definition && !own) {
        Elf64_Sym definition = *symbol;
        definition.st_name = add_string(strings, as->definition);
        text_add_bytes(added, (const char *)&definition, sizeof definition);
        *symbol = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)};
    }
    symbol->st_name = add_string(strings, as->link);
}

bool object_rename(const char *path, const link_name *table, size_t count, names *wanted)
{
    object o;
    if (!read_object(path, &o)) {
        free(o.bytes);
        return false;
    }
    text strings = {0}, added = {0}, out = {0};
    text_add_bytes(&strings, o.bytes + o.strings->sh_offset, o.strings->sh_size);
    Elf64_Sym *symbols = place_in(o.bytes, o.symbols->sh_offset);
    size_t total = o.symbols->sh_size / sizeof *symbols;
    for (size_t i = o.symbols->sh_info; i < total; i++) {
        const char *name = strings.data + symbols[i].st_name;
        const link_name *as = find(table, count, name);
        if (as) rename_symbol(&symbols[i], as, &strings, &added);
        else if (symbols[i].st_shndx == SHN_UNDEF && *name) names_add(wanted, name);
    }
    text_add_bytes(&added, "", 0);
    Elf64_Off symbols_at = (o.size + 7) & ~(Elf64_Off)7;
    Elf64_Off strings_at = symbols_at + total * sizeof *symbols + added.size;
    o.symbols->sh_size = total * sizeof *symbols + added.size;
    text_add_bytes(&out, o.bytes, o.size);
    text_add_bytes(&out, "\0\0\0\0\0\0\0", symbols_at - o.size);
    text_add_bytes(&out, (char *)symbols, total * sizeof *symbols);
    text_add_bytes(&out, added.data, added.size);
    text_add_bytes(&out, strings.data, strings.size);
    Elf64_Shdr *sections = place_in(out.data, o.header->e_shoff);
    size_t symbol_section = (size_t)(o.symbols - o.sections), string_section = (size_t)(o.strings - o.sections);
    sections[symbol_section].sh_offset = symbols_at;
    sections[string_section].sh_offset = strings_at;
    sections[string_section].sh_size = strings.size;
    bool written = write_whole_file(path, out.data, out.size);
    text_free(&strings);
    text_free(&added);
    text_free(&out);
    free(o.bytes);
    return written;
}

/* Until the function is defined, or while its signature has another link name, its slot leads to `link$none`, a trap
 * that hands over the link name. Names are quoted: they may be of any script.
 */
void stub_of(const char *link, text *into)
{
#define OWN(part) "\\\".L%1$s" part "\\\""
#if defined(__x86_64__)
    static const char jump[] = "jmp *" OWN("$slot") "(%%rip)",
                      trap[] = "leaq " OWN("$name") "(%%rip),%%rdi\\n jmp kolo_cell_undefined@PLT";
#elif defined(__aarch64__)
    static const char jump[] = "adrp x16," OWN("$slot") "\\n ldr x16,[x16,:lo12:" OWN("$slot") "]\\n br x16",
                      trap[] = "adrp x0," OWN("$name") "\\n add x0,x0,:lo12:" OWN("$name") "\\n b kolo_cell_undefined";
#else
#error "Kolo's kernel has stubs for x86-64 and aarch64 only"
#endif
    static const char head[] = "__asm__(\".pushsection .text\\n.balign 4\\n.globl \\\"%1$s\\\"\\n"
                               ".type \\\"%1$s\\\",@function\\n"
                               "\\\"%1$s\\\":\\n ";
    static const char middle[] =
        "\\n.size \\\"%1$s\\\",.-\\\"%1$s\\\"\\n.globl \\\"%1$s$none\\\"\\n\\\"%1$s$none\\\":\\n" OWN("$none") ":\\n ";
    static const char tail[] =
        "\\n" OWN("$name") ": .asciz \\\"%1$s\\\"\\n.popsection\\n"
                           ".pushsection .data\\n.balign 8\\n.globl \\\"%1$s$slot\\\"\\n"
                           ".type \\\"%1$s$slot\\\",@object\\n.size \\\"%1$s$slot\\\",8\\n" OWN(
                               "$slot") ":\\n"
                                        "\\\"%1$s$slot\\\": .quad " OWN("$none") "\\n.popsection\");\n";
#undef OWN
    char *format = format_text("%s%s%s%s%s", head, jump, middle, trap, tail);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    text_addf(into, format, link);
#pragma GCC diagnostic pop
    free(format);
}

void storage_of(const char *link, size_t size, size_t align, text *into)
{
    size = size ? size : 1;
    if (size >= 16 && align < 16) align = 16; /* x86-64's ABI promises it for arrays, and clang's moves rely on it */
    text_addf(into, "__asm__(\".pushsection .bss\\n.globl \\\"%s\\\"\\n.type \\\"%s\\\",@object\\n", link, link);
    text_addf(into, ".size \\\"%s\\\",%zu\\n.balign %zu\\n\\\"%s\\\": .zero %zu\\n.popsection\");\n", link, size,
              align ? align : 1, link, size);
}
