/* The gradient by the kernel of 3 × 3 windows over few channels, by tensor cores: dK[tap][c][f] = Σ x[pixel + tap][c] ·
 * dy[pixel][f]. A block takes strips of a sample's rows, one after another: x, with what is around it, and dy lie in shared
 * memory once for all nine taps, while the next strip's are copied. Sums stay in registers to the end, when each block
 * leaves its part.
 *
 * Pixels are k of the products. A tap is another place to begin in x; ldmatrix takes an address for each row of eight
 * elements, so x need not be laid out anew for any of them. */
#include "backend/cuda/conv.cuh"

#include "backend/cuda/tensor.cuh"

#include <cuda_pipeline.h>

namespace kolo {

static const int TAPS = 9, SQUARE = 16, EIGHT = 8; /* an ldmatrix square, twice as high and as wide: a product's */
static const int PIXELS = 256, STAGE = 48 << 10; /* of a strip, in shared memory: at most */
static const int MULTIPROCESSORS = 132;

/* How the twelve warps of a block share the gradient, whose squares are 16 channels by 8 filters: a role has some taps,
 * channels and filters, some 24 squares, and warps that have the same role take steps of sixteen pixels in turn. */
template <int C, int F> struct Roles {
    static const int threads = 384;
    static const int taps = C == 16 && F == 16 ? TAPS : 3;
    static const int most = C == 16 ? 8 : 4, wide = F / EIGHT < most ? F / EIGHT : most;
    static const int high = C / SQUARE < 8 / wide ? C / SQUARE : 8 / wide;
    static const int groups = TAPS / taps, channels = C / SQUARE / high, filters = F / EIGHT / wide;
    static const int count = groups * channels * filters, turns = threads / 32 / count;
};

/* Strips of a sample, and how x and dy of one lie: pixels are a little apart, so that rows of a square fall into different
 * banks. In elements. */
struct Strips {
    int rows, each;            /* of y, in a strip; strips of a sample */
    int width, height, steps;  /* of x's tile; of sixteen pixels of y */
    int of_x, of_y;            /* the tiles' sizes */
};

static Strips strips_of(const kolo_conv &c)
{
    Strips s = {};
    s.width = (c.out_width - 1) * c.stride[1] + 3;
    for (s.each = 1;; s.each++) {
        s.rows = (c.out_height + s.each - 1) / s.each;
        s.height = (s.rows - 1) * c.stride[0] + 3;
        s.steps = (s.rows * c.out_width + SQUARE - 1) / SQUARE;
        s.of_x = s.height * s.width * (c.channels + EIGHT);
        s.of_y = s.steps * SQUARE * (c.filters + EIGHT);
        bool fits = s.steps * SQUARE <= PIXELS && (s.of_x + s.of_y) * 2 <= STAGE;
        if (fits || s.rows == 1) return s;
    }
}

template <typename T> __device__ static inline void copy(T *shared, const T *from, bool there)
{
    __pipeline_memcpy_async(shared, from, 16, there ? 0 : 16);
}

/* A strip on its way to shared memory, zeros where there is nothing. */
template <typename T, int C, int F>
__device__ static void fetch(const Conv &c, const Strips &s, int item, const T *__restrict__ x,
                             const T *__restrict__ dy, T *x_tile, T *y_tile)
{
    const int THREADS = Roles<C, F>::threads, step = THREADS / (C / EIGHT);
    int sample = item / s.each, first = item % s.each * s.rows, part = (int)threadIdx.x % (C / EIGHT) * EIGHT;
    int rows = c.out_height - first < s.rows ? c.out_height - first : s.rows;
    int top = first * c.stride[0] - c.before[0], pixel = (int)threadIdx.x / (C / EIGHT);
    int h = pixel / s.width, w = pixel % s.width, down = step / s.width, across = step % s.width;
    const T *from = x + (int64_t)sample * c.height * c.width * C + part;
    while (h < s.height) {
        int row = top + h, column = w - c.before[1];
        bool there = row >= 0 && row < c.height && column >= 0 && column < c.width;
        copy(x_tile + (h * s.width + w) * (C + EIGHT) + part, there ? from + (row * c.width + column) * C : x, there);
        h += down;
        w += across;
        if (w >= s.width) {
            w -= s.width;
            h++;
        }
    }
    const T *given = dy + ((int64_t)sample * c.out_height + first) * c.out_width * F;
    for (int e = (int)threadIdx.x; e < s.steps * SQUARE * (F / EIGHT); e += THREADS) {
        int p = e / (F / EIGHT), f = e % (F / EIGHT) * EIGHT;
        bool there = p < rows * c.out_width;
        copy(y_tile + p * (F + EIGHT) + f, there ? given + p * F + f : dy, there);
    }
}

/* Sums of a warp's squares. */
template <int C, int F> struct Sums {
    typedef Roles<C, F> R;
    float at[R::taps][R::high][R::wide][4];
};

/* What a warp sums: from that tap, channel and filter on, in its turn. */
struct Part {
    int role, turn, tap, channel, filter;
};
template <int C, int F> __device__ static inline Part part_of()
{
    typedef Roles<C, F> R;
    int warp = (int)threadIdx.x / 32, role = warp % R::count;
    return {role, warp / R::count, role % R::groups * R::taps, role / R::groups % R::channels * R::high * SQUARE,
            role / R::groups / R::channels * R::wide * EIGHT};
}

template <typename T, int C, int F>
__device__ static inline void multiply_strip(Sums<C, F> &sums, const Strips &s, const Part &part, const T *x_tile,
                                             const T *y_tile, const int *places)
{
    typedef Roles<C, F> R;
    int lane = (int)threadIdx.x % 32;
    const T *corner = x_tile + (part.tap / 3 * s.width + part.tap % 3) * (C + EIGHT) + part.channel +
                      lane / EIGHT % 2 * EIGHT;
    const int *place = places + lane / SQUARE * EIGHT + lane % EIGHT;
    for (int k = part.turn * SQUARE; k < s.steps * SQUARE; k += R::turns * SQUARE) {
        unsigned right[R::wide][2];
#pragma unroll
        for (int n = 0; n < R::wide; n += 2)
            load_b<false>(y_tile + k * (F + EIGHT) + part.filter + n * EIGHT, F + EIGHT, &right[n]);
        const T *pixel = corner + place[k];
#pragma unroll
        for (int t = 0; t < R::taps; t++) {
#pragma unroll
            for (int m = 0; m < R::high; m++) {
                unsigned left[4];
                load_squares<true>(pixel + (t / 3 * s.width + t % 3) * (C + EIGHT) + m * SQUARE, left);
#pragma unroll
                for (int n = 0; n < R::wide; n++) multiply(sums.at[t][m][n], left, right[n], T());
            }
        }
    }
}

/* Warps with one role add up, in their order; the first of them has the sum. */
template <int C, int F> __device__ static void meet(Sums<C, F> &sums, const Part &part, float *room)
{
    typedef Roles<C, F> R;
    const int each = (int)sizeof(Sums<C, F>) / 4;
    float *own = room + part.role * each * 32 + (int)threadIdx.x % 32, *at = &sums.at[0][0][0][0];
    for (int other = 1; other < R::turns; other++) {
        __syncthreads();
        if (part.turn == other)
#pragma unroll
            for (int i = 0; i < each; i++) own[i * 32] = at[i];
        __syncthreads();
        if (part.turn == 0)
#pragma unroll
            for (int i = 0; i < each; i++) at[i] += own[i * 32];
    }
}

template <int C, int F> __device__ static void leave(const Sums<C, F> &sums, const Part &part, float *to)
{
    typedef Roles<C, F> R;
    int lane = (int)threadIdx.x % 32;
    to += ((int64_t)part.tap * C + part.channel + lane / 4) * F + part.filter + lane % 4 * 2;
#pragma unroll
    for (int t = 0; t < R::taps; t++)
#pragma unroll
        for (int m = 0; m < R::high; m++)
#pragma unroll
            for (int n = 0; n < R::wide; n++) {
                float *square = to + (t * C + m * SQUARE) * F + n * EIGHT;
                store<float, 2>(square, &sums.at[t][m][n][0]);
                store<float, 2>(square + EIGHT * F, &sums.at[t][m][n][2]);
            }
}

template <typename T, int C, int F>
__global__ void __launch_bounds__(Roles<C, F>::threads, 1)
    filter_gradient(Conv c, Strips s, const T *__restrict__ x, const T *__restrict__ dy, float *__restrict__ parts)
{
    typedef Roles<C, F> R;
    KOLO_SHARED_BYTES(shared);
    T *tiles = (T *)shared;
    int *places = (int *)(shared + 2 * (s.of_x + s.of_y) * 2);
    int items = c.leaf * s.each;
    Part own = part_of<C, F>();
    for (int p = (int)threadIdx.x; p < s.steps * SQUARE; p += R::threads) {
        int h = p / c.out_width, w = p % c.out_width;
        bool there = h < s.rows;
        places[p] = there ? (h * c.stride[0] * s.width + w * c.stride[1]) * (C + EIGHT) : 0;
    }
    Sums<C, F> sums = {};
    auto bring = [&](int item, int stage) {
        T *x_tile = tiles + stage * (s.of_x + s.of_y);
        if (item < items) fetch<T, C, F>(c, s, item, x, dy, x_tile, x_tile + s.of_x);
        __pipeline_commit(); /* an empty group, too, so that counting them goes on */
    };
    bring((int)blockIdx.x, 0);
    for (int item = (int)blockIdx.x, stage = 0; item < items; item += (int)gridDim.x, stage ^= 1) {
        bring(item + (int)gridDim.x, stage ^ 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        const T *x_tile = tiles + stage * (s.of_x + s.of_y);
        multiply_strip<T, C, F>(sums, s, own, x_tile, x_tile + s.of_x, places);
        __syncthreads(); /* before it gives way to the strip after the next */
    }
    __pipeline_wait_prior(0);
    meet<C, F>(sums, own, (float *)shared);
    if (own.turn == 0) leave<C, F>(sums, own, parts + (int64_t)blockIdx.x * TAPS * C * F);
}

/* ---- which, and how ---- */

template <int C_, int F_> struct Sizes {
    static const int C = C_, F = F_;
};
/* Calls f with the numbers of channels and filters as they are known when this is compiled. */
template <int C, typename Function> static cudaError_t with_filters(int filters, Function f)
{
    if (filters == 16) return f(Sizes<C, 16>());
    return filters == 32 ? f(Sizes<C, 32>()) : f(Sizes<C, 64>());
}
template <typename Function> static cudaError_t with_sizes(const kolo_conv &c, Function f)
{
    if (c.channels == 16) return with_filters<16>(c.filters, f);
    return c.channels == 32 ? with_filters<32>(c.filters, f) : with_filters<64>(c.filters, f);
}

static bool is_small(int count)
{
    return count == 16 || count == 32 || count == 64;
}

bool small_filter_fits(kolo_element element, const Conv &c)
{
    bool window = c.kernel[0] == 3 && c.kernel[1] == 3 && c.dilation[0] == 1 && c.dilation[1] == 1 && c.groups == 1;
    if (element == KOLO_ELEMENT_FLOAT || !c.tensor_cores || !window) return false;
    if (!is_small(c.channels) || !is_small(c.filters)) return false;
    Strips s = strips_of(c);
    return (s.of_x + s.of_y) * 2 <= STAGE && s.steps * SQUARE <= PIXELS;
}

/* A part more is written and read again, one less is work that waits: as many as make both together least, when a
 * multiprocessor multiplies some 4 per picosecond and memory moves some 3 bytes. The same whatever the device. */
int small_filter_parts(const Conv &c)
{
    Strips s = strips_of(c);
    double items = (double)c.leaf * s.each, weights = (double)c.weights();
    double work = 2 * weights * s.steps * SQUARE / 4, more = 8 * weights / 3;
    int most = (int)sqrt(items * work / more), all = (int)items;
    most = most < 1 ? 1 : most > MULTIPROCESSORS ? MULTIPROCESSORS : most;
    if (all <= most) return all;
    int rounds = (all + most - 1) / most;
    return (all + rounds - 1) / rounds;
}

template <typename T, int C, int F>
static cudaError_t start(cudaStream_t stream, const Conv &c, const T *x, const T *dy, float *parts)
{
    typedef Roles<C, F> R;
    Strips s = strips_of(c);
    size_t tiles = 2 * (size_t)(s.of_x + s.of_y) * 2, places = (size_t)s.steps * SQUARE * sizeof(int);
    size_t meeting = (size_t)R::count * 32 * sizeof(Sums<C, F>), most = tiles + places;
    if (R::turns > 1 && meeting > most) most = meeting;
    cudaError_t error = cudaFuncSetAttribute((const void *)filter_gradient<T, C, F>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)most);
    if (error != cudaSuccess) return error;
    return launch(stream, dim3((unsigned)small_filter_parts(c)), R::threads, most, filter_gradient<T, C, F>, c, s, x,
                  dy, parts);
}

cudaError_t small_filter(cudaStream_t stream, kolo_element element, const Conv &c, const void *x, const void *dy,
                         float *parts)
{
    return with_sizes(c, [&](auto sizes) {
        typedef decltype(sizes) S;
        if (element == KOLO_ELEMENT_HALF)
            return start<__half, S::C, S::F>(stream, c, (const __half *)x, (const __half *)dy, parts);
        return start<__nv_bfloat16, S::C, S::F>(stream, c, (const __nv_bfloat16 *)x, (const __nv_bfloat16 *)dy, parts);
    });
}

} // namespace kolo
