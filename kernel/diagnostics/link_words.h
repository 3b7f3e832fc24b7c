/* The linker's messages as sentences for a learner. Its own text names objects and folders that no learner knows.
 * Read first: nothing. */
#ifndef KERNEL_DIAGNOSTICS_LINK_WORDS_H
#define KERNEL_DIAGNOSTICS_LINK_WORDS_H

#include "cells/text.h"

/* One line for each thing that is missing: "In[3]:6: 'f' is used here, and nothing defines it". The caller frees. */
char *link_words(const char *log, const char *cell_name);

#endif
