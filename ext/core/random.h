/* Random numbers that depend on nothing but their name.
 *
 * Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): a keyed function of a counter.
 * Whoever asks for number i of stream s gets the same one on any thread, replica or rank; that is what makes dropout
 * and shuffling independent of how many devices there are.
 */
#ifndef KOLO_CORE_RANDOM_H
#define KOLO_CORE_RANDOM_H

#include <kolo.h>

#include "core/philox.h"

/* Element e of sample s of a standard normal distribution: Box and Muller's two numbers of each pair of words of
 * kolo_philox(key, e / 4, s). */
double kolo_random_normal(uint64_t key, uint64_t element, uint64_t sample);

/* A seed nobody chose. */
uint64_t kolo_random_seed(void);
/* order[i] = a permutation of 0 … count-1, by (seed, epoch). */
void kolo_random_permutation(uint64_t seed, uint64_t epoch, int64_t count, int32_t *order);
/* The same where each is drawn from the next `buffer` that are left; buffer 0: from all, the permutation. */
void kolo_random_order(uint64_t seed, uint64_t epoch, int64_t count, int64_t buffer, int32_t *order);

#endif
