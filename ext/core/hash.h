/* FNV-1a (Fowler, Noll, Vo; http://www.isthe.com/chongo/tech/comp/fnv/), 64 bits. Ranks compare hashes
 * to see whether they have the same data, and tables find words by them. It does not protect against data that were
 * made to have equal hashes. */
#ifndef KOLO_CORE_HASH_H
#define KOLO_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KOLO_HASH_START 0xCBF29CE484222325u

/* Continues the hash of earlier bytes with these. */
static inline uint64_t kolo_hash_add(uint64_t hash, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001B3u;
    return hash;
}

/* As kolo_hash_add(), but a step takes a number of 32 bits instead of a byte. It is four times as fast, and gives other
 * hashes. */
static inline uint64_t kolo_hash_add_words(uint64_t hash, const void *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, (const char *)words + (size_t)i * sizeof word, sizeof word);
        hash = (hash ^ word) * 0x100000001B3u;
    }
    return hash;
}

/* As kolo_hash_add_words(), but the words go in turn through eight hashes, which a processor computes side by side. It
 * gives other hashes again. */
static inline uint64_t kolo_hash_add_lanes(uint64_t hash, const void *words, int64_t count)
{
    enum { LANES = 8 };
    uint64_t lane[LANES] = {0};
    int64_t at = 0;
    for (; at + LANES <= count; at += LANES) {
        uint32_t word[LANES];
        memcpy(word, (const char *)words + (size_t)at * sizeof *word, sizeof word);
        for (int i = 0; i < LANES; i++) lane[i] = (lane[i] ^ word[i]) * 0x100000001B3u;
    }
    for (int i = 0; i < LANES; i++) hash = (hash ^ lane[i]) * 0x100000001B3u;
    return kolo_hash_add_words(hash, (const char *)words + (size_t)at * sizeof(uint32_t), count - at);
}

#endif
