/* Calls of compiled cells: programs of a shell line, and the calls of the C library that would end the worker.
 * Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/checks.h"
#include "worker/heap.h"
#include "worker/interposed.h"
#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A notebook has no job control that could continue the program. */
static void end_stopped(pid_t program, int number)
{
    fprintf(stderr, "the program stopped itself (%s), so it was ended\n", strsignal(number));
    kill(-program, SIGKILL);
}

/* Starts the program in a process group of its own and waits for it; its wait status. The handler passes an interrupt
 * on to the group, and then the cell ends, too. */
int run_program(char *const *arguments)
{
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&how);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t program;
    int failed = posix_spawnp(&program, arguments[0], NULL, &how, arguments, environ);
    posix_spawnattr_destroy(&how);
    if (failed) {
        fprintf(stderr, "%s: %s\n", arguments[0], strerror(failed));
        return 127 << 8;
    }
    running.program = program;
    int status = 0;
    for (pid_t got; (got = waitpid(program, &status, WUNTRACED)) != program || WIFSTOPPED(status);) {
        if (got < 0 && errno != EINTR) break;
        if (got == program) end_stopped(program, WSTOPSIG(status));
        status = 0;
    }
    running.program = 0;
    if (running.status == STATUS_INTERRUPTED) recover_from_call(STATUS_INTERRUPTED, 0);
    return status;
}

int kolo_cell_shell(const char *command);
int kolo_cell_shell(const char *command)
{
    char *arguments[] = {"/bin/bash", "-c", (char *)(uintptr_t)command, NULL};
    if (access(arguments[0], X_OK)) arguments[0] = "/bin/sh";
    int status = run_program(arguments);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

INTERPOSED(system);

/* The C library's would go on with its program when an interrupt has ended the cell. */
int system(const char *command)
{
    char *arguments[] = {"/bin/sh", "-c", (char *)(uintptr_t)command, NULL};
    if (!command || !on_cell_thread() || !is_cell_code(__builtin_return_address(0))) return real_system()(command);
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before); /* a handler of the cell's must not wait for this program */
    int status = run_program(arguments);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* A function that was declared, and called, and never defined: its stub leads here. */
void kolo_cell_undefined(const char *name);
void kolo_cell_undefined(const char *name)
{
    running.missing = name;
    leave_refused(STATUS_UNDEFINED);
}

void __stack_chk_fail(void);
void __stack_chk_fail(void)
{
    running.smashed = 1; /* unwinding such a stack may end in a fault */
    running.missing = WORDS_SMASHED;
    leave_refused(STATUS_REFUSED);
}

enum { EXIT_HANDLERS = 1024 };
typedef void (*exit_handler)(void);
static exit_handler at_exit[EXIT_HANDLERS], at_quick[EXIT_HANDLERS];
static size_t at_exit_count, at_quick_count;

static void run_handlers(exit_handler *handlers, size_t *count)
{
    while (*count) handlers[--*count]();
}

/* As exit() does, the last one first. The C library itself runs those of libraries. */
void run_exit_handlers(void)
{
    run_handlers(at_exit, &at_exit_count);
}

int atexit(void (*function)(void))
{
    if (at_exit_count == EXIT_HANDLERS) return -1;
    at_exit[at_exit_count++] = function;
    return 0;
}

int at_quick_exit(void (*function)(void))
{
    if (at_quick_count == EXIT_HANDLERS) return -1;
    at_quick[at_quick_count++] = function;
    return 0;
}

INTERPOSED(exit);
INTERPOSED(_exit);
INTERPOSED(quick_exit);

/* The cell ends, and its process lives on, where the frames allow it. */
static void leave(int code)
{
    if (getpid() != running.process) return;
    if (gettid() == running.process) recover_from_call(STATUS_EXIT, code);
    else record_frames();
    last_words(STATUS_EXIT, code, NULL);
}

void exit(int code)
{
    if (running.active) run_exit_handlers();
    leave(code);
    real_exit()(code);
    __builtin_unreachable();
}

void _exit(int code)
{
    leave(code);
    real__exit()(code);
    __builtin_unreachable();
}

void _Exit(int code)
{
    _exit(code);
}

void quick_exit(int code)
{
    if (running.active) run_handlers(at_quick, &at_quick_count);
    leave(code);
    real_quick_exit()(code);
    __builtin_unreachable();
}

/* The line of the call is reported also when a handler of the cell's returns, and when there is none. */
void abort(void)
{
    raise(SIGABRT);
    recover_from_call(STATUS_SIGNAL, SIGABRT);
    record_frames();
    die_of(SIGABRT, NULL);
    _exit(128 + SIGABRT);
}

/* The C library's message, without the name of the function that the kernel has put around a cell's statements. */
void __assert_fail(const char *assertion, const char *file, unsigned line, const char *function)
{
    bool named = function && *function && strncmp(function, "void In_", 8);
    fprintf(stderr, "%s:%u: %s%sAssertion `%s' failed.\n", file, line, named ? function : "", named ? ": " : "",
            assertion);
    abort();
}

/* The C library links pthread_atfork() into each program and does not export it: a cell finds it here. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return __register_atfork(prepare, parent, child, NULL);
}
