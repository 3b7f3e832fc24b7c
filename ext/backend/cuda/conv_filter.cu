/* The weight gradient of 3 × 3 kernels over few channels, by tensor cores: dK[tap][c][f] = Σ x[pixel + tap][c] ·
 * dy[pixel][f]. A block takes strips of a sample's rows, one after another. A strip's dy, and its x with the pixels
 * around it, are in shared memory once for all nine taps, while the next strip is copied. A block's sums stay in
 * registers until the end, when it writes them as its part.
 *
 * Pixels are k of the products. A tap is an offset in x: ldmatrix takes an address for each row of eight elements, so x
 * need not be rearranged for any tap. */
#include "backend/cuda/small_conv.cuh"

namespace kolo
{

static const int PIXELS = 256, POOLED = 192, STAGE = 48 << 10; /* the most pixels of a strip; bytes of its tiles */

/* How the twelve warps of a block share the gradient, which consists of squares of 16 channels by 8 filters. A role has
 * some taps, channels and filters: 12 to 24 squares. Warps with the same role take steps of sixteen pixels in turn. */
template <int C, int F> struct Roles {
    static const int threads = 384;
    static const int taps = C == 16 && F == 16 ? TAPS : 3;
    static const int most = C == 16 ? 8 : 4, wide = F / EIGHT < most ? F / EIGHT : most;
    static const int high = C / SQUARE < 8 / wide ? C / SQUARE : 8 / wide;
    static const int groups = TAPS / taps, channels = C / SQUARE / high, filters = F / EIGHT / wide;
    static const int count = groups * channels * filters, turns = threads / 32 / count;
};

/* Strips of a sample, and the layout of the tiles of x and dy in shared memory, in elements. Gaps between pixels put
 * the rows of a square into different banks. */
struct Strips {
    int rows, each; /* rows of y in a strip; strips of a sample */
    int width, height, steps; /* of x's tile, in pixels; steps: of sixteen pixels of y */
    int of_x, of_y; /* elements of the tiles of x and dy */
};

/* pooled: a strip consists of whole 2 × 2 windows. */
static Strips strips_of(const kolo_conv &c, bool pooled)
{
    Strips s = {};
    s.width = (c.out_width - 1) * c.stride[1] + 3;
    for (s.each = 1;; s.each++) {
        s.rows = (c.out_height + s.each - 1) / s.each;
        if (pooled) s.rows = (s.rows + 1) / 2 * 2;
        s.height = (s.rows - 1) * c.stride[0] + 3;
        s.steps = (s.rows * c.out_width + SQUARE - 1) / SQUARE;
        s.of_x = s.height * s.width * (c.channels + EIGHT);
        s.of_y = s.steps * SQUARE * (c.filters + EIGHT);
        bool fits = s.steps * SQUARE <= (pooled ? POOLED : PIXELS) && (s.of_x + s.of_y) * 2 <= STAGE;
        if (fits || s.rows <= (pooled ? 2 : 1)) return s;
    }
}

/* ---- dy, strip by strip ---- */

/* dy as it is stored. begin() starts an asynchronous copy of a strip to shared memory, with zeros behind its last
 * pixel. */
template <typename T, int F, int THREADS> struct Plain {
    typedef const T *Source;
    __device__ void open(T *, int)
    {
    }
    __device__ void begin(const Conv &c, const Strips &s, const Source &dy, int sample, int first, int rows, T *tile)
    {
        const T *given = dy + ((int64_t)sample * c.out_height + first) * c.out_width * F;
        for (int e = (int)threadIdx.x; e < s.steps * SQUARE * (F / EIGHT); e += THREADS) {
            int p = e / (F / EIGHT), f = e % (F / EIGHT) * EIGHT;
            bool there = p < rows * c.out_width;
            copy(tile + p * (F + EIGHT) + f, there ? given + p * F + f : dy, there);
        }
    }
    __device__ void end(const Conv &, const Strips &, const Source &, T *)
    {
    }
    __device__ void leave(float *, float *)
    {
    }
};

/* dy behind a max pooling. begin() loads a strip's windows, and end() writes each one's dy to its pixel. The sum of
 * these dy is the gradient of the bias between convolution and pooling. */
template <typename T, int F, int THREADS> struct Unpooled {
    typedef Pooled<T> Source;
    static const int most = (POOLED / 4 * (F / EIGHT) + THREADS - 1) / THREADS;
    Given<T> windows[most];
    float sums[EIGHT];

    /* Clears the tiles. The elements behind the last pixel stay zero. */
    __device__ void open(T *tiles, int elements)
    {
        for (int k = 0; k < EIGHT; k++) sums[k] = 0;
        for (int e = (int)threadIdx.x * EIGHT; e < elements; e += THREADS * EIGHT)
            *(Run<T, EIGHT> *)checked<Run<T, EIGHT>>(tiles + e) = no_window<T>().dy;
    }
    __device__ void begin(const Conv &c, const Strips &, const Source &dy, int sample, int first, int rows, T *)
    {
        int across = c.out_width / 2;
#pragma unroll
        for (int m = 0; m < most; m++) {
            int e = (int)threadIdx.x + m * THREADS, window = e / (F / EIGHT);
            bool there = window < rows / 2 * across;
            windows[m] = there ? window_of<T, F>(dy, sample, first / 2 + window / across, window % across,
                                                 e % (F / EIGHT) * EIGHT)
                               : no_window<T>();
        }
    }
    __device__ void end(const Conv &c, const Strips &s, const Source &dy, T *tile)
    {
        int across = c.out_width / 2;
#pragma unroll
        for (int m = 0; m < most; m++) {
            int e = (int)threadIdx.x + m * THREADS, window = e / (F / EIGHT), f = e % (F / EIGHT) * EIGHT;
            if (window >= s.rows / 2 * across) continue;
            scale(dy, windows[m]);
#pragma unroll
            for (int k = 0; k < EIGHT; k++)
                sums[k] += windows[m].where.at[k] == (uint8_t)NOWHERE ? 0.0f : wide(windows[m].dy.at[k]);
            int pixel = window / across * 2 * c.out_width + window % across * 2;
            put_window(windows[m], tile + pixel * (F + EIGHT) + f, F + EIGHT, c.out_width * (F + EIGHT), 15);
        }
    }
    /* Writes the block's part of dbias. All sums of a thread are of the same eight channels. */
    __device__ void leave(float *room, float *dbias)
    {
        const int rows = THREADS / (F / EIGHT);
        __syncthreads();
        store<float, 4>(room + (int)threadIdx.x * EIGHT, sums);
        store<float, 4>(room + (int)threadIdx.x * EIGHT + 4, sums + 4);
        __syncthreads();
        if ((int)threadIdx.x >= F || !dbias) return;
        float sum = 0;
        for (int r = 0; r < rows; r++) sum += room[r * F + (int)threadIdx.x];
        dbias[blockIdx.x * F + threadIdx.x] = sum;
    }
};

/* The sums of a warp's squares. */
template <int C, int F> struct Sums {
    typedef Roles<C, F> R;
    float at[R::taps][R::high][R::wide][4];
};

/* A warp's role and turn, and the first tap, channel and filter that it sums. */
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
    const T *corner =
        x_tile + (part.tap / 3 * s.width + part.tap % 3) * (C + EIGHT) + part.channel + lane / EIGHT % 2 * EIGHT;
    const int *place = places + lane / SQUARE * EIGHT + lane % EIGHT;
#pragma unroll 1
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

/* Adds up the sums of warps with the same role, in the order of their turns. The warp of turn 0 has the result. */
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

template <typename T, int C, int F, template <typename, int, int> class Dy>
__global__ void __launch_bounds__(Roles<C, F>::threads, 1)
    filter_gradient(Conv c, Strips s, const T *__restrict__ x, typename Dy<T, F, Roles<C, F>::threads>::Source dy,
                    float *__restrict__ dkernel, float *__restrict__ dbias)
{
    typedef Roles<C, F> R;
    KOLO_SHARED_BYTES(shared);
    T *tiles = (T *)shared; /* two of x, then two of dy */
    int *places = (int *)(tiles + 2 * (s.of_x + s.of_y));
    int items = c.microbatch * s.each;
    Part own = part_of<C, F>();
    Dy<T, F, R::threads> given;
    given.open(tiles + 2 * s.of_x, 2 * s.of_y);
    for (int p = (int)threadIdx.x; p < s.steps * SQUARE; p += R::threads) {
        int h = p / c.out_width, w = p % c.out_width;
        places[p] = h < s.rows ? (h * c.stride[0] * s.width + w * c.stride[1]) * (C + EIGHT) : 0;
    }
    Sums<C, F> sums = {};
    auto begin = [&](int item, int stage) {
        int sample = item / s.each, first = item % s.each * s.rows;
        int rows = c.out_height - first < s.rows ? c.out_height - first : s.rows;
        if (item < items) {
            fetch_rows<T, C, R::threads>(c, x + (int64_t)sample * c.height * c.width * C,
                                         first * c.stride[0] - c.before[0], s.height, s.width, tiles + stage * s.of_x);
            given.begin(c, s, dy, sample, first, rows, tiles + 2 * s.of_x + stage * s.of_y);
        }
        __pipeline_commit(); /* an empty group, too: __pipeline_wait_prior() counts them */
    };
    __syncthreads(); /* the tiles are cleared before begin() and end() write them */
    begin((int)blockIdx.x, 0);
    if ((int)blockIdx.x < items) given.end(c, s, dy, tiles + 2 * s.of_x);
    for (int item = (int)blockIdx.x, stage = 0; item < items; item += (int)gridDim.x, stage ^= 1) {
        bool more = item + (int)gridDim.x < items;
        begin(item + (int)gridDim.x, stage ^ 1);
        __pipeline_wait_prior(1);
        __syncthreads();
        multiply_strip<T, C, F>(sums, s, own, tiles + stage * s.of_x, tiles + 2 * s.of_x + stage * s.of_y, places);
        if (more) given.end(c, s, dy, tiles + 2 * s.of_x + (stage ^ 1) * s.of_y);
        __syncthreads(); /* all warps have read this strip before the strip after the next overwrites it */
    }
    __pipeline_wait_prior(0);
    given.leave((float *)shared, dbias);
    meet<C, F>(sums, own, (float *)shared);
    if (own.turn == 0) leave<C, F>(sums, own, dkernel + (int64_t)blockIdx.x * TAPS * C * F);
}

/* ---- which, and how ---- */

bool small_filter_fits(kolo_element element, const Conv &c, bool pooled)
{
    if (!is_small_conv(element, c)) return false;
    Strips s = strips_of(c, pooled);
    return (s.of_x + s.of_y) * 2 <= STAGE && s.steps * SQUARE <= (pooled ? POOLED : PIXELS);
}

/* One part more costs memory traffic, as it is written and read again. One part less makes the other blocks compute
 * longer. This number makes the sum of both times least, if a multiprocessor does about 4 operations per picosecond and
 * memory moves about 3 bytes. It does not depend on the device. */
int small_filter_parts(const Conv &c, bool pooled)
{
    Strips s = strips_of(c, pooled);
    double items = (double)c.microbatch * s.each, weights = (double)c.weights();
    double work = 2 * weights * s.steps * SQUARE / 4, more = 8 * weights / 3;
    int most = (int)sqrt(items * work / more), all = (int)items;
    most = most < 1 ? 1 : most > MULTIPROCESSORS ? MULTIPROCESSORS : most;
    if (all <= most) return all;
    int rounds = (all + most - 1) / most;
    return (all + rounds - 1) / rounds;
}

template <typename T, int C, int F, template <typename, int, int> class Dy>
static cudaError_t start(cudaStream_t stream, const Conv &c, bool pooled, const void *x,
                         typename Dy<T, F, Roles<C, F>::threads>::Source dy, float *dkernel, float *dbias)
{
    typedef Roles<C, F> R;
    Strips s = strips_of(c, pooled);
    size_t tiles = 2 * (size_t)(s.of_x + s.of_y) * sizeof(T), places = (size_t)s.steps * SQUARE * sizeof(int);
    size_t meeting = (size_t)R::count * 32 * sizeof(Sums<C, F>), most = tiles + places;
    size_t bias = (size_t)R::threads * EIGHT * sizeof(float);
    if (R::turns > 1 && meeting > most) most = meeting;
    if (bias > most) most = bias;
    return launch_large(stream, dim3((unsigned)small_filter_parts(c, pooled)), R::threads, most,
                        filter_gradient<T, C, F, Dy>, c, s, (const T *)x, dy, dkernel, dbias);
}

cudaError_t small_filter(cudaStream_t stream, kolo_element element, const Conv &c, const void *x, const void *dy,
                         float *parts)
{
    return with_narrow(element, c, [&](auto sizes, auto zero) {
        typedef decltype(sizes) S;
        typedef decltype(zero) T;
        return start<T, S::C, S::F, Plain>(stream, c, false, x, (const T *)dy, parts, NULL);
    });
}

} // namespace kolo

using namespace kolo;

int kolo_cuda_conv_pooled_parts(const kolo_conv *conv)
{
    return small_filter_parts(Conv(*conv), true);
}

cudaError_t kolo_cuda_conv_pooled_filter(cudaStream_t stream, kolo_element element, const kolo_conv *conv,
                                         const void *x, const kolo_pooled_dy *dy, float *dkernel, float *dbias)
{
    Conv c(*conv);
    return with_narrow(element, c, [&](auto sizes, auto zero) {
        typedef decltype(sizes) S;
        typedef decltype(zero) T;
        return start<T, S::C, S::F, Unpooled>(stream, c, true, x, pooled<T>(c, dy), dkernel, dbias);
    });
}
