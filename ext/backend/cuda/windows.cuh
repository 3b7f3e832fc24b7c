/* Windows over images: their positions, and the kernels that go over each of them in the forward pass. A thread takes V
 * neighbouring channels of a window, or in the backward pass of a pixel; a whole block takes a window of many elements.
 * Backward, a thread collects all that belongs to its pixel of dx, so no two threads add to the same element.
 *
 * An IO says what is computed over a window. IO::Found is the result so far: begin() starts it, take() adds an element
 * and its place, and meet() adds another thread's result. get() reads V channels of x, from element `at` on. put()
 * writes V channels of y, from element `at` on, which is element e of sample number `sample`. begin() is called once
 * per thread. SMALL: 2 × 2 and 3 × 3 windows have kernels of their own, which read IO::x without get(). */
#ifndef KOLO_CUDA_WINDOWS_CUH
#define KOLO_CUDA_WINDOWS_CUH

#include "backend/cuda/images.cuh"

namespace kolo {

/* The larger image (in), the image of the windows (out), and the windows, for threads that go over the pixels of one of
 * the two images. */
struct Windows {
    int in[2], out[2], size[2], stride[2], before[2];
    int lanes;          /* threads per pixel */
    int64_t in_image, out_image; /* elements per sample */
    uint32_t units;     /* threads in all */
    Divisor by_lanes, by_width, by_height, by_stride[2];
};

struct Spot {
    int64_t sample;
    int row, column, lane;
};

__device__ static inline Spot spot_of(const Windows &g, uint32_t unit)
{
    uint32_t pixel = g.by_lanes.of(unit), row = g.by_width.of(pixel), sample = g.by_height.of(row);
    return Spot{sample, (int)(row - sample * g.by_height.d), (int)(pixel - row * g.by_width.d),
                (int)(unit - pixel * g.by_lanes.d)};
}

/* The rows (axis 0) or columns (axis 1) of x under the window at `at`: *first … *end - 1. */
__device__ static inline void clip(const Windows &g, int axis, int at, int *first, int *end)
{
    int origin = at * g.stride[axis] - g.before[axis];
    *first = origin < 0 ? 0 : origin;
    *end = origin + g.size[axis] > g.in[axis] ? g.in[axis] : origin + g.size[axis];
}

/* The windows over a row (axis 0) or column (axis 1) of x: *first … *last. */
__device__ static inline void windows_over(const Windows &g, int axis, int at, int *first, int *last)
{
    int from = at + g.before[axis], newest = (int)g.by_stride[axis].of((uint32_t)from);
    *first = from < g.size[axis] ? 0 : (int)g.by_stride[axis].of((uint32_t)(from - g.size[axis])) + 1;
    *last = newest < g.out[axis] ? newest : g.out[axis] - 1;
}

__device__ static inline uint32_t first_unit() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ static inline uint32_t unit_count() { return gridDim.x * blockDim.x; }

/* ---- forward ---- */

/* A thread computes a window. K: the window's height and width, if all of it is loaded before any of it is used; 0: any
 * size. */
template <typename T, int V, int K, typename IO> __global__ void small_windows(Windows g, IO io)
{
    io.begin();
    for (uint32_t unit = first_unit(); unit < g.units; unit += unit_count()) {
        Spot at = spot_of(g, unit);
        int64_t image = at.sample * g.in_image + at.lane * V;
        int channels = g.lanes * V, top = at.row * g.stride[0] - g.before[0],
            left = at.column * g.stride[1] - g.before[1];
        typename IO::Found found[V];
        for (int v = 0; v < V; v++) found[v].begin();
        int h0, h1, w0, w1;
        clip(g, 0, at.row, &h0, &h1);
        clip(g, 1, at.column, &w0, &w1);
        if constexpr (K > 0) {
            Run<T, V> loaded[K * K];
#pragma unroll
            for (int k = 0; k < K * K; k++) {
                int row = top + k / K, column = left + k % K;
                if (row < h0 || row >= h1 || column < w0 || column >= w1) continue;
                loaded[k] = *checked<Run<T, V>>(io.x + image + ((int64_t)row * g.in[1] + column) * channels);
            }
#pragma unroll
            for (int k = 0; k < K * K; k++) {
                int row = top + k / K, column = left + k % K;
                if (row < h0 || row >= h1 || column < w0 || column >= w1) continue;
                for (int v = 0; v < V; v++) found[v].take(element(loaded[k], v), k);
            }
        } else {
            for (int row = h0; row < h1; row++) {
                int64_t line = image + (int64_t)row * g.in[1] * channels;
                int place = (row - top) * g.size[1] - left;
#pragma unroll 4
                for (int column = w0; column < w1; column++) {
                    float values[V];
                    io.template get<V>(line + (int64_t)column * channels, values);
                    for (int v = 0; v < V; v++) found[v].take(values[v], place + column);
                }
            }
        }
        int64_t first = (int64_t)unit * V;
        io.template put<V>(first, found, (h1 - h0) * (w1 - w0), at.sample, first - at.sample * g.out_image);
    }
}

/* A block computes window number blockIdx.x, for `lanes` neighbouring units of its channels from unit blockIdx.y ·
 * lanes on. lanes is a power of two. Groups of `lanes` threads take the window's elements in turn. */
template <typename T, int V, typename IO> __global__ void large_windows(Windows g, IO io, int lanes)
{
    typedef typename IO::Found Found;
    __shared__ Found all[THREADS * V];
    int thread = (int)threadIdx.x, group = thread / lanes, groups = THREADS / lanes;
    int unit = (int)blockIdx.y * lanes + thread % lanes, channels = g.lanes * V;
    uint32_t row = g.by_width.of(blockIdx.x), sample = g.by_height.of(row);
    int h = (int)(row - sample * g.by_height.d), w = (int)(blockIdx.x - row * g.by_width.d), h0, h1, w0, w1;
    clip(g, 0, h, &h0, &h1);
    clip(g, 1, w, &w0, &w1);
    int top = h * g.stride[0] - g.before[0], left = w * g.stride[1] - g.before[1];
    int width = w1 - w0, count = unit < g.lanes ? (h1 - h0) * width : 0;
    int64_t image = (int64_t)sample * g.in_image + unit * V;
    Found found[V];
    for (int v = 0; v < V; v++) found[v].begin();
#pragma unroll 4
    for (int e = group; e < count; e += groups) {
        int y = h0 + e / width, x = w0 + e % width;
        float values[V];
        io.template get<V>(image + ((int64_t)y * g.in[1] + x) * channels, values);
        for (int v = 0; v < V; v++) found[v].take(values[v], (y - top) * g.size[1] + x - left);
    }
    for (int v = 0; v < V; v++) all[v * THREADS + thread] = found[v];
    for (int half = groups / 2; half > 0; half /= 2) {
        __syncthreads();
        if (group >= half) continue;
        for (int v = 0; v < V; v++) all[v * THREADS + thread].meet(all[v * THREADS + thread + half * lanes]);
    }
    if (group > 0 || unit >= g.lanes) return;
    for (int v = 0; v < V; v++) found[v] = all[v * THREADS + thread];
    int64_t first = ((int64_t)blockIdx.x * g.lanes + unit) * V;
    io.begin();
    io.template put<V>(first, found, count, sample, first - sample * g.out_image);
}

/* ---- on the host ---- */

static inline Windows windows_of(const kolo_pooling *p, int64_t samples, int lanes, bool over_in)
{
    Windows g = {};
    const int *over = over_in ? p->in : p->out;
    for (int axis = 0; axis < 2; axis++) {
        g.in[axis] = p->in[axis];
        g.out[axis] = p->out[axis];
        g.size[axis] = p->size[axis];
        g.stride[axis] = p->stride[axis];
        g.before[axis] = p->before[axis];
        g.by_stride[axis] = Divisor(p->stride[axis]);
    }
    g.lanes = lanes;
    g.in_image = (int64_t)p->in[0] * p->in[1] * p->channels;
    g.out_image = (int64_t)p->out[0] * p->out[1] * p->channels;
    g.by_lanes = Divisor(lanes);
    g.by_width = Divisor(over[1]);
    g.by_height = Divisor(over[0]);
    g.units = (uint32_t)(samples * over[0] * over[1] * lanes);
    return g;
}

static inline int64_t area_of(const kolo_pooling *p) { return (int64_t)p->size[0] * p->size[1]; }

/* Whether a block computes a window: it has at least 256 elements, or at least 16 and the windows are too few to fill a
 * device with a thread each. */
static inline bool large(const kolo_pooling *p, int lanes)
{
    int64_t threads = (int64_t)p->samples * p->out[0] * p->out[1] * lanes;
    return area_of(p) >= 256 || (area_of(p) >= 16 && threads < 1 << 17);
}

template <typename T, int V, typename IO>
static cudaError_t forward(cudaStream_t stream, const kolo_pooling *p, int64_t samples, IO io, int fixed)
{
    int units = p->channels / V, lanes = 1;
    Windows g = windows_of(p, samples, units, false);
    if (!large(p, units)) {
        dim3 blocks = blocks_for(g.units);
        if constexpr (V > 2 && IO::SMALL) {
            if (fixed == 2) return launch(stream, blocks, THREADS, 0, small_windows<T, V, 2, IO>, g, io);
            if (fixed == 3) return launch(stream, blocks, THREADS, 0, small_windows<T, V, 3, IO>, g, io);
        }
        return launch(stream, blocks, THREADS, 0, small_windows<T, V, 0, IO>, g, io);
    }
    while (lanes < units && lanes < 32) lanes *= 2;
    dim3 blocks((unsigned)(samples * p->out[0] * p->out[1]), (unsigned)((units + lanes - 1) / lanes));
    return launch(stream, blocks, THREADS, 0, large_windows<T, V, IO>, g, io, lanes);
}

static inline int64_t in_image(const kolo_pooling *p) { return (int64_t)p->in[0] * p->in[1] * p->channels; }
static inline int64_t out_image(const kolo_pooling *p) { return (int64_t)p->out[0] * p->out[1] * p->channels; }
static inline int fixed_size(const kolo_pooling *p) { return p->size[0] == p->size[1] ? p->size[0] : 0; }

} // namespace kolo

#endif
