#define _GNU_SOURCE
#include "worker/heap.h"
#include "worker/checks.h"
#include "worker/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A sanitizer brings a heap of its own. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

enum {
    PAGE = 4096,
    ALIGN = 16,
    MOST_BLOCKS = 16000, /* each takes two mappings, and a process may have 65,530 */
    FILL = 0xa5,         /* what a block holds before anything is written to it */
    MARGIN = 0x5a,       /* what lies beside it in its pages */
};

typedef struct block {
    unsigned char *start, *pages; /* pages NULL: the entry is free */
    size_t size, length;          /* length: of its pages, the forbidden one not counted */
    const void *from;             /* the call of malloc() returns there */
    bool freed;
} block;

static block blocks[MOST_BLOCKS];
static size_t block_count, oldest; /* entries in use so far; the next that is given out again */
static bool checking;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char words[700];

void heap_begin(void)
{
    const char *asked = getenv("KOLO_HEAP_CHECK");
    checking = asked && *asked;
}

static block *block_of(const void *start)
{
    for (size_t i = block_count; start && i-- > 0;) {
        if (blocks[i].pages && blocks[i].start == start) return &blocks[i];
    }
    return NULL;
}

/* A free entry, or that of the block that was given back first. NULL: all blocks are in use. */
static block *entry(void)
{
    if (block_count < MOST_BLOCKS) return &blocks[block_count++];
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        block *b = &blocks[oldest++ % MOST_BLOCKS];
        if (b->pages && !b->freed) continue;
        if (b->pages) munmap(b->pages, b->length + PAGE);
        b->pages = NULL;
        return b;
    }
    return NULL;
}

static void *guarded(size_t size, int fill, const void *from)
{
    size_t rounded = (size + ALIGN - 1) / ALIGN * ALIGN, length = (rounded + PAGE - 1) / PAGE * PAGE;
    if (length < size) return NULL;
    if (!length) length = PAGE;
    pthread_mutex_lock(&lock);
    block *b = entry();
    unsigned char *pages =
        b ? mmap(NULL, length + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    bool made = pages != MAP_FAILED && mprotect(pages + length, PAGE, PROT_NONE) == 0;
    if (made) {
        *b = (block){.start = pages + length - rounded, .pages = pages, .size = size, .length = length, .from = from};
        memset(pages, MARGIN, length);
        memset(b->start, fill, size);
    }
    pthread_mutex_unlock(&lock);
    return made ? b->start : NULL;
}

static bool margin_is_whole(const block *b)
{
    for (const unsigned char *p = b->pages; p < b->start; p++) {
        if (*p != MARGIN) return false;
    }
    for (const unsigned char *p = b->start + b->size; p < b->pages + b->length; p++) {
        if (*p != MARGIN) return false;
    }
    return true;
}

static void mend_margin(const block *b)
{
    memset(b->pages, MARGIN, (size_t)(b->start - b->pages));
    memset(b->start + b->size, MARGIN, (size_t)(b->pages + b->length - b->start) - b->size);
}

static const char *say(const block *b, const char *format)
{
    char sentence[300];
    snprintf(sentence, sizeof sentence, format, b->size);
    describe_call(words, sizeof words, sentence, b->from);
    return words;
}

static void refuse(const block *b, const char *format)
{
    running.missing = say(b, format);
    pthread_mutex_unlock(&lock);
    leave_refused(STATUS_REFUSED);
}

static void give_back(block *b)
{
    if (b->freed) refuse(b, "free() was given a block of %zu bytes" MARK_PLACE " for the second time");
    bool whole = margin_is_whole(b);
    if (!whole) mend_margin(b); /* said once */
    if (!whole) refuse(b, "a block of %zu bytes" MARK_PLACE " was written beyond before this free()");
    b->freed = true;
    mprotect(b->pages, b->length, PROT_NONE);
}

static bool wanted(const void *from)
{
    return checking && running.active && getpid() == running.process && is_cell_code(from);
}

static void *or_note(void *got, size_t size, const char *name, const void *from)
{
    char sentence[80];
    if (got || !size || !running.active) return got;
    snprintf(sentence, sizeof sentence, "%s of %zu bytes gave NULL" MARK_PLACE ": there is not so much memory", name,
             size);
    note_null(sentence, from);
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size)
{
    const void *from = __builtin_return_address(0);
    void *got = wanted(from) ? guarded(size, FILL, from) : NULL;
    return or_note(got ? got : __libc_malloc(size), size, "malloc()", from);
}

void *calloc(size_t count, size_t size)
{
    const void *from = __builtin_return_address(0);
    size_t bytes;
    bool fits = !__builtin_mul_overflow(count, size, &bytes);
    void *got = fits && wanted(from) ? guarded(bytes, 0, from) : NULL;
    return or_note(got ? got : __libc_calloc(count, size), fits ? bytes : SIZE_MAX, "calloc()", from);
}

void free(void *start)
{
    if (block_count && start) {
        pthread_mutex_lock(&lock);
        block *b = block_of(start);
        if (b) give_back(b);
        pthread_mutex_unlock(&lock);
        if (b) return;
    }
    __libc_free(start);
}

/* Moves what fits into a new block. */
static void *moved(block *old, size_t size, const void *from)
{
    void *got = wanted(from) ? guarded(size, FILL, from) : NULL;
    if (!got) got = __libc_malloc(size);
    if (got && !old->freed) memcpy(got, old->start, size < old->size ? size : old->size);
    if (got) free(old->start);
    return got;
}

void *realloc(void *start, size_t size)
{
    const void *from = __builtin_return_address(0);
    block *old = block_count ? block_of(start) : NULL;
    void *got = old && size ? moved(old, size, from) : NULL;
    if (old && !size) free(start);
    else if (!old) got = !start && wanted(from) ? guarded(size, FILL, from) : NULL;
    if (!old && !got) got = __libc_realloc(start, size);
    return or_note(got, size, "realloc()", from);
}

void *reallocarray(void *start, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(start, bytes);
}

size_t malloc_usable_size(void *start)
{
    static size_t (*real)(void *);
    const block *b = block_count ? block_of(start) : NULL;
    if (b) return b->size;
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "malloc_usable_size");
    return real(start);
}

const char *heap_look(void)
{
    for (size_t i = 0; i < block_count; i++) {
        block *b = &blocks[i];
        if (!b->pages || b->freed || margin_is_whole(b)) continue;
        mend_margin(b);
        return say(b, "this cell has written beyond a block of %zu bytes" MARK_PLACE);
    }
    return NULL;
}

const char *heap_fault(const void *address, bool writes)
{
    const unsigned char *at = address;
    for (size_t i = 0; i < block_count; i++) {
        const block *b = &blocks[i];
        if (!b->pages || at < b->pages || at >= b->pages + b->length + PAGE) continue;
        if (b->freed)
            return say(b, writes ? "this writes to a block of %zu bytes" MARK_PLACE " after free()"
                                 : "this reads a block of %zu bytes" MARK_PLACE " after free()");
        return say(b, writes ? "this writes beyond the end of a block of %zu bytes" MARK_PLACE
                             : "this reads beyond the end of a block of %zu bytes" MARK_PLACE);
    }
    return NULL;
}

/* ---- which blocks are lost ---- */

typedef struct search {
    block *found[MOST_BLOCKS]; /* those that something points to */
    size_t count;
    bool seen[MOST_BLOCKS];
} search;

static void look_through(search *s, const unsigned char *from, const unsigned char *to)
{
    for (; from + sizeof(uintptr_t) <= to; from += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, from, sizeof word);
        for (size_t i = 0; word > PAGE && i < block_count; i++) {
            block *b = &blocks[i];
            uintptr_t start = (uintptr_t)b->start;
            if (!b->pages || b->freed || s->seen[i] || word < start || word > start + b->size) continue;
            s->seen[i] = true;
            s->found[s->count++] = b;
        }
    }
}

/* Variables of the cells, and whatever the C library and libkolo hold: every page that can be written. */
static void look_through_variables(search *s)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char access[8], file[256] = "";
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &from, &to, access, file) < 3) continue;
        bool ours = (uintptr_t)blocks >= from && (uintptr_t)blocks < to;
        bool cells = strstr(file, ".so") || strstr(file, "[heap]");
        if (strncmp(access, "rw", 2) || ours || !cells) continue;
        look_through(s, (const unsigned char *)from, (const unsigned char *)to);
    }
    if (maps) fclose(maps);
}

/* A line for each block in use: "lost size offset object"; lost is 1 where nothing points to it any more. */
void kolo_cell_heap(const char *path);
void kolo_cell_heap(const char *path)
{
    static search s;
    memset(&s, 0, sizeof s);
    look_through_variables(&s);
    for (size_t i = 0; i < s.count; i++) look_through(&s, s.found[i]->start, s.found[i]->start + s.found[i]->size);
    FILE *out = fopen(path, "we");
    for (size_t i = 0; out && i < block_count; i++) {
        const block *b = &blocks[i];
        char place[600];
        if (!b->pages || b->freed) continue;
        describe_call(place, sizeof place, "", b->from);
        fprintf(out, "%d %zu %s\n", !s.seen[i], b->size, place + 1);
    }
    if (out) fclose(out);
}

#else

void heap_begin(void)
{
}

const char *heap_look(void)
{
    return NULL;
}

const char *heap_fault(const void *address, bool writes)
{
    (void)address;
    (void)writes;
    return NULL;
}

#endif
