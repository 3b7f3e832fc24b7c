/* CRC-32C, with the processor's instruction if it has one, else with a table for four bits at a time. */
#include "core/crc32c.h"

#include <string.h>

/* table[i] is the remainder of i by the reversed polynomial 0x82f63b78. */
static uint32_t by_table(uint32_t crc, const unsigned char *bytes, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                       0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const unsigned char *bytes, size_t size)
{
    uint64_t wide = crc;
    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size > 0; bytes++, size--) crc = __builtin_ia32_crc32qi(crc, *bytes);
    return crc;
}
#endif

uint32_t kolo_crc32c(const void *bytes, size_t size)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) return ~by_instruction(~0u, bytes, size);
#endif
    return ~by_table(~0u, bytes, size);
}
