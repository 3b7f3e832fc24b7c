/* Findings of the kernel's own, beside clang's. Read first: finding.h. */
#ifndef KERNEL_MISTAKES_ADD_H
#define KERNEL_MISTAKES_ADD_H

#include "cells/split.h"
#include "mistakes/finding.h"

/* A warning, or with an empty message a hint alone; the cell's as a whole until a place is set. */
finding *finding_add(findings *all, const char *cell_name, const char *message, const char *hint);
void finding_set_place(finding *f, const cell *c, const token *t);

#endif
