/* Convolutions whose groups have few channels or filters: an element a thread, or four neighbouring channels where a
 * channel has one filter of its own (depthwise). Neighbouring threads have neighbouring channels. */
#include "backend/cuda/conv.cuh"

namespace kolo
{

/* ---- y, and x ---- */

/* y[pixel][f] = Σ_{tap,c} x[…][c] · kernel[tap][c][f] */
template <typename T>
__global__ void direct_forward(Conv c, const T *__restrict__ x, const T *__restrict__ kernel, T *__restrict__ y,
                               int64_t count, Finish finish)
{
    for (int64_t e = thread_number(); e < count; e += thread_count()) {
        int64_t at;
        int f;
        divide(e, c.filters, &at, &f);
        Place place = place_of_y(c, at);
        const T *weights = kernel + f;
        float sum = 0;
        for (int i = 0; i < c.kernel[0]; i++) {
            for (int j = 0; j < c.kernel[1]; j++, weights += (int64_t)c.group_channels * c.filters) {
                int64_t pixel = pixel_of_x(c, place, {i * c.dilation[0], j * c.dilation[1], 0, 0});
                if (pixel < 0) continue;
                const T *from = x + pixel * c.channels + f / c.group_filters * c.group_channels;
                for (int k = 0; k < c.group_channels; k++) sum += wide(from[k]) * wide(weights[(int64_t)k * c.filters]);
            }
        }
        narrow(finish(sum, f), &y[e]);
    }
}

/* x[pixel][c] = Σ_{tap,f} y[…][f] · kernel[tap][c][f] */
template <typename T>
__global__ void direct_backward(Conv c, const T *__restrict__ y, const T *__restrict__ kernel, T *__restrict__ x,
                                int64_t count, Finish finish)
{
    for (int64_t e = thread_number(); e < count; e += thread_count()) {
        int64_t at;
        int channel;
        divide(e, c.channels, &at, &channel);
        Place place = place_of_x(c, at);
        int first = channel / c.group_channels * c.group_filters;
        const T *weights = kernel + (int64_t)(channel % c.group_channels) * c.filters + first;
        float sum = 0;
        for (int i = 0; i < c.kernel[0]; i++) {
            for (int j = 0; j < c.kernel[1]; j++, weights += (int64_t)c.group_channels * c.filters) {
                int64_t pixel = pixel_of_y(c, place, {i * c.dilation[0], j * c.dilation[1], 0, 0});
                if (pixel < 0) continue;
                const T *from = y + pixel * c.filters + first;
                for (int k = 0; k < c.group_filters; k++) sum += wide(from[k]) * wide(weights[k]);
            }
        }
        narrow(finish(sum, channel), &x[e]);
    }
}

/* Both, of a filter a channel, four channels a thread. */
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

static bool is_depthwise(const Conv &c)
{
    return c.group_channels == 1 && c.group_filters == 1 && c.channels % 4 == 0;
}

cudaError_t direct(cudaStream_t stream, kolo_element element, const Conv &conv, const void *x, const void *kernel,
                   Finish finish, void *y)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        bool fours = is_depthwise(conv);
        int64_t count = conv.pixels_of_y() * conv.filters / (fours ? 4 : 1);
        return launch(stream, blocks_for(count), THREADS, 0, fours ? depthwise<T, false> : direct_forward<T>, conv,
                      (const T *)x, (const T *)kernel, (T *)y, count, finish);
    });
}

cudaError_t direct_data(cudaStream_t stream, kolo_element element, const Conv &conv, const void *y, const void *kernel,
                        Finish finish, void *x)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        bool fours = is_depthwise(conv);
        int64_t count = conv.pixels_of_x() * conv.channels / (fours ? 4 : 1);
        return launch(stream, blocks_for(count), THREADS, 0, fours ? depthwise<T, true> : direct_backward<T>, conv,
                      (const T *)y, (const T *)kernel, (T *)x, count, finish);
    });
}

/* ---- the kernel's gradient ----
 *
 * dkernel[tap][c][f] = Σ_pixels x[…][c] · dy[pixel][f], summed in parts: blockIdx.y takes every so many rows of y. */

static const int TAPS = 7; /* beside each other, that a thread sums at once */

template <typename T>
__global__ void direct_gradient(Conv c, const T *__restrict__ x, const T *__restrict__ dy, float *__restrict__ parts,
                                int64_t count)
{
    int64_t e = thread_number();
    if (e >= count) return;
    int64_t row_of_kernel;
    int f;
    divide(e, c.filters, &row_of_kernel, &f);
    Tap tap = tap_of(c, (int)row_of_kernel, c.group_channels);
    int channel = f / c.group_filters * c.group_channels + tap.c;
    float sum = 0;
    for (int64_t row = blockIdx.y; row < (int64_t)c.microbatch * c.out_height; row += gridDim.y) {
        Place place = place_of_y(c, row * c.out_width);
        for (int w = 0; w < c.out_width; w++, place.w += c.stride[1]) {
            int64_t pixel = pixel_of_x(c, place, tap);
            if (pixel < 0) continue;
            sum += wide(x[pixel * c.channels + channel]) * wide(dy[(row * c.out_width + w) * c.filters + f]);
        }
    }
    parts[blockIdx.y * count + e] = sum;
}

/* Of a filter a channel: four channels a thread, and a row of the kernel (blockIdx.z). Threads below one another take
 * different pixels and meet in shared memory. */
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

static bool sums_by_fours(const Conv &c)
{
    return is_depthwise(c) && c.kernel[1] <= TAPS;
}

/* As many as fill a large device; the same whatever the device. */
int direct_parts(const Conv &c)
{
    bool fours = sums_by_fours(c);
    int64_t blocks = fours ? (c.channels + 31) / 32 * c.kernel[0] : (c.weights() + THREADS - 1) / THREADS;
    int64_t rows = fours ? c.pixels_of_y() / 256 : (int64_t)c.microbatch * c.out_height / 4, parts = 528 / blocks;
    if (parts > rows) parts = rows;
    return parts < 1 ? 1 : parts > 128 ? 128 : (int)parts;
}

cudaError_t direct_filter(cudaStream_t stream, kolo_element element, const Conv &conv, const void *x, const void *dy,
                          float *parts)
{
    int number = direct_parts(conv);
    int64_t count = conv.weights();
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (sums_by_fours(conv)) {
            dim3 blocks((unsigned)((conv.channels + 31) / 32), (unsigned)number, (unsigned)conv.kernel[0]);
            return launch(stream, blocks, THREADS, 0, depthwise_gradient<T>, conv, (const T *)x, (const T *)dy, parts);
        }
        dim3 blocks((unsigned)((count + THREADS - 1) / THREADS), (unsigned)number);
        return launch(stream, blocks, THREADS, 0, direct_gradient<T>, conv, (const T *)x, (const T *)dy, parts, count);
    });
}

} // namespace kolo
