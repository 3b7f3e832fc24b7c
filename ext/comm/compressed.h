/* An all-reduce whose values travel as numbers of 16 bits: half the bytes, for a slow network.
 *
 * Rank r receives slice r of all ranks' values, rounded to 16 bits, adds them up in float32 in the order of the ranks,
 * and sends the sum to all, rounded once more. So each result has two roundings, and the same bits on all ranks.
 */
#ifndef KOLO_COMM_COMPRESSED_H
#define KOLO_COMM_COMPRESSED_H

#include "comm/comm.h"

/* values[count] becomes the sum over all members. The values are multiplied by 2^exponent while they travel, since
 * binary16 has few exponents: values from 2^16 on become infinite, below 2^-24 zero. */
kolo_status kolo_compressed_allreduce(kolo_comm *comm, float *values, int64_t count, kolo_compression compression,
                                      int exponent);

#endif
