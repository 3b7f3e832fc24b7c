/* Functions that are compiled in several versions; the loader chooses the best one for the machine. */
#ifndef KOLO_CORE_VECTOR_H
#define KOLO_CORE_VECTOR_H

/* ThreadSanitizer is not ready yet when the loader chooses a version. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define KOLO_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define KOLO_VECTORISED __attribute__((optimize("O3")))
#endif

#endif
