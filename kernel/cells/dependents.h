/* What must follow when a macro, a type or a function's head changes: functions compiled with the old one are compiled
 * again beside the cell that changed it; variables whose layout differs are let go. Read first: symbols.h, unit.h. */
#ifndef KERNEL_CELLS_DEPENDENTS_H
#define KERNEL_CELLS_DEPENDENTS_H

#include "cells/unit.h"

typedef struct dependents {
    entity **functions; /* defined by earlier cells, resting on what this cell changes */
    size_t function_count, function_capacity;
    entity **variables;
    size_t variable_count, variable_capacity;
} dependents;

/* Borrows the session's entities: to be used before anything is put in or dropped. */
dependents dependents_of(const draft *d, const symbols *session);
void dependents_free(dependents *d);

#endif
