/* Products of matrices by cuBLASLt. Its matrices are column-major, so it takes a row-major matrix for its transpose.
 * D = A · B is therefore computed as Dᵀ = Bᵀ · Aᵀ, and cuBLASLt's A is our B.
 *
 * The algorithm is cuBLASLt's first choice when the product is made, so a product gives the same bits at each run.
 * https://docs.nvidia.com/cuda/cublas/index.html#cublasltmatmul lists the supported combinations. */
#include "backend/cuda/matmul.h"

#include <cublasLt.h>
#include <stdlib.h>

#define LARGEST_SCRATCH ((uint64_t)32 << 20) /* bytes; NVIDIA's advice for Hopper */

enum { ALIGNED, ANY, ALIGNMENTS };
static const uint32_t alignments[ALIGNMENTS] = {16, sizeof(float)};

struct kolo_matmul {
    cublasLtHandle_t handle; /* the stream's */
    cudaStream_t stream;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, d; /* cuBLASLt's A and B */
    cublasLtMatmulAlgo_t algorithms[ALIGNMENTS];
    bool found[ALIGNMENTS];
    size_t scratch; /* bytes of workspace that suffice for each algorithm */
    bool vector;
    kolo_matmul *product; /* D in float32 without the epilogue, if cuBLASLt cannot fuse it; else NULL */
    kolo_matmul_spec spec; /* with .product: passes after it do the rest of this spec */
    size_t sums, wide; /* with .product: offsets in the scratch memory of D and the vector as float32 */
};

static kolo_status failed(cublasStatus_t error, const char *doing)
{
    return kolo_fail(error == CUBLAS_STATUS_ALLOC_FAILED ? KOLO_MEMORY : KOLO_INTERNAL,
                     "%s on the device failed: cuBLASLt says %s", doing, cublasLtGetStatusString(error));
}

#define BLAS(call, doing)                                                                                              \
    do {                                                                                                               \
        cublasStatus_t error_ = (call);                                                                                \
        if (error_ != CUBLAS_STATUS_SUCCESS) return failed(error_, doing);                                             \
    } while (0)

static const char making[] = "making a product of matrices";

static cudaDataType_t type_of(kolo_element element)
{
    if (element == KOLO_ELEMENT_BFLOAT16) return CUDA_R_16BF;
    return element == KOLO_ELEMENT_HALF ? CUDA_R_16F : CUDA_R_32F;
}

/* ---- the stream's handle ---- */

static kolo_status handle_of(kolo_stream *stream, cublasLtHandle_t *handle)
{
    if (!stream->blas) BLAS(cublasLtCreate(&stream->blas), "opening cuBLASLt");
    *handle = stream->blas;
    return KOLO_OK;
}

void kolo_cuda_close_blas(kolo_stream *stream)
{
    if (stream->blas) cublasLtDestroy(stream->blas);
    stream->blas = NULL;
}

/* ---- making ---- */

static kolo_status set_epilogue(kolo_matmul *made, const kolo_matmul_spec *spec)
{
    static const uint32_t epilogues[] = {[KOLO_MATMUL_NONE] = CUBLASLT_EPILOGUE_DEFAULT,
                                         [KOLO_MATMUL_RELU] = CUBLASLT_EPILOGUE_RELU,
                                         [KOLO_MATMUL_BIAS] = CUBLASLT_EPILOGUE_BIAS,
                                         [KOLO_MATMUL_BIAS_RELU] = CUBLASLT_EPILOGUE_RELU_BIAS,
                                         [KOLO_MATMUL_SUMS] = CUBLASLT_EPILOGUE_BGRADA};
    BLAS(cublasLtMatmulDescSetAttribute(made->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[spec->epilogue],
                                        sizeof epilogues[0]),
         making);
    made->vector = spec->epilogue >= KOLO_MATMUL_BIAS;
    if (!made->vector) return KOLO_OK;
    /* This address is never read. It tells the heuristics how vectors will be aligned. */
    const void *somewhere = (const void *)(uintptr_t)4096;
    int32_t type = type_of(spec->d_element);
    BLAS(cublasLtMatmulDescSetAttribute(made->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &somewhere, sizeof somewhere),
         making);
    BLAS(cublasLtMatmulDescSetAttribute(made->what, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), making);
    return KOLO_OK;
}

static kolo_status describe(kolo_matmul *made, const kolo_matmul_spec *spec)
{
    cublasComputeType_t compute = spec->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    int32_t turn_a = spec->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
            turn_b = spec->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint64_t m = (uint64_t)spec->m, n = (uint64_t)spec->n, k = (uint64_t)spec->k;
    uint64_t a_rows = spec->b_transposed ? k : n, b_rows = spec->a_transposed ? m : k;
    cudaDataType_t type = type_of(spec->element);
    BLAS(cublasLtMatmulDescCreate(&made->what, compute, CUDA_R_32F), making);
    BLAS(cublasLtMatmulDescSetAttribute(made->what, CUBLASLT_MATMUL_DESC_TRANSA, &turn_a, sizeof turn_a), making);
    BLAS(cublasLtMatmulDescSetAttribute(made->what, CUBLASLT_MATMUL_DESC_TRANSB, &turn_b, sizeof turn_b), making);
    BLAS(cublasLtMatrixLayoutCreate(&made->a, type, a_rows, n + k - a_rows, (int64_t)a_rows), making);
    BLAS(cublasLtMatrixLayoutCreate(&made->b, type, b_rows, m + k - b_rows, (int64_t)b_rows), making);
    BLAS(cublasLtMatrixLayoutCreate(&made->d, type_of(spec->d_element), n, m, spec->n), making);
    return set_epilogue(made, spec);
}

/* Partial sums over pieces of k are added in float32, never in a narrower D. */
static kolo_status prefer(cublasLtMatmulPreference_t preference, uint32_t alignment)
{
    static const cublasLtMatmulPreferenceAttributes_t of[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = LARGEST_SCRATCH;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        BLAS(cublasLtMatmulPreferenceSetAttribute(preference, of[i], &alignment, sizeof alignment), making);
    BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
         making);
    BLAS(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                              sizeof schemes),
         making);
    return KOLO_OK;
}

static kolo_status choose(kolo_matmul *made, int alignment)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result = {0};
    int number = 0;
    BLAS(cublasLtMatmulPreferenceCreate(&preference), making);
    kolo_status status = prefer(preference, alignments[alignment]);
    if (status == KOLO_OK &&
        cublasLtMatmulAlgoGetHeuristic(made->handle, made->what, made->a, made->b, made->d, made->d, preference, 1,
                                       &result, &number) == CUBLAS_STATUS_SUCCESS &&
        number > 0 && result.state == CUBLAS_STATUS_SUCCESS) {
        made->found[alignment] = true;
        made->algorithms[alignment] = result.algo;
        if (result.workspaceSize > made->scratch) made->scratch = result.workspaceSize;
    }
    cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* The product and its epilogue in one kernel. *made: NULL if cuBLASLt has no algorithm. */
static kolo_status make_fused(kolo_stream *stream, const kolo_matmul_spec *spec, kolo_matmul **made, size_t *scratch)
{
    kolo_matmul *matmul = calloc(1, sizeof *matmul);
    if (!matmul) return kolo_fail_memory(sizeof *matmul, "a product of matrices");
    matmul->stream = stream->handle;
    kolo_status status = handle_of(stream, &matmul->handle);
    if (status == KOLO_OK) status = describe(matmul, spec);
    if (status == KOLO_OK) status = choose(matmul, ALIGNED);
    if (status == KOLO_OK && spec->element == KOLO_ELEMENT_FLOAT) status = choose(matmul, ANY);
    *made = matmul;
    *scratch = matmul->scratch;
    if (status == KOLO_OK && matmul->found[ALIGNED]) return KOLO_OK;
    kolo_matmul_free(matmul);
    *made = NULL;
    *scratch = 0;
    return status;
}

/* cuBLASLt does not have every epilogue for every size. This makes the product alone, and passes that follow it.
 * Nothing is rounded before D is. */
static kolo_status make_apart(kolo_stream *stream, const kolo_matmul_spec *spec, kolo_matmul **made, size_t *scratch)
{
    kolo_matmul_spec alone = *spec;
    kolo_matmul *matmul = calloc(1, sizeof *matmul);
    if (!matmul) return kolo_fail_memory(sizeof *matmul, "a product of matrices");
    alone.epilogue = KOLO_MATMUL_NONE;
    alone.d_element = KOLO_ELEMENT_FLOAT;
    kolo_status status = make_fused(stream, &alone, &matmul->product, scratch);
    if (status != KOLO_OK || !matmul->product) {
        kolo_matmul_free(matmul);
        return status;
    }
    bool narrow = spec->d_element != KOLO_ELEMENT_FLOAT;
    matmul->stream = stream->handle;
    matmul->spec = *spec;
    *scratch = (*scratch + 255) / 256 * 256;
    matmul->sums = (size_t)kolo_cuda_reserve(scratch, narrow ? (size_t)(spec->m * spec->n) * sizeof(float) : 0);
    matmul->wide = (size_t)kolo_cuda_reserve(scratch, narrow ? (size_t)spec->n * sizeof(float) : 0);
    *made = matmul;
    return KOLO_OK;
}

kolo_status kolo_matmul_make(kolo_stream *stream, const kolo_matmul_spec *spec, kolo_matmul **made, size_t *scratch)
{
    size_t needed = 0;
    KOLO_TRY(make_fused(stream, spec, made, &needed));
    if (!*made && spec->epilogue != KOLO_MATMUL_NONE) KOLO_TRY(make_apart(stream, spec, made, &needed));
    if (!*made)
        return kolo_fail(KOLO_UNSUPPORTED,
                         "backend cuda: wanted a product of %lld × %lld by %lld × %lld, got none of cuBLASLt",
                         (long long)spec->m, (long long)spec->k, (long long)spec->k, (long long)spec->n);
    if (needed > *scratch) *scratch = needed;
    return KOLO_OK;
}

kolo_status kolo_matmul_make_sums(kolo_stream *stream, kolo_matmul_spec spec, bool *sums, kolo_matmul **made,
                                  size_t *scratch)
{
    size_t needed = 0;
    spec.epilogue = KOLO_MATMUL_SUMS;
    if (*sums) KOLO_TRY(make_fused(stream, &spec, made, &needed));
    if (needed > *scratch) *scratch = needed;
    *sums = *sums && *made;
    spec.epilogue = KOLO_MATMUL_NONE;
    return *sums ? KOLO_OK : kolo_matmul_make(stream, &spec, made, scratch);
}

void kolo_matmul_free(kolo_matmul *matmul)
{
    if (!matmul) return;
    kolo_matmul_free(matmul->product);
    if (matmul->what) cublasLtMatmulDescDestroy(matmul->what);
    if (matmul->a) cublasLtMatrixLayoutDestroy(matmul->a);
    if (matmul->b) cublasLtMatrixLayoutDestroy(matmul->b);
    if (matmul->d) cublasLtMatrixLayoutDestroy(matmul->d);
    free(matmul);
}

/* ---- running ---- */

static kolo_status run_apart(const kolo_matmul *matmul, const void *a, const void *b, void *d, const void *vector,
                             char *scratch)
{
    static const char doing[] = "what goes with a product";
    const kolo_matmul_spec *spec = &matmul->spec;
    bool narrow = spec->d_element != KOLO_ELEMENT_FLOAT;
    bool relu = spec->epilogue == KOLO_MATMUL_RELU || spec->epilogue == KOLO_MATMUL_BIAS_RELU;
    void *sums = narrow ? scratch + matmul->sums : d, *wide = scratch + matmul->wide;
    KOLO_TRY(kolo_matmul_run(matmul->product, a, b, sums, NULL, scratch));
    if (vector && narrow)
        KOLO_CUDA(kolo_cuda_cast(matmul->stream, spec->d_element, vector, KOLO_ELEMENT_FLOAT, wide, spec->n), doing);
    KOLO_CUDA(kolo_cuda_bias_forward(matmul->stream, KOLO_ELEMENT_FLOAT, spec->m, (int)spec->n,
                                     vector && narrow ? wide : vector, relu, sums),
              doing);
    if (narrow)
        KOLO_CUDA(kolo_cuda_cast(matmul->stream, KOLO_ELEMENT_FLOAT, sums, spec->d_element, d, spec->m * spec->n),
                  doing);
    return KOLO_OK;
}

kolo_status kolo_matmul_run(const kolo_matmul *matmul, const void *a, const void *b, void *d, void *vector,
                            void *scratch)
{
    if (matmul->product) return run_apart(matmul, a, b, d, vector, scratch);
    static const float one = 1, zero = 0;
    static const char doing[] = "a product of matrices";
    uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)d;
    int alignment = all % alignments[ALIGNED] == 0 ? ALIGNED : ANY;
    if (!matmul->found[alignment])
        return kolo_fail(KOLO_INTERNAL, "%s: wanted addresses that are multiples of 16", doing);
    if (matmul->vector)
        BLAS(cublasLtMatmulDescSetAttribute(matmul->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector),
             doing);
    BLAS(cublasLtMatmul(matmul->handle, matmul->what, &one, b, matmul->a, a, matmul->b, &zero, d, matmul->d, d,
                        matmul->d, &matmul->algorithms[alignment], scratch, matmul->scratch, matmul->stream),
         doing);
    return KOLO_OK;
}
