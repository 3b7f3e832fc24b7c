/* Makes a loadable object of a unit. A clang is started before the cell comes, and waits on its standard input; then
 * plain ld links (one clang -shared would pay its start twice). The session's includes are precompiled as a header
 * beside that. Read first: unit.h, object.h. */
#ifndef KERNEL_CELLS_COMPILE_H
#define KERNEL_CELLS_COMPILE_H

#include "cells/object.h"
#include "cells/text.h"

#include <sys/types.h>

typedef struct compiler {
    names flags;          /* of every compilation: the standard, include folders, the user's %cflags */
    names link_flags;     /* %ldflags */
    bool debugging;       /* for the debugger: full debug information, and no optimisation */
    char *folder;
    unsigned serial;
    pid_t waiting;        /* a clang that waits for its text; 0: none */
    int input;            /* its standard input */
    char *object, *errors;  /* what it will write */
    bool waiting_has_header;
    char *header, *header_prefix; /* the precompiled header in use and the text it stands for; NULL: none */
    pid_t building;       /* a clang that makes the next header */
    char *next_header, *next_prefix;
} compiler;

/* Adds a word to a compiler's command line; a flag that is there already moves to the end, where it counts. */
void flags_add(names *list, const char *flag);

/* Is the last -O among them one that asks for all the speed there is? */
bool flags_want_speed(const names *flags);
/* Is there a -fsanitize= among them? */
bool flags_sanitize(const names *flags);
/* Is the language that they choose C23, or a later draft? */
bool flags_are_c23(const names *flags);
/* Adds flags that keep faults at any level of optimisation. `given`: the user's flags, which may ask for speed
 * instead. */
void flags_keep_faults(names *list, const names *given);

void compiler_open(compiler *c, const names *flags, const char *folder);
void compiler_close(compiler *c);
/* Starts the clang that the next cell will use. The start takes time, so it happens while no cell waits for it. */
void compiler_prepare(compiler *c);
/* To be called now and then: takes a new header into use, and keeps a clang waiting. */
void compiler_tend(compiler *c);
/* From the next compilation on. */
void compiler_for_debugging(compiler *c, bool on);
/* Forgets the waiting clang and the header: flags have changed. */
void compiler_reset(compiler *c);
/* Begins to precompile `prefix` when it is not the header already. */
void compiler_precompile(compiler *c, const char *prefix);

/* Compiles and links; the object's path, or NULL with a reason in `problem`. `prefix_size`: see unit.h. */
char *compiler_build(compiler *c, const text *source, size_t prefix_size, const link_name *table, size_t count,
                     names *wanted, char **problem);

/* Tools end when this descriptor is readable: the cell has been interrupted. */
void tools_heed(int descriptor);
/* Runs a program with its output to `log`, in limits of time and memory; its wait status, -1 when it cannot be started.
 */
int run_tool(char *const *arguments, const char *log);
/* Its output, through the file `log`, which is deleted. NULL when it failed; the caller frees. */
char *output_of_tool(char *const *arguments, const char *log);
/* The code as clang -E leaves it, with these flags (NULL: none). `folder`: for temporary files. NULL when it failed;
 * the caller frees. */
char *preprocessed(const text *code, const names *flags, const char *folder);

#endif
