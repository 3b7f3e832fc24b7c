/* The convolution of a first layer: a small window over few channels (a digit has one, a photograph three), with many
 * filters. It computes little, and y is large, so these kernels read or write y only once. Forward, they apply bias and
 * ReLU. Backward, where dx is not needed, one pass over dy applies the ReLU's mask and sums the gradients of kernel and
 * bias.
 *
 * A block takes a band of one sample's rows. The part of x under it is in shared memory, as floats, with zeros for the
 * padding. A thread has N neighbouring filters, and the threads of one pixel are neighbours. */
#include "backend/cuda/conv.cuh"

namespace kolo
{

static const int TILE = 6144; /* floats of x in shared memory, at most */
static const int BLOCKS = 264; /* of the gradient, at most: each loops over bands and writes one part */
static const int HALF = THREADS / 64; /* half of a block's warps */

/* How x is cut into bands. */
struct Bands {
    int width, rows, each; /* columns of a tile of x; rows of y in a band; bands of a sample */
};

static Bands bands_of(const kolo_conv &c)
{
    int width = (c.out_width - 1) * c.stride[1] + c.kernel[1];
    int high = TILE / (width * c.channels), rows = high < c.kernel[0] ? 0 : (high - c.kernel[0]) / c.stride[0] + 1;
    if (rows > c.out_height) rows = c.out_height;
    return {width, rows, rows ? (c.out_height + rows - 1) / rows : 0};
}

static int tile_floats(const kolo_conv &c, Bands bands)
{
    return ((bands.rows - 1) * c.stride[0] + c.kernel[0]) * bands.width * c.channels;
}

/* Floats behind the tile. They are read where the last strip of pixels is wider than the rest of the row. */
__host__ __device__ static inline int room_behind(const kolo_conv &c)
{
    return 4 * c.stride[1] * c.channels;
}

/* A band: its sample, its first row of y, and its number of rows. */
struct Band {
    int sample, first, rows;
};
__device__ static inline Band band_of(const Conv &c, Bands bands, int item)
{
    int first = item % bands.each * bands.rows;
    return {item / bands.each, first, c.out_height - first < bands.rows ? c.out_height - first : bands.rows};
}

template <typename T>
__device__ static void load_tile(const Conv &c, Bands bands, Band band, const T *__restrict__ x, float *tile)
{
    int row = bands.width * c.channels, rows = (band.rows - 1) * c.stride[0] + c.kernel[0];
    int top = band.first * c.stride[0] - c.before[0];
    const T *sample = x + (int64_t)band.sample * c.height * c.width * c.channels;
    for (int e = (int)threadIdx.x; e < rows * row; e += THREADS) {
        int h = top + e / row, w = e % row / c.channels - c.before[1];
        bool inside = h >= 0 && h < c.height && w >= 0 && w < c.width;
        tile[e] = inside ? wide(sample[((int64_t)h * c.width + w) * c.channels + e % c.channels]) : 0;
    }
}

/* Rounded to the element. */
template <typename T> __device__ static inline float rounded(float value)
{
    T narrowed;
    narrow(value, &narrowed);
    return wide(narrowed);
}

/* Launch bounds ask for two blocks per multiprocessor, 128 registers per thread, where that spills no registers: not
 * where the strides are unknown at compile time, nor where a thread has more than 80 sums. */

/* ---- forward: a thread computes P neighbouring pixels ---- */

template <typename T, int KH, int KW, int C, bool unit>
__global__ void __launch_bounds__(THREADS, unit ? 2 : 1)
    first_forward(Conv c, Bands bands, const T *__restrict__ x, const float *__restrict__ kernel, T *__restrict__ y,
                  Finish finish)
{
    const int N = Lanes<T>::count, P = 4, K = KH * KW * C;
    const bool at_hand = K * N <= 80; /* the thread's weights fit into its registers */
    KOLO_SHARED_BYTES(shared);
    float *weights = (float *)shared, *tile = weights + K * c.filters;
    Band band = band_of(c, bands, (int)blockIdx.x);
    for (int e = (int)threadIdx.x; e < K * c.filters; e += THREADS) weights[e] = rounded<T>(kernel[e]);
    load_tile(c, bands, band, x, tile);
    float *behind = tile + ((band.rows - 1) * c.stride[0] + KH) * bands.width * C;
    if ((int)threadIdx.x < room_behind(c)) behind[threadIdx.x] = 0;
    __syncthreads();

    int side = c.filters / N, filter = (int)threadIdx.x % side * N;
    int strips = (c.out_width + P - 1) / P, row = bands.width * C, step = unit ? C : c.stride[1] * C;
    float own[at_hand ? K : 1][N];
#pragma unroll
    for (int k = 0; at_hand && k < K; k++) load<float, N>(weights + k * c.filters + filter, own[k]);
    for (int s = (int)threadIdx.x / side; s < strips * band.rows; s += THREADS / side) {
        int h = s / strips, w = s % strips * P;
        const float *corner = tile + h * (unit ? 1 : c.stride[0]) * row + w * step;
        float sums[P][N] = {{0}};
#pragma unroll(at_hand ? KH : 1)
        for (int i = 0; i < KH; i++) {
#pragma unroll
            for (int j = 0; j < KW * C; j++) {
                float factors[N];
                if (!at_hand) load<float, N>(weights + (i * KW * C + j) * c.filters + filter, factors);
#pragma unroll
                for (int p = 0; p < P; p++) {
                    /* behind the row's end this is another number of the tile, or a zero behind it; the sum is not
                     * used */
                    float value = corner[i * row + j + p * step];
#pragma unroll
                    for (int n = 0; n < N; n++) sums[p][n] += value * (at_hand ? own[i * KW * C + j][n] : factors[n]);
                }
            }
        }
        T *to = y + (((int64_t)band.sample * c.out_height + band.first + h) * c.out_width + w) * c.filters + filter;
#pragma unroll
        for (int p = 0; p < P; p++) {
            if (w + p >= c.out_width) break;
#pragma unroll
            for (int n = 0; n < N; n++) sums[p][n] = finish(sums[p][n], filter + n);
            store<T, N>(to + (int64_t)p * c.filters, sums[p]);
        }
    }
}

/* ---- backward: a thread sums the gradients of K · N weights and N biases over its pixels ---- */

template <typename T, int KH, int KW, int C, int N>
__global__ void __launch_bounds__(THREADS, (KH * KW * C + 1) * N <= 80 ? 2 : 1)
    first_backward(Conv c, Bands bands, const T *__restrict__ x, const T *__restrict__ dy, const T *__restrict__ y,
                   float *__restrict__ dkernel, float *__restrict__ dbias)
{
    const int K = KH * KW * C;
    KOLO_SHARED_BYTES(shared);
    float *tile = (float *)shared;
    int side = c.filters / N, filter = (int)threadIdx.x % side * N, lanes = THREADS / side;
    int row = bands.width * C;
    float sums[K + 1][N] = {{0}};
    for (int item = (int)blockIdx.x; item < c.microbatch * bands.each; item += (int)gridDim.x) {
        Band band = band_of(c, bands, item);
        __syncthreads(); /* all threads have read the previous tile */
        load_tile(c, bands, band, x, tile);
        __syncthreads();
        int64_t first = ((int64_t)band.sample * c.out_height + band.first) * c.out_width;
        int w = (int)threadIdx.x / side, h = 0;
#pragma unroll 2
        for (int p = (int)threadIdx.x / side; p < band.rows * c.out_width; p += lanes, w += lanes) {
            while (w >= c.out_width) {
                w -= c.out_width;
                h++;
            }
            float given[N];
            load<T, N>(dy + (first + p) * c.filters + filter, given);
            if (y) {
                float seen[N];
                load<T, N>(y + (first + p) * c.filters + filter, seen);
#pragma unroll
                for (int n = 0; n < N; n++) given[n] = seen[n] <= 0 ? 0 : given[n];
            }
            const float *corner = tile + h * c.stride[0] * row + w * c.stride[1] * C;
#pragma unroll
            for (int k = 0; k < K; k++) {
                float value = corner[k / (KW * C) * row + k % (KW * C)];
#pragma unroll
                for (int n = 0; n < N; n++) sums[k][n] += value * given[n];
            }
#pragma unroll
            for (int n = 0; n < N; n++) sums[K][n] += given[n];
        }
    }
    /* Threads of the same filters are `side` apart. Within a warp, shuffles add their sums. Then the second half of the
     * warps writes its sums to shared memory, and the first half adds its own. */
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, count = (K + 1) * c.filters;
    float *place = tile + warp % HALF * count + filter;
#pragma unroll
    for (int k = 0; k <= K; k++)
#pragma unroll
        for (int n = 0; n < N; n++)
            for (int by = side; by < 32; by *= 2) sums[k][n] += __shfl_xor_sync(0xFFFFFFFFu, sums[k][n], by);
    for (int half = 1; half >= 0; half--) {
        __syncthreads();
        if (warp / HALF != half || lane >= side) continue;
#pragma unroll
        for (int k = 0; k <= K; k++) {
#pragma unroll
            for (int n = 0; n < N && half == 0; n++) sums[k][n] += place[k * c.filters + n];
            store<float, N>(place + k * c.filters, sums[k]);
        }
    }
    __syncthreads();
    for (int e = (int)threadIdx.x; e < count; e += THREADS) {
        float sum = 0;
        for (int v = 0; v < HALF; v++) sum += tile[v * count + e];
        int of_bias = e - K * c.filters;
        if (of_bias < 0) dkernel[(int64_t)blockIdx.x * K * c.filters + e] = sum;
        else if (dbias) dbias[(int64_t)blockIdx.x * c.filters + of_bias] = sum;
    }
}

static bool is_window(const kolo_conv &c, int height, int width, int channels)
{
    return c.kernel[0] == height && c.kernel[1] == width && c.channels == channels;
}

/* Calls f with the window's size and channels as compile-time constants. */
template <int H, int W, int C> struct Window {
    static const int height = H, width = W, channels = C;
};
template <typename F> static cudaError_t with_window(const kolo_conv &c, F f)
{
    if (is_window(c, 3, 3, 1)) return f(Window<3, 3, 1>());
    if (is_window(c, 5, 5, 1)) return f(Window<5, 5, 1>());
    return f(Window<3, 3, 3>());
}

static int blocks_back(const kolo_conv &c)
{
    int items = c.microbatch * bands_of(c).each;
    return items < BLOCKS ? items : BLOCKS;
}

} // namespace kolo

using namespace kolo;

/* The number of filters is a power of two, so that shuffles find the threads that share filters. */
bool kolo_cuda_conv_first_fits(const kolo_conv *conv)
{
    const kolo_conv &c = *conv;
    bool window = is_window(c, 3, 3, 1) || is_window(c, 5, 5, 1) || is_window(c, 3, 3, 3);
    bool power = (c.filters & (c.filters - 1)) == 0 && c.filters >= 8 && c.filters <= 64;
    return window && power && c.groups == 1 && c.dilation[0] == 1 && c.dilation[1] == 1 && bands_of(c).rows > 0;
}

cudaError_t kolo_cuda_conv_first(cudaStream_t stream, kolo_element element, const kolo_conv *conv, const void *x,
                                 const float *kernel, const float *bias, void *y, bool relu)
{
    Conv c(*conv);
    Bands bands = bands_of(c);
    Finish finish = {bias, relu};
    size_t floats = (size_t)(c.weights() + tile_floats(c, bands) + room_behind(c));
    return with(element, [&](auto zero) {
        return with_window(c, [&](auto window) {
            typedef decltype(zero) T;
            typedef decltype(window) W;
            bool unit = c.stride[0] == 1 && c.stride[1] == 1;
            return launch(stream, dim3((unsigned)(c.microbatch * bands.each)), THREADS, floats * sizeof(float),
                          unit ? first_forward<T, W::height, W::width, W::channels, true>
                               : first_forward<T, W::height, W::width, W::channels, false>,
                          c, bands, (const T *)x, kernel, (T *)y, finish);
        });
    });
}

int kolo_cuda_conv_first_parts(const kolo_conv *conv)
{
    return blocks_back(*conv);
}

cudaError_t kolo_cuda_conv_first_backward(cudaStream_t stream, kolo_element element, const kolo_conv *conv,
                                          const void *x, const void *dy, const void *y, float *dkernel, float *dbias)
{
    Conv c(*conv);
    Bands bands = bands_of(c);
    int64_t tile = tile_floats(c, bands), warps = HALF * (c.weights() + c.filters);
    return with(element, [&](auto zero) {
        return with_window(c, [&](auto window) {
            typedef decltype(zero) T;
            typedef decltype(window) W;
            const int N = W::height * W::channels == 3 ? Lanes<T>::count : 4;
            return launch(stream, dim3((unsigned)blocks_back(c)), THREADS,
                          (size_t)(tile > warps ? tile : warps) * sizeof(float),
                          first_backward<T, W::height, W::width, W::channels, N>, c, bands, (const T *)x, (const T *)dy,
                          (const T *)y, dkernel, dbias);
        });
    });
}
