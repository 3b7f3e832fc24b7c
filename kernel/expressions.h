/* The user_expressions of an execute_request: C expressions that a front end wants the values of after a cell. Read
 * first: session.h. */
#ifndef KERNEL_EXPRESSIONS_H
#define KERNEL_EXPRESSIONS_H

#include "session.h"

/* `asked`: JSON, {"name": "expression", …}. For each name {"status": "ok", "data", "metadata"}, or an error's
 * {"status": "error", "ename", "evalue", "traceback"}. Nothing is published, counted or stored. */
json_t *evaluate_expressions(session *s, const char *asked);

#endif
