/* Magics of IPython's that this kernel lacks, with a substitute for each; and other names of those that it has. See
 * magics.h. */
#include "magics/magics.h"
#include "cells/lexer.h"
#include "search_path.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word, *means;
} aliases[] = {{"bash", "sh"}, {"system", "sh"}, {"sx", "sh"}, {"file", "writefile"}};

static const struct {
    const char *words; /* separated by blanks */
    const char *say;
} elsewhere[] = {
    {"matplotlib pylab", "pictures need no setup, and what a display call of kolo.h draws appears below its cell"},
    {"hist recall rep", "%%history prints the cells of this session, and %%history -g PATTERN searches all sessions"},
    {"pdb debug", "JupyterLab's debugger (the bug in the toolbar) stops at breakpoints and steps through cells"},
    {"ls ll lx man cat more less mkdir rmdir cp mv rm", "a line that begins with ! is for the shell, as in !%s"},
    {"pip conda mamba micromamba", "C's libraries come with the system's packages; a command of the shell is !%s …"},
    {"autoreload load_ext reload_ext unload_ext",
     "there is nothing to load: a changed header is read again by the cell that includes it"},
    {"javascript js", "a cell shows such output with kolo_display (kolo_display? says how)"},
    {"config colors xmode precision", "the kernel has no such settings; %%cflags sets those of the compiler"},
    {"prun lprun mprun memit profile", "%%timeit and %%time measure; !perf and !gprof measure programs"},
    {"store macro pastebin", "the kernel has nothing like it; %%export FILE writes the session as one C program"},
    {"save", "%%export FILE writes the session as one C program, %%%%writefile FILE one cell"},
    {"capture", "a line for the shell can send what a program prints to a file, as in !./program > FILE"},
    {"who_ls psearch pinfo pinfo2 pdef pdoc psource pfile", "%%who lists what is defined, and NAME? says more"},
    {"quickref magic alias_magic alias", "%%lsmagic lists the magics, and %%NAME? says more of one"},
    {"set_env", "%%env NAME=VALUE sets a variable of the environment"},
    {"pushd popd dhist dirs bookmark", "%%cd FOLDER changes the folder, and %%cd - goes back"},
    {"reset_selective xdel", "%%reset forgets all; a variable alone can be defined anew"},
    {"python python3 perl ruby pypy py", "other languages run as commands of the shell: !%s FILE"},
    {"edit loadpy pycat", "%%load FILE puts a file's text into the cell"},
};

const char *magic_alias(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strlen(aliases[i].word) == size && !memcmp(aliases[i].word, name, size)) return aliases[i].means;
    }
    return NULL;
}

/* `%s` is the word, `%%` a percent sign. */
static char *filled(const char *say, const char *word)
{
    text out = {0};
    for (const char *p = say; *p; p++) {
        bool mark = p[0] == '%' && (p[1] == 's' || p[1] == '%');
        if (mark && p[1] == 's') text_add(&out, word);
        else text_add_bytes(&out, p, 1);
        p += mark;
    }
    return text_take(&out);
}

char *about_unknown_magic(const session *s, const char *name, size_t size, bool whole_cell)
{
    const char *percent = whole_cell ? "%%" : "%", *nearest;
    char *word = copy_of_bytes(name, size), *said = NULL;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere && !said; i++) {
        if (!word_among(elsewhere[i].words, word)) continue;
        char *say = filled(elsewhere[i].say, word);
        said = format_text("there is no %s%s here: %s", percent, word, say);
        free(say);
    }
    if (!said && (nearest = nearest_magic(s, word, size, whole_cell)))
        said = format_text("there is no %s%s; the nearest is %s%s (%%lsmagic lists them)", percent, word, percent,
                           nearest);
    else if (!said) said = format_text("there is no %s%s (%%lsmagic lists the magics)", percent, word);
    free(word);
    return said;
}

/* `= %name` is no C. `= !name` may be: not where `name` is a program, nothing of the session, and no `;` follows. */
static bool assigns_command(const session *s, const char *code, const token *equals)
{
    const token *mark = equals + 1, *word = equals + 2;
    if (mark->line != equals->line || word->kind != TOKEN_NAME || word->line != mark->line) return false;
    if (token_is(code, mark, "%")) return true;
    if (!token_is(code, mark, "!")) return false;
    size_t line = strcspn(code + mark->begin, "\n");
    char *key = format_text("o:%.*s", (int)(word->end - word->begin), code + word->begin), *program = in_path(key + 2);
    bool command = program && !(s->symbols && symbols_find(s->symbols, key)) && !memchr(code + mark->begin, ';', line);
    free(program);
    free(key);
    return command;
}

bool no_assigned_magic(const session *s, const char *code, const char *name, result *r)
{
    token_list list = tokens_of(code);
    for (size_t i = 1; i + 2 < list.count && !r->failed; i++) {
        const token *t = &list.items[i];
        if (!token_is(code, t, "=") || list.items[i - 1].kind != TOKEN_NAME || !assigns_command(s, code, t)) continue;
        size_t at = t[1].begin;
        char *rest = copy_of_bytes(code + at, strcspn(code + at, "\n"));
        if (*rest == '!')
            *r = error_result("UsageError",
                              "%s:%u: C cannot take a command's output as a value: %s shows it, %s > FILE keeps it "
                              "in a file, and popen(\"%s\", \"r\") lets C read it",
                              name, t->line, rest, rest, rest + 1);
        else
            *r = error_result("UsageError",
                              "%s:%u: a magic has no value, and stands at the beginning of its line: %%%.*s …", name,
                              t->line, (int)(t[2].end - t[2].begin), code + t[2].begin);
        free(rest);
    }
    tokens_free(&list);
    return !r->failed;
}
