/* Convolutions of 3 × 3 windows over few channels with a 2 × 2 max pooling behind them, by tensor cores. The
 * convolution's output, four times as large as the pooling's, is never stored. Forward, a block takes strips of a
 * sample. It computes relu(x ∘ kernel + bias), rounded, the maximum of each window with its place, and a dropout of the
 * maximum. Backward, for dx, it writes dy to the maxima's pixels when it loads dy into shared memory. (conv_filter.cu
 * has the weight gradient.) The weights stay in shared memory all the time.
 *
 * A row of a product is a pixel, and the order of the pixels is free. Here 32 rows are eight windows, arranged such
 * that a thread's sums are the four pixels of its window. */
#include "backend/cuda/products.cuh"
#include "backend/cuda/small_conv.cuh"
#include "core/philox.h"

namespace kolo
{

static const int WARPS = 6, BLOCK = 32 * WARPS, ACROSS = 8; /* of a block; windows that a warp computes at once */
static const int RESIDENT = 2 * MULTIPROCESSORS;            /* blocks that run at once */
static const size_t SHARED_HALF = 112 << 10, SHARED_MOST = 160 << 10; /* bytes: two blocks fit; one fits on an A100 */

/* ---- strips ---- */

/* Strips of a sample. Forward, rows are those of pooled windows, and the tile is x around them. Backward, rows are
 * those of x, and the tile is dy around them. */
struct Bands {
    int rows, each;    /* rows of a strip; strips of a sample */
    int height, width; /* of the tile, in pixels */
};

static Bands bands_of(int rows, int all, int height, int width)
{
    return {rows, (all + rows - 1) / rows, height, width};
}

/* Among the strips of up to `most` rows whose tiles fit into `limit` bytes, those that leave the fewest warps idle and
 * load the fewest rows twice; rows is 0 if none fit. A row has `units` units, of which a block takes `each` at once. */
template <typename Of, typename Bytes>
static Bands best_within(size_t limit, int most, int units, int each, Of of, Bytes bytes)
{
    Bands best = {};
    double best_worth = 0;
    for (int rows = 1; rows <= most; rows++) {
        Bands b = of(rows);
        int turns = (rows * units + each - 1) / each;
        double worth = (double)rows * units / turns * rows / (rows + 1);
        if (bytes(b) > limit || worth <= best_worth) continue;
        best_worth = worth;
        best = b;
    }
    return best;
}

/* The same within the device's shared memory, and preferably such that two blocks fit on a multiprocessor. */
template <typename Of, typename Bytes>
static Bands best_bands(const kolo_conv &c, int most, int units, int each, Of of, Bytes bytes)
{
    size_t all = (size_t)c.shared;
    Bands best = best_within(all < SHARED_HALF ? all : SHARED_HALF, most, units, each, of, bytes);
    return best.rows > 0 ? best : best_within(all < SHARED_MOST ? all : SHARED_MOST, most, units, each, of, bytes);
}

template <int C, int F> static size_t weight_bytes()
{
    return (size_t)TAPS * C * (F + EIGHT) * 2;
}
static size_t tile_bytes(const Bands &b, int channels)
{
    return (size_t)b.height * (size_t)b.width * (size_t)(channels + EIGHT) * 2;
}

/* ---- forward ---- */

/* Where the windows' maxima are written, and the dropout. */
template <typename T> struct Pool {
    int height, width; /* of the pooled images */
    T *y;
    uint8_t *where; /* or NULL */
    bool drops;
    kolo_dropout_job dropout;
    const kolo_step_parameters *step_parameters;
    uint32_t threshold;
    float scale;
};

/* A staging buffer for a warp's windows, so that they are written sixteen bytes at a time. */
template <typename T, int F> struct alignas(16) Outgoing {
    static const int ld = F + EIGHT, places_ld = F + SQUARE;
    T values[ACROSS * ld];
    uint8_t places[ACROSS * places_ld];
};

template <typename T, int F> struct Forwarding {
    static const int wide = F / EIGHT;
    float sums[2][wide][4]; /* of the windows' upper pixels, and of the lower ones */
};

/* Sums over all taps and channels for the warp's windows, from number `first` of the strip on. tile: x of the strip. */
template <typename T, int C, int F>
__device__ static inline void convolve_windows(Forwarding<T, F> &own, const Bands &b, const Pool<T> &p, int first,
                                               int windows, const T *tile, const T *weights)
{
    const int XLD = C + EIGHT, KLD = F + EIGHT;
    int lane = (int)threadIdx.x % 32, window = first + lane % EIGHT;
    window = window < windows ? window : 0;
    /* The eight rows of a square are every second pixel of x. These are neighbours in the tile (place_of_column()), so
     * they fall into different banks. For left pixels, taps 0 and 2 are in the even half of a row and tap 1 in the odd
     * half; for right pixels it is the other way round. */
    int h = window / p.width * 2, w = window % p.width, right_half = (b.width + 1) / 2, odd = lane / EIGHT % 2;
    const T *corner = tile + (h * b.width + w) * XLD + lane / SQUARE * EIGHT;
    const T *outer = corner + (odd ? right_half : 0) * XLD, *middle = corner + (odd ? 1 : right_half) * XLD;
#pragma unroll 1
    for (int i = 0; i < 3; i++) {
#pragma unroll
        for (int j = 0; j < 3; j++) {
#pragma unroll
            for (int k = 0; k < C; k += SQUARE) {
                unsigned left[2][4], right[Forwarding<T, F>::wide][2];
                const T *factors = weights + ((i * 3 + j) * C + k) * KLD,
                        *pixel = j == 1 ? middle : outer + j / 2 * XLD;
#pragma unroll
                for (int q = 0; q < 2; q++) load_squares<false>(pixel + (i + q) * b.width * XLD + k, left[q]);
#pragma unroll
                for (int n = 0; n < Forwarding<T, F>::wide; n += 2) load_b<false>(factors + n * EIGHT, KLD, &right[n]);
#pragma unroll
                for (int q = 0; q < 2; q++)
#pragma unroll
                    for (int n = 0; n < Forwarding<T, F>::wide; n++) multiply(own.sums[q][n], left[q], right[n], T());
            }
        }
    }
}

/* A rounded number and its place as one integer. Of two positive numbers the larger one has the larger key, and of
 * equals the first. A negative number has a negative key. A NaN, which has no sign after rounding, has a larger key
 * than any number. */
template <typename T> __device__ static inline int key_of(float value, int place)
{
    T rounded;
    uint16_t bits;
    narrow(value, &rounded);
    memcpy(&bits, &rounded, sizeof bits);
    return (int)((uint32_t)bits << 16 | (uint32_t)(3 - place));
}

template <typename T>
__device__ static inline void any_largest(const float values[4], float bias, T *value, uint8_t *place)
{
    Largest largest;
    largest.begin();
#pragma unroll
    for (int q = 0; q < 4; q++) {
        T rounded;
        narrow(values[q] + bias, &rounded);
        largest.take(wide(rounded), q);
    }
    narrow(largest.value, value);
    *place = (uint8_t)largest.place;
}

/* The maximum of four numbers and its place, by the rules of Largest, after a ReLU. The place is NOWHERE where the ReLU
 * gives zero. */
template <typename T>
__device__ static inline void cut_largest(const float values[4], float bias, T *value, uint8_t *place)
{
    int best = key_of<T>(values[0] + bias, 0);
#pragma unroll
    for (int q = 1; q < 4; q++) {
        int other = key_of<T>(values[q] + bias, q);
        best = other > best ? other : best;
    }
    uint16_t bits = best > 0xFFFF ? (uint16_t)((uint32_t)best >> 16) : 0;
    memcpy(value, &bits, sizeof bits);
    *place = (uint8_t)(best > 0xFFFF ? 3 - (best & 3) : NOWHERE);
    if (wide(*value) != wide(*value)) any_largest(values, bias, value, place); /* of NaNs the place of the last */
}

template <typename T, int F>
__device__ static inline void pool_windows(const Forwarding<T, F> &own, const Finish &finish, Outgoing<T, F> *out)
{
    int lane = (int)threadIdx.x % 32, row = lane / 4;
#pragma unroll
    for (int n = 0; n < Forwarding<T, F>::wide; n++) {
        int filter = n * EIGHT + lane % 4 * 2;
        float bias[2] = {0, 0};
        if (finish.bias) bias[0] = finish.bias[filter], bias[1] = finish.bias[filter + 1];
        Run<T, 2> values;
        Run<uint8_t, 2> places;
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float window[4] = {own.sums[0][n][e], own.sums[0][n][2 + e], own.sums[1][n][e],
                                     own.sums[1][n][2 + e]};
            if (finish.relu) cut_largest(window, bias[e], &values.at[e], &places.at[e]);
            else any_largest(window, bias[e], &values.at[e], &places.at[e]);
        }
        *(Run<T, 2> *)(out->values + row * Outgoing<T, F>::ld + filter) = values;
        *(Run<uint8_t, 2> *)(out->places + row * Outgoing<T, F>::places_ld + filter) = places;
    }
}

/* Dropout as in pointwise.cu; four channels share a Philox block. A dropped maximum gets the place NOWHERE. e: the
 * number of the first channel's element in the sample. */
template <typename T>
__device__ static inline void drop(const Pool<T> &p, uint64_t key, int sample, int64_t e, Run<T, EIGHT> &values,
                                   Run<uint8_t, EIGHT> &places)
{
#pragma unroll
    for (int k = 0; k < EIGHT; k += 4) {
        kolo_random_block bits = kolo_philox(key, (uint64_t)(e + k) / 4, (uint64_t)(p.dropout.first + (int64_t)sample));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bool kept = bits.word[i] >= p.threshold;
            narrow(kept ? p.scale * wide(values.at[k + i]) : 0.0f, &values.at[k + i]);
            if (!kept) places.at[k + i] = (uint8_t)NOWHERE;
        }
    }
}

/* Writes `count` windows, from number `at` of the sample on. */
template <typename T, int F>
__device__ static inline void send_windows(const Pool<T> &p, uint64_t key, int sample, int at, int count,
                                           const Outgoing<T, F> *out)
{
    for (int e = (int)threadIdx.x % 32; e < count * (F / EIGHT); e += 32) {
        int window = e / (F / EIGHT), f = e % (F / EIGHT) * EIGHT;
        int64_t element = (int64_t)(at + window) * F + f, to = (int64_t)sample * p.height * p.width * F + element;
        Run<T, EIGHT> values = *checked<Run<T, EIGHT>>(out->values + window * Outgoing<T, F>::ld + f);
        Run<uint8_t, EIGHT> places =
            *checked<Run<uint8_t, EIGHT>>(out->places + window * Outgoing<T, F>::places_ld + f);
        if (p.drops) drop(p, key, sample, element, values, places);
        *(Run<T, EIGHT> *)checked<Run<T, EIGHT>>(p.y + to) = values;
        if (p.where) *(Run<uint8_t, EIGHT> *)checked<Run<uint8_t, EIGHT>>(p.where + to) = places;
    }
}

/* Starts copying the weights {tap, channel, filter} to shared memory, with gaps between rows. */
template <typename T, int C, int F>
__device__ static inline void fetch_weights(const T *__restrict__ kernel, T *weights)
{
    for (int e = (int)threadIdx.x; e < TAPS * C * (F / EIGHT); e += BLOCK)
        copy(weights + e / (F / EIGHT) * (F + EIGHT) + e % (F / EIGHT) * EIGHT, kernel + e * EIGHT, true);
}

template <typename T, int C, int F>
__global__ void __launch_bounds__(BLOCK, 2)
    convolve_and_pool(Conv c, Bands b, const T *__restrict__ x, const T *__restrict__ kernel, Finish finish, Pool<T> p)
{
    KOLO_SHARED_BYTES(shared);
    T *weights = (T *)shared, *tiles = weights + TAPS * C * (F + EIGHT);
    int tile = b.height * b.width * (C + EIGHT), warp = (int)threadIdx.x / 32, items = c.microbatch * b.each;
    Outgoing<T, F> *out = (Outgoing<T, F> *)(tiles + 2 * tile) + warp;
    uint64_t key = p.drops ? kolo_dropout_key(p.step_parameters->seed, p.dropout.layer, p.step_parameters->step) : 0;
    auto bring = [&](int item, int stage) {
        int first = item % b.each * b.rows * 2 - c.before[0];
        const T *sample = x + (int64_t)(item / b.each) * c.height * c.width * C;
        if (item < items) fetch_rows<T, C, BLOCK, true>(c, sample, first, b.height, b.width, tiles + stage * tile);
        __pipeline_commit(); /* an empty group, too: __pipeline_wait_prior() counts them */
    };
    fetch_weights<T, C, F>(kernel, weights);
    bring((int)blockIdx.x, 0);
    for (int item = (int)blockIdx.x, stage = 0; item < items; item += (int)gridDim.x, stage ^= 1) {
        int sample = item / b.each, top = item % b.each * b.rows;
        int windows = (p.height - top < b.rows ? p.height - top : b.rows) * p.width;
        bring(item + (int)gridDim.x, stage ^ 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int first = warp * ACROSS; first < windows; first += WARPS * ACROSS) {
            Forwarding<T, F> own = {};
            convolve_windows<T, C, F>(own, b, p, first, windows, tiles + stage * tile, weights);
            pool_windows<T, F>(own, finish, out);
            __syncwarp();
            int count = windows - first < ACROSS ? windows - first : ACROSS;
            send_windows<T, F>(p, key, sample, top * p.width + first, count, out);
            __syncwarp();
        }
        __syncthreads(); /* all warps have read this strip before the strip after the next overwrites it */
    }
    __pipeline_wait_prior(0);
}

template <typename T, int C, int F> static size_t forward_bytes(const Bands &b)
{
    return weight_bytes<C, F>() + 2 * tile_bytes(b, C) + WARPS * sizeof(Outgoing<T, F>);
}

template <typename T, int C, int F> static Bands forward_bands(const kolo_conv &c)
{
    return best_bands(
        c, c.out_height / 2, c.out_width / 2, WARPS * ACROSS,
        [&](int rows) { return bands_of(rows, c.out_height / 2, 2 * rows + 2, c.out_width + 2); },
        forward_bytes<T, C, F>);
}

/* ---- backward: dx[pixel][c] = Σ dy[pixel + before − tap][f] · K[tap][c][f] ---- */

template <int C> struct Backing {
    static const int high = C == 64 ? 2 : 4, wide = C / EIGHT, pixels = high * SQUARE;
    float sums[high][wide][4];
};

/* Writes dy of the strip's windows and of those around it to the tile, each value at its pixel, with zeros outside the
 * image. */
template <typename T, int F>
__device__ static void put_windows(const Conv &c, const Bands &b, const Pooled<T> &dy, int sample, int first, T *tile)
{
    int top = first + c.before[0] - 2, left = c.before[1] - 2; /* the tile's corner, in pixels of y */
    int h0 = top >> 1, w0 = left >> 1, high = ((top + b.height - 1) >> 1) - h0 + 1;
    int across = ((left + b.width - 1) >> 1) - w0 + 1;
    for (int e = (int)threadIdx.x; e < high * across * (F / EIGHT); e += BLOCK) {
        int window = e / (F / EIGHT), f = e % (F / EIGHT) * EIGHT;
        int row = h0 + window / across, column = w0 + window % across;
        bool there = row >= 0 && row < dy.height && column >= 0 && column < dy.width;
        Given<T> given = there ? window_of<T, F>(dy, sample, row, column, f) : no_window<T>();
        scale(dy, given);
        int h = row * 2 - top, w = column * 2 - left;
        unsigned above = h >= 0 ? 3 : 0, below = h + 1 < b.height ? 12 : 0;
        unsigned beside = (w >= 0 ? 5 : 0) | (w + 1 < b.width ? 10 : 0);
        put_window(given, tile + (h * b.width + w) * (F + EIGHT) + f, F + EIGHT, b.width * (F + EIGHT),
                   (above | below) & beside);
    }
}

template <typename T, int C, int F>
__device__ static inline void convolve_pixels(Backing<C> &own, const Conv &c, const Bands &b, int first, int pixels,
                                              const T *tile, const T *weights)
{
    const int LD = F + EIGHT;
    int lane = (int)threadIdx.x % 32, places[Backing<C>::high];
#pragma unroll
    for (int m = 0; m < Backing<C>::high; m++) {
        int p = first + m * SQUARE + lane % SQUARE;
        p = p < pixels ? p : 0;
        places[m] = ((p / c.width + 2) * b.width + p % c.width + 2) * LD + lane / SQUARE * EIGHT;
    }
#pragma unroll 1
    for (int i = 0; i < 3; i++) {
#pragma unroll
        for (int j = 0; j < 3; j++) {
            const T *factors = weights + (i * 3 + j) * C * LD, *corner = tile - (i * b.width + j) * LD;
#pragma unroll
            for (int k = 0; k < F; k += SQUARE) {
                unsigned right[Backing<C>::wide][2];
#pragma unroll
                for (int n = 0; n < Backing<C>::wide; n += 2) load_b<true>(factors + n * EIGHT * LD + k, LD, &right[n]);
#pragma unroll
                for (int m = 0; m < Backing<C>::high; m++) {
                    unsigned left[4];
                    load_squares<false>(corner + places[m] + k, left);
#pragma unroll
                    for (int n = 0; n < Backing<C>::wide; n++) multiply(own.sums[m][n], left, right[n], T());
                }
            }
        }
    }
}

/* Writes pixels from number `first` of the strip on. dx is the strip's first pixel. Neighbouring lanes exchange halves
 * of two squares, so that a lane has four neighbouring channels, and the four lanes of a row 32 bytes. */
template <typename T, int C>
__device__ static inline void send_pixels(const Backing<C> &own, int first, int pixels, T *dx)
{
    int lane = (int)threadIdx.x % 32, odd = lane % 2;
#pragma unroll
    for (int m = 0; m < Backing<C>::high; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int p = first + m * SQUARE + half * EIGHT + lane / 4;
#pragma unroll
            for (int n = 0; n < Backing<C>::wide; n += 2) {
                const float *left = own.sums[m][n] + half * 2, *right = own.sums[m][n + 1] + half * 2;
                unsigned low = pack<T>(left[0], left[1]), high = pack<T>(right[0], right[1]);
                unsigned got = __shfl_xor_sync(0xFFFFFFFFu, odd ? low : high, 1);
                const unsigned words[2] = {odd ? got : low, odd ? high : got};
                Run<T, 4> four;
                memcpy(&four, words, sizeof four);
                int channel = (n + odd) * EIGHT + lane % 4 / 2 * 4;
                if (p < pixels) *(Run<T, 4> *)checked<Run<T, 4>>(dx + (int64_t)p * C + channel) = four;
            }
        }
}

template <typename T, int C, int F>
__global__ void __launch_bounds__(BLOCK, 2)
    convolve_back(Conv c, Bands b, Pooled<T> dy, const T *__restrict__ kernel, T *__restrict__ dx)
{
    KOLO_SHARED_BYTES(shared);
    T *weights = (T *)shared, *tile = weights + TAPS * C * (F + EIGHT);
    int warp = (int)threadIdx.x / 32, items = c.microbatch * b.each;
    fetch_weights<T, C, F>(kernel, weights);
    __pipeline_commit();
    for (int item = (int)blockIdx.x; item < items; item += (int)gridDim.x) {
        int sample = item / b.each, top = item % b.each * b.rows;
        int pixels = (c.height - top < b.rows ? c.height - top : b.rows) * c.width;
        T *to = dx + ((int64_t)sample * c.height + top) * c.width * C;
        put_windows<T, F>(c, b, dy, sample, top, tile);
        __pipeline_wait_prior(0);
        __syncthreads();
        for (int first = warp * Backing<C>::pixels; first < pixels; first += WARPS * Backing<C>::pixels) {
            Backing<C> own = {};
            convolve_pixels<T, C, F>(own, c, b, first, pixels, tile, weights);
            send_pixels<T, C>(own, first, pixels, to);
        }
        __syncthreads();
    }
    __pipeline_wait_prior(0);
}

template <int C, int F> static size_t backward_bytes(const Bands &b)
{
    return weight_bytes<C, F>() + tile_bytes(b, F);
}

template <int C, int F> static Bands backward_bands(const kolo_conv &c)
{
    return best_bands(
        c, c.height, c.width, WARPS * Backing<C>::pixels,
        [&](int rows) { return bands_of(rows, c.height, rows + 2, c.width + 2); }, backward_bytes<C, F>);
}

/* ---- launching ---- */

static dim3 blocks_for(const kolo_conv &c, const Bands &b)
{
    int items = c.microbatch * b.each;
    return dim3((unsigned)(items < RESIDENT ? items : RESIDENT));
}

template <typename T> static Pool<T> pool_of(const kolo_conv *c, const kolo_pooled_y *to)
{
    Pool<T> p = {
        c->out_height / 2, c->out_width / 2, (T *)to->y, to->where, to->dropout != NULL, {}, to->step_parameters, 0, 1};
    if (!to->dropout) return p;
    p.dropout = *to->dropout;
    p.threshold = kolo_dropout_threshold(to->dropout->rate);
    p.scale = (float)(1 / (1 - to->dropout->rate));
    return p;
}

} // namespace kolo

using namespace kolo;

bool kolo_cuda_conv_pooled_fits(kolo_element element, const kolo_conv *c)
{
    bool whole = c->out_height % 2 == 0 && c->out_width % 2 == 0 && c->stride[0] == 1 && c->stride[1] == 1;
    if (!is_small_conv(element, *c) || !whole || !small_filter_fits(element, Conv(*c), true)) return false;
    return with_narrow(element, *c, [&](auto sizes, auto zero) {
               typedef decltype(sizes) S;
               bool fits =
                   forward_bands<decltype(zero), S::C, S::F>(*c).rows > 0 && backward_bands<S::C, S::F>(*c).rows > 0;
               return fits ? cudaSuccess : cudaErrorInvalidValue;
           }) == cudaSuccess;
}

cudaError_t kolo_cuda_conv_pooled(cudaStream_t stream, kolo_element element, const kolo_conv *c, const void *x,
                                  const void *kernel, const float *bias, const kolo_pooled_y *to)
{
    return with_narrow(element, *c, [&](auto sizes, auto zero) {
        typedef decltype(sizes) S;
        typedef decltype(zero) T;
        Bands b = forward_bands<T, S::C, S::F>(*c);
        return launch_large(stream, blocks_for(*c, b), BLOCK, forward_bytes<T, S::C, S::F>(b),
                            convolve_and_pool<T, S::C, S::F>, Conv(*c), b, (const T *)x, (const T *)kernel,
                            Finish{bias, to->relu}, pool_of<T>(c, to));
    });
}

cudaError_t kolo_cuda_conv_pooled_data(cudaStream_t stream, kolo_element element, const kolo_conv *c,
                                       const kolo_pooled_dy *dy, const void *kernel, void *dx)
{
    return with_narrow(element, *c, [&](auto sizes, auto zero) {
        typedef decltype(sizes) S;
        typedef decltype(zero) T;
        Bands b = backward_bands<S::C, S::F>(*c);
        return launch_large(stream, blocks_for(*c, b), BLOCK, backward_bytes<S::C, S::F>(b),
                            convolve_back<T, S::C, S::F>, Conv(*c), b, pooled<T>(*c, dy), (const T *)kernel, (T *)dx);
    });
}
