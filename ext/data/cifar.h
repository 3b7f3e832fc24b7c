/* CIFAR-10's and CIFAR-100's binary batches. */
#ifndef KOLO_DATA_CIFAR_H
#define KOLO_DATA_CIFAR_H

#include "data/arrays.h"

/* Whether a folder holds any of their files. */
bool kolo_cifar_in(const char *folder);
/* The batches of a split in a folder: data_batch_1.bin … 5, test_batch.bin, or CIFAR-100's train.bin and test.bin;
 * plain, .gz or .xz. On failure arrays are empty. */
kolo_status kolo_cifar_read(kolo_arrays *arrays, const char *folder, kolo_split split);

#endif
