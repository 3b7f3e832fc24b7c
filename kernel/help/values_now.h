/* The present values of the session's variables, all together, for %who. Read first: help_page.h. */
#ifndef KERNEL_HELP_VALUES_NOW_H
#define KERNEL_HELP_VALUES_NOW_H

#include "session.h"

typedef struct values_now {
    const entity **variables; /* borrowed, until the next cell */
    char **values;            /* NULL: it has none that can be shown */
    size_t count, capacity;
} values_now;

values_now values_of_now(session *s);
const char *value_of_now(const values_now *all, const entity *e);
void values_free(values_now *all);

#endif
