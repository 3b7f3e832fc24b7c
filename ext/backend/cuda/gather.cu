/* Gathers a microbatch's samples from a data set in the device's memory, as data/data.c's kolo_data_gather() does on
 * the host. */
#include "backend/cuda/device.cuh"

namespace kolo
{

/* A sample is cut into pieces, one per warp: of its features (which may be the targets, too), of other targets, and one
 * for the labels and the weight. */
static const int PIECE = 32 * 4 * 4; /* elements: a lane copies four times four neighbours */

struct Pieces {
    int features, targets; /* pieces of a sample */
    int all;
    bool wide; /* every row is aligned such that four neighbours can be copied at once */
};

struct Gather {
    kolo_sources from;
    kolo_gathered to;
    const kolo_step_parameters *step_parameters;
    int64_t first;
    int microbatch;
    Pieces pieces;
};

/* Loads four neighbours and converts them to features. */
template <typename T> __device__ static inline void load_four(const T *from, float scale, float values[4])
{
    Run<T, 4> run = *checked<Run<T, 4>>(from);
    for (int k = 0; k < 4; k++) values[k] = (float)run.at[k] * scale;
}

template <typename T>
__device__ static void copy_four(const T *from, float scale, float *to, float *too, int64_t begin, int64_t end)
{
    int lane = (int)(threadIdx.x % 32);
    float values[PIECE / 128][4];
#pragma unroll
    for (int n = 0; n < PIECE / 128; n++) {
        int64_t at = begin + 128 * n + 4 * lane;
        if (at < end) load_four(from + at, scale, values[n]);
    }
#pragma unroll
    for (int n = 0; n < PIECE / 128; n++) {
        int64_t at = begin + 128 * n + 4 * lane;
        if (at < end && to) store<float, 4>(to + at, values[n]);
        if (at < end && too) store<float, 4>(too + at, values[n]);
    }
}

/* Copies elements begin … end-1 of a row to one or two arrays. from NULL: writes zeros. */
template <typename T>
__device__ static void copy_piece(const T *from, float scale, float *to, float *too, int64_t begin, int64_t end,
                                  bool wide)
{
    if (from && wide) {
        copy_four(from, scale, to, too, begin, end);
        return;
    }
    for (int64_t at = begin + threadIdx.x % 32; at < end; at += 32) {
        float value = from ? (float)from[at] * scale : 0;
        if (to) to[at] = value;
        if (too) too[at] = value;
    }
}

/* number: the sample's number in the data set; -1: padding. */
__device__ static void gather_features(const Gather &g, int sample, int64_t number, int piece)
{
    int64_t elements = g.from.elements, begin = (int64_t)piece * PIECE, end = begin + PIECE;
    float *to = g.to.features ? g.to.features + sample * elements : nullptr;
    float *too = g.from.autoencoder && g.to.targets ? g.to.targets + sample * elements : nullptr;
    if (end > elements) end = elements;
    if (number < 0) copy_piece((const float *)nullptr, 1, to, too, begin, end, false);
    else if (g.from.bytes)
        copy_piece(g.from.bytes + number * elements, g.from.scale, to, too, begin, end, g.pieces.wide);
    else if (g.from.floats) copy_piece(g.from.floats + number * elements, 1, to, too, begin, end, g.pieces.wide);
    else copy_piece(g.from.tokens + number * elements, 1, to, too, begin, end, g.pieces.wide);
}

/* A target made from the labels: one-hot, or the label itself where each label has one output. */
__device__ static float target_of_labels(const Gather &g, int64_t number, int at)
{
    int width = (int)(g.to.outputs / g.from.label_count), label = at / width;
    if (label >= g.from.label_count) return 0;
    int32_t value = g.from.labels[number * g.from.label_count + label];
    return width == 1 ? (float)value : at % width == value;
}

__device__ static void gather_targets(const Gather &g, int sample, int64_t number, int piece)
{
    int64_t outputs = g.to.outputs, begin = (int64_t)piece * PIECE, end = begin + PIECE;
    float *to = g.to.targets + sample * outputs;
    if (end > outputs) end = outputs;
    for (int64_t at = begin + threadIdx.x % 32; at < end; at += 32) {
        float value = 0;
        if (number >= 0 && g.from.targets) value = g.from.targets[number * outputs + at];
        else if (number >= 0 && g.from.labels) value = target_of_labels(g, number, (int)at);
        to[at] = value;
    }
}

__device__ static void gather_labels(const Gather &g, int sample, int64_t number)
{
    int64_t count = g.from.label_count;
    int lane = (int)(threadIdx.x % 32);
    for (int64_t k = lane; g.to.labels && k < count; k += 32) {
        int32_t none = number < 0 ? 0 : -1;
        g.to.labels[sample * count + k] = number >= 0 && g.from.labels ? g.from.labels[number * count + k] : none;
    }
    if (g.to.weights && lane == 0) g.to.weights[sample] = number < 0 ? 0 : g.from.weights ? g.from.weights[number] : 1;
}

__global__ void gather(Gather g)
{
    int samples = samples_of(g.step_parameters, g.first, g.microbatch);
    int64_t first = g.step_parameters->first + g.first, units = (int64_t)g.microbatch * g.pieces.all;
    for (int64_t unit = thread_number() / 32; unit < units; unit += thread_count() / 32) {
        int sample = (int)(unit / g.pieces.all), piece = (int)(unit % g.pieces.all);
        int64_t number = -1;
        if (sample < samples) number = g.from.order ? g.from.order[first + sample] : first + sample;
        if (piece < g.pieces.features) gather_features(g, sample, number, piece);
        else if (piece < g.pieces.features + g.pieces.targets)
            gather_targets(g, sample, number, piece - g.pieces.features);
        else gather_labels(g, sample, number);
    }
}

static bool fits(const void *array, size_t bytes)
{
    return (uintptr_t)array % bytes == 0;
}

static Pieces cut(const kolo_sources *from, const kolo_gathered *to)
{
    Pieces pieces = {};
    bool twice = from->autoencoder && to->targets;
    if (to->features || twice) pieces.features = (int)((from->elements + PIECE - 1) / PIECE);
    if (to->targets && !twice) pieces.targets = (int)((to->outputs + PIECE - 1) / PIECE);
    pieces.all = pieces.features + pieces.targets + (to->labels || to->weights);
    pieces.wide = from->elements % 4 == 0 && fits(from->bytes, 4) && fits(from->floats, 16) && fits(from->tokens, 16) &&
                  fits(to->features, 16) && (!twice || fits(to->targets, 16));
    return pieces;
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_gather(cudaStream_t stream, const kolo_sources *from, const kolo_step_parameters *step_parameters,
                             int64_t first, int microbatch, const kolo_gathered *to)
{
    Gather g = {*from, *to, step_parameters, first, microbatch, cut(from, to)};
    if (g.pieces.all == 0 || microbatch == 0) return cudaSuccess;
    return launch(stream, blocks_for((int64_t)microbatch * g.pieces.all * 32), THREADS, 0, gather, g);
}
