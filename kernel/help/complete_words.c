/* Completion without a compiler: file names on shell and magic lines, C's own words, the options of Kolo's calls.
 * See help.h. */
#define _GNU_SOURCE
#include "help/help.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

size_t bytes_of(const char *code, int characters)
{
    size_t at = 0;
    for (; code[at] && characters > 0; characters--) {
        at++;
        while (((unsigned char)code[at] & 0xc0) == 0x80) at++;
    }
    return at;
}

int characters_of(const char *code, size_t bytes)
{
    int count = 0;
    for (size_t i = 0; i < bytes && code[i]; i++) count += ((unsigned char)code[i] & 0xc0) != 0x80;
    return count;
}

bool word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool starts(const char *at, const char *word)
{
    size_t size = strlen(word);
    return !strncmp(at, word, size) && !word_byte(at[size]);
}

/* A whole cell for another reader than the C compiler. */
static bool foreign_cell(const char *code)
{
    const char *first = code + strspn(code, " \t\r\n");
    return starts(first, "%%sh") || starts(first, "%%bash") || starts(first, "%%writefile") || starts(first, "%%file");
}

bool line_is_c(const char *code, size_t cursor)
{
    size_t line = line_start(code, cursor);
    const char *at = code + line + strspn(code + line, " \t");
    if (*at == '!' || foreign_cell(code)) return false;
    if (*at != '%') return true;
    return !strncmp(at, "%time ", 6) || !strncmp(at, "%timeit ", 8);
}

char *as_c(const char *code)
{
    char *copy = copy_of(code);
    for (char *at = copy; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        char *magic = at + strspn(at, " \t");
        if (*magic != '%') continue;
        bool timed = !strncmp(magic, "%time ", 6) || !strncmp(magic, "%timeit ", 8);
        memset(magic, ' ', timed ? strcspn(magic, " ") : strcspn(magic, "\n"));
    }
    return copy;
}

static void add_file(const char *folder, const struct dirent *one, const char *base, names *into)
{
    char *path = format_text("%s/%s", *folder ? folder : ".", one->d_name);
    struct stat about;
    bool is_folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    char *name = format_text("%s%s%s", base, one->d_name, is_folder ? "/" : "");
    names_add(into, name);
    free(name);
    free(path);
}

void complete_files(const char *start, names *into)
{
    const char *slash = strrchr(start, '/'), *home = getenv("HOME");
    char *base = copy_of_bytes(start, slash ? (size_t)(slash - start) + 1 : 0);
    const char *tail = slash ? slash + 1 : start;
    char *folder = *base == '~' && home ? format_text("%s%s", home, base + 1) : copy_of(base);
    DIR *list = opendir(*folder ? folder : ".");
    for (struct dirent *one; list && (one = readdir(list));) {
        bool hidden = *one->d_name == '.' && *tail != '.';
        if (!hidden && strcmp(one->d_name, ".") && strcmp(one->d_name, "..") &&
            !strncmp(one->d_name, tail, strlen(tail)))
            add_file(folder, one, base, into);
    }
    if (list) closedir(list);
    free(folder);
    free(base);
}

void complete_keywords(const char *start, names *into)
{
    static const char *const words[] = {
        "auto",     "break",  "case",   "char",     "const",         "continue", "default",  "do",
        "double",   "else",   "enum",   "extern",   "float",         "for",      "goto",     "if",
        "inline",   "int",    "long",   "register", "restrict",      "return",   "short",    "signed",
        "sizeof",   "static", "struct", "switch",   "typedef",       "union",    "unsigned", "void",
        "volatile", "while",  "_Bool",  "_Generic", "_Static_assert"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strncmp(words[i], start, strlen(start))) names_add(into, words[i]);
    }
}
