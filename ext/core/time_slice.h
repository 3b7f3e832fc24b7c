/* How long the kernel lets a thread run before another thread of the same core has its turn. */
#ifndef KOLO_CORE_TIME_SLICE_H
#define KOLO_CORE_TIME_SLICE_H

/* Asks for long turns for the calling thread, for threads that compute and share their cores: each turn begins with
 * caches full of another thread's values. Threads that it starts have the usual turns. Needs Linux 6.12; an older one
 * ignores it, and so does a thread of a real-time policy. */
void kolo_take_long_turns(void);

#endif
