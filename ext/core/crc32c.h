/* CRC-32C (Castagnoli; RFC 3720), and its masked form in TFRecord files. */
#ifndef KOLO_CORE_CRC32C_H
#define KOLO_CORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t kolo_crc32c(const void *bytes, size_t size);

/* The masked form in TFRecord and TensorBoard's event files. CRCs of data that contain CRCs are weak, which the mask
 * avoids (tensorflow/core/lib/hash/crc32c.h). */
static inline uint32_t kolo_crc32c_masked(const void *bytes, size_t size)
{
    uint32_t crc = kolo_crc32c(bytes, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

#endif
