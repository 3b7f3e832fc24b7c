/* Convolutions as products of matrices (conv.cuh lists them), in float32. A block of 128 threads computes M × N
 * elements of C, 8 × 4 per thread. It goes through k sixteen at a time in shared memory, and loads the next sixteen
 * meanwhile. */
#include "backend/cuda/conv.cuh"

namespace kolo
{

static const int DEEP = 16, HIGH = 8, BROAD = 4;

/* ---- the product ---- */

/* A thread's part of a tile of R rows (or columns) × DEEP: R / 8 elements, loaded V neighbours at a time. Neighbours
 * are V values of k if along_k, else V rows with the same k. */
template <int R, int V, bool along_k> struct Fetch {
    static const int lanes = along_k ? DEEP / V : THREADS_OF_TILE / DEEP, passes = R / (HIGH * V);
    static const int step = along_k ? THREADS_OF_TILE / lanes : lanes * V;
    int k, r; /* of the thread's first element */
    __device__ Fetch()
        : k(along_k ? (int)threadIdx.x % lanes * V : (int)threadIdx.x / lanes),
          r(along_k ? (int)threadIdx.x / lanes : (int)threadIdx.x % lanes * V)
    {
    }
    __device__ void put(float (*shared)[R + 4], const float values[passes][V]) const
    {
#pragma unroll
        for (int p = 0; p < passes; p++)
#pragma unroll
            for (int v = 0; v < V; v++) shared[along_k ? k + v : k][r + p * step + (along_k ? 0 : v)] = values[p][v];
    }
};

template <int V, typename T> __device__ static inline void fetch(const T *from, float values[V])
{
    if (from) {
        load<T, V>(from, values);
        return;
    }
#pragma unroll
    for (int v = 0; v < V; v++) values[v] = 0;
}

/* V: neighbours of A or B that are loaded at once. Either all of them exist or none. */
template <typename O, int M, int N, int V> __global__ void __launch_bounds__(THREADS_OF_TILE) product(O o, int64_t part)
{
    __shared__ __align__(16) float a_tile[DEEP][M + 4], b_tile[DEEP][N + 4];
    __shared__ typename O::Row found[M];
    int group = (int)blockIdx.z, sides = (o.columns() + N - 1) / N;
    int64_t m0 = (int64_t)(blockIdx.x / sides) * M, first = blockIdx.y * part;
    int n0 = (int)(blockIdx.x % sides) * N;
    int64_t end = first + part < o.depth() ? first + part : o.depth();
    for (int r = (int)threadIdx.x; r < M; r += THREADS_OF_TILE)
        if (m0 + r < o.rows()) found[r] = o.row(m0 + r);
    __syncthreads();

    typedef Fetch<M, V, O::a_along_k> FetchA;
    typedef Fetch<N, V, O::b_along_k> FetchB;
    FetchA of_a;
    FetchB of_b;
    float a_next[FetchA::passes][V], b_next[FetchB::passes][V], sums[HIGH][BROAD] = {{0}};
    auto ahead = [&](int64_t k0) {
        int64_t ka = k0 + of_a.k, kb = k0 + of_b.k;
        typename O::Deep deep_a = o.deep(ka < end ? ka : first), deep_b = deep_a;
        if (O::b_along_k) deep_b = o.deep(kb < end ? kb : first);
#pragma unroll
        for (int p = 0; p < FetchA::passes; p++) {
            int r = of_a.r + p * FetchA::step;
            fetch<V>(ka < end && m0 + r < o.rows() ? o.a(found[r], deep_a, group) : nullptr, a_next[p]);
        }
#pragma unroll
        for (int p = 0; p < FetchB::passes; p++) {
            int n = n0 + of_b.r + p * FetchB::step;
            fetch<V>(kb < end && n < o.columns() ? o.b(deep_b, kb, n, group) : nullptr, b_next[p]);
        }
    };
    int top = (int)threadIdx.x / (N / BROAD) * HIGH, left = (int)threadIdx.x % (N / BROAD) * BROAD;
    ahead(first);
    for (int64_t k0 = first; k0 < end; k0 += DEEP) {
        __syncthreads();
        of_a.put(a_tile, a_next);
        of_b.put(b_tile, b_next);
        __syncthreads();
        if (k0 + DEEP < end) ahead(k0 + DEEP);
#pragma unroll
        for (int k = 0; k < DEEP; k++) {
            float a[HIGH], b[BROAD];
            load<float, 4>(&a_tile[k][top], a);
            load<float, 4>(&a_tile[k][top + 4], a + 4);
            load<float, 4>(&b_tile[k][left], b);
#pragma unroll
            for (int i = 0; i < HIGH; i++)
#pragma unroll
                for (int j = 0; j < BROAD; j++) sums[i][j] += a[i] * b[j];
        }
    }
#pragma unroll
    for (int i = 0; i < HIGH; i++)
#pragma unroll
        for (int j = 0; j < BROAD; j++)
            if (m0 + top + i < o.rows() && n0 + left + j < o.columns())
                o.template put<1>(m0 + top + i, n0 + left + j, group, &sums[i][j]);
}

/* Up to 32 columns get narrower and higher tiles. */
template <int V, typename O>
static cudaError_t product_by(cudaStream_t stream, const O &o, int64_t rows, int columns, int parts, int64_t part)
{
    bool narrow_tiles = columns <= 32;
    int m = narrow_tiles ? 128 : 64, n = narrow_tiles ? 32 : 64;
    dim3 blocks((unsigned)((rows + m - 1) / m * ((columns + n - 1) / n)), (unsigned)parts, (unsigned)o.c.groups);
    if (narrow_tiles) return launch(stream, blocks, THREADS_OF_TILE, 0, product<O, 128, 32, V>, o, part);
    return launch(stream, blocks, THREADS_OF_TILE, 0, product<O, 64, 64, V>, o, part);
}

/* Loads as many neighbours at once as the channels allow. */
template <typename O>
static cudaError_t product_of(cudaStream_t stream, const O &o, int64_t rows, int columns, int parts = 1,
                              int64_t part = INT32_MAX)
{
    bool fours = o.c.group_channels % 4 == 0 && o.c.group_filters % 4 == 0;
    if (fours) return product_by<4>(stream, o, rows, columns, parts, part);
    return product_by<1>(stream, o, rows, columns, parts, part);
}

/* ---- parts of the weight gradient ---- */

static const int PARTS_MOST = 128;

/* Enough parts for a large device, each of at least 256 pixels. The number does not depend on the device. */
static int parts_of(const Conv &c)
{
    int64_t rows = (int64_t)c.taps() * c.group_channels;
    int64_t tiles = (rows + 63) / 64 * ((c.group_filters + 63) / 64) * c.groups, most = c.pixels_of_y() / 256;
    int64_t parts = 264 / tiles < PARTS_MOST ? 264 / tiles : PARTS_MOST;
    if (parts > most) parts = most;
    return parts < 1 ? 1 : (int)parts;
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_conv(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                           const void *kernel, const float *bias, void *y, bool relu)
{
    Conv c(*conv);
    Finish finish = {bias, relu};
    if (is_depthwise(c, false)) return direct(stream, element, c, false, x, kernel, finish, y);
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        Forward<T> o = {c, (const T *)x, (const T *)kernel, (T *)y, finish};
        return product_of(stream, o, c.pixels_of_y(), c.group_filters);
    });
}

cudaError_t kolo_cuda_conv_data(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *y,
                                const void *kernel, const float *bias, void *x, bool relu)
{
    Conv c(*conv);
    Finish finish = {bias, relu};
    if (is_depthwise(c, false)) return direct(stream, element, c, true, y, kernel, finish, x);
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        Data<T> o = {c, (const T *)y, (const T *)kernel, (T *)x, finish};
        return product_of(stream, o, c.pixels_of_x(), c.group_channels);
    });
}

bool kolo_cuda_is_depthwise(const kolo_conv *conv)
{
    return is_depthwise(Conv(*conv), false);
}

bool kolo_cuda_has_filter(kolo_element element, const kolo_conv *conv)
{
    Conv c(*conv);
    return small_filter_fits(element, c, false) || is_depthwise(c, true);
}

int kolo_cuda_conv_filter_parts(kolo_element element, const kolo_conv *conv)
{
    Conv c(*conv);
    if (small_filter_fits(element, c, false)) return small_filter_parts(c, false);
    return is_depthwise(c, true) ? direct_parts(c) : parts_of(c);
}

cudaError_t kolo_cuda_conv_filter(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                  const void *dy, float *to)
{
    Conv c(*conv);
    if (small_filter_fits(element, c, false)) return small_filter(stream, element, c, x, dy, to);
    if (is_depthwise(c, true)) return direct_filter(stream, element, c, x, dy, to);
    int parts = parts_of(c);
    int64_t rows = (int64_t)c.taps() * c.group_channels, part = (c.pixels_of_y() + parts - 1) / parts;
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        Filter<T> o = {c, (const T *)x, (const T *)dy, to};
        return product_of(stream, o, rows, c.group_filters, parts, part);
    });
}
