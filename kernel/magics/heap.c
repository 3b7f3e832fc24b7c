/* %heap: blocks of memory that cells ask for are checked, and listed. See magics.h, worker/heap.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "print.h"
#include "report.h"
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Blocks that one line of a cell has asked for. */
typedef struct heap_line {
    char *place;
    bool lost;
    size_t count, bytes;
} heap_line;

typedef struct heap_list {
    heap_line *items;
    size_t count, capacity;
} heap_list;

static void add_block(heap_list *all, char *place, bool lost, size_t bytes)
{
    for (size_t i = 0; i < all->count; i++) {
        heap_line *one = &all->items[i];
        if (one->lost != lost || strcmp(one->place, place)) continue;
        one->count++;
        one->bytes += bytes;
        free(place);
        return;
    }
    all->items = need_grown(all->items, all->count, &all->capacity, sizeof *all->items);
    all->items[all->count++] = (heap_line){place, lost, 1, bytes};
}

/* "lost bytes |offset|object": kolo_cell_heap (worker/heap.c). */
static void add_line(session *s, heap_list *all, char *line)
{
    char *at, *offset = strchr(line, '|'), *object = offset ? strchr(offset + 1, '|') : NULL;
    long lost = strtol(line, &at, 10);
    size_t bytes = strtoul(at, NULL, 10);
    if (!object) return;
    *object++ = 0;
    text frames = {0};
    text_add_bytes(&frames, object, strlen(object) + 1);
    text_add_bytes(&frames, offset + 1, strlen(offset + 1) + 1);
    text_add_bytes(&frames, "", 1);
    char *place = place_of_frames(s, frames.data, frames.size);
    text_free(&frames);
    add_block(all, place ? place : copy_of("a cell that is no longer loaded"), lost == 1, bytes);
}

static void list_blocks(const heap_list *all, bool lost, text *into)
{
    size_t count = 0, bytes = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (all->items[i].lost != lost) continue;
        count += all->items[i].count;
        bytes += all->items[i].bytes;
    }
    if (lost && !count) return;
    text_addf(into, "%zu %s, %zu bytes%s\n", count, count == 1 ? "block" : "blocks", bytes,
              lost    ? ", that free() never got, and that nothing points to any more:"
              : count ? " in use:"
                      : " in use");
    for (size_t i = 0; i < all->count; i++) {
        const heap_line *one = &all->items[i];
        if (one->lost == lost) text_addf(into, "  %zu × %s, %zu bytes in all\n", one->count, one->place, one->bytes);
    }
}

static result report(session *s)
{
    char *path = format_text("%s/heap.txt", s->folder);
    char *code = format_text("{ void kolo_cell_heap(const char *); kolo_cell_heap(\"%s\"); }", path);
    result r = run_c(s, code, "%heap");
    char *found = r.failed ? NULL : read_whole_file(path), *rest;
    heap_list all = {0};
    for (char *line = strtok_r(found, "\n", &rest); found && line; line = strtok_r(NULL, "\n", &rest))
        add_line(s, &all, line);
    text list = {0};
    list_blocks(&all, false, &list);
    list_blocks(&all, true, &list);
    if (!r.failed) print_out(s, list.data);
    for (size_t i = 0; i < all.count; i++) free(all.items[i].place);
    free(all.items);
    text_free(&list);
    unlink(path);
    free(found);
    free(code);
    free(path);
    return r;
}

result magic_heap(session *s, const char *words, const char *name)
{
    (void)name;
    bool on = !strcmp(words, "on"), off = !strcmp(words, "off");
    const char *now = session_variable(s, "KOLO_HEAP_CHECK");
    if (*words && !on && !off) return usage_result(s, "heap", false);
    if (on || off) {
        set_session_variable(s, "KOLO_HEAP_CHECK", on ? "1" : NULL);
        print_out(s, on ? "the heap is checked from now on; %heap lists the blocks in use\n"
                        : "the heap is not checked any more\n");
        return (result){0};
    }
    if (now) return report(s);
    print_out(s, "the heap is not checked; %heap on turns it on\n");
    return (result){0};
}
