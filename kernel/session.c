#define _GNU_SOURCE
#include "session.h"
#include "folder.h"
#include "debug/debugger.h"
#include "cells/spelling.h"
#include "expressions.h"
#include "magics/magics.h"
#include "outs.h"
#include "ranks/ranks.h"
#include "loads.h"
#include "lock.h"
#include "search_path.h"
#include "widgets/widgets.h"

#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A folder that is sought before those of a PATH. */
static void put_first(const char *name, const char *folder, const char *usual)
{
    const char *given = getenv(name);
    char *path = format_text("%s:%s", folder, given && *given ? given : usual);
    if (!*usual && !(given && *given)) path[strlen(folder)] = 0;
    setenv(name, path, 1);
    free(path);
}

/* Beside the kernel when built, below PREFIX when installed: both have bin/ and lib/ side by side. */
static void find_paths(session *s, const char *executable)
{
    char real[PATH_MAX];
    s->executable = copy_of(realpath(executable, real) ? real : executable);
    char *copy = copy_of(s->executable);
    const char *folder = dirname(copy);
    s->library = format_text("%s/../lib/libkolo.so", folder);
    s->launcher = format_text("%s/kolorun", folder);
    char *packages = format_text("%s/../lib/pkgconfig", folder);
    /* kolorun and the lessons' programs are commands of every cell, and `!cc x.c $(pkg-config --libs kolo)` builds. */
    put_first("PATH", folder, "/usr/local/bin:/usr/bin:/bin");
    put_first("PKG_CONFIG_PATH", packages, "");
    free(packages);
    free(copy);
}

static char *beside(const session *s, const char *relative)
{
    char *copy = copy_of(s->executable);
    char *path = format_text("%s/%s", dirname(copy), relative);
    free(copy);
    return path;
}

static void add_words(names *list, char *words)
{
    for (char *rest, *word = strtok_r(words, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
        flags_add(list, word);
    }
}

/* pkg-config's answer for one package, or NULL. */
static char *package_flags(const session *s, const char *what, const char *package)
{
    char *log = format_text("%s/flags.log", s->folder);
    char *arguments[] = {"pkg-config", (char *)(uintptr_t)what, (char *)(uintptr_t)package, NULL};
    char *flags = output_of_tool(arguments, log);
    free(log);
    return flags;
}

/* Headers of other projects are system headers: their warnings are not the learner's. */
static void add_system_words(names *list, char *words)
{
    for (char *rest, *word = strtok_r(words, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
        bool folder = !strncmp(word, "-I", 2);
        if (folder) names_add(list, "-isystem");
        names_add(list, folder ? word + 2 : word);
    }
}

static void find_flags(session *s)
{
    static char fixed[] =
        "-std=gnu17 -Wall -Wno-unused -Wno-unused-value -Wno-missing-braces "
        "-Wno-misleading-indentation -Wno-null-dereference -Wno-missing-declarations -Wno-unknown-pragmas "
        "-Wno-incompatible-library-redeclaration "
        "-Wno-gnu-folding-constant -Wno-error=implicit-int -Werror=int-conversion -Werror=incompatible-pointer-types "
        "-Wunused-value -Wtautological-unsigned-zero-compare -Wconditional-uninitialized";
    char *words = copy_of(fixed), *kolo = package_flags(s, "--cflags", "kolo"),
         *mpi = package_flags(s, "--cflags", "ompi-c");
    add_words(&s->base_flags, words);
    char *built = beside(s, "../../ext/include"), *installed = beside(s, "../include");
    if (kolo) {
        add_words(&s->base_flags, kolo);
    } else {
        char *folders = format_text("-I%s -I%s", built, installed);
        add_words(&s->base_flags, folders);
        free(folders);
    }
    char *here = realpath(".", NULL), *own = format_text("-iquote%s", here ? here : ".");
    flags_add(&s->base_flags, own); /* #include "mine.h" */
    free(here);
    free(own);
    if (mpi) add_system_words(&s->base_flags, mpi);
    free(words);
    free(kolo);
    free(mpi);
    free(built);
    free(installed);
}

static void open_history(session *s)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char *base = data && *data ? copy_of(data) : format_text("%s/.local/share", home ? home : "/tmp");
    char *folder = format_text("%s/kolo", base), *path = format_text("%s/history.jsonl", folder);
    bool there = (mkdir(base, 0700), mkdir(folder, 0700), access(folder, W_OK) == 0);
    history_open(&s->history, there ? path : NULL);
    free(base);
    free(folder);
    free(path);
}

/* Lets a sanitizer's report name lines. */
static void add_symbolizer(names *environment)
{
    static const char *const programs[] = {"llvm-symbolizer-19", "llvm-symbolizer", "addr2line", NULL};
    static const char *const sanitizers[] = {"ASAN", "MSAN", "TSAN", "UBSAN", NULL};
    char *path = NULL;
    for (const char *const *one = programs; *one && !path; one++) path = in_path(*one);
    for (const char *const *one = sanitizers; *one && path; one++) {
        char *name = format_text("%s_SYMBOLIZER_PATH", *one), *line = format_text("%s=%s", name, path);
        if (!getenv(name)) names_add(environment, line);
        free(name);
        free(line);
    }
    free(path);
}

/* For cells and the programs they start. */
static void set_environment(session *s)
{
    static const char *const plain[] = {"PAGER=cat", "GIT_PAGER=cat", "PYTHONUNBUFFERED=1", NULL};
    display_tell(&s->display, s->library, s->folder, &s->worker.environment);
    names_add_words(&s->worker.environment, plain);
    add_symbolizer(&s->worker.environment);
}

typedef struct news {
    struct pollfd watched[6];
    bool soon; /* something is due that no descriptor tells of */
} news;

/* To be called by the holder of `busy`. */
static news news_of(session *s)
{
    worker_process *w = &s->worker;
    bool room = output_has_room(&s->out);
    return (news){.watched = {{room ? w->out_pipe : -1, POLLIN, 0},
                              {room ? w->error_pipe : -1, POLLIN, 0},
                              {room ? display_watch(&s->display) : -1, POLLIN, 0},
                              {room ? ranks_watch(s) : -1, POLLIN, 0},
                              {w->wake, POLLIN, 0}, /* a shutdown */
                              {w->orphans_ended ? -1 : w->supervisor_socket, 0, 0}}, /* its end */
                  .soon = !room || s->compiler.building};
}

/* Between two looks at least a moment passes, in which output gathers. */
static void wait_for_news(news *n)
{
    nanosleep(&(struct timespec){.tv_nsec = n->soon ? 100000000 : 20000000}, NULL);
    if (!n->soon) poll(n->watched, sizeof n->watched / sizeof *n->watched, 1000);
}

/* Between cells, reads and publishes the output of programs in the background and of threads of cells. */
static void *idle(void *closure)
{
    session *s = closure;
    news next = {.soon = true};
    while (!s->closing) {
        wait_for_news(&next);
        next.soon = true; /* while a cell runs its thread does all this */
        if (pthread_mutex_trylock(&s->busy)) continue;
        if (!s->closing && output_has_room(&s->out)) {
            worker_drain(&s->worker);
            worker_serve_display(&s->worker);
            if (!s->closing) ranks_tend(s);
            output_flush(&s->out);
        }
        if (!s->closing) compiler_tend(&s->compiler);
        if (!s->closing) next = news_of(s);
        pthread_mutex_unlock(&s->busy);
    }
    return NULL;
}

session *session_open(const front *f, const char *executable, char **problem)
{
    session *s = need_zeroed(sizeof *s);
    s->front = *f;
    s->magics = magics_table;
    worker_blank(&s->worker); /* session_close() follows whatever fails */
    s->compiler.input = -1;
    pthread_mutex_init(&s->busy, NULL);
    pthread_mutex_init(&s->knowledge, NULL);
    s->folder = folder_make();
    if (!s->folder) {
        *problem = copy_of("no folder can be made under /tmp");
        free(s);
        return NULL;
    }
    find_paths(s, executable);
    s->prefix = copy_of("");
    s->symbols = symbols_open();
    s->widgets = widgets_open();
    output_begin(&s->out, &s->front, false);
    char *worker = beside(s, "kolo-worker");
    bool up = display_open(&s->display, s->folder) && worker_open(&s->worker, &s->out, worker, s->folder);
    free(worker);
    s->worker.display = &s->display;
    set_environment(s);
    if (!up || !worker_start(&s->worker)) {
        *problem = format_text("kolo-worker cannot be started beside %s", s->executable);
        session_close(s, true);
        return NULL;
    }
    find_flags(s);
    names_add_all(&s->first_flags, &s->base_flags);
    analyser_open(&s->analyser, &s->base_flags, s->folder);
    compiler_open(&s->compiler, &s->base_flags, s->folder);
    compiler_prepare(&s->compiler);
    tools_heed(s->worker.wake);
    open_history(s);
    s->debugger = debug_open(s);
    s->idling = pthread_create(&s->idler, NULL, idle, s) == 0;
    return s;
}

void session_close(session *s, bool alone)
{
    if (!s) return;
    s->closing = true;
    if (s->idling) pthread_join(s->idler, NULL);
    bool quiet = alone && last_enters(s);
    if (quiet) ranks_close(s);
    if (quiet) worker_ask_to_end(&s->worker);
    worker_close(&s->worker);
    if (!quiet) return; /* the process is about to end; its supervisor has ended the rest */
    debug_close(s->debugger);
    compiler_close(&s->compiler);
    display_close(&s->display);
    analyser_close(&s->helper);
    analyser_close(&s->analyser);
    symbols_close(s->symbols);
    history_close(&s->history);
    journal_clear(&s->journal);
    json_decref(s->value);
    loads_clear(s);
    outs_clear(s);
    widgets_close(s->widgets);
    folder_remove_session(s->folder); /* a cell may have ended the supervisor, which would have done it */
    for (size_t i = 0; i < s->source_count; i++) {
        free(s->sources[i].name);
        free(s->sources[i].text);
    }
    free(s->sources);
    free(s->prefix);
    free(s->folder);
    free(s->executable);
    free(s->library);
    free(s->launcher);
    names_free(&s->base_flags);
    names_free(&s->first_flags);
    names_free(&s->manuals);
    free(s->last_folder);
    output_free(&s->out);
    free(s);
}

static void publish_error(session *s, const result *r, json_t *lines)
{
    json_t *content = json_pack("{s:s, s:s, s:O}", "ename", r->name, "evalue", r->value, "traceback", lines);
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) output_publish(&s->out, "error", dump);
    free(dump);
    json_decref(content);
}

static json_t *reply_of(session *s, const result *r, const char *user_expressions)
{
    if (!r->failed) {
        return json_pack("{s:s, s:i, s:o, s:o}", "status", "ok", "execution_count", (int)s->count, "payload",
                         r->payload ? json_incref(r->payload) : json_array(), "user_expressions",
                         evaluate_expressions(s, user_expressions));
    }
    json_t *lines = traceback_lines(r);
    publish_error(s, r, lines);
    return json_pack("{s:s, s:i, s:s, s:s, s:o}", "status", "error", "execution_count", (int)s->count, "ename", r->name,
                     "evalue", r->value, "traceback", lines);
}

static bool blank(const char *code)
{
    return code[strspn(code, " \t\r\n;")] == 0;
}

/* %%stdin gives its text to the next cell alone. */
static void forget_input(session *s)
{
    bool keep = s->input_given;
    s->input_given = false;
    if (keep || !s->worker.input_file) return;
    unlink(s->worker.input_file);
    free(s->worker.input_file);
    s->worker.input_file = NULL;
}

static result run_with_sliders(session *s, const char *code, const char *name)
{
    widgets_before_cell(s);
    result r = run_cell(s, code, name);
    widgets_after_cell(s);
    return r;
}

char *session_execute(session *s, const char *code, bool silent, bool store, const char *user_expressions,
                      bool allow_stdin)
{
    char *plain = plain_line_ends(code);
    cell_begins(s);
    bool counted = store && !silent && !blank(plain);
    if (counted) s->count++;
    json_decref(s->value);
    s->value = NULL;
    s->allow_stdin = allow_stdin;
    output_begin(&s->out, &s->front, silent);
    display_begin(&s->display);
    char *name = format_text("In[%u]", store && !silent ? s->count : s->count + 1);
    result r = {0};
    size_t before = s->source_count;
    if (counted) journal_begin(&s->journal, plain, name);
    debug_cell_begins(s->debugger, plain, name);
    worker_take_wake(&s->worker);
    if (s->worker.interrupted > 0) r = error_result("KeyboardInterrupt", "interrupted before it ran");
    else if (!blank(plain)) r = run_with_sliders(s, plain, name);
    debug_cell_ended(s->debugger);
    worker_drain(&s->worker);
    output_end(&s->out);
    journal_end(&s->journal, r.failed);
    forget_input(s);
    for (size_t i = before; i < s->source_count; i++) s->sources[i].ran = !r.failed;
    if (counted) history_add(&s->history, s->count, plain, json_string_value(json_object_get(s->value, "text/plain")));
    json_t *reply = reply_of(s, &r, user_expressions);
    char *dump = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
    json_decref(reply);
    result_free(&r);
    free(name);
    free(plain);
    compiler_precompile(&s->compiler, s->prefix);
    compiler_prepare(&s->compiler);
    worker_take_wake(&s->worker);
    s->worker.interrupted = 0;
    cell_ended(s);
    return dump ? dump : copy_of("{\"status\":\"error\",\"ename\":\"Error\",\"evalue\":\"\",\"traceback\":[]}");
}

void session_interrupt(session *s)
{
    worker_interrupt(&s->worker);
}

void session_forget_interrupt(session *s)
{
    worker_forget_wake(&s->worker);
}

void session_interrupt_debugger(session *s)
{
    debug_interrupt(s->debugger);
}

unsigned session_count(const session *s)
{
    return s->count;
}

char *session_debug(session *s, const char *request)
{
    json_t *asked = json_loads(request, 0, NULL);
    json_t *answer = debug_answer(s->debugger, asked);
    char *dump = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
    json_decref(asked);
    json_decref(answer);
    return dump ? dump : copy_of("{}");
}

bool session_has_debugger(void)
{
    return debug_available();
}

char *session_history(session *s, const char *request)
{
    json_t *asked = json_loads(request, 0, NULL);
    bool alone = help_enters(s);
    json_t *answer = history_answer(&s->history, asked);
    help_leaves(s, alone);
    char *dump = json_dumps(answer, JSON_COMPACT);
    json_decref(asked);
    json_decref(answer);
    return need(dump);
}
