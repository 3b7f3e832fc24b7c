#include "print.h"

#include <string.h>

void print_out(session *s, const char *words)
{
    output_add(&s->out, 1, words, strlen(words));
}

void print_error(session *s, const char *words)
{
    output_add(&s->out, 2, words, strlen(words));
}
