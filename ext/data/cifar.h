/* CIFAR-10's and CIFAR-100's binary batches. */
#ifndef KOLO_DATA_CIFAR_H
#define KOLO_DATA_CIFAR_H

#include "data/arrays.h"

/* Whether a folder holds any file of CIFAR-10 or CIFAR-100. */
bool kolo_cifar_in(const char *folder);
/* Reads the batches of a split in a folder: CIFAR-10's data_batch_1.bin … 5 or test_batch.bin, else CIFAR-100's
 * train.bin or test.bin; plain, .gz or .xz. The caller frees the arrays, also on failure. */
kolo_status kolo_cifar_read(kolo_arrays *arrays, const char *folder, kolo_split split);

#endif
