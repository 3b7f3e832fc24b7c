/* The heap as cells see it. With KOLO_HEAP_CHECK in the environment (%heap on) each block that a cell asks for lies
 * before a page that may not be touched, and is never given out again soon: a write beyond its end, and a use after
 * free(), fault where they happen. Read first: worker.h. */
#ifndef KERNEL_WORKER_HEAP_H
#define KERNEL_WORKER_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before a cell: is it to be checked? */
void heap_begin(void);
/* After a cell that returned: words about a block with writes beyond its ends; NULL: there is none. */
const char *heap_look(void);
/* Words about a fault at that address, when it lies in a block; NULL: it lies in none. */
const char *heap_fault(const void *address, bool writes);

/* checks.c: is that an address of a cell's code? */
bool is_cell_code(const void *at);
/* Words of one line about a call that returns to `from` (checks.h). */
void describe_call(char *into, size_t size, const char *sentence, const void *from);
/* Remembers that the call gave NULL. */
void note_null(const char *sentence, const void *from);
/* Adds what is remembered to the frames of a fault. */
void add_null_words(void);

#endif
