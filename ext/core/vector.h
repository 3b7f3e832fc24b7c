/* Loops that the compiler makes in several versions, of which the machine's best is taken when the library loads. */
#ifndef KOLO_CORE_VECTOR_H
#define KOLO_CORE_VECTOR_H

#if defined(__x86_64__)
#define KOLO_VECTORISED __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define KOLO_VECTORISED __attribute__((optimize("O3")))
#endif

#endif
