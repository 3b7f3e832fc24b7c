/* exp and its relatives for sixteen floats at once (core/lanes.h), without branches or tables.
 *
 * Errors in units of the last place, over floats of every size (tests/ext/core/lanes_test.c): exp 1.25, sigmoid 2.5,
 * tanh 1.5; the normal distribution and its density 6 up to |x| = 2, and about x²/2 in the tails. NaN gives NaN.
 * Results below 2^-126 may be zero, because threads that compute flush subnormal numbers.
 */
#ifndef KOLO_CORE_LANES_MATH_H
#define KOLO_CORE_LANES_MATH_H

#include "core/lanes.h"

KOLO_INLINE kolo_floats kolo_floats_of(float value)
{
    return value - (kolo_floats){0};
}

/* NaN stays NaN, because it is neither less nor greater than the limits. */
KOLO_INLINE kolo_floats kolo_floats_clamp(kolo_floats x, float low, float high)
{
    x = kolo_select_floats(x < low, kolo_floats_of(low), x);
    return kolo_select_floats(x > high, kolo_floats_of(high), x);
}

KOLO_INLINE kolo_floats kolo_floats_abs(kolo_floats x)
{
    return (kolo_floats)((kolo_ints)x & 0x7FFFFFFF);
}

/* 2^n for n in -126 … 127, by setting the exponent's bits. */
KOLO_INLINE kolo_floats kolo_floats_power_of_two(kolo_ints n)
{
    return (kolo_floats)((n + 127) << 23);
}

/* exp(x) = 2^n · exp(r) with n = round(x / ln 2) and r = x − n·ln 2. ln 2 is the sum of two parts, the first with few
 * bits, so that the difference is exact (Cody and Waite 1980). exp(r) is a polynomial. 2^n is the product of two
 * powers, because it may be too large or too small for a float. */
KOLO_INLINE kolo_floats kolo_floats_exp(kolo_floats x)
{
    const float magic = 0x1.8p23f; /* added to a small float, it leaves the nearest integer in the last bits */
    x = kolo_floats_clamp(x, -104, 89);
    kolo_floats shifted = x * 1.44269504f + magic, n = shifted - magic;
    kolo_ints power = (kolo_ints)shifted - (kolo_ints)kolo_floats_of(magic);
    kolo_floats r = x - n * 0.693359375f - n * -2.12194440e-4f;
    kolo_floats p =
        ((((1.3933643522e-3f * r + 8.3631755655e-3f) * r + 4.1666464976e-2f) * r + 1.66665770e-1f) * r) + 0.5f;
    kolo_ints half = power >> 1;
    return (p * r * r + r + 1) * kolo_floats_power_of_two(half) * kolo_floats_power_of_two(power - half);
}

KOLO_INLINE kolo_floats kolo_floats_sigmoid(kolo_floats x)
{
    return 1 / (1 + kolo_floats_exp(-x));
}

/* An odd polynomial near 0 (Moshier's Cephes), elsewhere 1 − 2 / (exp(2|x|) + 1) with the sign of x. */
KOLO_INLINE kolo_floats kolo_floats_tanh(kolo_floats x)
{
    kolo_floats z = kolo_floats_abs(x), s = x * x;
    kolo_floats p = ((-5.70498872745e-3f * s + 2.06390887954e-2f) * s - 5.37397155531e-2f) * s + 1.33314422036e-1f;
    p = p * s - 3.33332819422e-1f;
    kolo_floats far = 1 - 2 / (kolo_floats_exp(2 * z) + 1);
    far = (kolo_floats)((kolo_ints)far | ((kolo_ints)x & (kolo_ints)kolo_floats_of(-0.0f)));
    return kolo_select_floats(z < 0.625f, x + x * (s * p), far);
}

/* The normal distribution Φ(x) = (1 + erf(x / √2)) / 2, and its density exp(−x²/2) / √(2π) (density may be NULL).
 * Φ(−z) = exp(−z²/2) · f(q) / (z + 5/2) for z ≥ 0 with q = (z − 5/2) / (z + 5/2) in [−1, 1) and f a polynomial. This
 * form (Schonfelder 1978, "Chebyshev expansions for the error function") is accurate in both tails. */
KOLO_INLINE kolo_floats kolo_floats_normal(kolo_floats x, kolo_floats *density)
{
    static const float f[] = {3.936181091e-5f, 2.794290154e-5f, -2.392800941e-4f, -3.618795972e-4f,
                              7.459734134e-4f, 2.554184891e-3f, -1.621610576e-3f, -1.639329375e-2f,
                              9.238832509e-3f, 1.319875292e-1f, -4.336921337e-1f, 7.066566538e-1f};
    kolo_floats z = kolo_floats_clamp(kolo_floats_abs(x), 0, 20), bell = kolo_floats_exp(-0.5f * z * z);
    kolo_floats inverse = 1 / (z + 2.5f), q = (z - 2.5f) * inverse, sum = kolo_floats_of(f[0]);
#pragma GCC unroll 12
    for (int i = 1; i < 12; i++) sum = sum * q + f[i];
    kolo_floats tail = bell * sum * inverse;
    if (density) *density = bell * 0.398942280f;
    return kolo_select_floats(x < 0, tail, 1 - tail);
}

#endif
