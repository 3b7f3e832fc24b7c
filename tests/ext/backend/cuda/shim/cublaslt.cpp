/* cublasLtMatmul() by three loops, and what must be true of its arguments. Read cublasLt.h here first.
 *
 * An algorithm here is what the heuristics were told of alignments, and its workspace's bytes; a product that was asked
 * for with less is refused, and the workspace is spoiled by it, as a real one would. */
#include "cublasLt.h"
#include "elements.h"
#include "trace.h"

#include <cstdio>
#include <set>
#include <vector>

struct cublasLtContext {
};
struct kolo_shim_matmul {
    int compute, scale, transposed_a = CUBLAS_OP_N, transposed_b = CUBLAS_OP_N, bias_type = -1;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void *bias = nullptr;
};
struct kolo_shim_matrix {
    int type;
    int64_t rows, columns, ld, batch = 1, stride = 0;
    int64_t span() const
    {
        return (batch - 1) * stride + (columns - 1) * ld + rows;
    }
    float at(const void *array, int64_t i, int64_t row, int64_t column) const
    {
        return kolo_shim_element(type, array, i * stride + column * ld + row);
    }
};
struct kolo_shim_preference {
    uint64_t most = 0;
    uint32_t schemes = 7, alignment[4] = {256, 256, 256, 256};
};

namespace
{

const uint64_t MARK = 0x616C676F726974; /* of an algorithm that came from here */
std::set<cublasLtHandle_t> open_handles;

/* A, B, C and D that are refused are refused for this: false. */
bool types_go_together(const kolo_shim_matmul &w, const kolo_shim_matrix &a, const kolo_shim_matrix &b,
                       const kolo_shim_matrix &c, const kolo_shim_matrix &d)
{
    if (w.scale != CUDA_R_32F || a.type != b.type || c.type != d.type) return false;
    if (w.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return false;
    if (w.compute != CUBLAS_COMPUTE_32F && w.compute != CUBLAS_COMPUTE_32F_FAST_TF32) return false;
    return d.type == a.type || d.type == CUDA_R_32F;
}

bool has_vector(const kolo_shim_matmul &w)
{
    return (w.epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB)) != 0;
}

bool sizes_fit(const kolo_shim_matmul &w, const kolo_shim_matrix &a, const kolo_shim_matrix &b,
               const kolo_shim_matrix &c, const kolo_shim_matrix &d)
{
    int64_t m = w.transposed_a ? a.columns : a.rows, k = w.transposed_a ? a.rows : a.columns;
    int64_t n = w.transposed_b ? b.rows : b.columns, other = w.transposed_b ? b.columns : b.rows;
    for (const kolo_shim_matrix *x : {&a, &b, &c, &d})
        if (x->ld < x->rows || x->batch != d.batch) return false;
    return m > 0 && n > 0 && k > 0 && k == other && d.rows == m && d.columns == n && c.rows == m && c.columns == n;
}

cublasStatus_t check(const kolo_shim_matmul &w, const kolo_shim_matrix &a, const kolo_shim_matrix &b,
                     const kolo_shim_matrix &c, const kolo_shim_matrix &d)
{
    if (!sizes_fit(w, a, b, c, d)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_go_together(w, a, b, c, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!has_vector(w)) return CUBLAS_STATUS_SUCCESS;
    bool of_d = w.bias_type == -1 || w.bias_type == d.type;
    return of_d && w.bias && d.batch == 1 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

struct Product {
    kolo_shim_matmul w;
    kolo_shim_matrix a, b, c, d;
    float alpha, beta;
    const void *a_at, *b_at, *c_at;
    void *d_at;

    float factor(const kolo_shim_matrix &x, const void *at, int64_t i, int64_t row, int64_t column) const
    {
        float value = x.at(at, i, row, column);
        return w.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? kolo_shim_tf32(value) : value;
    }
    float of_a(int64_t i, int64_t m, int64_t k) const
    {
        return w.transposed_a ? factor(a, a_at, i, k, m) : factor(a, a_at, i, m, k);
    }
    float of_b(int64_t i, int64_t k, int64_t n) const
    {
        return w.transposed_b ? factor(b, b_at, i, n, k) : factor(b, b_at, i, k, n);
    }
    void sum_columns(bool a_s) const
    {
        int64_t depth = w.transposed_a ? a.rows : a.columns;
        for (int64_t e = 0; e < (a_s ? d.rows : d.columns); e++) {
            float sum = 0;
            for (int64_t k = 0; k < depth; k++) sum += a_s ? of_a(0, e, k) : of_b(0, k, e);
            kolo_shim_set_element(d.type, w.bias, e, sum);
        }
    }
    void matrix(int64_t i) const
    {
        int64_t depth = w.transposed_a ? a.rows : a.columns;
        for (int64_t n = 0; n < d.columns; n++) {
            for (int64_t m = 0; m < d.rows; m++) {
                float sum = 0;
                for (int64_t k = 0; k < depth; k++) sum += of_a(i, m, k) * of_b(i, k, n);
                sum *= alpha;
                if (beta != 0) sum += beta * c.at(c_at, i, m, n);
                if (w.epilogue & CUBLASLT_EPILOGUE_BIAS) sum += kolo_shim_element(d.type, w.bias, m);
                if (w.epilogue & CUBLASLT_EPILOGUE_RELU && sum < 0) sum = 0;
                kolo_shim_set_element(d.type, d_at, i * d.stride + n * d.ld + m, sum);
            }
        }
    }
    void operator()() const
    {
        for (int64_t i = 0; i < d.batch; i++) matrix(i);
        if (w.epilogue == CUBLASLT_EPILOGUE_BGRADA) sum_columns(true);
        if (w.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_columns(false);
    }
};

template <typename T> cublasStatus_t set(T *to, const void *value, size_t bytes)
{
    if (!value || bytes != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

kolo_shim_record record_of(const Product &p)
{
    const int64_t depth = p.w.transposed_a ? p.a.rows : p.a.columns;
    char text[96];
    snprintf(text, sizeof text, "cublasLt %lldx%lldx%lld epilogue %u", (long long)p.d.columns, (long long)p.d.rows,
             (long long)depth, p.w.epilogue);
    kolo_shim_record record;
    record.range = kolo_shim_range();
    record.what = text;
    for (const kolo_shim_matrix *x : {&p.a, &p.b}) record.read += (uint64_t)x->span() * kolo_shim_size(x->type);
    record.written = (uint64_t)p.d.span() * kolo_shim_size(p.d.type);
    record.operations = 2 * (uint64_t)(p.d.batch * p.d.columns * p.d.rows * depth);
    return record;
}

bool lies_well(const void *memory, const kolo_shim_matrix &matrix, uint64_t alignment)
{
    return (uintptr_t)memory % alignment == 0 &&
           kolo_shim_on_device(memory, (size_t)matrix.span() * kolo_shim_size(matrix.type));
}

} // namespace

extern "C" {

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "no error";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "an error of the shim's";
    }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new cublasLtContext;
    open_handles.insert(*handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!open_handles.erase(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        enum cudaDataType_t scale)
{
    *desc = new kolo_shim_matmul{compute, scale};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&desc->transposed_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&desc->transposed_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(&desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(&desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(&desc->bias_type, value, bytes);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, enum cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    *layout = new kolo_shim_matrix{type, (int64_t)rows, (int64_t)columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return set(&layout->stride, value, bytes);
    int32_t count;
    if (attribute != CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT || set(&count, value, bytes) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_INVALID_VALUE;
    layout->batch = count;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new kolo_shim_preference;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(&preference->most, value, bytes);
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return set(&preference->schemes, value, bytes);
    int which = (int)attribute - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    return which < 0 || which > 3 ? CUBLAS_STATUS_INVALID_VALUE : set(&preference->alignment[which], value, bytes);
}

/* PyTorch has seen no algorithm found for these, and asks for none. */
bool is_too_thin(const kolo_shim_matmul &w, const kolo_shim_matrix &a, const kolo_shim_matrix &d)
{
    return has_vector(w) && (d.rows == 1 || (w.transposed_a ? a.rows : a.columns) == 1);
}

/* Long sums have a workspace, where one is allowed. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *number)
{
    *number = 0;
    if (!open_handles.count(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasStatus_t status = check(*desc, *a, *b, *c, *d);
    if (status != CUBLAS_STATUS_SUCCESS || wanted < 1) return status;
    if (is_too_thin(*desc, *a, *d)) return CUBLAS_STATUS_INVALID_VALUE;
    int64_t depth = desc->transposed_a ? a->rows : a->columns;
    size_t workspace = depth >= 16 && preference->most >= 4096 ? 4096 : 0;
    results[0] = cublasLtMatmulHeuristicResult_t{};
    uint64_t *data = results[0].algo.data;
    data[0] = MARK;
    data[1] = workspace;
    for (int i = 0; i < 4; i++) data[2 + i] = preference->alignment[i];
    data[6] = has_vector(*desc) ? (uintptr_t)desc->bias & (~(uintptr_t)desc->bias + 1) : 1;
    if (data[6] > 16) data[6] = 16;
    results[0].workspaceSize = workspace;
    *number = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    if (!open_handles.count(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algorithm || algorithm->data[0] != MARK) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = check(*desc, *a_layout, *b_layout, *c_layout, *d_layout);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const uint64_t *data = algorithm->data;
    bool fine = lies_well(a, *a_layout, data[2]) && lies_well(b, *b_layout, data[3]) &&
                lies_well(c, *c_layout, data[4]) && lies_well(d, *d_layout, data[5]);
    size_t needed = (size_t)data[1];
    if (needed > 0)
        fine = fine && workspace_bytes >= needed && (uintptr_t)workspace % 16 == 0 &&
               kolo_shim_on_device(workspace, needed);
    if (has_vector(*desc)) {
        bool of_rows = desc->epilogue != CUBLASLT_EPILOGUE_BGRADB;
        size_t length = (size_t)(of_rows ? d_layout->rows : d_layout->columns);
        fine = fine && (uintptr_t)desc->bias % data[6] == 0 &&
               kolo_shim_on_device(desc->bias, length * kolo_shim_size(d_layout->type));
    }
    if (!fine) return CUBLAS_STATUS_INVALID_VALUE;
    Product product = {*desc, *a_layout, *b_layout, *c_layout, *d_layout, *(const float *)alpha, *(const float *)beta,
                       a,     b,         c,         d};
    Work work = product;
    if (kolo_shim_traces()) work = kolo_shim_written_down(record_of(product), KOLO_SHIM_LIBRARY, work);
    else if (needed > 0) kolo_shim_give(stream, [=] { memset(workspace, 0xFF, needed); });
    kolo_shim_give(stream, work);
    return CUBLAS_STATUS_SUCCESS;
}
}
