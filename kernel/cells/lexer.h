/* C's tokens, as far as the splitter needs them, and a notebook's two line forms: a preprocessor line and a line for
 * the shell. Comments and white space are no tokens. Any bytes are accepted: bytes that are not C become punctuation.
 */
#ifndef KERNEL_CELLS_LEXER_H
#define KERNEL_CELLS_LEXER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum token_kind {
    TOKEN_END,
    TOKEN_NAME,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_CHARACTER,
    TOKEN_PUNCTUATION,
    TOKEN_DIRECTIVE, /* a whole preprocessor line, continuation lines included, its newline not */
    TOKEN_SHELL,     /* a whole line that starts with '!' */
} token_kind;

typedef struct token {
    token_kind kind;
    size_t begin, end; /* bytes of the source */
    unsigned line;     /* of its first byte, from 1 */
} token;

typedef struct token_list {
    token *items; /* the last one is TOKEN_END */
    size_t count; /* without it */
    bool open_comment, open_string;
    size_t open_at;     /* where an unclosed comment begins */
    unsigned open_line; /* its line */
} token_list;

/* Splits `source` into tokens. The result refers to `source` by offsets; tokens_free frees it. */
token_list tokens_of(const char *source);
void tokens_free(token_list *tokens);

bool token_is(const char *source, const token *t, const char *spelling);
/* The text of a preprocessor line from the word behind its '#' on; "" for any other token. */
const char *directive_word(const char *source, const token *t);
/* Behind blanks, and behind line ends that a backslash hides. */
const char *skip_blanks(const char *at);
/* The letters, digits and underscores that stand there. */
size_t word_size(const char *at);
/* Does this word stand there, and not a longer one? */
bool word_at(const char *at, const char *word);

#endif
