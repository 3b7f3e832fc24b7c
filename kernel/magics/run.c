/* %%run: the cell is a whole program. Compiled with the flags that make <kolo.h> and <mpi.h> work, then run, on N ranks
 * under kolorun with -np. See magics.h. */
#define _GNU_SOURCE
#include "cells/link_words.h"
#include "magics/magics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void add(names *list, const char *word)
{
    names_add(list, word, strlen(word));
}

static void end_list(names *list)
{
    list->items = need_grown(list->items, list->count, &list->capacity, sizeof *list->items);
    list->items[list->count] = NULL;
}

/* The cell's mistakes, found as for any cell, as one error. */
static bool check(session *s, const char *code, const char *name, result *r)
{
    s->sources = need_grown(s->sources, s->source_count, &s->source_capacity, sizeof *s->sources);
    s->sources[s->source_count++] = (source){.name = copy_of(name), .text = copy_of(code)};
    char *marked = format_text("#line 1 \"%s\"\n%s", name, code);
    analyser_parse(&s->analyser, marked, strlen(marked));
    free(marked);
    diagnosis d = diagnose(&s->analyser, name, source_line_of, fate_of, s, s->symbols);
    if (d.errors) {
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
        add(list, search);
        add(list, path);
        add(list, "-lkolo");
    }
    if (strstr(code, "mpi.h")) add(list, "-lmpi");
    add(list, "-lm");
    add(list, "-pthread");
    for (size_t i = 0; i < s->compiler.link_flags.count; i++) add(list, s->compiler.link_flags.items[i]);
    free(folder);
    free(search);
    free(path);
}

/* Linked into the program: what it prints is seen line by line, though it goes through a pipe. */
static const char live_code[] =
    "#include <stdio.h>\n"
    "__attribute__((constructor)) static void live(void) { setvbuf(stdout, NULL, _IOLBF, 0); }\n";

static bool build_program(session *s, const char *code, const char *name, const char *program, result *r)
{
    char *live = format_text("%s-live.c", program), *file = format_text("%s.c", program),
         *log = format_text("%s.log", program);
    char *marked = format_text("#line 1 \"%s\"\n%s\n", name, code);
    names list = {0};
    add(&list, "clang-19");
    for (size_t i = 0; i < s->base_flags.count; i++) add(&list, s->base_flags.items[i]);
    const char *const fixed[] = {"-O2", "-g", "-w", "-fno-color-diagnostics", file, live, "-o", program};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) add(&list, fixed[i]);
    add_libraries(s, &list, code);
    end_list(&list);
    bool built = write_whole_file(file, marked, strlen(marked)) &&
                 write_whole_file(live, live_code, sizeof live_code - 1) && run_tool(list.items, log) == 0;
    if (!built) {
        char *log_text = read_whole_file(log), *why = link_words(log_text ? log_text : "", name);
        *r = error_result("LinkError", "%s", why);
        free(why);
        free(log_text);
    }
    unlink(file);
    unlink(live);
    unlink(log);
    free(live);
    names_free(&list);
    free(marked);
    free(file);
    free(log);
    return built;
}

/* What goes before the program: kolorun and its options, when -np is among the words. */
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
        if (i == 0) add(into, s->launcher);
        add(into, words->items[i]);
        if (stop == words->count) add(into, words->items[++i]);
    }
    *used = stop < words->count ? stop + 1 : i;
    if (ranks && access(s->launcher, X_OK)) {
        *r = error_result("LaunchError", "kolorun is not there: %s", s->launcher);
        return false;
    }
    return true;
}

static result judge(int status)
{
    if (WIFSIGNALED(status))
        return error_result("ProgramError", "the program was ended by a signal: %s", strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) > 128)
        return error_result("ProgramError", "the program ended with exit code %d (%s)", WEXITSTATUS(status),
                            strsignal(WEXITSTATUS(status) - 128));
    if (WEXITSTATUS(status))
        return error_result("ProgramError", "the program ended with exit code %d", WEXITSTATUS(status));
    return (result){0};
}

result cell_run(session *s, const char *words, const char *body, const char *name)
{
    result r = {0};
    names given = words_of(words), command = {0};
    char *program = format_text("%s/program-%u", s->folder, ++s->serial), *code = format_text("\n%s", body);
    size_t used = 0;
    if (add_launcher(s, &given, &used, &command, &r) && check(s, code, name, &r) &&
        build_program(s, code, name, program, &r)) {
        add(&command, program);
        for (size_t i = used; i < given.count; i++) add(&command, given.items[i]);
        end_list(&command);
        int status = 0;
        r = run_program_in_worker(s, command.items, &status);
        if (!r.failed) r = judge(status);
    }
    unlink(program);
    names_free(&given);
    names_free(&command);
    free(program);
    free(code);
    return r;
}
