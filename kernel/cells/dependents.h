/* The consequences when a cell changes a macro, a type, a constant, a function's head or a variable's type. Functions
 * compiled with the old one are compiled again beside that cell; variables whose layout differs are dropped. Read
 * first: symbols.h, unit.h. */
#ifndef KERNEL_CELLS_DEPENDENTS_H
#define KERNEL_CELLS_DEPENDENTS_H

#include "cells/unit.h"

typedef struct dependents {
    entity **functions; /* defined by earlier cells, resting on what this cell changes */
    size_t function_count, function_capacity;
    entity **variables; /* whose type may be another */
    size_t variable_count, variable_capacity;
} dependents;

/* Borrows the session's entities: to be used before anything is put in or dropped. `more`: plain names that count as
 * changed as well. The types of what the cell defines must be known. */
dependents dependents_of(const parsed_cell *parsed, const symbols *session, const names *more);
/* Typedefs of earlier cells that the cell gives another meaning, and those that are made of them: adds their names. */
void changed_typedefs(const parsed_cell *parsed, const symbols *session, names *into);
void dependents_free(dependents *d);

/* Does the cell give this variable another type or constant value than the session knows? */
bool variable_changes(const entity *e, const symbols *session);

#endif
