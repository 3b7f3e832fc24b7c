/* Kernels that move pixels, or multiply them by factors of channels: padding and cropping, concatenation along an axis.
 * Pixels that are only moved are copied as bytes, in units of sixteen if all rows begin at a multiple of sixteen, else
 * of eight, four or two. A thread writes one unit at a time, so neighbouring threads write neighbouring units. */
#include "backend/cuda/images.cuh"

namespace kolo
{

/* Calls f with a zero of the largest unit that divides all numbers of bytes; `bytes` is their bitwise or. */
template <typename F> static cudaError_t with_unit(int64_t bytes, F f)
{
    if (bytes % 16 == 0) return f(Run<uint32_t, 4>());
    if (bytes % 8 == 0) return f(Run<uint32_t, 2>());
    if (bytes % 4 == 0) return f(uint32_t());
    return f(uint16_t());
}

/* y[sample][h][at] = x[sample][h + down][at + along], or zero outside x. Lengths are in units. */
struct Move {
    uint32_t units;
    int x_height, down;
    int64_t x_row, along;
    Divisor by_row, by_height; /* of y */
};

template <typename U> __global__ void move(Move m, const U *__restrict__ x, U *__restrict__ y)
{
#pragma unroll 4
    for (uint32_t unit = (uint32_t)thread_number(); unit < m.units; unit += (uint32_t)thread_count()) {
        uint32_t row = m.by_row.of(unit), sample = m.by_height.of(row);
        int64_t h = (int64_t)(row - sample * m.by_height.d) + m.down, at = (int64_t)(unit - row * m.by_row.d) + m.along;
        U value = {};
        if (h >= 0 && h < m.x_height && at >= 0 && at < m.x_row)
            value = *checked<U>(x + ((int64_t)sample * m.x_height + h) * m.x_row + at);
        *(U *)checked<U>(y + unit) = value;
    }
}

/* A row of y is one row of each part, one after the other. Lengths are in units. */
struct Parts {
    uint32_t units;
    int count;
    const void *x[KOLO_PARTS_MAX];
    uint32_t first[KOLO_PARTS_MAX], row[KOLO_PARTS_MAX]; /* of part i in y's row: where it begins, and its length */
    Divisor by_row;
};

template <typename U> __global__ void join(Parts p, U *__restrict__ y)
{
#pragma unroll 2
    for (uint32_t unit = (uint32_t)thread_number(); unit < p.units; unit += (uint32_t)thread_count()) {
        uint32_t row = p.by_row.of(unit), at = unit - row * p.by_row.d, first = 0, length = p.row[0];
        const U *x = (const U *)p.x[0];
#pragma unroll
        for (int i = 1; i < KOLO_PARTS_MAX; i++) {
            if (i >= p.count || at < p.first[i]) continue;
            x = (const U *)p.x[i];
            first = p.first[i];
            length = p.row[i];
        }
        *(U *)checked<U>(y + unit) = *checked<U>(x + (int64_t)row * length + (at - first));
    }
}

/* y[n][pixel][c] = x1[n][pixel][c] · x2[n][c]; a thread takes V channels. */
template <typename T, int V>
__global__ void multiply_channels(uint32_t units, Divisor by_lanes, Divisor by_pixels, const T *__restrict__ x1,
                                  const T *__restrict__ x2, T *__restrict__ y)
{
    for (uint32_t unit = (uint32_t)thread_number(); unit < units; unit += (uint32_t)thread_count()) {
        uint32_t pixel = by_lanes.of(unit), sample = by_pixels.of(pixel), lane = unit - pixel * by_lanes.d;
        float values[V], factors[V];
        load<T, V>(x1 + (int64_t)unit * V, values);
        load<T, V>(x2 + ((int64_t)sample * by_lanes.d + lane) * V, factors);
        for (int v = 0; v < V; v++) values[v] *= factors[v];
        store<T, V>(y + (int64_t)unit * V, values);
    }
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_move(cudaStream_t stream, const kolo_move *m, const void *x, void *y)
{
    return with_unit(m->x_row | m->y_row | m->along, [&](auto zero) {
        typedef decltype(zero) U;
        int64_t x_row = m->x_row / (int)sizeof(U), y_row = m->y_row / (int)sizeof(U), along = m->along / (int)sizeof(U);
        return by_parts(m->samples, m->y_height * y_row, [&](int64_t first, int64_t samples) {
            Move part = {(uint32_t)(samples * m->y_height * y_row),
                         m->x_height,
                         m->down,
                         x_row,
                         along,
                         Divisor(y_row),
                         Divisor(m->y_height)};
            return launch(stream, blocks_for(part.units), THREADS, 0, move<U>, part,
                          (const U *)x + first * m->x_height * x_row, (U *)y + first * m->y_height * y_row);
        });
    });
}

cudaError_t kolo_cuda_join(cudaStream_t stream, int64_t rows, int parts, const void *const x[], const int64_t bytes[],
                           void *y)
{
    int64_t all = 0, either = 0;
    for (int i = 0; i < parts; i++) all += bytes[i], either |= bytes[i];
    return with_unit(either, [&](auto zero) {
        typedef decltype(zero) U;
        const int64_t size = sizeof(U), y_row = all / size;
        return by_parts(rows, y_row, [&](int64_t first, int64_t count) {
            Parts p = {(uint32_t)(count * y_row), parts, {}, {}, {}, Divisor(y_row)};
            for (int i = 0; i < parts; i++) {
                p.row[i] = (uint32_t)(bytes[i] / size);
                p.first[i] = i ? p.first[i - 1] + p.row[i - 1] : 0;
                p.x[i] = (const char *)x[i] + first * bytes[i];
            }
            return launch(stream, blocks_for(p.units), THREADS, 0, join<U>, p, (U *)y + first * y_row);
        });
    });
}

cudaError_t kolo_cuda_multiply_channels(cudaStream_t stream, kolo_element element, const void *x1, const void *x2,
                                        void *y, int64_t samples, int64_t pixels, int channels)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return with_lanes<T>(channels, [&](auto taken) {
            constexpr int V = decltype(taken)::value;
            int64_t lanes = channels / V, image = pixels * channels;
            return by_parts(samples, pixels * lanes, [&](int64_t first, int64_t count) {
                uint32_t units = (uint32_t)(count * pixels * lanes);
                return launch(stream, blocks_for(units), THREADS, 0, multiply_channels<T, V>, units, Divisor(lanes),
                              Divisor(pixels), (const T *)x1 + first * image, (const T *)x2 + first * channels,
                              (T *)y + first * image);
            });
        });
    });
}
