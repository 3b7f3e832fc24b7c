/* Arrays that share a block of memory begin at multiples of these bytes. */
#ifndef KOLO_CORE_ALIGN_H
#define KOLO_CORE_ALIGN_H

#include <stddef.h>

#define KOLO_ALIGNMENT     ((size_t)64)  /* on the host: a cache line, and an AVX-512 register */
#define KOLO_GPU_ALIGNMENT ((size_t)256) /* on a GPU: what cudaMalloc() promises */

/* The smallest multiple of `alignment` that is not less than `bytes`. */
static inline size_t kolo_align(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

#endif
