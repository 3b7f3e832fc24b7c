/* Convolutions as products of matrices (conv.cuh lists them) by tensor cores. A block of four warps computes M × N
 * elements of C, a warp 32 × 32 of them, going through k thirty-two at a time. Tiles of A and B have the same order in
 * shared memory as in global memory, with gaps that put rows into different banks. While one pair of tiles is
 * multiplied, the next ones are copied. */
#include "backend/cuda/conv.cuh"

#include "backend/cuda/tensor.cuh"

namespace kolo {

static const int DEEP = 32, EIGHT = 8, SQUARE = 16, OF_WARP = 32; /* a warp's part of C: two squares by two */

/* A tile of R rows (or columns) × DEEP, and the part of it that a thread copies, sixteen bytes at a time. */
template <int R, bool along_k> struct Tile {
    static const int ld = (along_k ? DEEP : R) + EIGHT, elements = (along_k ? R : DEEP) * ld;
    static const int side = (along_k ? DEEP : R) / EIGHT, step = THREADS_OF_TILE / side; /* units a row; rows a pass */
    static const int passes = (along_k ? R : DEEP) / step;
    static const int deeps = along_k ? side : DEEP; /* values of k whose O::Deep is needed */
    int beside, below;
    __device__ Tile() : beside((int)threadIdx.x % side * EIGHT), below((int)threadIdx.x / side) {}
    __device__ int k(int pass) const { return along_k ? beside : below + pass * step; }
    __device__ int r(int pass) const { return along_k ? below + pass * step : beside; }
    __device__ int at(int pass) const { return (below + pass * step) * ld + beside; }
    __device__ int deep(int pass) const { return along_k ? k(pass) / EIGHT : k(pass); }
};

/* The number of pairs of tiles in shared memory at a time. Any device has 48 KB per block, of which a little is needed
 * for the rest. */
template <typename O, int M, int N> struct Stages {
    typedef Tile<M, O::a_along_k> TileA;
    typedef Tile<N, O::b_along_k> TileB;
    static const int bytes = (TileA::elements + TileB::elements) * 2;
    static const int count = 4 * bytes <= 44 << 10 ? 4 : 3;
};

template <typename T> __device__ static inline void copy(T *shared, const T *from, const T *somewhere)
{
    copy(shared, from ? from : somewhere, from != nullptr);
}

/* somewhere: a valid address for copies of zeros. Nothing is read from it. */
template <typename O, typename T, int M, int N>
__global__ void __launch_bounds__(THREADS_OF_TILE) product_on_tensor_cores(O o, const T *somewhere, int64_t part)
{
    typedef Stages<O, M, N> S;
    typedef typename S::TileA TileA;
    typedef typename S::TileB TileB;
    KOLO_SHARED_BYTES(shared);
    __shared__ typename O::Row found[M];
    __shared__ typename O::Deep deeps[2][TileA::deeps]; /* of this stage and of the next */
    int group = (int)blockIdx.z, sides = (o.columns() + N - 1) / N, thread = (int)threadIdx.x;
    int64_t m0 = (int64_t)(blockIdx.x / sides) * M, first = blockIdx.y * part;
    int n0 = (int)(blockIdx.x % sides) * N;
    int64_t end = first + part < o.depth() ? first + part : o.depth();
    TileA of_a;
    TileB of_b;
    auto find = [&](int64_t stage) {
        int64_t k = first + stage * DEEP + thread * (O::a_along_k ? EIGHT : 1);
        if (thread < TileA::deeps && k < end) deeps[stage % 2][thread] = o.deep(k);
    };
    auto fetch = [&](int64_t stage) {
        int64_t k0 = first + stage * DEEP;
        T *a = (T *)(shared + stage % S::count * S::bytes), *b = a + TileA::elements;
        const typename O::Deep *deep = deeps[stage % 2];
        if (k0 < end) {
#pragma unroll
            for (int p = 0; p < TileA::passes; p++) {
                bool there = k0 + of_a.k(p) < end && m0 + of_a.r(p) < o.rows();
                copy(a + of_a.at(p), there ? o.a(found[of_a.r(p)], deep[of_a.deep(p)], group) : nullptr, somewhere);
            }
#pragma unroll
            for (int p = 0; p < TileB::passes; p++) {
                int64_t k = k0 + of_b.k(p);
                int n = n0 + of_b.r(p);
                bool there = k < end && n < o.columns();
                copy(b + of_b.at(p), there ? o.b(deep[O::b_along_k ? of_b.deep(p) : 0], k, n, group) : nullptr,
                     somewhere);
            }
        }
        __pipeline_commit(); /* an empty group, too: __pipeline_wait_prior() counts them */
        find(stage + 1);
    };

    for (int r = thread; r < M; r += THREADS_OF_TILE)
        if (m0 + r < o.rows()) found[r] = o.row(m0 + r);
    find(0);
    for (int s = 0; s < S::count - 1; s++) {
        __syncthreads();
        fetch(s);
    }
    int warp = thread / 32, top = warp / (N / OF_WARP) * OF_WARP, left = warp % (N / OF_WARP) * OF_WARP;
    float sums[2][4][4] = {{{0}}};
    for (int64_t stage = 0; first + stage * DEEP < end; stage++) {
        __pipeline_wait_prior(S::count - 2);
        __syncthreads(); /* this stage's copies are complete, and no thread reads the tiles that are copied to next */
        fetch(stage + S::count - 1);
        const T *a = (const T *)(shared + stage % S::count * S::bytes), *b = a + TileA::elements;
#pragma unroll
        for (int k = 0; k < DEEP; k += SQUARE) {
            unsigned of_left[2][4], of_right[4][2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int m = top + i * SQUARE, n = left + i * SQUARE;
                load_a<O::a_along_k>(a + (O::a_along_k ? m * TileA::ld + k : k * TileA::ld + m), TileA::ld, of_left[i]);
                load_b<O::b_along_k>(b + (O::b_along_k ? n * TileB::ld + k : k * TileB::ld + n), TileB::ld,
                                     &of_right[2 * i]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) multiply(sums[i][j], of_left[i], of_right[j], T());
        }
    }
    __pipeline_wait_prior(0);
    __syncthreads(); /* the tiles' memory is free: it buffers a warp's rows, which are then written in units of eight */

    const int ld = OF_WARP + 4;
    float *rows = (float *)shared + warp * SQUARE * ld;
    int lane = thread % 32, row = lane / 2, column = lane % 2 * SQUARE;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float *to = rows + lane / 4 * ld + j * EIGHT + lane % 4 * 2;
            store<float, 2>(to, &sums[i][j][0]);
            store<float, 2>(to + EIGHT * ld, &sums[i][j][2]);
        }
        __syncwarp();
        int64_t m = m0 + top + i * SQUARE + row;
#pragma unroll
        for (int e = 0; e < SQUARE; e += EIGHT) {
            float values[EIGHT];
            int n = n0 + left + column + e;
            load<float, 4>(rows + row * ld + column + e, values);
            load<float, 4>(rows + row * ld + column + e + 4, values + 4);
            if (m < o.rows() && n < o.columns()) o.template put<EIGHT>(m, n, group, values);
        }
        __syncwarp();
    }
}

template <int M, int N, typename O, typename T>
static cudaError_t launch_tiles(cudaStream_t stream, const O &o, const T *somewhere, int64_t rows, int columns,
                                int parts, int64_t part)
{
    typedef Stages<O, M, N> S;
    dim3 blocks((unsigned)((rows + M - 1) / M * ((columns + N - 1) / N)), (unsigned)parts, (unsigned)o.c.groups);
    return launch(stream, blocks, THREADS_OF_TILE, S::count * S::bytes, product_on_tensor_cores<O, T, M, N>, o,
                  somewhere, part);
}

template <typename T> static const T *somewhere_of(const Forward<T> &o) { return o.x; }
template <typename T> static const T *somewhere_of(const Data<T> &o) { return o.y; }
template <typename T> static const T *somewhere_of(const Filter<T> &o) { return o.x; }

template <typename O>
cudaError_t tensor_product(cudaStream_t stream, const O &o, int64_t rows, int columns, int parts, int64_t part)
{
    if (columns <= 32) return launch_tiles<128, 32>(stream, o, somewhere_of(o), rows, columns, parts, part);
    return launch_tiles<64, 64>(stream, o, somewhere_of(o), rows, columns, parts, part);
}

#define BY_TENSOR_CORES(O)                                                                                             \
    template cudaError_t tensor_product(cudaStream_t, const O<__nv_bfloat16> &, int64_t, int, int, int64_t);           \
    template cudaError_t tensor_product(cudaStream_t, const O<__half> &, int64_t, int, int, int64_t);
BY_TENSOR_CORES(Forward)
BY_TENSOR_CORES(Data)
BY_TENSOR_CORES(Filter)

} // namespace kolo
