/* Counter-based random numbers: see random.h. */
#include "core/random.h"

#include <math.h>
#include <sys/random.h>
#include <time.h>

double kolo_random_normal(uint64_t key, uint64_t element, uint64_t sample)
{
    kolo_random_block block = kolo_philox(key, element / 4, sample);
    const uint32_t *pair = &block.word[element % 4 / 2 * 2];
    double radius = sqrt(-2 * log(((double)pair[0] + 1) * 0x1p-32)), angle = 2 * acos(-1) * (double)pair[1] * 0x1p-32;
    return radius * (element % 2 ? sin(angle) : cos(angle));
}

uint64_t kolo_random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = kolo_mix((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
    }
    return seed ? seed : 1;
}

/* A number in 0 … below-1. A 64-bit number modulo at most 2³¹ is uniform to within 2⁻³³. */
static int64_t draw_below(uint64_t key, int64_t number, int64_t below)
{
    kolo_random_block block = kolo_philox(key, (uint64_t)number, 0);
    uint64_t draw = (uint64_t)block.word[0] << 32 | block.word[1];
    return (int64_t)(draw % (uint64_t)below);
}

static void swap(int32_t *order, int64_t a, int64_t b)
{
    int32_t held = order[a];
    order[a] = order[b];
    order[b] = held;
}

/* The shuffle of Fisher and Yates, from the end. */
void kolo_random_permutation(uint64_t seed, uint64_t epoch, int64_t count, int32_t *order)
{
    uint64_t key = kolo_random_key(seed, KOLO_RANDOM_ORDER, epoch);
    for (int64_t i = 0; i < count; i++) order[i] = (int32_t)i;
    for (int64_t i = count - 1; i > 0; i--) swap(order, i, draw_below(key, i, i + 1));
}

/* The places i … i + buffer − 1 of `order` are tf.data's buffer: one of their elements is drawn and swapped to place i.
 * The next step has one new element at the end. */
void kolo_random_order(uint64_t seed, uint64_t epoch, int64_t count, int64_t buffer, int32_t *order)
{
    if (buffer == 0) {
        kolo_random_permutation(seed, epoch, count, order);
        return;
    }
    uint64_t key = kolo_random_key(seed, KOLO_RANDOM_ORDER, epoch);
    for (int64_t i = 0; i < count; i++) order[i] = (int32_t)i;
    for (int64_t i = 0; i < count; i++) {
        int64_t room = count - i < buffer ? count - i : buffer;
        swap(order, i, i + draw_below(key, i, room));
    }
}
