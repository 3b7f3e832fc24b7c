/* %what_if: a recorded training step on other machines, answered by kolo-what-if, which draws the chart. See magics.h.
 */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "print.h"
#include "session_worker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* kolo-what-if stands beside kolorun. The caller frees. */
static char *program_of(const session *s)
{
    const char *slash = strrchr(s->launcher, '/');
    return format_text("%.*skolo-what-if", slash ? (int)(slash + 1 - s->launcher) : 0, s->launcher);
}

/* Its stderr goes to the log, whose one sentence becomes the cell's error. */
static void add_command(const session *s, const char *program, const char *log, const names *words, names *into)
{
    static const char *const shell[] = {"/bin/sh", "-c", "log=$0; exec \"$@\" 2>\"$log\"", NULL};
    names_add_words(into, shell);
    names_add(into, log);
    names_add(into, program);
    for (size_t i = 0; i < words->count; i++) {
        bool file = !strchr(words->items[i], '=');
        char *path = file ? path_of(s, words->items[i]) : copy_of(words->items[i]);
        names_add(into, path);
        free(path);
    }
}

static result ended(session *s, int status, const char *log)
{
    char *said = read_whole_file(log);
    size_t size = said ? strlen(said) : 0;
    while (size && said[size - 1] == '\n') said[--size] = 0;
    result r = {0};
    const char *sentence = size ? strrchr(said, '\n') : NULL;
    sentence = sentence ? sentence + 1 : size ? said : "it ended without a word";
    static const char *const own[] = {"kolo-what-if: ", "kolo_what_if: ", NULL};
    for (const char *const *one = own; *one; one++)
        if (!strncmp(sentence, *one, strlen(*one))) sentence += strlen(*one);
    if (status) r = error_result(status >> 8 == 2 ? "UsageError" : "WhatIfError", "%%what_if: %s", sentence);
    else if (size) print_error(s, said);
    free(said);
    return r;
}

result magic_what_if(session *s, const char *words, const char *name)
{
    (void)name;
    names given = words_of(words), command = {0};
    if (!given.count) {
        names_free(&given);
        return usage_result(s, "what_if", false);
    }
    char *program = program_of(s), *log = format_text("%s/what_if.log", s->folder);
    add_command(s, program, log, &given, &command);
    int status;
    result r = run_program_in_worker(s, names_arguments(&command), &status);
    if (!r.failed) r = ended(s, status, log);
    unlink(log);
    free(log);
    free(program);
    names_free(&command);
    names_free(&given);
    return r;
}
