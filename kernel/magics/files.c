/* %load and %%writefile: cells from files, and files from cells. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "print.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *path_of(const session *s, const char *file)
{
    const char *home = getenv("HOME");
    if (*file == '/') return copy_of(file);
    if (home && file[0] == '~' && (file[1] == '/' || !file[1])) return format_text("%s%s", home, file + 1);
    char *folder = worker_folder(&s->worker), *path = format_text("%s/%s", folder, file);
    free(folder);
    return path;
}

/* Is this line wanted by a list such as "2-5,8"? Lines count from 1. False for `*good` when the list is none. */
static bool line_wanted(const char *ranges, long line, bool *good)
{
    bool wanted = false;
    for (const char *at = ranges; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (end == at || first < 1) return *good = false;
        if (*end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
            if (end == at) last = 1L << 40; /* "5-": to the end */
        }
        wanted |= line >= first && line <= last;
        if (*end && *end != ',') return *good = false;
        at = *end ? end + 1 : end;
    }
    return wanted;
}

static char *lines_of(const char *code, const char *ranges, bool *good)
{
    text out = {0};
    long line = 1;
    for (const char *at = code; *at && *good; line++) {
        size_t size = strcspn(at, "\n");
        if (line_wanted(ranges, line, good)) text_addf(&out, "%.*s\n", (int)size, at);
        at += size + (at[size] == '\n');
    }
    return text_take(&out);
}

static result load_file(const session *s, const char *words, const char *file, const char *ranges)
{
    char *path = path_of(s, file);
    struct stat about;
    bool there = stat(path, &about) == 0, plain = there && S_ISREG(about.st_mode) && about.st_size < 16 << 20,
         good = true;
    errno = there ? (S_ISDIR(about.st_mode) ? EISDIR : EFBIG) : errno;
    char *code = plain ? read_whole_file(path) : NULL;
    char *shown = code && ranges ? lines_of(code, ranges, &good) : copy_of(code ? code : "");
    char *cell_text = format_text("// %%load %s\n%s", words, shown);
    result r = {0};
    if (!code) r = error_result("FileError", "%s cannot be read: %s", file, strerror(errno));
    else if (!good) r = error_result("UsageError", "%%load: wanted lines as in -r 2-5,8, got '%s'", ranges);
    else r.payload = json_pack("[{s:s, s:s, s:b}]", "source", "set_next_input", "text", cell_text, "replace", 1);
    if (code && good && !r.payload) r = error_result("FileError", "%s is not text in UTF-8", file);
    free(path), free(code), free(shown), free(cell_text);
    return r;
}

result magic_load(session *s, const char *words, const char *name)
{
    (void)name;
    names given = words_of(words);
    bool ranged = given.count == 3 && !strcmp(given.items[0], "-r");
    result r;
    if (!ranged && (given.count != 1 || given.items[0][0] == '-')) r = usage_result(s, "load", false);
    else if (strstr(given.items[given.count - 1], "://"))
        r = error_result("UsageError", "%%load reads files; !curl -O %s fetches one", given.items[given.count - 1]);
    else r = load_file(s, words, given.items[given.count - 1], ranged ? given.items[1] : NULL);
    names_free(&given);
    return r;
}

static bool write_body(const char *path, const char *body, bool append)
{
    FILE *out = fopen(path, append ? "ae" : "we");
    size_t size = strlen(body);
    bool written =
        out && fwrite(body, 1, size, out) == size && (!size || body[size - 1] == '\n' || fputc('\n', out) != EOF);
    if (out && fclose(out)) written = false;
    return written;
}

/* The body as an output of that MIME type. */
static result show_as(session *s, const char *words, const char *body, const char *magic_name, const char *mime)
{
    if (*words || !body[strspn(body, " \t\r\n")]) return usage_result(s, magic_name, true);
    json_t *content =
        json_pack("{s:{s:s, s:s}, s:{}, s:{}}", "data", mime, body, "text/plain", body, "metadata", "transient");
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    json_decref(content);
    if (!dump) return error_result("UsageError", "%%%%%s: the text is not UTF-8", magic_name);
    output_publish(&s->out, "display_data", dump);
    free(dump);
    return (result){0};
}

result cell_html(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    return show_as(s, words, body, "html", "text/html");
}

result cell_latex(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    return show_as(s, words, body, "latex", "text/latex");
}

result cell_markdown(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    return show_as(s, words, body, "markdown", "text/markdown");
}

result cell_svg(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    return show_as(s, words, body, "svg", "image/svg+xml");
}

/* The body is what the next cell, or the programs that it starts, read as standard input. */
result cell_stdin(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    if (*words) return usage_result(s, "stdin", true);
    free(s->worker.input_file);
    s->worker.input_file = format_text("%s/stdin.txt", s->folder);
    s->input_given = true;
    if (write_body(s->worker.input_file, body, false)) return (result){0};
    return error_result("FileError", "the input cannot be kept: %s", strerror(errno));
}

result cell_writefile(session *s, const char *words, const char *body, const char *name)
{
    (void)name;
    names list = words_of(words);
    bool append = list.count == 2 && (!strcmp(list.items[0], "-a") || !strcmp(list.items[0], "--append"));
    result r = {0};
    bool option = list.count && list.items[0][0] == '-';
    if (list.count != (append ? 2 : 1) || option != append) {
        r = usage_result(s, "writefile", true);
    } else {
        const char *file = list.items[list.count - 1];
        char *path = path_of(s, file);
        bool there = access(path, F_OK) == 0, written = write_body(path, body, append);
        char *line = format_text("%s %s\n", append ? "Appending to" : there ? "Overwriting" : "Writing", file);
        if (written) print_out(s, line);
        else r = error_result("FileError", "%s cannot be written: %s", file, strerror(errno));
        free(line);
        free(path);
    }
    names_free(&list);
    return r;
}
