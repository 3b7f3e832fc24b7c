/* engine/placed_test.c, of the stream that enqueues. */
#define KOLO_TEST_BACKEND "enqueued"
/* A sampling layer and the loss add to the losses one after the other on one device, sample by sample. On two devices
 * each adds up its own, and the two sums are added at the end: the last bit may be another. */
#define KOLO_TEST_LOSS_ROUNDING 1e-14

#include "ext/engine/placed_test.c"
