/* Products of row-major matrices by cuBLASLt: D = A · B with an epilogue, in one kernel where cuBLASLt has that. A
 * product is made once, for matrices of one size, and may then run any number of times. */
#ifndef KOLO_CUDA_MATMUL_H
#define KOLO_CUDA_MATMUL_H

#include "backend/cuda/cuda.h"

typedef enum kolo_matmul_epilogue {
    KOLO_MATMUL_NONE,
    KOLO_MATMUL_RELU,
    KOLO_MATMUL_BIAS, /* D = A · B + vector [n], which is of D's element and 16-byte aligned */
    KOLO_MATMUL_BIAS_RELU,
    KOLO_MATMUL_SUMS /* only by kolo_matmul_make_sums(): vector [n] is written: the sums over B's k rows, of D's element
                      */
} kolo_matmul_epilogue;

typedef struct kolo_matmul_spec {
    int64_t m, n, k; /* D is m × n, A m × k, B k × n */
    bool a_transposed, b_transposed; /* the matrix is stored as its transpose: k × m, n × k */
    kolo_element element, d_element; /* of A and B; of D, which is the same or float32 */
    bool tf32; /* operands of float32 may be rounded to TF32 */
    kolo_matmul_epilogue epilogue;
} kolo_matmul_spec;

typedef struct kolo_matmul kolo_matmul;

/* A, B and D must be 16-byte aligned, unless A and B are float32. *scratch: bytes of 256-byte aligned memory; it is
 * raised to what a run needs. */
kolo_status kolo_matmul_make(kolo_stream *stream, const kolo_matmul_spec *spec, kolo_matmul **made, size_t *scratch);
/* With KOLO_MATMUL_SUMS if *sums and cuBLASLt has that, else without an epilogue. *sums becomes which. */
kolo_status kolo_matmul_make_sums(kolo_stream *stream, kolo_matmul_spec spec, bool *sums, kolo_matmul **made,
                                  size_t *scratch);
kolo_status kolo_matmul_run(const kolo_matmul *matmul, const void *a, const void *b, void *d, void *vector,
                            void *scratch);
void kolo_matmul_free(kolo_matmul *matmul); /* takes NULL */

#endif
