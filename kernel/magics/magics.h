/* Magics: lines that begin with `%`, and cells that begin with `%%`. Related magics share a file; each has a row in
 * table.c. Read first: session.h. */
#ifndef KERNEL_MAGICS_MAGICS_H
#define KERNEL_MAGICS_MAGICS_H

#include "result.h"
#include "session.h"

typedef struct magic {
    const char *name; /* without its '%' */
    const char *usage; /* "%cd FOLDER": one line */
    const char *help; /* what `%name?` says after the usage */
    /* `words` is what stands behind the name; `body` the rest of the cell, NULL for a line magic; `name`: "In[3]". */
    result (*line)(session *s, const char *words, const char *name);
    result (*cell)(session *s, const char *words, const char *body, const char *name);
    bool quiet; /* it only looks, or is about this notebook alone: the program of %export says nothing of it */
    bool runs_code; /* its words or its body are C of the program's */
} magic;

/* table.c: all of them, and one without a name at the end. The session's list is this one; the others read that. */
extern const magic magics_table[];

/* A whole cell: its magics, its C, its questions (`name?`). */
result run_cell(session *s, const char *code, const char *name);

/* Runs the text of a cell, or of the body of %%time: C and line magics, shell lines among them. */
result run_stretches(session *s, const char *code, const char *name);

/* words.c: a magic's words from that byte on, and below them `body` (NULL: none). As many empty lines and blanks stand
 * before them as in the cell, so that messages have the cell's lines and columns. The caller frees. To be called before
 * other code runs: that may have magics of its own. */
char *in_place(const session *s, const char *words, size_t offset, const char *body);

/* flags.c: #include "mine.h" finds what lies in the cells' folder. */
void look_here_for_headers(session *s);

/* environment.c: of the session's environment; NULL: it is not set there. For cells, ranks and programs from now on. */
const char *session_variable(const session *s, const char *name);
void set_session_variable(session *s, const char *name, const char *value);

/* files.c: a file's name as the shell has it: from the cells' folder, `~` from home. The caller frees. */
char *path_of(const session *s, const char *file);

/* find.c: the error of a magic with wrong words: how it is written. */
result usage_result(const session *s, const char *name, bool whole_cell);

/* program_exit.c: the result of a program of %%run; `program` is its path, beside which its note is read and
 * deleted. */
result program_exit_result(session *s, const char *program, int status);

/* The name of this form in the table that somebody who wrote `name` may have meant, or NULL. */
const char *nearest_magic(const session *s, const char *name, size_t size, bool whole_cell);

/* elsewhere.c: the magic that a cell magic's name is another name of, as %%bash of %%sh; NULL: none. */
const char *magic_alias(const char *name, size_t size);
/* One sentence that names the magic which does the work of IPython's, or the one that may be meant. The caller frees.
 */
char *about_unknown_magic(const session *s, const char *name, size_t size, bool whole_cell);

/* elsewhere.c: `files = !ls` and `x = %time f()` of IPython's. False: `r` says what C has in their place. */
bool no_assigned_magic(const session *s, const char *code, const char *name, result *r);

/* words.c: splits as a shell does quotes: the caller frees with names_free. */
names words_of(const char *line);

result magic_lsmagic(session *s, const char *words, const char *name);
result magic_who(session *s, const char *words, const char *name);
result magic_whos(session *s, const char *words, const char *name);
result magic_layout(session *s, const char *words, const char *name);
result magic_cd(session *s, const char *words, const char *name);
result magic_pwd(session *s, const char *words, const char *name);
result magic_export(session *s, const char *words, const char *name);
result magic_load(session *s, const char *words, const char *name);
result magic_timeit(session *s, const char *words, const char *name);
result cell_timeit(session *s, const char *words, const char *body, const char *name);
result magic_env(session *s, const char *words, const char *name);
result magic_cflags(session *s, const char *words, const char *name);
result magic_ldflags(session *s, const char *words, const char *name);
result magic_restart(session *s, const char *words, const char *name);
result magic_reset(session *s, const char *words, const char *name);
result magic_heap(session *s, const char *words, const char *name);
result magic_slider(session *s, const char *words, const char *name);
result magic_time(session *s, const char *words, const char *name);
result cell_time(session *s, const char *words, const char *body, const char *name);
result cell_writefile(session *s, const char *words, const char *body, const char *name);
result cell_html(session *s, const char *words, const char *body, const char *name);
result cell_latex(session *s, const char *words, const char *body, const char *name);
result cell_markdown(session *s, const char *words, const char *body, const char *name);
result cell_svg(session *s, const char *words, const char *body, const char *name);
result cell_stdin(session *s, const char *words, const char *body, const char *name);
result magic_history(session *s, const char *words, const char *name);
result magic_run(session *s, const char *words, const char *name);
result cell_run(session *s, const char *words, const char *body, const char *name);
result cell_sh(session *s, const char *words, const char *body, const char *name);
result magic_what_if(session *s, const char *words, const char *name);
result magic_ranks(session *s, const char *words, const char *name);
result cell_ranks(session *s, const char *words, const char *body, const char *name);

#endif
