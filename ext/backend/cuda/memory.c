/* Counts the memory of each device that this process has allocated through kolo_cuda_allocate(). Memory that CUDA and
 * its libraries take for themselves is not counted. */
#include "backend/cuda/cuda.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>

typedef struct held {
    const void *memory;
    size_t bytes;
    int device;
} held;

static struct {
    pthread_mutex_t lock;
    void *tree; /* of `held`, ordered by their address */
    int64_t bytes[KOLO_DEVICES_MAX];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int compare(const void *a, const void *b)
{
    const char *left = ((const held *)a)->memory, *right = ((const held *)b)->memory;
    return (left > right) - (left < right);
}

/* If the host has no memory for the record, the allocation is not counted. */
static void remember(const void *memory, size_t bytes)
{
    held *made = calloc(1, sizeof *made);
    if (!made) return;
    *made = (held){.memory = memory, .bytes = bytes};
    bool known = cudaGetDevice(&made->device) == cudaSuccess && made->device < KOLO_DEVICES_MAX;
    pthread_mutex_lock(&all.lock);
    if (known && tsearch(made, &all.tree, compare)) all.bytes[made->device] += (int64_t)bytes;
    else free(made);
    pthread_mutex_unlock(&all.lock);
}

static void forget(const void *memory)
{
    const held key = {.memory = memory};
    pthread_mutex_lock(&all.lock);
    held *const *found = tfind(&key, &all.tree, compare), *gone = found ? *found : NULL;
    if (gone) {
        tdelete(&key, &all.tree, compare);
        all.bytes[gone->device] -= (int64_t)gone->bytes;
    }
    pthread_mutex_unlock(&all.lock);
    free(gone);
}

cudaError_t kolo_cuda_allocate(void **memory, size_t bytes)
{
    cudaError_t error = cudaMalloc(memory, bytes ? bytes : 1);
    if (error == cudaSuccess) remember(*memory, bytes);
    return error;
}

void kolo_cuda_free(void *memory)
{
    if (!memory) return;
    forget(memory);
    if (cudaFree(memory) != cudaSuccess) cudaGetLastError();
}

int64_t kolo_cuda_held(int device)
{
    pthread_mutex_lock(&all.lock);
    int64_t bytes = device >= 0 && device < KOLO_DEVICES_MAX ? all.bytes[device] : 0;
    pthread_mutex_unlock(&all.lock);
    return bytes;
}
