/* Errors: how a failure becomes one sentence.
 *
 * Inside the library a function that can fail returns kolo_status; it reports with `return kolo_fail(code, "…")` and
 * passes failures on with KOLO_TRY. The first failure within a call is kept; later ones, its consequences, are not.
 * A public function brackets its work with kolo_enter and kolo_leave, which put the caller's place and the function's
 * name before the sentence, print it once, and make it what kolo_last_error() returns if that has none yet. A function
 * that fails because an earlier call failed returns a status without kolo_fail(), and prints nothing.
 */
#ifndef KOLO_CORE_ERROR_H
#define KOLO_CORE_ERROR_H

#include <kolo.h>

/* Keeps "wanted …, got …" as this thread's failure unless it has one already. Returns code, never KOLO_OK. */
kolo_status kolo_fail(kolo_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Out of memory, in the words of every allocation: "out of memory: wanted 12 MB for the gradients". */
kolo_status kolo_fail_memory(size_t bytes, const char *what);

#ifdef __clang_analyzer__ /* It sees one file at a time, and would take a failure's status for KOLO_OK. */
#define kolo_fail(code, ...)          (kolo_fail(code, __VA_ARGS__), (code))
#define kolo_fail_memory(bytes, what) (kolo_fail_memory(bytes, what), KOLO_MEMORY)
#endif

#define KOLO_TRY(call)                                                                                                 \
    do {                                                                                                               \
        kolo_status try_status_ = (call);                                                                              \
        if (try_status_ != KOLO_OK) return try_status_;                                                                \
    } while (0)

/* The same for a function with one exit: sets `status` and goes to `label`. */
#define KOLO_GO(label, call)                                                                                           \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != KOLO_OK) goto label;                                                                             \
    } while (0)

typedef struct kolo_scope {
    kolo_here here;
    const char *function;
} kolo_scope;

/* Begins a public call; nests, since a callback may call Kolo from within kolo_fit. */
kolo_scope kolo_enter(const char *function, kolo_here here);
/* Ends it: publishes this thread's failure if status is one, and returns status. */
kolo_status kolo_leave(kolo_scope scope, kolo_status status);
#ifdef __clang_analyzer__ /* as above */
static inline kolo_status kolo_leave_with(kolo_scope scope, kolo_status status)
{
    kolo_leave(scope, status);
    return status;
}
#define kolo_leave(scope, status) kolo_leave_with(scope, status)
#endif
/* Whether no other call surrounds the one that runs: what was asked of the outer one, a stop, is not for the inner. */
bool kolo_is_outermost(void);

/* Moves a failure from the thread that met it to the thread that waits for it. */
typedef struct kolo_failure {
    kolo_status code;
    char text[960];
} kolo_failure;
kolo_failure kolo_failure_take(void); /* this thread's, which then has none */
void kolo_failure_give(const kolo_failure *failure);

/* From now on sentences name this rank, if the job has several, and advice comes from rank 0 alone. runtime/ calls it
 * when the process joins a job and when it leaves it; before that there is one rank, 0. No other thread may run then.
 */
void kolo_error_speak_as(int rank, int size);

/* What kolo_clear_error() does to errors (runtime/runtime.c adds the stop flag). */
void kolo_error_clear(void);

/* Whether any public call failed since the start or the last kolo_clear_error(). */
bool kolo_failed(void);

/* A sentence of advice on stderr, from rank 0 only, in the form of an error's. Never a failure. */
void kolo_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A formatted text in a ring of thread-local buffers, for building sentences: "{26, 26, 32}". */
const char *kolo_phrase(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
