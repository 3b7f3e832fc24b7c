/* The common part of the convolutions' .cu files: which elements of x, y and the kernel are multiplied. */
#ifndef KOLO_CUDA_CONV_CUH
#define KOLO_CUDA_CONV_CUH

#include "backend/cuda/device.cuh"

namespace kolo
{

/* A convolution, with the numbers of channels and filters of one group. */
struct Conv : kolo_conv {
    int group_channels, group_filters;
    Conv(const kolo_conv &conv)
        : kolo_conv(conv), group_channels(conv.channels / conv.groups), group_filters(conv.filters / conv.groups)
    {
    }
    int64_t pixels_of_x() const
    {
        return (int64_t)microbatch * height * width;
    }
    int64_t pixels_of_y() const
    {
        return (int64_t)microbatch * out_height * out_width;
    }
    int taps() const
    {
        return kernel[0] * kernel[1];
    }
    int64_t weights() const
    {
        return (int64_t)taps() * group_channels * filters;
    }
};

/* A pixel of x or y, as seen from the other image. sample: the number of its sample's first pixel in the other image.
 * h, w: the position there from which taps are counted. */
struct Place {
    int64_t sample;
    int h, w;
};
/* An element of the kernel. h, w: the distance of its tap from the first tap, in pixels of x. c: its channel or filter.
 * row: the number of its tap. */
struct Tap {
    int h, w, c, row;
};

__device__ static inline void divide(int64_t number, int by, int64_t *quotient, int *rest)
{
    if (number >> 31 == 0) { /* half as many instructions */
        *quotient = (uint32_t)number / (uint32_t)by;
        *rest = (int)((uint32_t)number % (uint32_t)by);
    } else {
        *quotient = number / by;
        *rest = (int)(number % by);
    }
}

/* Pixel number `pixel` of y: its first tap is at {h, w} in x. */
__device__ static inline Place place_of_y(const Conv &c, int64_t pixel)
{
    int64_t rows, samples;
    int w, h;
    divide(pixel, c.out_width, &rows, &w);
    divide(rows, c.out_height, &samples, &h);
    return {samples * c.height * c.width, h * c.stride[0] - c.before[0], w * c.stride[1] - c.before[1]};
}
/* Pixel number `pixel` of x: the pixel of y that has it under a tap is at ({h, w} − the tap's {h, w}) / stride. */
__device__ static inline Place place_of_x(const Conv &c, int64_t pixel)
{
    int64_t rows, samples;
    int w, h;
    divide(pixel, c.width, &rows, &w);
    divide(rows, c.height, &samples, &h);
    return {samples * c.out_height * c.out_width, h + c.before[0], w + c.before[1]};
}
/* Element k of a kernel {kernel[0], kernel[1], depth}. */
__device__ static inline Tap tap_of(const Conv &c, int k, int depth)
{
    int row = k / depth;
    return {row / c.kernel[1] * c.dilation[0], row % c.kernel[1] * c.dilation[1], k % depth, row};
}
/* The pixel of x under a tap, or -1 in the padding. */
__device__ static inline int64_t pixel_of_x(const Conv &c, Place place, Tap tap)
{
    int h = place.h + tap.h, w = place.w + tap.w;
    return h >= 0 && h < c.height && w >= 0 && w < c.width ? place.sample + (int64_t)h * c.width + w : -1;
}
/* The pixel of y that has a pixel of x under that tap, or -1 if there is none. */
__device__ static inline int64_t pixel_of_y(const Conv &c, Place place, Tap tap)
{
    int h = place.h - tap.h, w = place.w - tap.w;
    if (c.stride[0] == 1 && c.stride[1] == 1) /* the usual case needs no division */
        return h >= 0 && h < c.out_height && w >= 0 && w < c.out_width ? place.sample + (int64_t)h * c.out_width + w
                                                                       : -1;
    if (h < 0 || w < 0 || h % c.stride[0] != 0 || w % c.stride[1] != 0) return -1;
    h /= c.stride[0];
    w /= c.stride[1];
    return h < c.out_height && w < c.out_width ? place.sample + (int64_t)h * c.out_width + w : -1;
}

/* y = z + bias, or relu of that. */
struct Finish {
    const float *bias;
    bool relu;
    __device__ float operator()(float z, int channel) const
    {
        if (bias) z += bias[channel];
        return relu && z < 0 ? 0 : z;
    }
};

/* ---- convolutions as products of matrices that are not stored: C[m][n] = Σ_k A[m][k] · B[k][n] ----
 *
 *            m                    k                           n
 * Forward    pixels of y          taps × channels of a group  filters of a group
 * Data       pixels of x          taps × filters of a group   channels of a group
 * Filter     taps × channels      pixels of y, in parts       filters of a group
 *
 * along_k: whether neighbours in memory are neighbours in k. put<N>() writes N neighbours in n. Chetlur et al. 2014,
 * "cuDNN: Efficient primitives for deep learning". */

static const int THREADS_OF_TILE = 128;

template <typename T> struct Forward {
    Conv c;
    const T *x, *kernel;
    T *y;
    Finish finish;
    static const bool a_along_k = true, b_along_k = false;
    typedef Place Row;
    typedef Tap Deep;
    __device__ int64_t rows() const
    {
        return (int64_t)c.microbatch * c.out_height * c.out_width;
    }
    __device__ int columns() const
    {
        return c.group_filters;
    }
    __device__ int64_t depth() const
    {
        return (int64_t)c.kernel[0] * c.kernel[1] * c.group_channels;
    }
    __device__ Row row(int64_t m) const
    {
        return place_of_y(c, m);
    }
    __device__ Deep deep(int64_t k) const
    {
        return tap_of(c, (int)k, c.group_channels);
    }
    __device__ const T *a(Row row, Deep deep, int group) const
    {
        int64_t pixel = pixel_of_x(c, row, deep);
        return pixel < 0 ? nullptr : x + pixel * c.channels + group * c.group_channels + deep.c;
    }
    __device__ const T *b(Deep, int64_t k, int n, int group) const
    {
        return kernel + k * c.filters + group * c.group_filters + n;
    }
    template <int N> __device__ void put(int64_t m, int n, int group, float values[N]) const
    {
        int filter = group * c.group_filters + n;
        for (int i = 0; i < N; i++) values[i] = finish(values[i], filter + i);
        store<T, N>(y + m * c.filters + filter, values);
    }
};

template <typename T> struct Data {
    Conv c;
    const T *y, *kernel;
    T *x;
    Finish finish;
    static const bool a_along_k = true, b_along_k = true;
    typedef Place Row;
    typedef Tap Deep;
    __device__ int64_t rows() const
    {
        return (int64_t)c.microbatch * c.height * c.width;
    }
    __device__ int columns() const
    {
        return c.group_channels;
    }
    __device__ int64_t depth() const
    {
        return (int64_t)c.kernel[0] * c.kernel[1] * c.group_filters;
    }
    __device__ Row row(int64_t m) const
    {
        return place_of_x(c, m);
    }
    __device__ Deep deep(int64_t k) const
    {
        return tap_of(c, (int)k, c.group_filters);
    }
    __device__ const T *a(Row row, Deep deep, int group) const
    {
        int64_t pixel = pixel_of_y(c, row, deep);
        return pixel < 0 ? nullptr : y + pixel * c.filters + group * c.group_filters + deep.c;
    }
    __device__ const T *b(Deep deep, int64_t, int n, int group) const
    {
        return kernel + ((int64_t)deep.row * c.group_channels + n) * c.filters + group * c.group_filters + deep.c;
    }
    template <int N> __device__ void put(int64_t m, int n, int group, float values[N]) const
    {
        int channel = group * c.group_channels + n;
        for (int i = 0; i < N; i++) values[i] = finish(values[i], channel + i);
        store<T, N>(x + m * c.channels + channel, values);
    }
};

template <typename T> struct Filter {
    Conv c;
    const T *x, *y;
    float *parts; /* the gradient itself where there is one part */
    static const bool a_along_k = false, b_along_k = false;
    typedef Tap Row;
    typedef Place Deep;
    __device__ int64_t rows() const
    {
        return (int64_t)c.kernel[0] * c.kernel[1] * c.group_channels;
    }
    __device__ int columns() const
    {
        return c.group_filters;
    }
    __device__ int64_t depth() const
    {
        return (int64_t)c.microbatch * c.out_height * c.out_width;
    }
    __device__ Row row(int64_t m) const
    {
        return tap_of(c, (int)m, c.group_channels);
    }
    __device__ Deep deep(int64_t k) const
    {
        return place_of_y(c, k);
    }
    __device__ const T *a(Row row, Deep deep, int group) const
    {
        int64_t pixel = pixel_of_x(c, deep, row);
        return pixel < 0 ? nullptr : x + pixel * c.channels + group * c.group_channels + row.c;
    }
    __device__ const T *b(Deep, int64_t k, int n, int group) const
    {
        return y + k * c.filters + group * c.group_filters + n;
    }
    template <int N> __device__ void put(int64_t m, int n, int group, const float values[N]) const
    {
        store<float, N>(parts + (blockIdx.y * rows() + m) * c.filters + group * c.group_filters + n, values);
    }
};

/* conv_filter.cu: the weight gradient of 3 × 3 kernels over few channels, for narrow elements. pooled: a max pooling
 * follows the convolution. */
bool small_filter_fits(kolo_element element, const Conv &conv, bool pooled);
int small_filter_parts(const Conv &conv, bool pooled);
cudaError_t small_filter(cudaStream_t stream, kolo_element element, const Conv &conv, const void *x, const void *dy,
                         float *parts);

/* conv_direct.cu: depthwise convolutions of a multiple of four channels. by_kernel: whether it has the weight gradient,
 * too, for which the kernel's rows must be short. */
bool is_depthwise(const Conv &conv, bool by_kernel);
cudaError_t direct(cudaStream_t stream, kolo_element element, const Conv &conv, bool back, const void *from,
                   const void *kernel, Finish finish, void *to); /* y from x; back: x from y */
int direct_parts(const Conv &conv);
cudaError_t direct_filter(cudaStream_t stream, kolo_element element, const Conv &conv, const void *x, const void *dy,
                          float *parts);

} // namespace kolo

#endif
