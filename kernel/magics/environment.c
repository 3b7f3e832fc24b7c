/* Magics about what surrounds the cells: %cd, %env, %cflags, %ldflags, %%writefile, %%sh. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of the analysis and of every compilation from now on. */
static void use_flags(session *s, const names *flags)
{
    for (size_t i = 0; i < flags->count; i++) {
        flags_add(&s->base_flags, flags->items[i]);
        flags_add(&s->compiler.flags, flags->items[i]);
    }
    compiler_reset(&s->compiler);
    analyser_close(&s->analyser);
    analyser_open(&s->analyser, &s->base_flags, s->folder);
}

/* For #include "mine.h". The folders before stay: the session's includes are sought again with every cell. */
static void look_here_for_headers(session *s, const char *folder)
{
    char *flag = format_text("-iquote%s", folder);
    use_flags(s, &(names){.items = &flag, .count = 1});
    free(flag);
}

result magic_cd(session *s, const char *words, const char *name)
{
    (void)name;
    names where = words_of(words);
    const char *home = getenv("HOME");
    char *folder = where.count ? copy_of(where.items[0]) : NULL;
    if (folder && folder[0] == '~' && home) {
        char *full = format_text("%s%s", home, folder + 1);
        free(folder);
        folder = full;
    }
    names_free(&where);
    result r = {0};
    bool up = ensure_worker(s);
    if (folder && (!up || machine_ask(&s->machine, MESSAGE_FOLDER, folder, strlen(folder) + 1) != OUTCOME_ANSWER ||
                   s->machine.last.code)) {
        r = error_result("FileError", "%%cd %s: %s", folder, up ? s->machine.payload : "the worker is gone");
    } else {
        char *now = machine_folder(&s->machine), *line = format_text("%s\n", now);
        if (chdir(now) == 0) print_out(s, line); /* the kernel goes along: a new worker begins where the last one was */
        look_here_for_headers(s, now);
        free(now);
        free(line);
    }
    free(folder);
    return r;
}

static void keep_variable(session *s, const char *name, const char *value)
{
    names *e = &s->machine.environment;
    size_t size = strlen(name);
    for (size_t i = 0; i < e->count; i++) {
        if (strncmp(e->items[i], name, size) || e->items[i][size] != '=') continue;
        free(e->items[i]);
        e->items[i] = format_text("%s=%s", name, value);
        return;
    }
    char *line = format_text("%s=%s", name, value);
    names_add(e, line, strlen(line));
    free(line);
}

result magic_env(session *s, const char *words, const char *name)
{
    (void)name;
    size_t size = strcspn(words, "= \t");
    const char *rest = words + size + strspn(words + size, " \t");
    if (!*rest) {
        char *command = *words ? format_text("printenv %.*s", (int)size, words) : copy_of("printenv");
        char *arguments[] = {"/bin/sh", "-c", command, NULL};
        int status;
        result r = run_program_in_worker(s, arguments, &status);
        free(command);
        return r;
    }
    if (*rest == '=') rest++;
    char *variable = copy_of_bytes(words, size);
    text payload = {0};
    text_add_bytes(&payload, variable, size + 1);
    text_add_bytes(&payload, rest, strlen(rest) + 1);
    keep_variable(s, variable, rest);
    if (ensure_worker(s)) machine_ask(&s->machine, MESSAGE_SETENV, payload.data, payload.size);
    char *line = format_text("env: %s=%s\n", variable, rest);
    print_out(s, line);
    free(line);
    text_free(&payload);
    free(variable);
    return (result){0};
}

/* Flags of one kind share a line: those about warnings, about folders, about macros. */
static size_t kind_size(const char *flag)
{
    if (!strncmp(flag, "-Wno-", 5)) return 5;
    return strncmp(flag, "-W", 2) && strncmp(flag, "-I", 2) && strncmp(flag, "-D", 2) ? strcspn(flag, "=") : 2;
}

static void show(session *s, const names *list)
{
    text line = {0};
    for (size_t i = 0; i < list->count; i++) {
        const char *flag = list->items[i], *before = i ? list->items[i - 1] : "";
        bool together =
            *flag != '-' || (i && kind_size(flag) == kind_size(before) && !strncmp(flag, before, kind_size(flag)));
        text_addf(&line, "%s%s", !i ? "" : together ? " " : "\n", flag);
    }
    text_add(&line, "\n");
    print_out(s, line.data);
    text_free(&line);
}

result magic_cflags(session *s, const char *words, const char *name)
{
    (void)name;
    names flags = words_of(words);
    if (flags.count) use_flags(s, &flags);
    else show(s, &s->base_flags);
    names_free(&flags);
    return (result){0};
}

result magic_ldflags(session *s, const char *words, const char *name)
{
    (void)name;
    names flags = words_of(words);
    for (size_t i = 0; i < flags.count; i++) names_add(&s->compiler.link_flags, flags.items[i], strlen(flags.items[i]));
    if (!flags.count) show(s, &s->compiler.link_flags);
    names_free(&flags);
    return (result){0};
}

result cell_writefile(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    names list = words_of(words);
    bool append = list.count == 2 && !strcmp(list.items[0], "-a");
    result r = {0};
    if (list.count != (append ? 2 : 1)) {
        r = error_result("UsageError", "%%%%writefile [-a] FILE");
    } else {
        const char *file = list.items[list.count - 1];
        char *folder = machine_folder(&s->machine),
             *path = *file == '/' ? copy_of(file) : format_text("%s/%s", folder, file);
        bool there = access(path, F_OK) == 0;
        FILE *out = fopen(path, append ? "ae" : "we");
        size_t size = strlen(body);
        bool written =
            out && fwrite(body, 1, size, out) == size && (!size || body[size - 1] == '\n' || fputc('\n', out) != EOF);
        if (out && fclose(out)) written = false;
        char *line = format_text("%s %s\n", append ? "Appending to" : there ? "Overwriting" : "Writing", file);
        if (written) print_out(s, line);
        else r = error_result("FileError", "%s cannot be written: %s", file, strerror(errno));
        free(line);
        free(path);
        free(folder);
    }
    names_free(&list);
    return r;
}

result cell_sh(session *s, const char *words, const char *body, const char *name)
{
    (void)words;
    (void)name;
    char *arguments[] = {access("/bin/bash", X_OK) ? "/bin/sh" : "/bin/bash", "-c", (char *)(uintptr_t)body, NULL};
    int status;
    result r = run_program_in_worker(s, arguments, &status);
    if (!r.failed && status) return error_result("ShellError", "the script ended with status %d", status >> 8);
    return r;
}
