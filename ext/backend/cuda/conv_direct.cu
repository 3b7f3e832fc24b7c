/* Depthwise convolutions: each channel has one filter of its own. A thread has four neighbouring channels, and
 * neighbouring threads have neighbouring channels. */
#include "backend/cuda/conv.cuh"

namespace kolo
{

/* ---- y and x ---- */

/* Computes y from x, or with `back` x from y: the gradient, or a transposed convolution. */
template <typename T, bool back>
__global__ void depthwise(Conv c, const T *__restrict__ from, const T *__restrict__ kernel, T *__restrict__ to,
                          int64_t count, Finish finish)
{
    for (int64_t e = thread_number(); e < count; e += thread_count()) {
        int64_t at;
        int four;
        divide(e, c.channels / 4, &at, &four);
        Place place = back ? place_of_x(c, at) : place_of_y(c, at);
        float sums[4] = {0};
        for (int i = 0; i < c.kernel[0]; i++) {
            for (int j = 0; j < c.kernel[1]; j++) {
                Tap tap = {i * c.dilation[0], j * c.dilation[1], 0, 0};
                int64_t pixel = back ? pixel_of_y(c, place, tap) : pixel_of_x(c, place, tap);
                if (pixel < 0) continue;
                float values[4], weights[4];
                load<T, 4>(from + pixel * c.channels + 4 * four, values);
                load<T, 4>(kernel + ((int64_t)i * c.kernel[1] + j) * c.channels + 4 * four, weights);
                for (int k = 0; k < 4; k++) sums[k] += values[k] * weights[k];
            }
        }
        for (int k = 0; k < 4; k++) sums[k] = finish(sums[k], 4 * four + k);
        store<T, 4>(to + at * c.channels + 4 * four, sums);
    }
}

static const int TAPS = 7; /* the most taps in a row of a kernel whose gradient a thread can sum */

bool is_depthwise(const Conv &c, bool by_kernel)
{
    bool one = c.group_channels == 1 && c.group_filters == 1 && c.groups > 1;
    return one && c.channels % 4 == 0 && (!by_kernel || c.kernel[1] <= TAPS);
}

cudaError_t direct(cudaStream_t stream, kolo_element element, const Conv &c, bool back, const void *from,
                   const void *kernel, Finish finish, void *to)
{
    int64_t count = (back ? c.pixels_of_x() : c.pixels_of_y()) * c.channels / 4;
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return launch(stream, blocks_for(count), THREADS, 0, back ? depthwise<T, true> : depthwise<T, false>, c,
                      (const T *)from, (const T *)kernel, (T *)to, count, finish);
    });
}

/* ---- the weight gradient ----
 *
 * dkernel[tap][c] = Σ_pixels x[…][c] · dy[pixel][c], in gridDim.y parts, each of which sums every so many pixels of
 * y. */

/* A thread has four channels and one row of the kernel, blockIdx.z. DOWN threads with the same channels take different
 * pixels, and their sums are added in shared memory. */
template <typename T>
__global__ void depthwise_gradient(Conv c, const T *__restrict__ x, const T *__restrict__ dy, float *__restrict__ parts)
{
    const int SIDE = 8, DOWN = THREADS / SIDE;
    __shared__ float all[DOWN][SIDE * 4];
    int side = (int)threadIdx.x % SIDE, below = (int)threadIdx.x / SIDE;
    int four = (int)blockIdx.x * SIDE + side, i = (int)blockIdx.z;
    bool works = 4 * four < c.channels;
    float sums[TAPS][4] = {{0}};
    int64_t pixels = (int64_t)c.microbatch * c.out_height * c.out_width;
    for (int64_t p = (int64_t)blockIdx.y * DOWN + below; works && p < pixels; p += (int64_t)gridDim.y * DOWN) {
        Place place = place_of_y(c, p);
        float given[4];
        load<T, 4>(dy + p * c.channels + 4 * four, given);
#pragma unroll
        for (int j = 0; j < TAPS; j++) {
            int64_t pixel = j < c.kernel[1] ? pixel_of_x(c, place, {i * c.dilation[0], j * c.dilation[1], 0, 0}) : -1;
            if (pixel < 0) continue;
            float values[4];
            load<T, 4>(x + pixel * c.channels + 4 * four, values);
            for (int k = 0; k < 4; k++) sums[j][k] += values[k] * given[k];
        }
    }
    int64_t count = (int64_t)c.kernel[0] * c.kernel[1] * c.channels;
#pragma unroll
    for (int j = 0; j < TAPS; j++) {
        if (j >= c.kernel[1]) break;
        __syncthreads();
        for (int k = 0; k < 4; k++) all[below][side * 4 + k] = sums[j][k];
        __syncthreads();
        int e = (int)threadIdx.x, channel = (int)blockIdx.x * SIDE * 4 + e;
        if (e >= SIDE * 4 || channel >= c.channels) continue;
        float sum = 0;
        for (int b = 0; b < DOWN; b++) sum += all[b][e];
        parts[blockIdx.y * count + ((int64_t)i * c.kernel[1] + j) * c.channels + channel] = sum;
    }
}

/* As many parts as fill a large device. The number does not depend on the device. */
int direct_parts(const Conv &c)
{
    int64_t blocks = (c.channels + 31) / 32 * c.kernel[0], rows = c.pixels_of_y() / 256, parts = 528 / blocks;
    if (parts > rows) parts = rows;
    return parts < 1 ? 1 : parts > 128 ? 128 : (int)parts;
}

cudaError_t direct_filter(cudaStream_t stream, kolo_element element, const Conv &conv, const void *x, const void *dy,
                          float *parts)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        dim3 blocks((unsigned)((conv.channels + 31) / 32), (unsigned)direct_parts(conv), (unsigned)conv.kernel[0]);
        return launch(stream, blocks, THREADS, 0, depthwise_gradient<T>, conv, (const T *)x, (const T *)dy, parts);
    });
}

} // namespace kolo
