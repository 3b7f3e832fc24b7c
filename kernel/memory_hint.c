/* Which cause of a fault or an abort can be told from the worker's memory. Read first: memory_hint.h. */
#define _GNU_SOURCE
#include "memory_hint.h"
#include "mappings.h"
#include "worker/protocol.h"

/* May the worker read, and not write, at this address? A fault there was a write. */
static bool read_only(pid_t worker, uint64_t address)
{
    mapping m;
    bool found = false;
    FILE *maps = mappings_open(worker);
    while (!found && mapping_next(maps, &m)) found = m.begin <= address && address < m.end && m.readable && !m.writable;
    if (maps) fclose(maps);
    return found;
}

const char *memory_hint(const session *s, const exit_status *e)
{
    if (e->status != STATUS_SIGNAL) return NULL;
    if (e->code == SIGSEGV && e->survived && read_only(s->worker.process, e->address))
        return "the memory at this address can be read, not written; a string in quotes is such memory, and "
               "char s[] = \"abc\"; makes a copy that can be changed";
    bool damaged = e->before || (e->code == SIGABRT && !e->survived && !e->thread);
    if (damaged && !names_have(&s->worker.environment, "KOLO_HEAP_CHECK=1"))
        return "%heap on, and then the same cells again: a write beyond a block of malloc(), a use after free() and a "
               "second free() are named with their lines";
    return NULL;
}
