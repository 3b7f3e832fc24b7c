/* See shareable.h. */
#define _GNU_SOURCE /* memfd_create */
#include "comm/shareable.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- files */

int kolo_memory_file_make(size_t bytes, kolo_memory_file *file)
{
    struct stat info;
    int number = memfd_create("kolo", MFD_CLOEXEC);
    if (number >= 0 && ftruncate(number, (off_t)bytes) == 0 && fstat(number, &info) == 0) {
        *file = (kolo_memory_file){getpid(), number, info.st_ino};
        return number;
    }
    if (number >= 0) close(number);
    return -1;
}

/* Checks the inode, because in another container this PID may be another process. */
int kolo_memory_file_open(const kolo_memory_file *file)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)file->process, file->number);
    int number = file->process > 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (number >= 0 && fstat(number, &info) == 0 && info.st_ino == file->inode) return number;
    if (number >= 0) close(number);
    return -1;
}

/* ---------------------------------------------------------------- blocks */

typedef struct block {
    char *memory;
    size_t bytes;
    kolo_memory_file file;
    uint64_t serial;
    struct block *next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static uint64_t serials; /* given so far */

static void lock_blocks(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_blocks(void)
{
    pthread_mutex_unlock(&lock);
}

static bool is_own(const block *b)
{
    return b->file.process == getpid();
}

/* A child of fork() would write to its parent's memory. What it sees becomes its own where it writes. A block that the
 * system refuses to make its own is taken from the child: a fault there is better than other numbers in the parent. */
static void part_from_parent(void)
{
    for (block *b = blocks; b; b = b->next)
        if (mmap(b->memory, b->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, b->file.number, 0) == MAP_FAILED)
            munmap(b->memory, b->bytes);
    unlock_blocks();
}

static void watch_forks(void)
{
    pthread_atfork(lock_blocks, unlock_blocks, part_from_parent);
}

static bool map_file(size_t bytes, block *made)
{
    int number = kolo_memory_file_make(bytes, &made->file);
    if (number < 0) return false;
    made->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
    made->bytes = bytes;
    if (made->memory != MAP_FAILED) return true;
    close(number);
    return false;
}

void *kolo_shareable_allocate(size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    block *made = calloc(1, sizeof *made);
    if (!made || !map_file(bytes ? bytes : 1, made)) {
        free(made);
        return NULL;
    }
    lock_blocks();
    made->serial = ++serials;
    made->next = blocks;
    blocks = made;
    unlock_blocks();
    return made->memory;
}

/* Takes a block out of the list; NULL: there is none at `memory`. */
static block *take_block(const void *memory)
{
    lock_blocks();
    block **at = &blocks;
    while (*at && (*at)->memory != memory) at = &(*at)->next;
    block *taken = *at;
    if (taken) *at = taken->next;
    unlock_blocks();
    return taken;
}

/* Other processes keep their mappings until they need the place (mappings.h), so the memory is taken from the file. */
bool kolo_shareable_deallocate(void *memory)
{
    block *taken = memory ? take_block(memory) : NULL;
    if (!taken) return false;
    if (is_own(taken)) madvise(taken->memory, taken->bytes, MADV_REMOVE);
    munmap(taken->memory, taken->bytes);
    close(taken->file.number);
    free(taken);
    return true;
}

kolo_shareable_place kolo_shareable_find(const void *values, size_t bytes)
{
    kolo_shareable_place place = {0};
    uintptr_t at = (uintptr_t)values;
    lock_blocks();
    for (const block *b = blocks; b && place.serial == 0; b = b->next) {
        uintptr_t begin = (uintptr_t)b->memory;
        if (!is_own(b) || at < begin || at - begin > b->bytes || bytes > b->bytes - (at - begin)) continue;
        place = (kolo_shareable_place){
            .file = b->file, .serial = b->serial, .bytes = b->bytes, .offset = (uint64_t)(at - begin)};
    }
    unlock_blocks();
    return place;
}

void *kolo_shareable_own(const kolo_shareable_place *place)
{
    void *found = NULL;
    if (place->file.process != getpid()) return NULL;
    lock_blocks();
    for (block *b = blocks; b && !found; b = b->next)
        if (b->serial == place->serial && b->file.inode == place->file.inode) found = b->memory + place->offset;
    unlock_blocks();
    return found;
}
