/* Element by element: conversions, activations, sums, dropout. The formulas are the reference backend's
 * (backend/reference/activation.c, dropout.c), in float. */
#include "backend/cuda/device.cuh"
#include "core/philox.h"

namespace kolo
{

/* ---- y = f(x), y = f(x1, x2): sixteen bytes of the wider element at a time ---- */

template <typename A, typename B, typename F>
__global__ void map_one(const A *__restrict__ x, B *__restrict__ y, int64_t count, F f)
{
    const int N = sizeof(A) < sizeof(B) ? 16 / (int)sizeof(B) : 16 / (int)sizeof(A);
    for (int64_t i = thread_number() * N; i < count; i += thread_count() * N) {
        float values[N];
        if (i + N <= count) {
            load<A, N>(x + i, values);
            for (int k = 0; k < N; k++) values[k] = f(values[k]);
            store<B, N>(y + i, values);
        } else {
            for (int64_t k = i; k < count; k++) narrow(f(wide(x[k])), &y[k]);
        }
    }
}

template <typename T, typename F>
__global__ void map_two(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ y, int64_t count, F f)
{
    const int N = Lanes<T>::count;
    for (int64_t i = thread_number() * N; i < count; i += thread_count() * N) {
        float left[N], right[N];
        if (i + N <= count) {
            load<T, N>(a + i, left);
            load<T, N>(b + i, right);
            for (int k = 0; k < N; k++) left[k] = f(left[k], right[k]);
            store<T, N>(y + i, left);
        } else {
            for (int64_t k = i; k < count; k++) narrow(f(wide(a[k]), wide(b[k])), &y[k]);
        }
    }
}

/* y = (a + b) · [mask > 0]. The sum is rounded, as it would be between two operations. */
template <typename T>
__global__ void add_masked(const T *__restrict__ a, const T *__restrict__ b, const T *__restrict__ mask,
                           T *__restrict__ y, int64_t count)
{
    const int N = Lanes<T>::count;
    for (int64_t i = thread_number() * N; i < count; i += thread_count() * N) {
        float left[N], right[N], by[N];
        int n = count - i < N ? (int)(count - i) : N;
        if (n == N) {
            load<T, N>(a + i, left);
            load<T, N>(b + i, right);
            load<T, N>(mask + i, by);
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            if (k >= n) break;
            T sum;
            if (n < N) left[k] = wide(a[i + k]), right[k] = wide(b[i + k]), by[k] = wide(mask[i + k]);
            narrow(left[k] + right[k], &sum);
            left[k] = wide(sum) * (by[k] <= 0 ? 0.0f : 1.0f);
        }
        if (n == N) store<T, N>(y + i, left);
        else
            for (int k = 0; k < N; k++)
                if (k < n) narrow(left[k], &y[i + k]);
    }
}

template <typename A, typename B, typename F>
static cudaError_t one(cudaStream_t stream, const void *x, void *y, int64_t count, F f)
{
    return launch(stream, blocks_for((count + 3) / 4), THREADS, 0, map_one<A, B, F>, (const A *)x, (B *)y, count, f);
}
template <typename T, typename F>
static cudaError_t two(cudaStream_t stream, const void *a, const void *b, void *y, int64_t count, F f)
{
    int64_t threads = (count + Lanes<T>::count - 1) / Lanes<T>::count;
    return launch(stream, blocks_for(threads), THREADS, 0, map_two<T, F>, (const T *)a, (const T *)b, (T *)y, count, f);
}

/* ---- functions ---- */

__device__ static inline float relu(float x)
{
    return x < 0 ? 0 : x;
} /* NaN stays NaN */
__device__ static inline float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}
/* The tanh approximation of GELU is x · (1 + tanh(u)) / 2 = x · σ(2u), and twice(x) is 2u. */
__device__ static inline float twice(float x)
{
    return 1.5957691216f * (x + 0.044715f * x * x * x);
}
__device__ static inline float twice_slope(float x)
{
    return 1.5957691216f * (1 + 0.134145f * x * x);
}
__device__ static inline float density(float x)
{
    return 0.3989422804f * expf(-x * x / 2);
}

__device__ static float value_at(kolo_function f, float x)
{
    switch (f) {
    case KOLO_FUNCTION_RELU: return relu(x);
    case KOLO_FUNCTION_SIGMOID: return sigmoid(x);
    case KOLO_FUNCTION_TANH: return tanhf(x);
    case KOLO_FUNCTION_GELU: return x * normcdff(x);
    case KOLO_FUNCTION_GELU_TANH: return x * sigmoid(twice(x));
    case KOLO_FUNCTION_SILU: return x * sigmoid(x);
    case KOLO_FUNCTION_LEAKY_RELU: return x < 0 ? 0.2f * x : x;
    case KOLO_FUNCTION_ELU: return x < 0 ? expm1f(x) : x;
    default: return x;
    }
}

/* dy/dx from y, where it is a function of y. */
__device__ static float slope_from_y(kolo_function f, float y)
{
    switch (f) {
    case KOLO_FUNCTION_RELU: return y <= 0 ? 0 : 1;
    case KOLO_FUNCTION_SIGMOID: return y * (1 - y);
    case KOLO_FUNCTION_TANH: return 1 - y * y;
    case KOLO_FUNCTION_LEAKY_RELU: return y < 0 ? 0.2f : 1;
    case KOLO_FUNCTION_ELU: return y < 0 ? y + 1 : 1;
    default: return 1;
    }
}

/* dy/dx from x, where it is not: (x s(x))' = s + x s', and σ' = σ (1 − σ). */
__device__ static float slope_from_x(kolo_function f, float x)
{
    if (f == KOLO_FUNCTION_GELU) return normcdff(x) + x * density(x);
    bool silu = f == KOLO_FUNCTION_SILU;
    float s = sigmoid(silu ? x : twice(x));
    return s + x * s * (1 - s) * (silu ? 1 : twice_slope(x));
}

struct Same {
    __device__ float operator()(float x) const
    {
        return x;
    }
};
struct Value {
    kolo_function f;
    __device__ float operator()(float x) const
    {
        return value_at(f, x);
    }
};
struct FromY {
    kolo_function f;
    __device__ float operator()(float dy, float y) const
    {
        return dy * slope_from_y(f, y);
    }
};
struct FromX {
    kolo_function f;
    __device__ float operator()(float dy, float x) const
    {
        return dy * slope_from_x(f, x);
    }
};
struct Sum {
    bool cut;
    __device__ float operator()(float a, float b) const
    {
        return cut ? relu(a + b) : a + b;
    }
};
struct Product {
    __device__ float operator()(float a, float b) const
    {
        return a * b;
    }
};

/* ---- softmax: a warp computes a row ---- */

/* y_i = exp(x_i − m) / Σ_k exp(x_k − m) with m = max x, so that nothing overflows. */
template <typename T> __global__ void softmax(const T *__restrict__ x, T *__restrict__ y, int64_t rows, int width)
{
    int lane = (int)(threadIdx.x % 32);
    for (int64_t row = thread_number() / 32; row < rows; row += thread_count() / 32) {
        const T *from = x + row * width;
        float largest = -INFINITY, sum = 0;
        for (int i = lane; i < width; i += 32) largest = fmaxf(largest, wide(from[i]));
        largest = warp_largest(largest);
        for (int i = lane; i < width; i += 32) sum += expf(wide(from[i]) - largest);
        sum = warp_sum(sum);
        for (int i = lane; i < width; i += 32) narrow(expf(wide(from[i]) - largest) / sum, &y[row * width + i]);
    }
}

/* dx_i = y_i · (dy_i − Σ_k dy_k·y_k): the Jacobian ∂y_k/∂x_i = y_k·([i = k] − y_i). */
template <typename T>
__global__ void softmax_backward(const T *__restrict__ dy, const T *__restrict__ y, T *__restrict__ dx, int64_t rows,
                                 int width)
{
    int lane = (int)(threadIdx.x % 32);
    for (int64_t row = thread_number() / 32; row < rows; row += thread_count() / 32) {
        int64_t at = row * width;
        float dot = 0;
        for (int i = lane; i < width; i += 32) dot += wide(dy[at + i]) * wide(y[at + i]);
        dot = warp_sum(dot);
        for (int i = lane; i < width; i += 32) narrow(wide(y[at + i]) * (wide(dy[at + i]) - dot), &dx[at + i]);
    }
}

/* ---- dropout: four elements share a Philox block ---- */

template <typename T>
__global__ void dropout(kolo_dropout_job job, const kolo_step_parameters *step_parameters, const T *__restrict__ x,
                        T *__restrict__ y, uint8_t *__restrict__ mask, uint32_t threshold, float scale)
{
    uint64_t key = kolo_dropout_key(step_parameters->seed, job.layer, step_parameters->step);
    int64_t fours = (job.elements + 3) / 4; /* of one sample */
    for (int64_t i = thread_number(); i < fours * job.microbatch; i += thread_count()) {
        int64_t sample = i / fours, four = i % fours, at = sample * job.elements + 4 * four;
        kolo_random_block bits = kolo_philox(key, (uint64_t)four, (uint64_t)(job.first + sample));
        for (int k = 0; k < 4 && 4 * four + k < job.elements; k++) {
            bool kept = bits.word[k] >= threshold;
            mask[at + k] = kept;
            narrow(kept ? scale * wide(x[at + k]) : 0.0f, &y[at + k]);
        }
    }
}

template <typename T>
__global__ void dropout_backward(const T *__restrict__ dy, const uint8_t *__restrict__ mask, T *__restrict__ dx,
                                 int64_t count, float scale)
{
    for (int64_t i = thread_number(); i < count; i += thread_count())
        narrow(mask[i] ? scale * wide(dy[i]) : 0.0f, &dx[i]);
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_cast(cudaStream_t stream, kolo_element from, const void *x, kolo_element to, void *y,
                           int64_t count)
{
    return with(from, [&](auto a) {
        return with(to, [&](auto b) { return one<decltype(a), decltype(b)>(stream, x, y, count, Same()); });
    });
}

cudaError_t kolo_cuda_activate(cudaStream_t stream, kolo_element element, kolo_function f, const void *x, void *y,
                               int64_t count, int width)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (f != KOLO_FUNCTION_SOFTMAX) return one<T, T>(stream, x, y, count, Value{f});
        int64_t rows = count / width;
        return launch(stream, blocks_for(rows * 32), THREADS, 0, softmax<T>, (const T *)x, (T *)y, rows, width);
    });
}

cudaError_t kolo_cuda_activate_backward(cudaStream_t stream, kolo_element element, kolo_function f, const void *dy,
                                        const void *y, const void *x, void *dx, int64_t count, int width)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        if (f == KOLO_FUNCTION_SOFTMAX)
            return launch(stream, blocks_for(count / width * 32), THREADS, 0, softmax_backward<T>, (const T *)dy,
                          (const T *)y, (T *)dx, count / width, width);
        if (x) return two<T>(stream, dy, x, dx, count, FromX{f});
        return two<T>(stream, dy, y ? y : dy, dx, count, FromY{f}); /* a linear function gets neither x nor y */
    });
}

cudaError_t kolo_cuda_add(cudaStream_t stream, kolo_element element, const void *x1, const void *x2, void *y,
                          int64_t count, bool relu)
{
    return with(element, [&](auto zero) { return two<decltype(zero)>(stream, x1, x2, y, count, Sum{relu}); });
}

cudaError_t kolo_cuda_add_masked(cudaStream_t stream, kolo_element element, const void *x1, const void *x2,
                                 const void *mask, void *y, int64_t count)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return launch(stream, blocks_for((count + Lanes<T>::count - 1) / Lanes<T>::count), THREADS, 0, add_masked<T>,
                      (const T *)x1, (const T *)x2, (const T *)mask, (T *)y, count);
    });
}

cudaError_t kolo_cuda_multiply(cudaStream_t stream, kolo_element element, const void *x1, const void *x2, void *y,
                               int64_t count)
{
    return with(element, [&](auto zero) { return two<decltype(zero)>(stream, x1, x2, y, count, Product()); });
}

cudaError_t kolo_cuda_dropout(cudaStream_t stream, kolo_element element, const kolo_dropout_job *job,
                              const kolo_step_parameters *step_parameters, const void *x, void *y, uint8_t *mask)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        return launch(stream, blocks_for((job->elements + 3) / 4 * job->microbatch), THREADS, 0, dropout<T>, *job,
                      step_parameters, (const T *)x, (T *)y, mask, kolo_dropout_threshold(job->rate),
                      (float)(1 / (1 - job->rate)));
    });
}

cudaError_t kolo_cuda_dropout_backward(cudaStream_t stream, kolo_element element, const kolo_dropout_job *job,
                                       const void *dy, const uint8_t *mask, void *dx)
{
    return with(element, [&](auto zero) {
        typedef decltype(zero) T;
        int64_t count = job->microbatch * job->elements;
        return launch(stream, blocks_for(count), THREADS, 0, dropout_backward<T>, (const T *)dy, mask, (T *)dx, count,
                      (float)(1 / (1 - job->rate)));
    });
}
