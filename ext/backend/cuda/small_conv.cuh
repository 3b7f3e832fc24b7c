/* The common part of the kernels of 3 × 3 windows over 16, 32 or 64 channels (conv_filter.cu, conv_pooled.cu). Strips
 * of images are in shared memory once for all nine taps: a tap is an offset in them. Gaps between pixels put the rows
 * of an ldmatrix square into different banks. There is also the gradient through a max pooling. */
#ifndef KOLO_CUDA_SMALL_CONV_CUH
#define KOLO_CUDA_SMALL_CONV_CUH

#include "backend/cuda/conv.cuh"
#include "backend/cuda/maxima.cuh"
#include "backend/cuda/tensor.cuh"

namespace kolo {

static const int TAPS = 9, SQUARE = 16, EIGHT = 8; /* EIGHT: side of an ldmatrix square; SQUARE: of a product's tile */
static const int MULTIPROCESSORS = 132;

/* ---- which ---- */

template <int C_, int F_> struct Sizes {
    static const int C = C_, F = F_;
};
/* Calls f with the numbers of channels and filters as compile-time constants. */
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
/* The same with a zero of the element, which must be narrow. */
template <typename Function> static cudaError_t with_narrow(kolo_element element, const kolo_conv &c, Function f)
{
    return with_sizes(c, [&](auto sizes) {
        return element == KOLO_ELEMENT_HALF ? f(sizes, __half()) : f(sizes, __nv_bfloat16());
    });
}

static inline bool is_small(int count)
{
    return count == 16 || count == 32 || count == 64;
}

static inline bool is_small_conv(kolo_element element, const kolo_conv &c)
{
    bool window = c.kernel[0] == 3 && c.kernel[1] == 3 && c.dilation[0] == 1 && c.dilation[1] == 1 && c.groups == 1;
    return element != KOLO_ELEMENT_FLOAT && c.tensor_cores && window && is_small(c.channels) && is_small(c.filters);
}

/* ---- to shared memory ---- */

/* The place of column w in a row of a tile. apart: all even columns come before all odd ones, so that columns two apart
 * are neighbours. */
template <bool apart> __host__ __device__ static inline int place_of_column(int w, int width)
{
    return apart ? w % 2 * ((width + 1) / 2) + w / 2 : w;
}

/* Starts copying rows top … top+height-1 of a sample's x to shared memory, with zeros for the padding, by all threads
 * of the block. The first column is number -before[1]. */
template <typename T, int C, int THREADS, bool apart = false>
__device__ static void fetch_rows(const Conv &c, const T *__restrict__ sample, int top, int height, int width, T *tile)
{
    const int step = THREADS / (C / EIGHT);
    int part = (int)threadIdx.x % (C / EIGHT) * EIGHT, pixel = (int)threadIdx.x / (C / EIGHT);
    int h = pixel / width, w = pixel % width, down = step / width, across = step % width;
    while (h < height) {
        int row = top + h, column = w - c.before[1];
        bool there = row >= 0 && row < c.height && column >= 0 && column < c.width;
        copy(tile + (h * width + place_of_column<apart>(w, width)) * (C + EIGHT) + part,
             there ? sample + (row * c.width + column) * C + part : sample, there);
        h += down;
        w += across;
        if (w >= width) {
            w -= width;
            h++;
        }
    }
}

/* ---- the gradient through a 2 × 2 max pooling and perhaps a dropout: a window's dy goes to one pixel or none ---- */

template <typename T> struct Pooled {
    const T *dy;
    const uint8_t *where;
    int height, width; /* of the pooled images */
    float dropped;     /* dy must be multiplied by this and rounded */
};

template <typename T> static Pooled<T> pooled(const kolo_conv &c, const kolo_pooled_dy *dy)
{
    return {(const T *)dy->dy, dy->where, c.out_height / 2, c.out_width / 2, (float)(1 / (1 - dy->rate))};
}

/* Eight channels of a window. */
template <typename T> struct Given {
    Run<T, EIGHT> dy;
    Run<uint8_t, EIGHT> where;
};

template <typename T, int F>
__device__ static inline Given<T> window_of(const Pooled<T> &p, int sample, int row, int column, int channel)
{
    int64_t at = (((int64_t)sample * p.height + row) * p.width + column) * F + channel;
    return {*checked<Run<T, EIGHT>>(p.dy + at), *checked<Run<uint8_t, EIGHT>>(p.where + at)};
}
template <typename T> __device__ static inline Given<T> no_window()
{
    Given<T> none;
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
        narrow(0, &none.dy.at[k]);
        none.where.at[k] = (uint8_t)NOWHERE;
    }
    return none;
}
template <typename T> __device__ static inline void scale(const Pooled<T> &p, Given<T> &given)
{
    if (p.dropped == 1) return;
#pragma unroll
    for (int k = 0; k < EIGHT; k++) narrow(p.dropped * wide(given.dy.at[k]), &given.dy.at[k]);
}
/* Writes a window's pixels to shared memory: dy at the maximum's place, zeros elsewhere. The first pixel is at
 * `corner`; its neighbours are `right` and `below` elements further. there: bit q says whether pixel q is in the
 * tile. */
template <typename T>
__device__ static inline void put_window(const Given<T> &given, T *corner, int right, int below, unsigned there)
{
#pragma unroll
    for (int q = 0; q < 4; q++)
        if (there >> q & 1)
            *(Run<T, EIGHT> *)checked<Run<T, EIGHT>>(corner + q % 2 * right + q / 2 * below) = no_window<T>().dy;
#pragma unroll
    for (int k = 0; k < EIGHT; k++) {
        unsigned place = given.where.at[k];
        if (place < 4 && (there >> place & 1)) corner[(place & 1) * right + (place >> 1) * below + k] = given.dy.at[k];
    }
}

} // namespace kolo

#endif
