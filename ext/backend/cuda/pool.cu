/* Windows over images: maxima, means and sums, and their gradients. The rules are the reference backend's
 * (backend/reference/max_pool2d.c, average_pool2d.c, pixels.c). A thread takes sixteen bytes of neighbouring channels
 * of one pixel, of y on the way forward; a window of many elements is a whole block's. On the way back, too, each pixel
 * of dx collects what is its own, so that nothing is added by two. */
#include "backend/cuda/images.cuh"

namespace kolo {

/* Of the larger image (in) and the windows' (out), for threads that go over the pixels of one of them. */
struct Windows {
    int in[2], out[2], size[2], stride[2], before[2];
    int lanes;          /* threads a pixel */
    int64_t in_image, out_image; /* elements of a sample */
    uint32_t units;     /* threads */
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

/* The rows (axis 0) or columns (axis 1) of x under the window at `at`: first, and behind the last. */
__device__ static inline void clip(const Windows &g, int axis, int at, int *first, int *end)
{
    int origin = at * g.stride[axis] - g.before[axis];
    *first = origin < 0 ? 0 : origin;
    *end = origin + g.size[axis] > g.in[axis] ? g.in[axis] : origin + g.size[axis];
}

/* The windows that a row (axis 0) or column (axis 1) of x lies under: first, and the last. */
__device__ static inline void windows_over(const Windows &g, int axis, int at, int *first, int *last)
{
    int from = at + g.before[axis], newest = (int)g.by_stride[axis].of((uint32_t)from);
    *first = from < g.size[axis] ? 0 : (int)g.by_stride[axis].of((uint32_t)(from - g.size[axis])) + 1;
    *last = newest < g.out[axis] ? newest : g.out[axis] - 1;
}

__device__ static inline uint32_t first_unit() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ static inline uint32_t unit_count() { return gridDim.x * blockDim.x; }

/* ---- what is found in a window ---- */

/* A maximum and its place; of equals the first, of NaNs, which are larger than any number, the last. */
struct Largest {
    float value;
    int place; /* < 0: none yet */
    __device__ void begin() { value = 0, place = -1; }
    __device__ void take(float other, int at)
    {
        if (place < 0 || other > value || other != other) value = other, place = at;
    }
    __device__ void meet(const Largest &other)
    {
        if (other.place < 0) return;
        bool none = value != value, other_none = other.value != other.value, later = other.place > place;
        bool better = none || other_none ? other_none && (!none || later)
                                         : other.value > value || (other.value == value && !later);
        if (place < 0 || better) *this = other;
    }
};

struct Total {
    float value;
    __device__ void begin() { value = 0; }
    __device__ void take(float other, int) { value += other; }
    __device__ void meet(const Total &other) { value += other.value; }
};

/* ---- what goes in and out: V channels, `at` elements behind the first ---- */

static const int NOWHERE = -1; /* as a byte 255, which is no place of a window that has bytes */

/* cut: x is a relu's output, whose zeros have no gradient: their maximum is nowhere. */
template <typename T, typename P> struct Maxima {
    typedef Largest Found;
    static const bool SMALL = sizeof(P) == 1; /* windows of 2 x 2 or 3 x 3 are among them */
    const T *x;
    T *y;
    P *where; /* or NULL */
    bool cut;
    template <int V> __device__ void get(int64_t at, float values[V]) const { load<T, V>(x + at, values); }
    template <int V> __device__ void put(int64_t at, const Largest found[V], int) const
    {
        float values[V];
        Run<P, V> places;
        for (int v = 0; v < V; v++) values[v] = found[v].value;
        for (int v = 0; v < V; v++) places.at[v] = (P)(cut && found[v].value <= 0 ? NOWHERE : found[v].place);
        store<T, V>(y + at, values);
        if (where) *(Run<P, V> *)checked<Run<P, V>>(where + at) = places;
    }
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
    template <int V> __device__ void put(int64_t at, const Total found[V], int count) const
    {
        float values[V];
        for (int v = 0; v < V; v++) values[v] = mean ? found[v].value / (float)count : found[v].value;
        store<T, V>(y + at, values);
    }
};

/* ---- forward ---- */

/* A thread a window. K: its height and width, all of it loaded before any of it is used; 0: any. */
template <typename T, int V, int K, typename IO> __global__ void small_windows(Windows g, IO io)
{
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
        io.template put<V>((int64_t)unit * V, found, (h1 - h0) * (w1 - w0));
    }
}

/* A block a window: blockIdx.x, in `lanes` neighbouring units of its channels, a power of two, from blockIdx.y on. The
 * window's elements are dealt out to the groups of so many threads. */
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
    io.template put<V>(((int64_t)blockIdx.x * g.lanes + unit) * V, found, count);
}

/* ---- backward ---- */

/* Where windows cover each pixel of x just once: a thread writes all pixels of its window. */
template <typename T, int V, typename P>
__global__ void maxima_to_windows(Windows g, const T *__restrict__ dy, const P *__restrict__ where, T *__restrict__ dx)
{
    for (uint32_t unit = first_unit(); unit < g.units; unit += unit_count()) {
        Spot at = spot_of(g, unit);
        Run<T, V> value = *checked<Run<T, V>>(dy + (int64_t)unit * V), zero;
        Run<P, V> places = *checked<Run<P, V>>(where + (int64_t)unit * V);
        for (int v = 0; v < V; v++) narrow(0, &zero.at[v]);
        int64_t image = at.sample * g.in_image + at.lane * V;
        int h0, h1, w0, w1, top = at.row * g.stride[0] - g.before[0], left = at.column * g.stride[1] - g.before[1];
        clip(g, 0, at.row, &h0, &h1);
        clip(g, 1, at.column, &w0, &w1);
        for (int row = h0; row < h1; row++) {
            for (int column = w0; column < w1; column++) {
                Run<T, V> own;
                P here = (P)((row - top) * g.size[1] + column - left);
                for (int v = 0; v < V; v++) own.at[v] = places.at[v] == here ? value.at[v] : zero.at[v];
                *(Run<T, V> *)checked<Run<T, V>>(dx + image + ((int64_t)row * g.in[1] + column) * g.lanes * V) = own;
            }
        }
    }
}

/* And where not: a thread is a pixel of x, and looks at the windows over it. */
template <typename T, int V, typename P>
__global__ void maxima_to_pixels(Windows g, const T *__restrict__ dy, const P *__restrict__ where, T *__restrict__ dx)
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
                float values[V];
                load<T, V>(dy + window, values);
                for (int v = 0; v < V; v++) sum[v] += places.at[v] == here ? values[v] : 0.0f;
            }
        }
        store<T, V>(dx + (int64_t)unit * V, sum);
    }
}

/* Each pixel of x is given dy of the windows over it, or of a mean its part. */
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

static Windows windows_of(const kolo_pooling *p, int64_t samples, int lanes, bool over_in)
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

static int64_t area_of(const kolo_pooling *p) { return (int64_t)p->size[0] * p->size[1]; }

/* Whether a window is a block's: it is long, and there are too few to fill a device by a thread each. */
static bool large(const kolo_pooling *p, int lanes)
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

template <typename T, typename P>
static cudaError_t maxima(cudaStream_t stream, const kolo_pooling *p, const T *x, T *y, P *where, bool cut)
{
    int64_t in = (int64_t)p->in[0] * p->in[1] * p->channels, out = (int64_t)p->out[0] * p->out[1] * p->channels;
    int fixed = p->size[0] == p->size[1] ? p->size[0] : 0;
    return by_parts(p->samples, out, [&](int64_t first, int64_t samples) {
        Maxima<T, P> io = {x + first * in, y + first * out, where ? where + first * out : nullptr, cut};
        return with_lanes<T>(p->channels, [&](auto lanes) {
            return forward<T, decltype(lanes)::value>(stream, p, samples, io, fixed);
        });
    });
}

template <typename T>
static cudaError_t sums(cudaStream_t stream, const kolo_pooling *p, const T *x, const T *by, T *y, bool mean)
{
    int64_t in = (int64_t)p->in[0] * p->in[1] * p->channels, out = (int64_t)p->out[0] * p->out[1] * p->channels;
    int fixed = p->size[0] == p->size[1] && !by ? p->size[0] : 0;
    return by_parts(p->samples, out, [&](int64_t first, int64_t samples) {
        Sums<T> io = {x + first * in, by ? by + first * in : nullptr, y + first * out, mean};
        return with_lanes<T>(p->channels, [&](auto lanes) {
            return forward<T, decltype(lanes)::value>(stream, p, samples, io, fixed);
        });
    });
}

/* Whether windows, small ones, cover each pixel once. */
static bool exact(const kolo_pooling *p)
{
    bool all = area_of(p) <= 16;
    for (int axis = 0; axis < 2; axis++)
        all = all && p->stride[axis] == p->size[axis] && p->out[axis] * p->stride[axis] >= p->in[axis] + p->before[axis];
    return all;
}

template <typename T, typename P>
static cudaError_t maxima_back(cudaStream_t stream, const kolo_pooling *p, const T *dy, const P *where, T *dx)
{
    int64_t in = (int64_t)p->in[0] * p->in[1] * p->channels, out = (int64_t)p->out[0] * p->out[1] * p->channels;
    bool by_window = exact(p);
    return by_parts(p->samples, in > out ? in : out, [&](int64_t first, int64_t samples) {
        return with_lanes<T>(p->channels, [&](auto lanes) {
            constexpr int V = decltype(lanes)::value;
            Windows g = windows_of(p, samples, p->channels / V, !by_window);
            auto kernel = maxima_to_pixels<T, V, P>;
            if constexpr (sizeof(P) == 1)
                if (by_window) kernel = maxima_to_windows<T, V, P>;
            return launch(stream, blocks_for(g.units), THREADS, 0, kernel, g, dy + first * out, where + first * out,
                          dx + first * in);
        });
    });
}

template <typename T>
static cudaError_t sums_back(cudaStream_t stream, const kolo_pooling *p, const T *dy, T *dx, bool mean)
{
    int64_t in = (int64_t)p->in[0] * p->in[1] * p->channels, out = (int64_t)p->out[0] * p->out[1] * p->channels;
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

size_t kolo_pooling_place_bytes(const kolo_pooling *p) { return area_of(p) < 255 ? 1 : 4; }

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

cudaError_t kolo_cuda_max_pool_backward(cudaStream_t stream, kolo_element element, const kolo_pooling *p,
                                        const void *dy, const void *where, void *dx)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (kolo_pooling_place_bytes(p) == 1)
            return maxima_back<T, uint8_t>(stream, p, (const T *)dy, (const uint8_t *)where, (T *)dx);
        return maxima_back<T, int32_t>(stream, p, (const T *)dy, (const int32_t *)where, (T *)dx);
    });
}

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
