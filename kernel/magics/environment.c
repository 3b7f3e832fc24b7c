/* Magics about what surrounds the cells: %cd, %pwd, %env, %%sh. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "print.h"
#include "session_worker.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The one word, or all of the line when it is several without quotes: `%cd My Documents`. */
static char *whole_line(const char *words)
{
    names given = words_of(words);
    size_t size = strlen(words);
    while (size && isspace((unsigned char)words[size - 1])) size--;
    char *line = given.count == 1 ? copy_of(given.items[0]) : copy_of_bytes(words, size);
    names_free(&given);
    return line;
}

/* Where %cd goes: home without a word, `-` back, `~` from home. */
static char *target_of(const session *s, const char *words)
{
    const char *home = getenv("HOME");
    char *line = whole_line(words);
    if (!*line || (line[0] == '~' && home && (line[1] == '/' || !line[1]))) {
        char *full = format_text("%s%s", home && *home ? home : "/", *line ? line + 1 : "");
        free(line);
        return full;
    }
    if (strcmp(line, "-")) return line;
    free(line);
    return s->last_folder ? copy_of(s->last_folder) : NULL;
}

result magic_cd(session *s, const char *words, const char *name)
{
    (void)name;
    char *folder = target_of(s, words);
    if (!folder) return error_result("FileError", "%%cd -: there is no folder to go back to yet");
    bool up = ensure_worker(s);
    char *before = worker_folder(&s->worker);
    result r = {0};
    if (!up || worker_ask(&s->worker, MESSAGE_FOLDER, folder, strlen(folder) + 1) != OUTCOME_ANSWER ||
        s->worker.last.code) {
        r = error_result("FileError", "%%cd %s: %s", folder, up ? s->worker.payload : "the worker is gone");
        free(before);
    } else {
        char *now = worker_folder(&s->worker), *line = format_text("%s\n", now);
        if (chdir(now) == 0) print_out(s, line); /* the kernel goes along: a new worker begins where the last one was */
        look_here_for_headers(s);
        free(s->last_folder);
        s->last_folder = before;
        free(now);
        free(line);
    }
    free(folder);
    return r;
}

result magic_pwd(session *s, const char *words, const char *name)
{
    (void)name;
    if (*words) return usage_result(s, "pwd", false);
    ensure_worker(s);
    char *folder = worker_folder(&s->worker), *line = format_text("%s\n", folder);
    print_out(s, line);
    free(folder);
    free(line);
    return (result){0};
}

/* ---- %env ---- */

/* "NAME=value" for workers to come, or "NAME", which they will be without. */
static void keep_variable(session *s, const char *name, const char *value)
{
    names *e = &s->worker.environment;
    size_t size = strlen(name);
    char *line = value ? format_text("%s=%s", name, value) : copy_of(name);
    for (size_t i = 0; i < e->count; i++) {
        if (strncmp(e->items[i], name, size) || (e->items[i][size] && e->items[i][size] != '=')) continue;
        free(e->items[i]);
        e->items[i] = line;
        return;
    }
    names_add(e, line);
    free(line);
}

const char *session_variable(const session *s, const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < s->worker.environment.count; i++) {
        const char *line = s->worker.environment.items[i];
        if (strncmp(line, name, size)) continue;
        if (line[size] == '=') return line + size + 1;
        if (!line[size]) return NULL;
    }
    return getenv(name);
}

/* $NAME and ${NAME} replaced by what they stand for; unknown ones are empty, as in a shell. Quotes around all go. */
static char *expanded(const session *s, const char *value)
{
    text out = {0};
    size_t size = strlen(value);
    while (size && isspace((unsigned char)value[size - 1])) size--;
    bool quoted = size > 1 && (*value == '"' || *value == '\'') && value[size - 1] == *value,
         literal = quoted && *value == '\'';
    for (const char *p = value + quoted, *end = value + size - quoted; p < end; p++) {
        bool braces = p[0] == '$' && p[1] == '{';
        const char *name = p + 1 + braces;
        size_t length = 0;
        while (name + length < end && (isalnum((unsigned char)name[length]) || name[length] == '_')) length++;
        if (*p != '$' || literal || !length || (braces && name[length] != '}')) {
            text_add_bytes(&out, p, 1);
            continue;
        }
        char *wanted = copy_of_bytes(name, length);
        const char *found = session_variable(s, wanted);
        text_add(&out, found ? found : "");
        free(wanted);
        p = name + length - !braces;
    }
    return text_take(&out);
}

void set_session_variable(session *s, const char *name, const char *value)
{
    text payload = {0};
    text_add_bytes(&payload, name, strlen(name) + 1);
    text_add_bytes(&payload, value ? value : "", strlen(value ? value : "") + 1);
    keep_variable(s, name, value);
    message ask = {.kind = MESSAGE_SETENV, .number = value ? 0 : 1};
    if (ensure_worker(s)) worker_tell(&s->worker, ask, payload.data, payload.size);
    text_free(&payload);
}

/* All of it goes to a new worker in one message. */
enum { MOST_ENVIRONMENT = MESSAGE_LIMIT / 2 };

static bool has_room(const session *s, const char *value, result *r)
{
    size_t size = strlen(value);
    for (size_t i = 0; i < s->worker.environment.count; i++) size += strlen(s->worker.environment.items[i]) + 1;
    if (size <= MOST_ENVIRONMENT) return true;
    *r = error_result("ValueError", "%%env: the variables would have %zu bytes, and %d are the most", size,
                      MOST_ENVIRONMENT);
    return false;
}

/* Variables that the kernel and its front end use between themselves. */
#define HIDDEN "^(KOLO_DISPLAY|KOLO_DISPLAY_TOKEN|KOLO_KERNEL_[A-Z]*|KOLORUN_SEGMENTS|JPY_[A-Z_]*)="

/* One line of `printenv`, or all of it but that. */
static result show_variables(session *s, const char *name)
{
    char *command = *name ? format_text("printenv '%s'", name) : copy_of("printenv | grep -Ev '" HIDDEN "' | sort");
    char *arguments[] = {"/bin/sh", "-c", command, NULL};
    int status;
    result r = run_program_in_worker(s, arguments, &status);
    if (!r.failed && status) r = error_result("NameError", "the environment has no %s", name);
    free(command);
    return r;
}

static bool is_name(const char *word)
{
    if (!isalpha((unsigned char)*word) && *word != '_') return false;
    while (isalnum((unsigned char)*word) || *word == '_') word++;
    return !*word;
}

result magic_env(session *s, const char *words, const char *name)
{
    (void)name;
    bool unset = !strncmp(words, "-u", 2) && isspace((unsigned char)words[2]);
    if (unset) words += 2 + strspn(words + 2, " \t");
    size_t size = strcspn(words, "= \t");
    const char *rest = words + size + strspn(words + size, " \t");
    char *variable = copy_of_bytes(words, size), *value = NULL;
    result r = {0};
    if ((*variable || *rest || unset) && (!is_name(variable) || (unset && *rest))) {
        r = usage_result(s, "env", false);
    } else if (unset) {
        set_session_variable(s, variable, NULL);
    } else if (!*rest) {
        r = show_variables(s, variable);
    } else {
        rest += *rest == '=';
        value = expanded(s, rest + strspn(rest, " \t"));
        char *line = format_text("env: %s=%s\n", variable, value);
        if (has_room(s, value, &r)) {
            set_session_variable(s, variable, value);
            print_out(s, line);
        }
        free(line);
    }
    free(variable);
    free(value);
    return r;
}

result cell_sh(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    if (*words || !body[strspn(body, " \t\r\n")]) return usage_result(s, "sh", true);
    char *arguments[] = {access("/bin/bash", X_OK) ? "/bin/sh" : "/bin/bash", "-c", (char *)(uintptr_t)body, NULL};
    int status;
    result r = run_program_in_worker(s, arguments, &status);
    if (!r.failed && status) return error_result("ShellError", "the script ended with status %d", status >> 8);
    return r;
}
