/* Completion on lines that are no C: files, programs, the words of magics. See complete.h. */
#define _GNU_SOURCE
#include "help/complete.h"

#include "whatif/options.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static const char *const compile_flags[] = {"-D",
                                            "-I",
                                            "-O0",
                                            "-O1",
                                            "-O2",
                                            "-O3",
                                            "-U",
                                            "-Wall",
                                            "-Wconversion",
                                            "-Werror",
                                            "-Wextra",
                                            "-Wpedantic",
                                            "-Wshadow",
                                            "-Wno-unused",
                                            "-fopenmp",
                                            "-ffast-math",
                                            "-fno-inline",
                                            "-g",
                                            "-include",
                                            "-march=native",
                                            "-pthread",
                                            "-std=c11",
                                            "-std=c17",
                                            "-std=c23",
                                            "-std=gnu17",
                                            "-std=gnu23",
                                            "-fsanitize=address",
                                            "-fsanitize=thread",
                                            "-fsanitize=undefined",
                                            "-funroll-loops",
                                            NULL};
static const char *const launch_options[] = {
    "-H",         "-np",           "--fault",        "--hostfile", "--keep-going", "--mpi-args", "--output-filename",
    "--restarts", "--stall-limit", "--stop-timeout", "--timeline", "--verbose",    NULL};
static const char *const of_history[] = {"-g", "-l", "-n", "-o", NULL};
static const char *const kinds[] = {"function", "macro", "type", "variable", NULL}, *const switches[] = {"off", "on",
                                                                                                         NULL};
static const char *const variables[] = {"KOLO_BACKEND", "KOLO_CPU_DEVICES", "KOLO_DATA", "KOLO_THREADS", NULL};
static const char *const openmp[] = {"atomic",
                                     "barrier",
                                     "collapse(",
                                     "critical",
                                     "default(none)",
                                     "firstprivate(",
                                     "for",
                                     "master",
                                     "nowait",
                                     "num_threads(",
                                     "ordered",
                                     "parallel",
                                     "private(",
                                     "reduction(",
                                     "schedule(dynamic)",
                                     "schedule(static)",
                                     "sections",
                                     "shared(",
                                     "simd",
                                     "single",
                                     "task",
                                     "taskwait",
                                     NULL};
static const char *const link_flags[] = {"-L", "-Wl,-rpath,", "-l", "-lcurl", "-lm", "-lpthread", "-lz", NULL};

static void add_words(const char *const *words, const char *start, matches *into)
{
    for (; *words; words++) {
        if (begins(*words, start)) match_add(into, OTHER, *words, "keyword", "");
    }
}

/* The options of %what_if, and what their values may be. */
static const struct {
    const char *name, *kind, *values;
} questions[] = {
#define WORD(name, kind, member, help) {name "=", #kind, help},
    KOLO_WHAT_IF_WORDS(WORD)
#undef WORD
};
#define QUESTIONS (sizeof questions / sizeof *questions)

/* "on|off: sums beside the backward pass": the words between the bars. */
static void add_values(const char *values, const char *start, matches *into)
{
    size_t end = strcspn(values, ":");
    bool listed = memchr(values, '|', end) != NULL;
    for (size_t at = 0, size; listed && at < end; at += size + 1) {
        size = strcspn(values + at, "|:");
        char *word = copy_of_bytes(values + at, size);
        if (begins(word, start) && !strchr(word, '.')) match_add(into, OTHER, word, "keyword", "");
        free(word);
    }
}

/* `word` is where the cursor's word begins on this line: an option, the value of one, or the recording. */
static void add_questions(const writing *w, const char *line, size_t begin, const char *start, matches *into)
{
    const char *word = w->code + begin;
    bool value = word[-1] == '=', file = !value;
    for (size_t i = 0; i < QUESTIONS; i++) {
        size_t size = strlen(questions[i].name);
        bool own = value && word - line > (ptrdiff_t)size && !strncmp(word - size, questions[i].name, size) &&
                   strchr(" \t", word[-1 - (ptrdiff_t)size]);
        if (own) add_values(questions[i].values, start, into);
        file |= own && !strcmp(questions[i].kind, "TEXT");
        if (!value && begins(questions[i].name, start))
            match_add(into, OTHER, questions[i].name, "keyword", questions[i].values);
    }
    if (file) complete_path(w, begin, into);
}

static void add_environment(const session *s, const char *start, matches *into)
{
    for (char **one = environ; *one; one++) {
        char *name = copy_of_bytes(*one, strcspn(*one, "="));
        if (begins(name, start)) match_add(into, OTHER, name, "instance", "");
        free(name);
    }
    for (size_t i = 0; i < s->worker.environment.count; i++) {
        const char *line = s->worker.environment.items[i];
        char *name = copy_of_bytes(line, strcspn(line, "="));
        if (begins(name, start) && !begins(name, "KOLO_")) match_add(into, OTHER, name, "instance", "");
        free(name);
    }
}

static void add_programs_of(const char *folder, const char *start, matches *into)
{
    DIR *list = opendir(folder);
    int place = list ? dirfd(list) : -1;
    for (struct dirent *one; place >= 0 && (one = readdir(list));) {
        if (*one->d_name != '.' && begins(one->d_name, start) && faccessat(place, one->d_name, X_OK, 0) == 0)
            match_add(into, OTHER, one->d_name, "program", "");
    }
    if (list) closedir(list);
}

static void add_programs(const char *start, matches *into)
{
    char *path = copy_of(getenv("PATH") ? getenv("PATH") : ""), *rest;
    for (char *folder = strtok_r(path, ":", &rest); folder; folder = strtok_r(NULL, ":", &rest))
        add_programs_of(folder, start, into);
    free(path);
}

void complete_path(const writing *w, size_t begin, matches *into)
{
    char *path = copy_of_bytes(w->code + begin, w->cursor - begin);
    names files = {0};
    complete_files(path, &files);
    match_add_all(into, OTHER, &files, "path", path);
    free(path);
}

/* Is the word the name of a program, the first of its command? */
static bool commands_here(const char *line, const char *word)
{
    const char *p = word;
    while (p > line && (p[-1] == ' ' || p[-1] == '\t')) p--;
    return p == line || strchr("!|;&(`\n", p[-1]) != NULL;
}

static bool is_magic(const char *line, const char *name)
{
    size_t size = strlen(name);
    const char *at = line + strspn(line, "%");
    return !strncmp(at, name, size) && (at[size] == ' ' || at[size] == '\t');
}

void complete_openmp(const char *start, matches *into)
{
    add_words(openmp, start, into);
}

void complete_variable(const session *s, const char *start, matches *into)
{
    add_words(variables, start, into);
    add_environment(s, start, into);
}

size_t complete_line(const writing *w, matches *into)
{
    size_t line = line_start(w->code, w->cursor), begin = w->cursor;
    while (line < w->cursor && (w->code[line] == ' ' || w->code[line] == '\t')) line++;
    const char *at = w->code + line;
    bool magic = *at == '%', compile = magic && is_magic(at, "cflags"), link = magic && is_magic(at, "ldflags");
    while (begin > line && !strchr(" \t\"'=<>|;!&(", w->code[begin - 1])) begin--;
    if ((compile || link) && w->code[begin] == '-') {
        while (begin > line && w->code[begin - 1] != ' ') begin--;
    }
    char *start = copy_of_bytes(w->code + begin, w->cursor - begin);
    if (compile && *start == '-') add_words(compile_flags, start, into);
    else if (link && *start == '-') add_words(link_flags, start, into);
    else if (magic && is_magic(at, "env")) add_environment(w->s, start, into);
    else if (magic && is_magic(at, "ranks") && *start != '-') (void)0; /* a number */
    else if (magic && (is_magic(at, "ranks") || is_magic(at, "run")) && *start == '-')
        add_words(launch_options, start, into);
    else if (magic && (is_magic(at, "who") || is_magic(at, "whos"))) add_words(kinds, start, into);
    else if (magic && is_magic(at, "history")) add_words(of_history, start, into);
    else if (magic && is_magic(at, "heap")) add_words(switches, start, into);
    else if (magic && is_magic(at, "layout"))
        complete_session(&(writing){w->s, w->code, start, begin, w->cursor}, into);
    else if (magic && is_magic(at, "slider")) complete_variables(w->s, start, into);
    else if (magic && is_magic(at, "what_if")) add_questions(w, at, begin, start, into);
    else if (!magic && *start && !strchr(start, '/') && commands_here(at, w->code + begin)) add_programs(start, into);
    else complete_path(w, begin, into);
    free(start);
    return begin;
}
