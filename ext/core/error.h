/* Errors: reporting a failure in one sentence.
 *
 * Inside the library a function that can fail returns kolo_status; it reports a failure with `return kolo_fail(code,
 * "…")` and passes failures on with KOLO_TRY. The first failure within a public call is kept; later ones are its
 * consequences and are dropped. A public function begins with kolo_enter and ends with kolo_leave, which adds the
 * caller's place and the function's name to the sentence, prints it once, and makes it the result of kolo_last_error()
 * unless that has one already. A function that fails because an earlier call failed returns a status without
 * kolo_fail(), and nothing is printed.
 */
#ifndef KOLO_CORE_ERROR_H
#define KOLO_CORE_ERROR_H

#include <kolo.h>

/* Keeps the sentence "wanted …, got …" as this thread's failure unless it has one already. Returns code, which must not
 * be KOLO_OK. */
kolo_status kolo_fail(kolo_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fails with KOLO_MEMORY and the same sentence for every allocation: "out of memory: wanted 12.0 MB for the
 * gradients". */
kolo_status kolo_fail_memory(size_t bytes, const char *what);

#ifdef __clang_analyzer__ /* it sees one file at a time, and assumes otherwise that a failure may return KOLO_OK */
#define kolo_fail(code, ...)          (kolo_fail(code, __VA_ARGS__), (code))
#define kolo_fail_memory(bytes, what) (kolo_fail_memory(bytes, what), KOLO_MEMORY)
#endif

#define KOLO_TRY(call)                                                                                                 \
    do {                                                                                                               \
        kolo_status try_status_ = (call);                                                                              \
        if (try_status_ != KOLO_OK) return try_status_;                                                                \
    } while (0)

/* KOLO_TRY for a function with a single exit: sets `status` and goes to `label` on failure. */
#define KOLO_GO(label, call)                                                                                           \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != KOLO_OK) goto label;                                                                             \
    } while (0)

typedef struct kolo_scope {
    kolo_here here;
    const char *function;
} kolo_scope;

/* Begins a public call. Returns the scope of the call around it, for kolo_leave(): calls nest, because a callback of
 * kolo_fit may call Kolo. */
kolo_scope kolo_enter(const char *function, kolo_here here);
/* Ends a public call: publishes this thread's failure if status is not KOLO_OK. Returns status. */
kolo_status kolo_leave(kolo_scope scope, kolo_status status);
#ifdef __clang_analyzer__ /* as above */
static inline kolo_status kolo_leave_with(kolo_scope scope, kolo_status status)
{
    kolo_leave(scope, status);
    return status;
}
#define kolo_leave(scope, status) kolo_leave_with(scope, status)
#endif
/* The public call that runs in this thread; all zeros if there is none. A thread that works for another one takes over
 * that one's scope, so that messages about its work name the same place. */
kolo_scope kolo_scope_now(void);
void kolo_scope_take_over(kolo_scope scope);
/* Prints this thread's failure now, in the form in which kolo_leave() would, for a process that is about to end. */
void kolo_failure_say(void);

/* Whether the running public call is not nested in another one. Only the outermost call may take back a requested stop.
 */
bool kolo_is_outermost(void);
/* The name of a public call that runs in this process beside the running one: around it, as kolo_fit() is around the
 * calls of a callback, or in another thread. NULL: there is none. For calls that take away what others use. */
const char *kolo_call_around(void);

/* A failure that is passed from the thread where it occurred to the thread that waits for that one. */
typedef struct kolo_failure {
    kolo_status code;
    char text[960];
} kolo_failure;
kolo_failure kolo_failure_take(void); /* returns this thread's failure and clears it */
void kolo_failure_give(const kolo_failure *failure); /* makes it this thread's failure unless there is one already */

/* Sets this process's rank and the number of ranks: sentences name the rank if there are several, and only rank 0
 * prints advice. runtime/ calls it when the process joins or leaves a job; before, the process is rank 0 of 1. No other
 * thread may use Kolo during the call. */
void kolo_error_speak_as(int rank, int size);

/* The part of kolo_clear_error() that clears errors; runtime/runtime.c also clears the stop flag. */
void kolo_error_clear(void);

/* Whether any public call failed since the start or the last kolo_clear_error(). */
bool kolo_failed(void);

/* Prints a sentence of advice on stderr, in the form of an error message, on rank 0 only. It is not a failure. */
void kolo_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Formats a short text for a sentence: "{26, 26, 32}". The result, at most 255 bytes, is in one of 16 thread-local
 * buffers, which are used in turn. */
const char *kolo_phrase(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
