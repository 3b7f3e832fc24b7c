/* Odd spellings of C made plain, so that the parts that read tokens need not know them. Read first: lexer.h. */
#ifndef KERNEL_CELLS_SPELLING_H
#define KERNEL_CELLS_SPELLING_H

/* A copy with digraphs (`<%`) as the brackets they mean, and names that a backslash and a newline cut in two made
 * whole: same lines, same length. NULL when there is nothing of the kind. The caller frees. */
char *plain_spelling(const char *source);

/* A copy whose lines end in "\n" alone, not in "\r\n". The caller frees. */
char *plain_line_ends(const char *source);

#endif
