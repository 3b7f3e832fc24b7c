/* Magics of IPython's that this kernel lacks, with a substitute for each; and other names of those that it has. See
 * magics.h. */
#include "magics/magics.h"

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
    {"history hist recall rep", "the arrow keys and the console's search go through earlier cells"},
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
