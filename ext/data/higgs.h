/* The two published HIGGS tables: ATLAS's challenge of 2014 and UCI's. */
#ifndef KOLO_DATA_HIGGS_H
#define KOLO_DATA_HIGGS_H

#include "data/arrays.h"

/* Whether a folder holds a CSV file (plain, .gz or .xz) that looks like one of them. */
bool kolo_higgs_in(const char *folder);
/* Reads a split: 70 % of the rows for training, or the rest. The caller frees the arrays, also on failure. */
kolo_status kolo_higgs_read(kolo_arrays *arrays, const char *folder, kolo_split split);

#endif
