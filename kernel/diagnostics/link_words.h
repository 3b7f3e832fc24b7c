/* What the linker says, in a sentence a learner can use: its own text names objects and folders nobody has seen.
 * Read first: nothing. */
#ifndef KERNEL_DIAGNOSTICS_LINK_WORDS_H
#define KERNEL_DIAGNOSTICS_LINK_WORDS_H

#include "cells/text.h"

/* One line for each thing that is missing: "In[3]:6: 'f' is used here, and nothing defines it". The caller frees. */
char *link_words(const char *log, const char *cell_name);

#endif
