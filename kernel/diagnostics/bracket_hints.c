/* Which bracket, or which part between brackets, is missing: by the brackets' nesting and by indentation. */
#include "diagnostics/hints.h"

#include <stdlib.h>
#include <string.h>

static size_t indentation_at(const char *source, size_t at)
{
    return strspn(source + line_start(source, at), " \t");
}

/* The '{' whose '}' is missing: a '}' that stands further left than its own '{' closes an outer one in its author's
 * mind. None such: the innermost that is open at the end. */
static const token *unclosed_brace(const complaint *c)
{
    const token *open[256], *guess = NULL;
    size_t depth = 0;
    for (size_t i = 0; i < c->tokens->count; i++) {
        const token *t = &c->tokens->items[i];
        if (token_is(c->source, t, "{") && depth < sizeof open / sizeof *open) open[depth++] = t;
        if (!token_is(c->source, t, "}") || !depth) continue;
        depth--;
        bool outer = indentation_at(c->source, t->begin) < indentation_at(c->source, open[depth]->begin);
        if (outer && open[depth]->line != t->line && !guess) guess = open[depth];
    }
    return !depth ? NULL : guess ? guess : open[depth - 1];
}

char *hint_missing_brace(const complaint *c)
{
    const token *brace = unclosed_brace(c);
    return brace ? format_text("the '{' in line %u is not closed: a '}' is missing", brace->line) : NULL;
}

/* The opening bracket in which the caret stands. */
static const token *open_bracket(const complaint *c)
{
    size_t depth = 0;
    for (size_t i = c->here; i-- > 0;) {
        const token *t = &c->tokens->items[i];
        if (t->kind != TOKEN_PUNCTUATION || t->end - t->begin != 1) continue;
        char b = c->source[t->begin];
        if (b == ')' || b == ']') depth++;
        if ((b == '(' || b == '[') && depth-- == 0) return t;
        if (b == '{' || b == '}') return NULL;
    }
    return NULL;
}

static bool operand(const complaint *c, long at)
{
    long i = (long)c->here + at;
    if (i < 0 || i >= (long)c->tokens->count) return false;
    token_kind kind = c->tokens->items[i].kind;
    return kind == TOKEN_NAME || kind == TOKEN_NUMBER || kind == TOKEN_STRING || kind == TOKEN_CHARACTER;
}

/* "expected ')'": the bracket is missing, or what should stand between two operands is. */
char *hint_missing_bracket(const complaint *c)
{
    char *word = token_text(c, 0), *foreign = foreign_word(word), *hint = NULL;
    const token *open = open_bracket(c);
    if (foreign && operand(c, 0)) {
        hint = foreign;
        foreign = NULL;
    } else if (operand(c, 0) && (operand(c, -1) || token_here(c, -1, ")"))) {
        char *before = token_text(c, -1);
        hint = format_text("between %s and %s a ',' or an operator is missing", before, word);
        free(before);
    } else if (open) {
        char b = c->source[open->begin];
        hint = format_text("the '%c' in line %u is not closed: a '%c' is missing", b, open->line, b == '(' ? ')' : ']');
    }
    free(foreign);
    free(word);
    return hint;
}

/* Is the caret inside the parentheses of a `for`? */
bool inside_for(const complaint *c)
{
    const token *open = open_bracket(c);
    size_t i = open ? (size_t)(open - c->tokens->items) : 0;
    return i && token_is(c->source, &c->tokens->items[i - 1], "for");
}

char *hint_missing_semicolon(const complaint *c)
{
    if (inside_for(c)) return copy_of("the three parts of for (…; …; …) are separated by ';'");
    char *after = token_text(c, 0), *before = token_text(c, -1), *hint = NULL;
    bool same_line =
        c->here && c->here < c->tokens->count && c->tokens->items[c->here - 1].line == c->tokens->items[c->here].line;
    if (token_here(c, 0, "*") && token_here(c, 1, "*")) {
        hint = copy_of("C has no operator **: pow(a, b) from <math.h> raises to a power");
    } else if (token_here(c, -1, "}") && !same_line) {
        hint = copy_of("a struct, union or enum ends with ';' after its '}'");
    } else if (*before && c->here) {
        unsigned line = c->tokens->items[c->here - 1].line;
        bool name = same_line && operand(c, 0) && operand(c, -1);
        hint = name ? format_text("between %s and %s a ';' or an operator is missing", before, after)
                    : format_text("put ';' after %s in line %u", before, line);
    }
    free(after);
    free(before);
    return hint;
}
