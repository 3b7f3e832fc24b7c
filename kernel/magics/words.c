/* A magic's words. See magics.h. */
#include "magics/magics.h"

#include <ctype.h>

names words_of(const char *line)
{
    names words = {0};
    text word = {0};
    bool inside = false;
    char quote = 0;
    for (const char *p = line;; p++) {
        bool end = !*p || (*p == '\n') || (!quote && isspace((unsigned char)*p));
        if (end && (inside || word.size)) {
            names_add(&words, word.data ? word.data : "");
            text_clear(&word);
            inside = false;
        }
        if (!*p || *p == '\n') break;
        if (end) continue;
        if (quote ? *p == quote : (*p == '"' || *p == '\'')) {
            quote = quote ? 0 : *p;
            inside = true;
        } else {
            text_add_bytes(&word, p, 1);
        }
    }
    text_free(&word);
    return words;
}

char *in_place(const session *s, const char *words, size_t offset, const char *body)
{
    text code = {0};
    for (unsigned i = 1; i < s->word_line; i++) text_add(&code, "\n");
    for (size_t i = 0; words[offset] && i < s->word_column + offset; i++) text_add(&code, " ");
    text_add(&code, words + offset);
    if (body) text_addf(&code, "\n%s", body);
    return text_take(&code);
}
