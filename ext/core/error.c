/* Reporting a failure in one sentence: see error.h. */
#include "core/error.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/shape.h"

#define TEXT_SIZE 1200
#define SAID_MOST 64

static _Thread_local kolo_failure pending;        /* kept by kolo_fail(), not yet published */
static _Thread_local kolo_scope current;          /* the public call that is running */
static _Thread_local int depth;                   /* nested public calls that are running; 0: none */
static _Thread_local char published[TEXT_SIZE];   /* the text of kolo_last_error() */
static _Thread_local kolo_error last = {.text = "", .file = ""};
static _Thread_local uint64_t said[SAID_MOST];    /* hashes of the sentences that were printed; 0: unused */
static _Thread_local unsigned said_count;
static atomic_bool failed;
static atomic_int calls_running;                  /* threads within a public call */
static _Atomic(const char *) first_call;          /* the call that began when no other one ran */
static struct {
    int rank, size;
} job = {0, 1};                                   /* set by kolo_error_speak_as() */

/* Replaces control characters, so that a sentence that quotes a file's content is one line. */
static void keep_in_line(char *text)
{
    for (; *text; text++)
        if ((*text > 0 && *text < ' ') || *text == 127) *text = '?';
}

kolo_status(kolo_fail)(kolo_status code, const char *format, ...)
{
    if (pending.code == KOLO_OK) {
        va_list arguments;
        va_start(arguments, format);
        pending.code = code;
        vsnprintf(pending.text, sizeof pending.text, format, arguments);
        va_end(arguments);
        keep_in_line(pending.text);
    }
    return code;
}

kolo_status(kolo_fail_memory)(size_t bytes, const char *what)
{
    return kolo_fail(KOLO_MEMORY, "out of memory: wanted %.1f MB for %s", (double)bytes / 1e6, what);
}

kolo_failure kolo_failure_take(void)
{
    kolo_failure taken = pending;
    pending.code = KOLO_OK;
    return taken;
}

void kolo_failure_give(const kolo_failure *failure)
{
    if (pending.code == KOLO_OK) pending = *failure;
}

void kolo_error_speak_as(int rank, int size)
{
    job.rank = rank;
    job.size = size;
}

kolo_scope kolo_enter(const char *function, kolo_here here)
{
    kolo_scope outer = current;
    current = (kolo_scope){.here = here, .function = function};
    if (depth++ > 0) return outer;
    pending.code = KOLO_OK;
    if (atomic_fetch_add(&calls_running, 1) == 0) atomic_store(&first_call, function);
    return outer;
}

kolo_scope kolo_scope_now(void)
{
    return current;
}

void kolo_scope_take_over(kolo_scope scope)
{
    current = scope;
}

bool kolo_is_outermost(void)
{
    return depth == 1;
}

const char *kolo_call_around(void)
{
    int own = depth == 1 ? 1 : 0;
    return atomic_load(&calls_running) > own ? atomic_load(&first_call) : NULL;
}

static const char *file_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "";
}

/* Writes the line with one call, so that lines of several ranks and threads do not mix. */
static void print_line(const char *text)
{
    char line[TEXT_SIZE + 2];
    int length = snprintf(line, sizeof line, "%s\n", text);
    if (length > (int)sizeof line - 1) length = (int)sizeof line - 1;
    fflush(stdout);
    ssize_t written = write(STDERR_FILENO, line, (size_t)length);
    (void)written; /* nowhere to report it */
}

static void prefix(char *text, size_t size, const kolo_scope *scope)
{
    char rank[24] = "";
    if (job.size > 1) snprintf(rank, sizeof rank, "rank %d: ", job.rank);
    if (scope->here.file)
        snprintf(text, size, "%s%s:%d: %s: ", rank, file_name(scope->here.file), scope->here.line, scope->function);
    else snprintf(text, size, "%s%s: ", rank, scope->function);
}

/* Whether this sentence was printed since the last clear, so that a loop that fails a thousand times prints it once.
 * Only the last SAID_MOST different sentences are remembered. */
static bool is_repeated(const char *text)
{
    uint64_t hash = kolo_hash_add(KOLO_HASH_START, text, strlen(text));
    for (int i = 0; i < SAID_MOST; i++)
        if (said[i] == hash) return true;
    said[said_count++ % SAID_MOST] = hash;
    return false;
}

/* Whether a failure is a consequence of an earlier one on this thread. A call that fails without a sentence received a
 * NULL from a call that had failed. A failure because of another rank or of a stop is not reported after another
 * failure, either. */
static bool follows_from_earlier(kolo_status status)
{
    return last.code != KOLO_OK && (pending.code == KOLO_OK || status == KOLO_COMM || status == KOLO_INTERRUPTED);
}

static void publish(const kolo_scope *scope, kolo_status status)
{
    atomic_store(&failed, true);
    if (follows_from_earlier(status)) return;
    char place[200], text[TEXT_SIZE];
    prefix(place, sizeof place, scope);
    snprintf(text, sizeof text, "%s%s", place, pending.code != KOLO_OK ? pending.text : kolo_status_name(status));
    if (last.code == KOLO_OK) {
        memcpy(published, text, sizeof published);
        last = (kolo_error){status, published, file_name(scope->here.file), scope->here.line, job.rank};
    }
    if (!is_repeated(text)) print_line(text);
}

void kolo_failure_say(void)
{
    if (pending.code == KOLO_OK) return;
    char place[200], text[TEXT_SIZE];
    if (current.function) prefix(place, sizeof place, &current);
    else snprintf(place, sizeof place, "rank %d: ", job.rank);
    snprintf(text, sizeof text, "%s%s", place, pending.text);
    pending.code = KOLO_OK;
    atomic_store(&failed, true);
    print_line(text);
}

kolo_status(kolo_leave)(kolo_scope scope, kolo_status status)
{
    if (status != KOLO_OK) publish(&current, status);
    pending.code = KOLO_OK;
    if (--depth == 0) atomic_fetch_sub(&calls_running, 1);
    current = scope;
    return status;
}

kolo_error kolo_last_error(void)
{
    return last;
}

/* Clears this thread's error and the process's `failed`. The flag of kolo_request_stop() is in runtime.c. */
void kolo_error_clear(void)
{
    pending.code = KOLO_OK;
    last = (kolo_error){.text = "", .file = ""};
    memset(said, 0, sizeof said);
    atomic_store(&failed, false);
}

bool kolo_failed(void)
{
    return atomic_load(&failed);
}

void kolo_warn(const char *format, ...)
{
    if (job.rank != 0) return;
    char text[TEXT_SIZE], place[200] = "";
    if (depth > 0) prefix(place, sizeof place, &current);
    int length = snprintf(text, sizeof text, "%s", place);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    print_line(text);
}

const char *kolo_phrase(const char *format, ...)
{
    static _Thread_local char ring[16][256];
    static _Thread_local unsigned next;
    char *text = ring[next++ % 16];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof ring[0], format, arguments);
    va_end(arguments);
    return text;
}

const char *kolo_shape_text(kolo_shape shape)
{
    char text[80] = "{";
    for (int axis = 0; axis < shape.rank; axis++) {
        size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%d", axis ? ", " : "", shape.dim[axis]);
    }
    return kolo_phrase("%s}", text);
}

const char *kolo_status_name(kolo_status status)
{
    static const char *const names[] = {
        [KOLO_OK] = "no error",
        [KOLO_INVALID] = "invalid argument",
        [KOLO_NOT_FOUND] = "not found",
        [KOLO_IO] = "input/output error",
        [KOLO_FORMAT] = "wrong format",
        [KOLO_MEMORY] = "out of memory",
        [KOLO_UNSUPPORTED] = "unsupported",
        [KOLO_COMM] = "another rank or replica failed",
        [KOLO_INTERRUPTED] = "interrupted",
        [KOLO_INTERNAL] = "internal error",
    };
    bool known = status >= KOLO_OK && status <= KOLO_INTERNAL;
    return known ? names[status] : "unknown status";
}
