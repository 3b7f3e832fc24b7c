/* oneDNN 2.6 does not check some of its allocations: if one fails, it calls a null pointer, or an exception leaves its
 * C interface, and the process ends. So the backend checks that there is enough memory before oneDNN allocates. Its
 * matrix products generate their code in their first run, in the middle of training; so the first ones run here, when
 * the backend is opened.
 */
#include "backend/onednn/onednn.h"

#include <execinfo.h>
#include <omp.h>
#include <string.h>
#include <sys/mman.h>

/* More than that code and the memory of the first products take: oneDNN 2.6 was measured to take 6 MB. */
#define ROOM_BYTES ((size_t)16 << 20)

#define SIDE 96 /* large enough for a product that copies its operands first */

kolo_status kolo_onednn_check_room(size_t bytes, const char *what)
{
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return kolo_fail_memory(bytes, what);
    munmap(room, bytes);
    return KOLO_OK;
}

/* One product makes oneDNN generate the code of all its forms. */
static kolo_status multiply_floats(float *memory)
{
    const float *a = memory, *b = a + SIDE * SIDE;
    float *c = memory + 2 * SIDE * SIDE;
    return kolo_onednn_check(dnnl_sgemm('N', 'N', SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, 0, c, SIDE),
                             "a first product");
}

static kolo_status run_product(dnnl_primitive_desc_t made, const dnnl_memory_desc_t *desc, char *memory)
{
    const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    dnnl_engine_t engine = kolo_onednn_engine();
    dnnl_exec_arg_t operands[3] = {0};
    dnnl_primitive_t product = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t status = dnnl_primitive_create(&product, made);
    if (status == dnnl_success) status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    for (int i = 0; i < 3 && status == dnnl_success; i++) {
        operands[i].arg = arguments[i];
        status = dnnl_memory_create(&operands[i].memory, &desc[i], engine, memory + i * SIDE * SIDE * 4);
    }
    if (status == dnnl_success) status = dnnl_primitive_execute(product, stream, 3, operands);
    if (status == dnnl_success) status = dnnl_stream_wait(stream);
    for (int i = 0; i < 3; i++) dnnl_memory_destroy(operands[i].memory);
    dnnl_stream_destroy(stream);
    dnnl_primitive_destroy(product);
    return kolo_onednn_check(status, "a first product");
}

static kolo_status multiply_bfloat16(char *memory)
{
    const dnnl_dims_t dims = {SIDE, SIDE};
    const dnnl_data_type_t types[] = {dnnl_bf16, dnnl_bf16, dnnl_f32};
    dnnl_memory_desc_t desc[3];
    dnnl_matmul_desc_t operation;
    dnnl_primitive_desc_t made;
    for (int i = 0; i < 3; i++)
        KOLO_DNNL(dnnl_memory_desc_init_by_tag(&desc[i], 2, dims, types[i], dnnl_ab), "a first product");
    KOLO_DNNL(dnnl_matmul_desc_init(&operation, &desc[0], &desc[1], NULL, &desc[2]), "a first product");
    KOLO_DNNL(dnnl_primitive_desc_create(&made, &operation, NULL, kolo_onednn_engine(), NULL), "a first product");
    kolo_status status = run_product(made, desc, memory);
    dnnl_primitive_desc_destroy(made);
    return status;
}

static kolo_status multiply(bool bfloat16)
{
    size_t bytes = (size_t)(3 * SIDE * SIDE) * sizeof(float);
    float *memory = kolo_host_allocate(bytes);
    if (!memory) return kolo_fail_memory(bytes, "oneDNN's first products");
    memset(memory, 0, bytes);
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    kolo_status status = bfloat16 ? multiply_bfloat16((char *)memory) : multiply_floats(memory);
    omp_set_num_threads(threads);
    kolo_host_deallocate(memory);
    return status;
}

kolo_status kolo_onednn_warm_up(bool bfloat16)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool warm[2];
    void *frames[1];
    kolo_status status = KOLO_OK;
    pthread_mutex_lock(&lock);
    if (!warm[bfloat16]) status = kolo_onednn_check_room(ROOM_BYTES, "the code of oneDNN's products");
    if (!warm[bfloat16] && status == KOLO_OK) {
        backtrace(frames, 1); /* loads the libraries for the exceptions that oneDNN throws and catches */
        status = multiply(bfloat16);
        warm[bfloat16] = status == KOLO_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}
