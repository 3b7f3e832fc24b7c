/* %%run and %run: a cell or a file is a whole program. Compiled with the flags that make <kolo.h> and <mpi.h> work,
 * then run, on N ranks under kolorun with -np. See magics.h. */
#define _GNU_SOURCE
#include "diagnostics/link_words.h"
#include "cells/split.h"
#include "magics/magics.h"
#include "lock.h"
#include "print.h"
#include "run.h"
#include "session_worker.h"
#include "sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool mentions_main(const char *code)
{
    cell c = cell_split(code);
    bool found = false;
    for (size_t i = 0; i < c.tokens.count && !found; i++) {
        const token *t = &c.tokens.items[i];
        found = token_is(code, t, "main") ||
                (t->kind == TOKEN_DIRECTIVE && memmem(code + t->begin, t->end - t->begin, "main", 4));
    }
    cell_free(&c);
    return found;
}

/* `name`: of the cell, "In[3]", or of the file. */
static result without_main(const char *name)
{
    if (!strncmp(name, "In[", 3))
        return error_result("CompileError",
                            "a %%%%run cell is a whole program: it needs a main(), int main(void) { … }");
    return error_result("CompileError", "%s has no main(), where a program begins: int main(void) { … }", name);
}

/* `< FILE`, or `<FILE`, is taken out of the words: the file, or NULL. The caller frees. */
static char *take_input(session *s, names *words, result *r)
{
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i];
        if (*word != '<') continue;
        const char *file = word[1] ? word + 1 : i + 1 < words->count ? words->items[i + 1] : NULL;
        size_t taken = word[1] || !file ? 1 : 2;
        char *path = file ? path_of(s, file) : NULL;
        if (!path) *r = error_result("UsageError", "%%%%run < FILE: the file is missing");
        else if (access(path, R_OK)) *r = error_result("FileError", "%s cannot be read: %s", file, strerror(errno));
        names_remove(words, i, taken);
        return path;
    }
    return NULL;
}

/* A shell's words are none here. False: `r` says so. */
static bool check_words(const char *words, result *r)
{
    static const char *const shells[] = {"&", ">", ">>", "|", "2>", "&>", "2>&1", "&&", "||", ";", NULL};
    char *copy = copy_of(words), *rest;
    for (char *word = strtok_r(copy, " \t", &rest); word && !r->failed; word = strtok_r(NULL, " \t", &rest)) {
        for (const char *const *one = shells; *one && !r->failed; one++) {
            if (strcmp(word, *one)) continue;
            *r = error_result("UsageError",
                              "%%%%run starts its program without a shell: there is no %s (as an argument it is "
                              "written '%s'); %%%%writefile and !cc make a program that a shell can start",
                              word, word);
        }
    }
    free(copy);
    return !r->failed;
}

/* The program's diagnostics, found as for any cell, as one error. */
static bool check(session *s, const char *code, const char *name, result *r)
{
    s->sources = need_grown(s->sources, s->source_count, &s->source_capacity, sizeof *s->sources);
    s->sources[s->source_count++] = (source){.name = copy_of(name), .text = copy_of(code)};
    text marked = {0};
    text_addf(&marked, "#line 1 \"%s\"\n%s", name, code);
    bool may_be_read = readable(s, &marked, name, r);
    if (may_be_read) analyser_parse(&s->analyser, marked.data, marked.size);
    text_free(&marked);
    if (!may_be_read) return false;
    diagnosis d = diagnose(&s->analyser, name, source_line_of, fate_of, s, s->symbols);
    if (d.errors && !mentions_main(code)) {
        *r = without_main(name);
    } else if (d.errors) {
        *r = error_result("CompileError", "%s", d.first_error);
        text_clear(&r->traceback);
        text_add_bytes(&r->traceback, d.rendered.data, d.rendered.size - 1);
    } else if (d.rendered.size) {
        print_error(s, d.rendered.data);
    }
    bool good = d.errors == 0;
    diagnosis_free(&d);
    return good;
}

static void add_libraries(session *s, names *list, const char *code)
{
    char *folder = copy_of_bytes(s->library, strlen(s->library) - strlen("/libkolo.so"));
    char *search = format_text("-L%s", folder), *path = format_text("-Wl,-rpath,%s", folder);
    if (access(s->library, R_OK) == 0) {
        names_add(list, search);
        names_add(list, path);
        names_add(list, "-lkolo");
    }
    if (strstr(code, "mpi.h")) names_add(list, "-lmpi");
    names_add(list, "-lm");
    names_add(list, "-pthread");
    names_add_all(list, &s->compiler.link_flags);
    free(folder);
    free(search);
    free(path);
}

/* The user's flags come last, and win. Where they ask for a sanitizer, it replaces the kernel's own checks. */
static void add_flags(session *s, names *list)
{
    static const char *const fixed[] = {"-g", "-gdwarf-4", "-w", "-fno-color-diagnostics", NULL};
    /* The checks call crash_runtime/crash_runtime.c. */
    static const char *const calls[] = {"-fno-sanitize-trap=all", "-fno-sanitize-recover=all",
                                        "-fno-sanitize-link-runtime", NULL};
    /* Memory that is given back twice, or an array that a call overruns, is not optimised away. */
    static const char *const kept[] = {"-fno-inline-functions", "-fno-builtin-malloc", "-fno-builtin-calloc",
                                       "-fno-builtin-realloc",  "-fno-builtin-free",   NULL};
    bool checked = flags_sanitize(&s->base_flags);
    names_add(list, checked ? "-O0" : "-O2");
    names_add_words(list, fixed);
    if (!checked) flags_keep_faults(list, &s->base_flags);
    if (!checked) names_add_words(list, calls);
    if (!flags_want_speed(&s->base_flags)) names_add_words(list, kept);
    names_add_all(list, &s->base_flags);
}

static bool build_program(session *s, const char *code, const char *name, const char *program, result *r)
{
    char *file = format_text("%s.c", program), *log = format_text("%s.log", program),
         *folder = copy_of_bytes(s->library, strlen(s->library) - strlen("/libkolo.so")),
         *runtime = format_text("%s/kolo-crash-runtime.o", folder);
    char *marked = format_text("#line 1 \"%s\"\n%s\n", name, code);
    names list = {0};
    names_add(&list, "clang-19");
    add_flags(s, &list);
    const char *const files[] = {file, runtime, "-o", program};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) names_add(&list, files[i]);
    add_libraries(s, &list, code);
    bool built = write_whole_file(file, marked, strlen(marked));
    cell_waits(s);
    built = built && run_tool(names_arguments(&list), log) == 0;
    cell_goes_on(s);
    if (!built) {
        char *log_text = read_whole_file(log), *why = link_words(log_text ? log_text : "", name);
        *r = strstr(why, "no main()") ? without_main(name) : error_result("LinkError", "%s", why);
        free(why);
        free(log_text);
    }
    unlink(file);
    unlink(log);
    free(folder);
    free(runtime);
    names_free(&list);
    free(marked);
    free(file);
    free(log);
    return built;
}

/* Adds kolorun and its options before the program, when -np is among the words. */
static bool add_launcher(session *s, const names *words, size_t *used, names *into, result *r)
{
    bool ranks = false;
    size_t i = 0;
    size_t stop = words->count;
    for (size_t k = 0; k < words->count; k++) {
        if (!strcmp(words->items[k], "--")) stop = k;
    }
    for (; i < stop && (!strcmp(words->items[i], "-np") || !strcmp(words->items[i], "-n") || stop < words->count);
         i++) {
        ranks |= !strcmp(words->items[i], "-np") || !strcmp(words->items[i], "-n");
        if (ranks && i + 1 >= words->count) {
            *r = error_result("UsageError", "%%%%run -np N: the number of ranks is missing");
            return false;
        }
        if (i == 0) names_add(into, s->launcher);
        names_add(into, words->items[i]);
        if (stop == words->count) names_add(into, words->items[++i]);
    }
    *used = stop < words->count ? stop + 1 : i;
    if (ranks && access(s->launcher, X_OK)) {
        *r = error_result("LaunchError", "kolorun was not found: %s", s->launcher);
        return false;
    }
    return true;
}

/* Compiles and runs `code`. `given`: the words from `used` on are the program's, those before are kolorun's and in
 * `command` already. `input`: what it reads; NULL: nothing of its own. */
static result run_program(session *s, const char *code, const char *name, const names *given, size_t used,
                          names *command, char *input)
{
    result r = {0};
    char *program = format_text("%s/program-%u", s->folder, ++s->serial), *kept = s->worker.input_file;
    if (check(s, code, name, &r) && build_program(s, code, name, program, &r)) {
        names_add(command, program);
        for (size_t i = used; i < given->count; i++) names_add(command, given->items[i]);
        int status = 0;
        if (input) s->worker.input_file = input;
        r = run_program_in_worker(s, names_arguments(command), &status);
        s->worker.input_file = kept;
        if (!r.failed) r = program_exit_result(s, program, status);
    }
    unlink(program);
    free(program);
    return r;
}

result cell_run(session *s, const char *words, const char *body, const char *name)
{
    result r = {0};
    names given = words_of(words), command = {0};
    char *code = in_place(s, "", 0, body);
    size_t used = 0;
    char *input = take_input(s, &given, &r);
    if (!r.failed && check_words(words, &r) && add_launcher(s, &given, &used, &command, &r))
        r = run_program(s, code, name, &given, used, &command, input);
    free(input);
    names_free(&given);
    names_free(&command);
    free(code);
    return r;
}

/* The text of a C file, or NULL, and `r` says why. The caller frees. */
static char *program_text(const session *s, const char *file, result *r)
{
    char *path = path_of(s, file);
    size_t size = strlen(file);
    struct stat about;
    bool there = stat(path, &about) == 0, c = size > 2 && !strcmp(file + size - 2, ".c");
    char *code = there && c && S_ISREG(about.st_mode) && about.st_size < 16 << 20 ? read_whole_file(path) : NULL;
    if (there && S_ISDIR(about.st_mode)) *r = error_result("FileError", "%s cannot be run: it is a folder", file);
    else if (!there) *r = error_result("FileError", "%s cannot be read: %s", file, strerror(errno));
    else if (!c)
        *r = error_result("UsageError", "%%run compiles and runs programs in C, FILE.c, got '%s': !%s%s runs others",
                          file, strchr(file, '/') ? "" : "./", file);
    else if (!code) *r = error_result("FileError", "%s cannot be read", file);
    free(path);
    return code;
}

/* What the file includes by #include "…" lies beside it: the analyser and the compiler look there first. */
static void look_beside(session *s, const char *file, bool begin)
{
    char *path = path_of(s, file), *flag = format_text("-iquote%.*s", (int)(strrchr(path, '/') - path), path);
    names *const lists[] = {&s->analyser.flags, &s->base_flags};
    for (size_t i = 0; i < 2; i++) {
        names *list = lists[i];
        if (begin) {
            names_add(list, flag);
            char *last = list->items[list->count - 1];
            memmove(list->items + 1, list->items, (list->count - 1) * sizeof *list->items);
            list->items[0] = last;
        } else names_remove(list, 0, 1);
    }
    s->analyser.plain = true; /* what it keeps of the unit before was parsed with other flags */
    free(flag);
    free(path);
}

result magic_run(session *s, const char *words, const char *name)
{
    (void)name;
    result r = {0};
    names given = words_of(words), command = {0};
    size_t used = 0;
    char *input = take_input(s, &given, &r), *code = NULL;
    bool good = !r.failed && check_words(words, &r) && add_launcher(s, &given, &used, &command, &r);
    const char *file = good && used < given.count ? given.items[used] : NULL;
    if (good && (!file || *file == '-')) r = usage_result(s, "run", false);
    else if (file) code = program_text(s, file, &r);
    if (code) {
        look_beside(s, file, true);
        r = run_program(s, code, file, &given, used + 1, &command, input);
        look_beside(s, file, false);
    }
    free(code);
    free(input);
    names_free(&given);
    names_free(&command);
    return r;
}
