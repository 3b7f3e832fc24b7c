/* Begins and ends debugging of the worker. See state.h. */
#define _GNU_SOURCE
#include "debug/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool debug_available(void)
{
    const char *path = getenv("PATH");
    char *copy = copy_of(path && *path ? path : "/usr/bin:/bin"), *rest;
    bool found = false;
    for (char *folder = strtok_r(copy, ":", &rest); folder && !found; folder = strtok_r(NULL, ":", &rest)) {
        char *program = format_text("%s/lldb-dap-19", folder);
        found = access(program, X_OK) == 0;
        free(program);
    }
    free(copy);
    return found;
}

static adapter *start_adapter(debugger *d)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return NULL;
    message m = {.token = d->s->worker.token, .kind = MESSAGE_DEBUGGER};
    bool sent =
        d->s->worker.supervisor_socket >= 0 && message_send(d->s->worker.supervisor_socket, &m, NULL, 0, &ends[1], 1);
    close(ends[1]);
    adapter *a = sent ? adapter_open(ends[0], take_event, d) : NULL;
    if (!a) close(ends[0]);
    return a;
}

static json_t *initialize_arguments(void)
{
    return json_pack("{s:s, s:b, s:b, s:s, s:b}", "adapterID", "kolo", "linesStartAt1", 1, "columnsStartAt1", 1,
                     "pathFormat", "path", "sourceInitFile", 0);
}

/* Faults stop, as a debugger's user expects, and are the worker's to report when it goes on; other signals are no
 * business of the debugger's. One that would stop the process is shown instead: a traced process does not come back. */
static json_t *attach_arguments(pid_t worker)
{
    return json_pack("{s:i, s:b, s:b, s:s, s:[sss], s:[ss]}", "pid", (int)worker, "stopOnEntry", 0,
                     "enableAutoVariableSummaries", 1, "commandEscapePrefix", "\001", "initCommands",
                     "settings set target.preload-symbols false", "settings set symbols.enable-external-lookup false",
                     "settings set target.process.thread.max-backtrace-depth 2000", "postRunCommands",
                     "process handle -p true -s false -n false SIGINT SIGHUP SIGQUIT SIGTERM SIGPIPE SIGALRM SIGCHLD "
                     "SIGUSR1 SIGUSR2 SIGURG SIGWINCH SIGIO SIGPROF SIGVTALRM SIGCONT SIGRTMAX-2 "
                     "SIGRTMAX-1 SIGRTMAX",
                     "process handle -p false -s true -n true SIGSTOP SIGTSTP SIGTTIN SIGTTOU");
}

static bool succeeded(const json_t *response)
{
    return json_is_true(json_object_get(response, "success"));
}

/* lldb's server dies of a refused ptrace: all that is said then is that the connection is lost. */
static char *failure(const json_t *response)
{
    const char *why = json_string_value(json_object_get(response, "message"));
    if (!response) return copy_of("the debugger does not answer");
    if (!why || strstr(why, "lost connection") || strstr(why, "not permitted"))
        return copy_of("the process of the cells cannot be debugged: ptrace is forbidden here (a container wants the "
                       "capability SYS_PTRACE), or another debugger holds it; cells run without");
    return format_text("the debugger cannot attach: %.*s", (int)strcspn(why, "\n"), why);
}

char *attach(debugger *d)
{
    detach(d);
    if (!debug_available())
        return copy_of("there is no lldb-dap-19 on this machine: the Debian package lldb-19 has it");
    if (d->s->worker.process <= 0) return copy_of("the process that runs cells is not up yet");
    d->adapter = start_adapter(d);
    if (!d->adapter) return copy_of("the debugger cannot be started");
    d->s->worker.traced = true;
    json_t *hello = adapter_ask(d->adapter, "initialize", initialize_arguments(), 2 * PATIENCE);
    json_t *attached =
        hello ? adapter_ask(d->adapter, "attach", attach_arguments(d->s->worker.process), 6 * PATIENCE) : NULL;
    char *problem = succeeded(attached) ? NULL : failure(attached);
    json_decref(hello);
    json_decref(attached);
    if (problem) {
        detach(d);
        return problem;
    }
    const char *path;
    json_t *unused;
    json_object_foreach(d->places.breakpoints, path, unused) json_decref(set_breakpoints(d, path));
    json_decref(adapter_ask(d->adapter, "configurationDone", NULL, PATIENCE));
    return NULL;
}

void detach(debugger *d)
{
    if (!d->adapter) return;
    if (!adapter_gone(d->adapter)) {
        json_t *bye = json_pack("{s:b}", "terminateDebuggee", 0);
        json_decref(adapter_ask(d->adapter, "disconnect", bye, PATIENCE));
    }
    adapter_close(d->adapter);
    d->adapter = NULL;
    d->s->worker.traced = d->stopped = d->passing = d->pausing = false;
    d->step_in = 0;
}

json_t *set_breakpoints(debugger *d, const char *path)
{
    const cell_place *newest = NULL;
    for (size_t i = d->places.count; i-- > 0 && !newest;) {
        const cell_place *p = &d->places.items[i];
        if (p->name && !strcmp(p->path, path)) newest = p;
    }
    if (!newest || !d->adapter) return NULL;
    json_t *arguments = json_pack("{s:{s:s, s:s}, s:O}", "source", "name", newest->name, "path", newest->name,
                                  "breakpoints", json_object_get(d->places.breakpoints, path));
    return adapter_ask(d->adapter, "setBreakpoints", arguments, PATIENCE);
}

void debug_worker_started(debugger *d)
{
    if (!d->on) return;
    if (d->s->worker.process <= 0) worker_ask(&d->s->worker, MESSAGE_RESOLVE, "", 0);
    pthread_mutex_lock(&d->lock);
    bool was_stopped = d->stopped;
    free(d->problem);
    d->problem = attach(d);
    if (was_stopped)
        publish_event(d, "continued", json_pack("{s:I, s:b}", "threadId", d->thread, "allThreadsContinued", 1));
    pthread_mutex_unlock(&d->lock);
}
