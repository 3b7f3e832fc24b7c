/* Hints in clang's messages: the nearest name that the session knows, and Kolo's own words for an option of a call that
 * is misspelt or has no name. Read first: analyser.h, symbols.h. */
#ifndef KERNEL_DIAGNOSTICS_NEAREST_H
#define KERNEL_DIAGNOSTICS_NEAREST_H

#include "cells/analyser.h"
#include "cells/symbols.h"

/* The edits between the first `size` bytes of `a` and `b`; two letters that changed places are one. */
size_t distance_of(const char *a, size_t size, const char *b);

/* Could somebody who wrote `name` have meant `candidate`? The more letters, the more of them may differ. */
bool alike(const char *name, const char *candidate);

/* The nearest to `wanted` of the names that were considered: begins with found NULL and the distance that is too far.
 */
typedef struct nearest_name {
    const char *wanted;
    size_t best; /* the distance so far */
    char *found; /* the caller frees */
} nearest_name;
void keep_nearer(nearest_name *n, const char *candidate, size_t far);
/* The same for a candidate that is alike, and another name; the case of letters is no distance. */
void consider(nearest_name *n, const char *candidate);

/* The name of the call among whose arguments byte `at` of `code` stands, `outer` calls further out: where it begins and
 * ends. False when there is none. */
bool call_around(const char *code, size_t at, unsigned outer, size_t *begin, size_t *end);

/* clang's message in plainer words, or itself; a copy. `location` is where clang found it. */
char *plainer(CXTranslationUnit unit, CXSourceLocation location, const char *message, const symbols *session);

#endif
