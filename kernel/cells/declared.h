/* A variable declared from its type's spelling, as its author would: `int (*f)(int)`. Read first: nothing. */
#ifndef KERNEL_CELLS_DECLARED_H
#define KERNEL_CELLS_DECLARED_H

/* `int (*name)(int)` from "int (*)(int)", without a `;`. The caller frees. */
char *declared(const char *type, const char *name);

#endif
