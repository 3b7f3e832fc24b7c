/* Products of matrices by cuBLASLt: D = A · B, rows one behind the other (row-major), with what goes with them in one
 * kernel where cuBLASLt has that. Made once, for matrices of one size; then run as often as wanted. */
#ifndef KOLO_CUDA_MATMUL_H
#define KOLO_CUDA_MATMUL_H

#include "backend/cuda/cuda.h"

typedef enum kolo_matmul_extra {
    KOLO_MATMUL_ALONE,
    KOLO_MATMUL_RELU,
    KOLO_MATMUL_BIAS, /* D = A · B + vector [n], which is of D's element and 16-byte aligned */
    KOLO_MATMUL_BIAS_RELU,
    KOLO_MATMUL_SUMS /* vector [n] is written: the sums over B's k rows, of D's element */
} kolo_matmul_extra;

typedef struct kolo_matmul_spec {
    int64_t m, n, k;                 /* D is m × n, A m × k, B k × n */
    bool a_transposed, b_transposed; /* it lies as its transpose: k × m, n × k */
    kolo_element element, d_element; /* of A and B; of D: the same, or float32 */
    bool tf32;                       /* factors of float32 may be rounded to TF32 */
    kolo_matmul_extra extra;
} kolo_matmul_spec;

typedef struct kolo_matmul kolo_matmul;

/* For A, B and D that are 16-byte aligned, and for others where they are float32. *made: NULL where cuBLASLt has
 * nothing for it, or not the sums. *scratch: bytes of 256-byte aligned memory that it needs while it runs. */
kolo_status kolo_matmul_make(kolo_stream *stream, const kolo_matmul_spec *spec, kolo_matmul **made, size_t *scratch);
kolo_status kolo_matmul_run(const kolo_matmul *matmul, const void *a, const void *b, void *d, void *vector,
                            void *scratch);
void kolo_matmul_free(kolo_matmul *matmul); /* takes NULL */

#endif
