/* %cflags and %ldflags: flags of the compiler and of the linker. Flags are tried on an empty file first, so that
 * wrong ones are refused at once and spoil no later cell. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "print.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Flags of one kind share a line: those about warnings, about folders, about macros. */
static size_t kind_size(const char *flag)
{
    if (!strncmp(flag, "-Wno-", 5)) return 5;
    return strncmp(flag, "-W", 2) && strncmp(flag, "-I", 2) && strncmp(flag, "-D", 2) ? strcspn(flag, "=") : 2;
}

static void add_flags(text *lines, const names *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *flag = list->items[i], *before = i ? list->items[i - 1] : "";
        bool together =
            *flag != '-' || (i && kind_size(flag) == kind_size(before) && !strncmp(flag, before, kind_size(flag)));
        text_addf(lines, "%s%s", !i ? "" : together ? " " : "\n", flag);
    }
    if (list->count) text_add(lines, "\n");
}

/* The user's own flags, and below a blank line those the session began with, which stand first in the list. */
static void show(session *s, const names *list, const names *first)
{
    names own = {0}, built_in = {0};
    size_t at = 0;
    for (size_t i = 0; i < list->count; i++) {
        size_t k = at;
        while (k < first->count && strcmp(first->items[k], list->items[i])) k++;
        bool begun = k < first->count;
        if (begun) at = k + 1;
        names_add(begun || !strncmp(list->items[i], "-iquote", 7) ? &built_in : &own, list->items[i]);
    }
    text lines = {0};
    add_flags(&lines, &own);
    if (own.count && built_in.count) text_add(&lines, "\n");
    add_flags(&lines, &built_in);
    if (lines.size) print_out(s, lines.data);
    text_free(&lines);
    names_free(&own);
    names_free(&built_in);
}

/* The tool's complaint about these flags, as one sentence; NULL when it has none. The caller frees. */
static char *complaint(session *s, const char *const *start, const names *flags)
{
    char *log = format_text("%s/flags.log", s->folder);
    names command = {0};
    names_add_words(&command, start);
    names_add_all(&command, flags);
    int status = run_tool(names_arguments(&command), log);
    char *said = status ? read_whole_file(log) : NULL, *line = said ? strstr(said, "error: ") : NULL;
    line = line ? line + strlen("error: ") : said && !strncmp(said, "ld: ", 4) ? said + 4 : said;
    char *sentence = status ? copy_of_bytes(line ? line : "it cannot be started",
                                            line ? strcspn(line, "\n") : strlen("it cannot be started"))
                            : NULL;
    char *detail = sentence ? strstr(sentence, " [-W") : NULL;
    if (detail) *detail = 0;
    unlink(log);
    free(log);
    free(said);
    names_free(&command);
    return sentence;
}

/* Takes the flag out. False when it is not there. */
static bool remove_flag(names *list, const char *flag)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], flag)) continue;
        names_remove(list, i, 1);
        return true;
    }
    return false;
}

static void renew_tools(session *s)
{
    names_free(&s->compiler.flags);
    names_add_all(&s->compiler.flags, &s->base_flags);
    compiler_reset(&s->compiler);
    analyser_close(&s->helper);
    analyser_close(&s->analyser);
    analyser_open(&s->analyser, &s->base_flags, s->folder);
}

/* For the analysis and for every compilation from now on. */
static void use_flags(session *s, const names *flags)
{
    for (size_t i = 0; i < flags->count; i++) flags_add(&s->base_flags, flags->items[i]);
    renew_tools(s);
}

/* For #include "mine.h". The folders before stay: the session's includes are sought again with every cell. */
void look_here_for_headers(session *s)
{
    char *folder = worker_folder(&s->worker), *flag = format_text("-iquote%s", folder);
    use_flags(s, &(names){.items = &flag, .count = 1});
    free(flag);
    free(folder);
}

static bool is_word(const char *word, const char *short_form, const char *long_form)
{
    return !strcmp(word, short_form) || !strcmp(word, long_form);
}

/* Removes the words from the second on. */
static result remove_words(names *list, const names *words, const char *magic_name)
{
    for (size_t i = 1; i < words->count; i++) {
        if (!remove_flag(list, words->items[i]))
            return error_result("UsageError", "%%%s has no %s to remove", magic_name, words->items[i]);
    }
    return (result){0};
}

static result add_words(session *s, names *list, const names *words, const char *const *tool, const char *magic_name)
{
    char *problem = complaint(s, tool, words);
    if (problem) {
        result r = error_result("FlagError", "%%%s: %s", magic_name, problem);
        free(problem);
        return r;
    }
    for (size_t i = 0; i < words->count; i++) flags_add(list, words->items[i]);
    return (result){0};
}

/* Changes the list by the words of either magic. `first` is the list as the session began with it. */
static result change(session *s, names *list, const names *first, const char *words, const char *const *tool,
                     const char *magic_name, bool *changed)
{
    names given = words_of(words);
    result r = {0};
    *changed = given.count > 0;
    if (!given.count) {
        show(s, list, first);
    } else if (is_word(given.items[0], "-reset", "--reset") && given.count == 1) {
        names_free(list);
        names_add_all(list, first);
    } else if (is_word(given.items[0], "-remove", "--remove") && given.count > 1) {
        r = remove_words(list, &given, magic_name);
    } else if (is_word(given.items[0], "-reset", "--reset") || is_word(given.items[0], "-remove", "--remove")) {
        r = usage_result(s, magic_name, false);
    } else {
        r = add_words(s, list, &given, tool, magic_name);
    }
    names_free(&given);
    return r;
}

result magic_cflags(session *s, const char *words, const char *name)
{
    static const char *const tool[] = {"clang-19",
                                       "-fsyntax-only",
                                       "-fno-color-diagnostics",
                                       "-Werror=unknown-warning-option",
                                       "-Werror=unused-command-line-argument",
                                       "-Werror=ignored-optimization-argument",
                                       "-x",
                                       "c",
                                       "/dev/null",
                                       NULL};
    (void)name;
    bool changed, before = flags_sanitize(&s->base_flags);
    result r = change(s, &s->base_flags, &s->first_flags, words, tool, "cflags", &changed);
    if (!before && flags_sanitize(&s->base_flags))
        print_out(s, "-fsanitize holds for the programs of %%run; plain cells are compiled without it\n");
    if (changed) look_here_for_headers(s); /* and takes all flags into use */
    return r;
}

result magic_ldflags(session *s, const char *words, const char *name)
{
    static const char *const tool[] = {"ld", "-shared", "-o", "/dev/null", NULL};
    static const names none_at_first = {0};
    (void)name;
    bool changed;
    if (strstr(words, "-fsanitize"))
        return error_result("UsageError",
                            "-fsanitize is a flag of the compiler, which links what it needs: %%cflags %s", words);
    return change(s, &s->compiler.link_flags, &none_at_first, words, tool, "ldflags", &changed);
}
