/* How a cell ended: see result.h. */
#define _GNU_SOURCE
#include "result.h"
#include "colours.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void result_free(result *r)
{
    free(r->name);
    free(r->value);
    text_free(&r->traceback);
    json_decref(r->payload);
    *r = (result){0};
}

result error_result(const char *name, const char *format, ...)
{
    va_list arguments;
    char *sentence = NULL;
    va_start(arguments, format);
    if (vasprintf(&sentence, format, arguments) < 0) sentence = copy_of(name);
    va_end(arguments);
    result r = {.failed = true, .name = copy_of(name), .value = sentence};
    text_addf(&r.traceback, RED "%s:" PLAIN " %s", name, sentence);
    return r;
}

json_t *traceback_lines(const result *r)
{
    json_t *lines = json_array();
    char *copy = copy_of(r->traceback.data ? r->traceback.data : r->value), *rest;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        json_t *one = json_string(line);
        json_array_append_new(lines, one ? one : json_string("?"));
    }
    free(copy);
    return lines;
}
