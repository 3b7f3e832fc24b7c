/* Random numbers that depend only on a key and a counter.
 *
 * Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") is a keyed function of a counter.
 * Number i of stream s is the same on every thread, replica and rank. Therefore dropout and shuffling do not depend on
 * the number of devices.
 */
#ifndef KOLO_CORE_RANDOM_H
#define KOLO_CORE_RANDOM_H

#include <kolo.h>

#include "core/philox.h"

/* Element e of sample s, with a standard normal distribution: each pair of words of kolo_philox(key, e / 4, s) gives
 * two numbers by the method of Box and Muller. */
double kolo_random_normal(uint64_t key, uint64_t element, uint64_t sample);

/* A random seed, never 0. */
uint64_t kolo_random_seed(void);
/* Fills order[count] with a permutation of 0 … count-1 that depends on seed and epoch. */
void kolo_random_permutation(uint64_t seed, uint64_t epoch, int64_t count, int32_t *order);
/* The same, but each number is drawn from the next `buffer` remaining ones; buffer 0: from all, the permutation. */
void kolo_random_order(uint64_t seed, uint64_t epoch, int64_t count, int64_t buffer, int32_t *order);

#endif
