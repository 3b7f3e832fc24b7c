/* The sum or the mean of each window, and its gradient. The rules are the reference backend's
 * (backend/reference/average_pool2d.c, pixels.c). */
#include "backend/cuda/windows.cuh"

namespace kolo {

struct Total {
    float value;
    __device__ void begin() { value = 0; }
    __device__ void take(float other, int) { value += other; }
    __device__ void meet(const Total &other) { value += other.value; }
};

template <typename T> struct Sums {
    typedef Total Found;
    static const bool SMALL = true;
    const T *x, *by; /* by: factors of x, or NULL */
    T *y;
    bool mean;
    template <int V> __device__ void get(int64_t at, float values[V]) const
    {
        load<T, V>(x + at, values);
        if (!by) return;
        float factors[V];
        load<T, V>(by + at, factors);
        for (int v = 0; v < V; v++) values[v] *= factors[v];
    }
    __device__ void begin() {}
    template <int V> __device__ void put(int64_t at, const Total found[V], int count, int64_t, int64_t) const
    {
        float values[V];
        for (int v = 0; v < V; v++) values[v] = mean ? found[v].value / (float)count : found[v].value;
        store<T, V>(y + at, values);
    }
};

/* A pixel of dx is the sum of dy over the windows that cover it; of a mean, each dy is divided by the window's number
 * of elements. */
template <typename T, int V>
__global__ void sums_to_pixels(Windows g, const T *__restrict__ dy, T *__restrict__ dx, bool mean)
{
    for (uint32_t unit = first_unit(); unit < g.units; unit += unit_count()) {
        Spot at = spot_of(g, unit);
        int64_t image = at.sample * g.out_image + at.lane * V;
        float sum[V];
        int h0, h1, w0, w1, rows0, rows1, columns0, columns1;
        for (int v = 0; v < V; v++) sum[v] = 0;
        windows_over(g, 0, at.row, &h0, &h1);
        windows_over(g, 1, at.column, &w0, &w1);
        for (int h = h0; h <= h1; h++) {
            clip(g, 0, h, &rows0, &rows1);
            for (int w = w0; w <= w1; w++) {
                clip(g, 1, w, &columns0, &columns1);
                float part = mean ? 1.0f / (float)((rows1 - rows0) * (columns1 - columns0)) : 1.0f, values[V];
                load<T, V>(dy + image + ((int64_t)h * g.out[1] + w) * g.lanes * V, values);
                for (int v = 0; v < V; v++) sum[v] += values[v] * part;
            }
        }
        store<T, V>(dx + (int64_t)unit * V, sum);
    }
}

/* ---- on the host ---- */

template <typename T>
static cudaError_t sums(cudaStream_t stream, const kolo_pooling *p, const T *x, const T *by, T *y, bool mean)
{
    int64_t in = in_image(p), out = out_image(p);
    int fixed = by ? 0 : fixed_size(p);
    return by_parts(p->samples, out, [&](int64_t first, int64_t samples) {
        Sums<T> io = {x + first * in, by ? by + first * in : nullptr, y + first * out, mean};
        return with_lanes<T>(p->channels, [&](auto lanes) {
            return forward<T, decltype(lanes)::value>(stream, p, samples, io, fixed);
        });
    });
}

template <typename T>
static cudaError_t sums_back(cudaStream_t stream, const kolo_pooling *p, const T *dy, T *dx, bool mean)
{
    int64_t in = in_image(p), out = out_image(p);
    return by_parts(p->samples, in, [&](int64_t first, int64_t samples) {
        return with_lanes<T>(p->channels, [&](auto lanes) {
            constexpr int V = decltype(lanes)::value;
            Windows g = windows_of(p, samples, p->channels / V, true);
            return launch(stream, blocks_for(g.units), THREADS, 0, sums_to_pixels<T, V>, g, dy + first * out,
                          dx + first * in, mean);
        });
    });
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_sum_pool(cudaStream_t stream, kolo_element element, const kolo_pooling *p, const void *x,
                               const void *by, void *y, bool mean)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return sums<T>(stream, p, (const T *)x, (const T *)by, (T *)y, mean);
    });
}

cudaError_t kolo_cuda_sum_pool_backward(cudaStream_t stream, kolo_element element, const kolo_pooling *p,
                                        const void *dy, void *dx, bool mean)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return sums_back<T>(stream, p, (const T *)dy, (T *)dx, mean);
    });
}
