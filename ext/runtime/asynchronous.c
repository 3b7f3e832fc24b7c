/* Handles of asynchronous calls: see asynchronous.h and kolo_tools.h.
 *
 * A handle is the number of an entry of the table, and in its upper bits how often that entry was used before. So a
 * handle that was freed, or never was one, is not taken for another. */
#include "runtime/asynchronous.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "comm/queue.h"

typedef struct call {
    kolo_request request;
    kolo_status (*run)(const void *args, kolo_type type);
    void *args;
    kolo_type type;
} call;

typedef struct entry {
    call *call; /* NULL: the entry is free */
    int64_t uses;
    int next_free;
} entry;

/* Programs may start and wait in different threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    entry *entries;
    int count, room;
    int first_free; /* -1: none */
} table = {.first_free = -1};

/* ---------------------------------------------------------------- the table */

static bool grow(void)
{
    if (table.count < table.room) return true;
    int room = table.room ? 2 * table.room : 64;
    entry *grown = table.room < KOLO_HANDLES_MAX ? realloc(table.entries, (size_t)room * sizeof *grown) : NULL;
    if (!grown) return false;
    table.entries = grown;
    table.room = room;
    return true;
}

/* Returns the handle of a new entry, or 0 if there is no room. */
static kolo_handle add(call *added)
{
    pthread_mutex_lock(&lock);
    int number = table.first_free;
    if (number >= 0) table.first_free = table.entries[number].next_free;
    else if (grow()) table.entries[number = table.count++] = (entry){0};
    kolo_handle handle = 0;
    if (number >= 0) {
        entry *e = &table.entries[number];
        e->call = added;
        handle = ++e->uses * KOLO_HANDLES_MAX + number;
    }
    pthread_mutex_unlock(&lock);
    return handle;
}

/* The caller holds the lock. NULL: the handle is not open. */
static entry *find(kolo_handle handle)
{
    int64_t number = handle % KOLO_HANDLES_MAX;
    if (handle <= 0 || number >= table.count) return NULL;
    entry *e = &table.entries[number];
    return e->call && e->uses == handle / KOLO_HANDLES_MAX ? e : NULL;
}

/* Takes the call out of the table. NULL: the handle is not open. */
static call *take(kolo_handle handle)
{
    pthread_mutex_lock(&lock);
    entry *e = find(handle);
    call *taken = e ? e->call : NULL;
    if (e) {
        e->call = NULL;
        e->next_free = table.first_free;
        table.first_free = (int)(e - table.entries);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

/* ---------------------------------------------------------------- calls */

static kolo_status run_call(kolo_comm *comm, void *argument)
{
    (void)comm; /* it is kolo_world_comm() */
    const call *made = argument;
    return made->run(made->args, made->type);
}

static void free_call(call *freed)
{
    if (freed) free(freed->args);
    free(freed);
}

void *kolo_asynchronous_copy(const void *args, size_t bytes)
{
    void *copy = malloc(bytes);
    return copy ? memcpy(copy, args, bytes) : NULL;
}

/* Frees the arguments if nothing is started. */
static kolo_status start(call *made, kolo_handle *handle)
{
    if (!made || !made->args) {
        free_call(made);
        return kolo_fail_memory(sizeof *made, "an asynchronous call");
    }
    *handle = add(made);
    kolo_status status = *handle ? kolo_request_start(kolo_world_comm(), &made->request, run_call, made)
                                 : kolo_fail(KOLO_UNSUPPORTED,
                                             "wanted at most %d asynchronous calls that nobody has waited for: call "
                                             "kolo_synchronize()",
                                             KOLO_HANDLES_MAX);
    if (status == KOLO_OK) return KOLO_OK;
    take(*handle);
    free_call(made);
    *handle = 0;
    return status;
}

kolo_handle kolo_asynchronous_leave(kolo_scope scope, kolo_status checked,
                                    kolo_status (*run)(const void *args, kolo_type type), void *args, kolo_type type)
{
    kolo_handle handle = 0;
    if (checked != KOLO_OK) {
        free(args);
        kolo_leave(scope, checked);
        return 0;
    }
    call *made = malloc(sizeof *made);
    if (made) *made = (call){.run = run, .args = args, .type = type};
    else free(args);
    kolo_leave(scope, start(made, &handle));
    return handle;
}

/* A handle of 0 comes from a call that has failed, which was said then. */
static kolo_status no_such_handle(kolo_handle handle)
{
    if (handle == 0 && kolo_last_error().code != KOLO_OK) return KOLO_INVALID;
    return kolo_fail(KOLO_INVALID, "wanted the handle of an asynchronous call that nobody has waited for yet, got %lld",
                     (long long)handle);
}

bool kolo_poll_at(kolo_handle handle, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_poll", here);
    pthread_mutex_lock(&lock);
    const entry *e = find(handle);
    bool done = e && kolo_request_is_done(&e->call->request);
    pthread_mutex_unlock(&lock);
    kolo_leave(scope, e ? KOLO_OK : no_such_handle(handle));
    return done;
}

static kolo_status synchronize(kolo_handle handle)
{
    call *waited = take(handle);
    if (!waited) return no_such_handle(handle);
    kolo_status status = kolo_request_wait(&waited->request);
    free_call(waited);
    return status;
}

kolo_status kolo_synchronize_at(kolo_handle handle, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_synchronize", here);
    return kolo_leave(scope, synchronize(handle));
}

void kolo_asynchronous_finish(void)
{
    for (int i = 0; i < table.count; i++) {
        const entry *e = &table.entries[i];
        if (!e->call) continue;
        kolo_scope scope = kolo_enter("kolo_finish", (kolo_here){0});
        kolo_leave(scope, synchronize(e->uses * KOLO_HANDLES_MAX + i));
    }
}
