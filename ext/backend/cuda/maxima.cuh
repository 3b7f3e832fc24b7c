/* Maxima and their places, for max_pool.cu and conv_pooled.cu. */
#ifndef KOLO_CUDA_MAXIMA_CUH
#define KOLO_CUDA_MAXIMA_CUH

#include "backend/cuda/device.cuh"

namespace kolo {

/* A maximum and its place, of equals the first. A NaN is larger than any number; of several, the last counts. */
struct Largest {
    float value;
    int place; /* < 0: none yet */
    __device__ void begin() { value = 0, place = -1; }
    __device__ void take(float other, int at)
    {
        if (place < 0 || other > value || other != other) value = other, place = at;
    }
    __device__ void meet(const Largest &other)
    {
        if (other.place < 0) return;
        bool none = value != value, other_none = other.value != other.value, later = other.place > place;
        bool better = none || other_none ? other_none && (!none || later)
                                         : other.value > value || (other.value == value && !later);
        if (place < 0 || better) *this = other;
    }
};

static const int NOWHERE = -1; /* stored as the byte 255, which is no place in a window whose places are bytes */

} // namespace kolo

#endif
