/* Inside the shim: the device's memory. Each of these with the Turn of streams.h. */
#ifndef KOLO_SHIM_MEMORY_H
#define KOLO_SHIM_MEMORY_H

#include <cstddef>

/* Bytes of 0xFF, at a multiple of 256; NULL where there is no room. What was freed: bytes with what they were rounded
 * up by; 0: it is no array. */
void *kolo_shim_take_memory(size_t bytes, int device);
size_t kolo_shim_free_memory(void *memory);
void kolo_shim_forget_memory(); /* all of it */
/* Whether all of that is in one array. */
bool kolo_shim_in_memory(const void *memory, size_t bytes);
int kolo_shim_memory_owner(const void *memory); /* the device of what is in memory */

/* The shim itself, and kernels, may touch it between the two. */
void kolo_shim_open_memory();
void kolo_shim_close_memory();
/* Between the two: whether other devices' memory is nobody's. */
void kolo_shim_fence_memory(int own, bool up);

#endif
