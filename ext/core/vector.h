/* Functions that are compiled in several versions; the loader chooses the best one for the machine. */
#ifndef KOLO_CORE_VECTOR_H
#define KOLO_CORE_VECTOR_H

/* ThreadSanitizer is not ready yet when the loader chooses a version. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define KOLO_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define KOLO_VECTORISED __attribute__((optimize("O3")))
#endif

/* Defines name_float() and name_bfloat16(), functions with these parameters, in parentheses, and statements, in which
 * `narrow` is the constant 0 or 1 (core/lanes.h). */
#define KOLO_BOTH_TYPES(name, parameters, ...)                                                                         \
    KOLO_VECTORISED static void name##_float parameters                                                                \
    {                                                                                                                  \
        enum { narrow = 0 };                                                                                           \
        __VA_ARGS__;                                                                                                   \
    }                                                                                                                  \
    KOLO_VECTORISED static void name##_bfloat16 parameters                                                             \
    {                                                                                                                  \
        enum { narrow = 1 };                                                                                           \
        __VA_ARGS__;                                                                                                   \
    }

#endif
