/* What goes between the host and the device in each step: the step's numbers, and its totals. A kernel reads or writes
 * them in the host's pinned memory, so that they need no copy beside the captured graph. */
#include "backend/cuda/device.cuh"

namespace kolo
{

/* Launched with one warp. A volatile read goes to the host's memory itself: an earlier step may have left in a cache
 * what the host has overwritten since. The arithmetic is that of kolo_host_take_step_parameters(), so the bits are the
 * same. to->update is not completed, as no kernel reads it. */
__global__ void take_step_parameters(kolo_step_parameters *to, const volatile kolo_step_parameters *ring,
                                     kolo_scaling *scaling, kolo_scaling *seen)
{
    const int words = (int)(offsetof(kolo_step_parameters, updates) / sizeof(int64_t)), number = (int)threadIdx.x;
    static_assert(offsetof(kolo_step_parameters, updates) <= 32 * sizeof(int64_t), "a word for each thread");
    const volatile kolo_step_parameters *next = &ring[(to->slot + 1) % KOLO_STEPS_AHEAD];
    int64_t word = number < words ? ((const volatile int64_t *)next)[number] : 0, updates = scaling ? next->updates : 0;
    __syncwarp(); /* all threads have read to->slot */
    if (number < words) ((int64_t *)to)[number] = word;
    __syncwarp();
    if (!scaling) return;
    int64_t later = scaling->updates - updates;
    if (number < KOLO_RULE_NUMBERS && later > 0) to->rule[number] = next->later[later - 1][number];
    if (number > 0) return;
    if (to->loss_scale > 0) scaling->sample_scale = scaling->loss_scale * to->loss_scale;
    scaling->updates_before = scaling->updates;
    to->loss_scale = scaling->sample_scale;
    to->scale = to->per_sample / scaling->sample_scale;
    *seen = *scaling;
}

__global__ void copy_to_ring(char *ring, size_t stride, const kolo_step_parameters *step_parameters,
                             const int64_t *from, int64_t words)
{
    int64_t *to = (int64_t *)(ring + (size_t)step_parameters->slot * stride);
    for (int64_t i = thread_number(); i < words; i += thread_count()) to[i] = from[i];
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_take_step_parameters(cudaStream_t stream, kolo_step_parameters *to,
                                           const kolo_step_parameters *ring, kolo_scaling *scaling, kolo_scaling *seen)
{
    return launch(stream, dim3(1), 32, 0, take_step_parameters, to, (const volatile kolo_step_parameters *)ring,
                  scaling, seen);
}

cudaError_t kolo_cuda_copy_to_ring(cudaStream_t stream, void *ring, size_t stride,
                                   const kolo_step_parameters *step_parameters, const void *from, size_t bytes)
{
    int64_t words = (int64_t)(bytes / sizeof(int64_t));
    return launch(stream, blocks_for(words), THREADS, 0, copy_to_ring, (char *)ring, stride, step_parameters,
                  (const int64_t *)from, words);
}
