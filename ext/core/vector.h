/* Functions that are compiled in several versions; the loader chooses the best one for the machine. */
#ifndef KOLO_CORE_VECTOR_H
#define KOLO_CORE_VECTOR_H

/* ThreadSanitizer is not ready yet when the loader chooses a version. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define KOLO_VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define KOLO_VECTORISED __attribute__((optimize("O3")))
#endif

/* A function for a CPU that rounds to bfloat16 by itself, and whether this is one. */
#if defined(__x86_64__) && !defined(__clang__)
#define KOLO_FOR_BFLOAT16          __attribute__((target("arch=x86-64-v4,avx512bf16"), optimize("O3")))
#define KOLO_CPU_ROUNDS_BFLOAT16() (__builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16"))
#else
#define KOLO_FOR_BFLOAT16          KOLO_VECTORISED
#define KOLO_CPU_ROUNDS_BFLOAT16() 0
#endif

/* Defines functions with these parameters, in parentheses, and statements, in which `narrow` is a constant
 * (core/lanes.h): name_float(), name_bfloat16(), and name_by_cpu() for a CPU that rounds to bfloat16 by itself.
 * KOLO_FASTEST(name, bfloat16) is the one to call. */
#define KOLO_ALL_TYPES(name, parameters, ...)                                                                          \
    KOLO_VECTORISED static void name##_float parameters                                                                \
    {                                                                                                                  \
        enum { narrow = 0 };                                                                                           \
        __VA_ARGS__;                                                                                                   \
    }                                                                                                                  \
    KOLO_VECTORISED static void name##_bfloat16 parameters                                                             \
    {                                                                                                                  \
        enum { narrow = 1 };                                                                                           \
        __VA_ARGS__;                                                                                                   \
    }                                                                                                                  \
    KOLO_FOR_BFLOAT16 static void name##_by_cpu parameters                                                             \
    {                                                                                                                  \
        enum { narrow = KOLO_BY_CPU };                                                                                 \
        __VA_ARGS__;                                                                                                   \
    }
#define KOLO_NARROW(bfloat16) (!(bfloat16) ? 0 : KOLO_CPU_ROUNDS_BFLOAT16() ? KOLO_BY_CPU : 1)
#define KOLO_FASTEST(name, bfloat16)                                                                                   \
    (!(bfloat16) ? name##_float : KOLO_CPU_ROUNDS_BFLOAT16() ? name##_by_cpu : name##_bfloat16)

#endif
