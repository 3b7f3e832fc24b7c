/* Max pooling, its gradient, and what may be fused with them: a ReLU before the pooling, a dropout behind it, the
 * gradient of a bias. The rules are the reference backend's (backend/reference/max_pool2d.c). */
#include "backend/cuda/columns.cuh"
#include "backend/cuda/maxima.cuh"
#include "backend/cuda/windows.cuh"
#include "core/philox.h"

namespace kolo
{

/* ---- forward ---- */

/* cut: x is a ReLU's output, whose zeros get no gradient. A maximum of zero then has the place NOWHERE. */
template <typename T, typename P> struct Maxima {
    typedef Largest Found;
    static const bool SMALL = sizeof(P) == 1; /* places of 2 × 2 and 3 × 3 windows are bytes */
    const T *x;
    T *y;
    P *where; /* or NULL */
    bool cut;
    template <int V> __device__ void get(int64_t at, float values[V]) const
    {
        load<T, V>(x + at, values);
    }
    __device__ void begin()
    {
    }
    __device__ int place_of(const Largest &found) const
    {
        return cut && found.value <= 0 ? NOWHERE : found.place;
    }
    template <int V> __device__ void put(int64_t at, const Largest found[V], int, int64_t, int64_t) const
    {
        float values[V];
        Run<P, V> places;
        for (int v = 0; v < V; v++) values[v] = found[v].value;
        for (int v = 0; v < V; v++) places.at[v] = (P)place_of(found[v]);
        store<T, V>(y + at, values);
        if (where) *(Run<P, V> *)checked<Run<P, V>>(where + at) = places;
    }
};

/* The same with a dropout, as in pointwise.cu; four channels share a Philox block. A dropped maximum has the place
 * NOWHERE. */
template <typename T, typename P> struct DroppedMaxima : Maxima<T, P> {
    kolo_dropout_job job; /* first: the first sample of this part of the microbatch */
    const kolo_step_parameters *step_parameters;
    uint32_t threshold;
    float scale;
    uint64_t key; /* set by begin() */
    __device__ void begin()
    {
        key = kolo_dropout_key(step_parameters->seed, job.layer, step_parameters->step);
    }
    template <int V> __device__ void put(int64_t at, const Largest found[V], int, int64_t sample, int64_t e) const
    {
        float values[V];
        Run<P, V> places;
#pragma unroll
        for (int v = 0; v < V; v += 4) {
            kolo_random_block bits = kolo_philox(key, (uint64_t)(e + v) / 4, (uint64_t)(job.first + sample));
            for (int k = 0; k < 4; k++) {
                bool kept = bits.word[k] >= threshold;
                values[v + k] = kept ? scale * found[v + k].value : 0.0f;
                places.at[v + k] = (P)(kept ? this->place_of(found[v + k]) : NOWHERE);
            }
        }
        store<T, V>(this->y + at, values);
        *(Run<P, V> *)checked<Run<P, V>>(this->where + at) = places;
    }
};

/* ---- backward ---- */

/* dy before a dropout, from dy behind it: multiplied by `dropped` = 1 / (1 − rate), and rounded. 1: there is no
 * dropout. */
template <typename T, int V> __device__ static Run<T, V> scaled(Run<T, V> dy, float dropped)
{
    if (dropped == 1) return dy;
#pragma unroll
    for (int v = 0; v < V; v++) narrow(dropped * element(dy, v), &dy.at[v]);
    return dy;
}

/* Writes a window's pixels of dx: dy at the maximum's place, zeros elsewhere. */
template <typename T, int V, typename P>
__device__ static void to_window(const Windows &g, const Spot &at, const Run<T, V> &dy, const Run<P, V> &places, T *dx)
{
    Run<T, V> own, zero;
    for (int v = 0; v < V; v++) narrow(0, &zero.at[v]);
    dx += at.sample * g.in_image + at.lane * V;
    int h0, h1, w0, w1, top = at.row * g.stride[0] - g.before[0], left = at.column * g.stride[1] - g.before[1];
    clip(g, 0, at.row, &h0, &h1);
    clip(g, 1, at.column, &w0, &w1);
    for (int row = h0; row < h1; row++) {
        for (int column = w0; column < w1; column++) {
            P here = (P)((row - top) * g.size[1] + column - left);
            for (int v = 0; v < V; v++) own.at[v] = places.at[v] == here ? dy.at[v] : zero.at[v];
            *(Run<T, V> *)checked<Run<T, V>>(dx + ((int64_t)row * g.in[1] + column) * g.lanes * V) = own;
        }
    }
}

/* For windows that cover each pixel of x just once: a thread writes all pixels of its window. */
template <typename T, int V, typename P>
__global__ void maxima_to_windows(Windows g, const T *__restrict__ dy, const P *__restrict__ where, T *__restrict__ dx,
                                  float dropped)
{
    for (uint32_t unit = first_unit(); unit < g.units; unit += unit_count()) {
        Run<T, V> value = *checked<Run<T, V>>(dy + (int64_t)unit * V);
        Run<P, V> places = *checked<Run<P, V>>(where + (int64_t)unit * V);
        to_window<T, V, P>(g, spot_of(g, unit), scaled<T, V>(value, dropped), places, dx);
    }
}

/* The same, and the sums of dx's channels: the gradient of a bias that was added before the pooling. */
template <typename T, int V, typename P>
__global__ void __launch_bounds__(THREADS, 2)
    maxima_to_windows_and_bias(Windows g, Tiles tiles, const T *__restrict__ dy, const P *__restrict__ where,
                               T *__restrict__ dx, float dropped, float *dbias, Columns<1> *of_blocks, unsigned *tickets)
{
    const int ROWS = 4;
    int thread = (int)threadIdx.x, lane = (int)blockIdx.y * tiles.lanes + thread % tiles.lanes;
    uint32_t step = gridDim.x * (uint32_t)tiles.groups;
    uint32_t pixel = blockIdx.x * (uint32_t)tiles.groups + (uint32_t)(thread / tiles.lanes);
    uint32_t pixels = lane < g.lanes ? g.units / (uint32_t)g.lanes : 0;
    float sums[1][V];
    for (int v = 0; v < V; v++) sums[0][v] = 0;
    for (; pixel < pixels; pixel += ROWS * step) {
        Run<T, V> values[ROWS];
        Run<P, V> places[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            int64_t at = ((int64_t)(pixel + k * step) * g.lanes + lane) * V;
            if (pixel + k * step >= pixels) continue;
            values[k] = *checked<Run<T, V>>(dy + at);
            places[k] = *checked<Run<P, V>>(where + at);
        }
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            if (pixel + k * step >= pixels) continue;
            Run<T, V> value = scaled<T, V>(values[k], dropped);
            to_window<T, V, P>(g, spot_of(g, (pixel + k * step) * (uint32_t)g.lanes + (uint32_t)lane), value, places[k],
                               dx);
            for (int v = 0; v < V; v++) sums[0][v] += places[k].at[v] == (P)NOWHERE ? 0.0f : element(value, v);
        }
    }
    int columns = tiles.lanes * V, first = (int)blockIdx.y * columns;
    Columns<1> all = block_columns<1, V>(sums, tiles.lanes);
    if (!all_columns(&all, columns, of_blocks, tickets)) return;
    if (thread < columns && first + thread < g.lanes * V) dbias[first + thread] = (float)all.sum[0];
}

/* For all other windows: a thread takes a pixel of x and looks at the windows over it. */
template <typename T, int V, typename P>
__global__ void maxima_to_pixels(Windows g, const T *__restrict__ dy, const P *__restrict__ where, T *__restrict__ dx,
                                 float dropped)
{
    for (uint32_t unit = first_unit(); unit < g.units; unit += unit_count()) {
        Spot at = spot_of(g, unit);
        int64_t image = at.sample * g.out_image + at.lane * V;
        float sum[V];
        int h0, h1, w0, w1;
        for (int v = 0; v < V; v++) sum[v] = 0;
        windows_over(g, 0, at.row, &h0, &h1);
        windows_over(g, 1, at.column, &w0, &w1);
        for (int h = h0; h <= h1; h++) {
            for (int w = w0; w <= w1; w++) {
                int64_t window = image + ((int64_t)h * g.out[1] + w) * g.lanes * V;
                P here = (P)((at.row + g.before[0] - h * g.stride[0]) * g.size[1] + at.column + g.before[1] -
                             w * g.stride[1]);
                Run<P, V> places = *checked<Run<P, V>>(where + window);
                Run<T, V> value = scaled<T, V>(*checked<Run<T, V>>(dy + window), dropped);
                for (int v = 0; v < V; v++) sum[v] += places.at[v] == here ? element(value, v) : 0.0f;
            }
        }
        store<T, V>(dx + (int64_t)unit * V, sum);
    }
}

/* ---- on the host ---- */

template <typename T, typename P>
static cudaError_t maxima(cudaStream_t stream, const kolo_pooling *p, const T *x, T *y, P *where, bool cut)
{
    return by_parts(p->samples, out_image(p), [&](int64_t first, int64_t samples) {
        int64_t out = first * out_image(p);
        Maxima<T, P> io = {x + first * in_image(p), y + out, where ? where + out : nullptr, cut};
        return with_lanes<T>(p->channels, [&](auto lanes) {
            return forward<T, decltype(lanes)::value>(stream, p, samples, io, fixed_size(p));
        });
    });
}

template <typename T, typename P>
static cudaError_t dropped_maxima(cudaStream_t stream, const kolo_pooling *p, const T *x, T *y, P *where, bool cut,
                                  const kolo_dropout_job *dropout, const kolo_step_parameters *step_parameters)
{
    return by_parts(p->samples, out_image(p), [&](int64_t first, int64_t samples) {
        int64_t out = first * out_image(p);
        DroppedMaxima<T, P> io = {{x + first * in_image(p), y + out, where + out, cut},
                                  *dropout,
                                  step_parameters,
                                  kolo_dropout_threshold(dropout->rate),
                                  (float)(1 / (1 - dropout->rate)),
                                  0};
        io.job.first += first;
        return forward<T, Lanes<T>::count>(stream, p, samples, io, fixed_size(p));
    });
}

/* Whether the windows are small and cover each pixel just once. */
static bool exact(const kolo_pooling *p)
{
    bool all = area_of(p) <= 16;
    for (int axis = 0; axis < 2; axis++)
        all =
            all && p->stride[axis] == p->size[axis] && p->out[axis] * p->stride[axis] >= p->in[axis] + p->before[axis];
    return all;
}

template <typename T, typename P>
static cudaError_t maxima_back(cudaStream_t stream, const kolo_pooling *p, const T *dy, const P *where, T *dx,
                               float dropped)
{
    int64_t in = in_image(p), out = out_image(p);
    bool by_window = exact(p);
    return by_parts(p->samples, in > out ? in : out, [&](int64_t first, int64_t samples) {
        return with_lanes<T>(p->channels, [&](auto lanes) {
            constexpr int V = decltype(lanes)::value;
            Windows g = windows_of(p, samples, p->channels / V, !by_window);
            auto kernel = maxima_to_pixels<T, V, P>;
            if constexpr (sizeof(P) == 1)
                if (by_window) kernel = maxima_to_windows<T, V, P>;
            return launch(stream, blocks_for(g.units), THREADS, 0, kernel, g, dy + first * out, where + first * out,
                          dx + first * in, dropped);
        });
    });
}

template <typename T> static Tiles tiles_of_bias(const kolo_pooling *p)
{
    return tiles_of_sums(p->samples * p->out[0] * p->out[1], p->channels, Lanes<T>::count, 4);
}

template <typename T>
static cudaError_t maxima_back_to_bias(cudaStream_t stream, const kolo_pooling *p, const T *dy, const uint8_t *where,
                                       T *dx, float dropped, const kolo_pooled_bias *bias)
{
    constexpr int V = Lanes<T>::count;
    Tiles tiles = tiles_of_bias<T>(p);
    return launch(stream, tiles.blocks, THREADS, 0, maxima_to_windows_and_bias<T, V, uint8_t>,
                  windows_of(p, p->samples, p->channels / V, false), tiles, dy, where, dx, dropped, bias->dbias,
                  (Columns<1> *)bias->scratch, bias->tickets);
}

} // namespace kolo

using namespace kolo;

size_t kolo_pooling_place_bytes(const kolo_pooling *p)
{
    return area_of(p) < 255 ? 1 : 4;
}

bool kolo_pooling_whole(kolo_element element, const kolo_pooling *p)
{
    return p->channels % (int)(16 / kolo_element_bytes(element)) == 0;
}

bool kolo_pooling_exact(kolo_element element, const kolo_pooling *p)
{
    int64_t larger = in_image(p) > out_image(p) ? in_image(p) : out_image(p);
    return kolo_pooling_whole(element, p) && exact(p) && p->samples * larger <= INT32_MAX;
}

cudaError_t kolo_cuda_max_pool(cudaStream_t stream, kolo_element element, const kolo_pooling *p, const void *x, void *y,
                               void *where, bool cut)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (kolo_pooling_place_bytes(p) == 1)
            return maxima<T, uint8_t>(stream, p, (const T *)x, (T *)y, (uint8_t *)where, cut);
        return maxima<T, int32_t>(stream, p, (const T *)x, (T *)y, (int32_t *)where, cut);
    });
}

cudaError_t kolo_cuda_max_pool_dropout(cudaStream_t stream, kolo_element element, const kolo_pooling *p, const void *x,
                                       void *y, void *where, bool cut, const kolo_dropout_job *dropout,
                                       const kolo_step_parameters *step_parameters)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (kolo_pooling_place_bytes(p) == 1)
            return dropped_maxima<T>(stream, p, (const T *)x, (T *)y, (uint8_t *)where, cut, dropout, step_parameters);
        return dropped_maxima<T>(stream, p, (const T *)x, (T *)y, (int32_t *)where, cut, dropout, step_parameters);
    });
}

size_t kolo_cuda_pooled_bias_scratch(kolo_element element, const kolo_pooling *p)
{
    size_t bytes = 0;
    with(element, [&](auto zero) {
        typedef decltype(zero) T;
        bytes = bytes_of_sums<1>(tiles_of_bias<T>(p), Lanes<T>::count);
        return cudaSuccess;
    });
    return bytes;
}

cudaError_t kolo_cuda_max_pool_backward(cudaStream_t stream, kolo_element element, const kolo_pooling *p,
                                        const void *dy, const void *where, void *dx, double rate,
                                        const kolo_pooled_bias *bias)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        float dropped = (float)(1 / (1 - rate));
        if (bias)
            return maxima_back_to_bias<T>(stream, p, (const T *)dy, (const uint8_t *)where, (T *)dx, dropped, bias);
        if (kolo_pooling_place_bytes(p) == 1)
            return maxima_back<T>(stream, p, (const T *)dy, (const uint8_t *)where, (T *)dx, dropped);
        return maxima_back<T>(stream, p, (const T *)dy, (const int32_t *)where, (T *)dx, dropped);
    });
}
