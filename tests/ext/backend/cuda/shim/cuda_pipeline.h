/* Copies to shared memory that go on beside the arithmetic, as CUDA's header has them: here a copy happens when its
 * thread waits for it, so that whoever reads too early finds nothing. See cuda_runtime.h here. */
#ifndef KOLO_SHIM_CUDA_PIPELINE_H
#define KOLO_SHIM_CUDA_PIPELINE_H

#include "cuda_runtime.h"

/* blocks.cpp */
void kolo_shim_copy_later(void *shared, const void *global, size_t bytes, size_t zeros);
void kolo_shim_commit_copies();
void kolo_shim_wait_copies(size_t left);

static inline void __pipeline_memcpy_async(void *shared, const void *global, size_t bytes, size_t zeros = 0)
{
    bool fits = bytes == 4 || bytes == 8 || bytes == 16;
    if (!fits || (uintptr_t)shared % bytes != 0) kolo_shim_misaligned(shared, bytes);
    if ((uintptr_t)global % bytes != 0) kolo_shim_misaligned(global, bytes);
    kolo_shim_copy_later(shared, global, bytes, zeros);
}
static inline void __pipeline_commit()
{
    kolo_shim_commit_copies();
}
static inline void __pipeline_wait_prior(size_t groups)
{
    kolo_shim_wait_copies(groups);
}
#endif
