/* What compiled cells call: programs of a shell line, and the calls of the C library that would end the worker.
 * Read first: worker.h. */
#define _GNU_SOURCE
#include "worker/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Starts the program in a process group of its own and waits for it; its wait status. An interrupt is passed on to the
 * group by the handler, and then ends the cell too. */
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
    while (waitpid(program, &status, 0) < 0 && errno == EINTR) continue;
    running.program = 0;
    if (running.ending == ENDING_INTERRUPTED) siglongjmp(running.out, 1);
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

/* A function that was declared, and called, and never defined: its stub leads here. */
void kolo_cell_undefined(const char *name);
void kolo_cell_undefined(const char *name)
{
    running.missing = name;
    step_out_of_call(ENDING_UNDEFINED, 0);
    fprintf(stderr, "the function %s was called, and nothing defines it\n", name);
    die_of(SIGABRT, NULL);
}

static void leave(const char *real, int code)
{
    if (getpid() == running.process) {
        step_out_of_call(ENDING_EXIT, code);
        running.ending = ENDING_EXIT;
    }
    void (*end)(int) = NULL;
    *(void **)&end = dlsym(RTLD_NEXT, real);
    if (end) end(code);
    __builtin_trap();
}

void exit(int code)
{
    leave("exit", code);
    __builtin_unreachable();
}

void _exit(int code)
{
    leave("_exit", code);
    __builtin_unreachable();
}

void _Exit(int code)
{
    leave("_exit", code);
    __builtin_unreachable();
}

void quick_exit(int code)
{
    leave("quick_exit", code);
    __builtin_unreachable();
}

/* What the C library links into each program and does not export: a cell finds it here. */
int __cxa_atexit(void (*function)(void *), void *argument, void *object);
int __cxa_at_quick_exit(void (*function)(void *), void *object);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

int atexit(void (*function)(void))
{
    return __cxa_atexit((void (*)(void *))(uintptr_t)function, NULL, NULL);
}

int at_quick_exit(void (*function)(void))
{
    return __cxa_at_quick_exit((void (*)(void *))(uintptr_t)function, NULL);
}

int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    return __register_atfork(prepare, parent, child, NULL);
}
