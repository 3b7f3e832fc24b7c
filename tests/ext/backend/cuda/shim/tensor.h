/* What lanes of a warp do together on tensor cores: ldmatrix.x4 and mma.m16n8k16, lane by lane as PTX says. Read
 * cuda_runtime.h here first. */
#ifndef KOLO_SHIM_TENSOR_H
#define KOLO_SHIM_TENSOR_H

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

KOLO_SHIM_UNSEEN static inline void kolo_shim_load_squares(const void *row, unsigned squares[4], bool turned)
{
    if ((uintptr_t)row % 16 != 0) kolo_shim_misaligned(row, 16);
    const uint64_t *rows = kolo_shim_meet(KOLO_SHIM_MATRIX, ~0u, (uintptr_t)row)->values;
    int lane = kolo_shim_lane(), g = lane / 4, t = lane % 4;
    for (int s = 0; s < 4; s++) {
        unsigned pair[2];
        for (int e = 0; e < 2; e++) {
            int i = turned ? 2 * t + e : g, j = turned ? g : 2 * t + e;
            const uint16_t *from = (const uint16_t *)(uintptr_t)rows[8 * s + i] + j;
            kolo_shim_reads(from, sizeof *from);
            pair[e] = *from;
        }
        squares[s] = pair[0] | pair[1] << 16;
    }
}

static inline float kolo_shim_narrow(__nv_bfloat16, uint16_t bits)
{
    return __bfloat162float(__nv_bfloat16{bits});
}
static inline float kolo_shim_narrow(__half, uint16_t bits)
{
    __half value;
    memcpy(&value, &bits, sizeof bits);
    return __half2float(value);
}

/* Those of matrix products that were done here; trace.h. */
extern uint64_t kolo_shim_operations;

/* A lane's registers. */
struct kolo_shim_registers {
    unsigned a[4], b[2];
};

/* All lanes' registers are seen through two sets of places, used in turn: no lane is two products ahead. */
KOLO_SHIM_UNSEEN static inline const kolo_shim_registers *kolo_shim_show(const unsigned a[4], const unsigned b[2])
{
    static kolo_shim_registers all[2][32][32]; /* [turn][warp][lane] */
    static unsigned turns[32][32];
    unsigned warp = threadIdx.x / 32;
    int lane = kolo_shim_lane();
    kolo_shim_registers *of_warp = all[turns[warp][lane]++ % 2][warp];
    memcpy(of_warp[lane].a, a, sizeof of_warp[lane].a);
    memcpy(of_warp[lane].b, b, sizeof of_warp[lane].b);
    kolo_shim_meet(KOLO_SHIM_MATRIX, ~0u, 0);
    return of_warp;
}

/* sum + Σ of the products, as tensor cores add (Fasi et al. 2021, "Numerical behavior of NVIDIA tensor cores"): of all
 * of them what is below half of the last bit of the largest is cut off, and of their sum what is below its own last
 * bit. */
KOLO_SHIM_UNSEEN static inline float kolo_shim_add(float sum, const double *products, int count)
{
    double largest = fabs((double)sum), all = sum, power;
    for (int k = 0; k < count; k++) all += products[k];
    for (int k = 0; k < count; k++) largest = fabs(products[k]) > largest ? fabs(products[k]) : largest;
    uint64_t bits;
    memcpy(&bits, &largest, sizeof bits);
    bits &= (uint64_t)0x7FF << 52;
    memcpy(&power, &bits, sizeof power);
    if (!isfinite(all) || power == 0) return (float)all;
    const double unit = power / (1 << 24);
    int64_t units = (int64_t)(sum / unit);
    for (int k = 0; k < count; k++) units += (int64_t)(products[k] / unit);
    float cut = (float)((double)units * unit);
    return fabs((double)cut) > fabs((double)units * unit) ? nextafterf(cut, 0) : cut;
}

template <typename T>
KOLO_SHIM_UNSEEN static inline void kolo_shim_multiply(float sums[4], const unsigned a[4], const unsigned b[2])
{
    int lane = kolo_shim_lane(), g = lane / 4, t = lane % 4;
    const kolo_shim_registers *of_warp = kolo_shim_show(a, b);
    kolo_shim_operations += 2 * 16 * 8 * 16 / 32;
    auto half = [](unsigned pair, int k) { return kolo_shim_narrow(T(), (uint16_t)(k % 2 ? pair >> 16 : pair)); };
    for (int e = 0; e < 4; e++) {
        int m = g + e / 2 * 8, n = 2 * t + e % 2;
        double products[16];
        for (int k = 0; k < 16; k++) {
            int of_a = m % 8 * 4 + k % 8 / 2, of_b = n * 4 + k % 8 / 2;
            products[k] = (double)half(of_warp[of_a].a[m / 8 + k / 8 * 2], k) * half(of_warp[of_b].b[k / 8], k);
        }
        sums[e] = kolo_shim_add(sums[e], products, 16);
    }
}

/* mma.m16n8k8 of TF32s: of each float the last 13 bits are not seen. */
KOLO_SHIM_UNSEEN static inline void kolo_shim_multiply_tf32(float sums[4], const unsigned a[4], const unsigned b[2])
{
    int lane = kolo_shim_lane(), g = lane / 4, t = lane % 4;
    const kolo_shim_registers *of_warp = kolo_shim_show(a, b);
    kolo_shim_operations += 2 * 16 * 8 * 8 / 32;
    auto seen = [](unsigned bits) {
        float value;
        bits &= ~0x1FFFu;
        memcpy(&value, &bits, sizeof value);
        return value;
    };
    for (int e = 0; e < 4; e++) {
        int m = g + e / 2 * 8, n = 2 * t + e % 2;
        double products[8];
        for (int k = 0; k < 8; k++)
            products[k] =
                (double)seen(of_warp[m % 8 * 4 + k % 4].a[m / 8 + k / 4 * 2]) * seen(of_warp[n * 4 + k % 4].b[k / 4]);
        sums[e] = kolo_shim_add(sums[e], products, 8);
    }
}

#endif
