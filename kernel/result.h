/* How a cell, or a part of one, ended. */
#ifndef KERNEL_RESULT_H
#define KERNEL_RESULT_H

#include "cells/text.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct result {
    bool failed;
    char *name, *value; /* of the error: its kind and one sentence */
    text traceback;     /* lines, newline-separated */
    json_t *payload;    /* of the reply; NULL: none */
} result;

void result_free(result *r);
result error_result(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An error's traceback as the protocol has it. */
json_t *traceback_lines(const result *r);

#endif
