/* Updates of all arrays of weights at once, as backend/host_update.c does them on the host, with the rules of
 * optimizers/rules.h.
 *
 * Arrays are cut into chunks, which a block processes one at a time. Runs of chunks of one array are parts: a block
 * forms a part's sums, and a norm is the sum over its parts, in a fixed order. The gradient becomes the clipped mean in
 * registers, wherever it is read. So an update without norms is one kernel, and each kind of norm is one more. */
#include "backend/cuda/device.cuh"
#include "optimizers/rules.h"

namespace kolo
{

static const int FOURS = KOLO_CHUNK / 4 / THREADS; /* groups of four elements that a thread has in a chunk */
static const int RESIDENT = 8 * 132;               /* blocks that run at once on a large device */

/* The values that all elements of an array share. */
struct Span {
    kolo_span is;
    kolo_rule numbers;
    float scale, factor, most; /* for kolo_clipped_gradient() */
    float shrink, lamb_shrink; /* for kolo_shrunk(): decay of the weights */
    const float *left; /* left[i]: the gradient of element i of the flat arrays */
    const kolo_alias *alias;
    bool even, wide; /* it begins at a multiple of four elements; four neighbours are loaded at once */

    __device__ float gradient(float g, float w) const
    {
        return kolo_clipped_gradient(g, w, scale, is.l2, factor, most);
    }
};

/* ---- sums ---- */

/* The sum over parts first … first+count-1, on each thread. */
__device__ static double sum_of_parts(const double *sums, int first, int count)
{
    double sum = 0;
    for (int part = (int)threadIdx.x; part < count; part += THREADS) sum += sums[2 * (first + part)];
    return block_sum(sum);
}

__device__ static double sum_of_span(const kolo_cuda_update &u, const double *sums, int span)
{
    int first = u.first_part[span];
    return sum_of_parts(sums, first, u.first_part[span + 1] - first);
}

/* Whether all elements of the gradient are finite. Without loss scaling they are not checked. */
__device__ static bool is_finite(const kolo_cuda_update &u)
{
    return !u.scaling || sum_of_parts(u.of_gradient + 1, 0, u.part_count) == 0;
}

__device__ static void keep_sums(double *to, const double sums[2])
{
    double first = block_sum(sums[0]), second = block_sum(sums[1]);
    if (threadIdx.x != 0) return;
    to[0] = first;
    to[1] = second;
}

__device__ static float clip_factor(const kolo_cuda_update &u, int span)
{
    if (u.clip_norm > 0) return (float)kolo_clip_factor(sum_of_span(u, u.of_gradient, span), u.clip_norm);
    if (!(u.global_clip_norm > 0)) return 1;
    return (float)kolo_clip_factor(sum_of_parts(u.of_gradient, 0, u.part_count), u.global_clip_norm);
}

__device__ static Span begin_span(const kolo_cuda_update &u, int span)
{
    const double *rule = u.step_parameters->rule;
    Span s;
    s.is = u.spans[span];
    s.numbers = kolo_rule_floats(rule);
    s.scale = (float)u.step_parameters->scale;
    s.factor = clip_factor(u, span);
    s.most = u.clip_value > 0 ? (float)u.clip_value : INFINITY;
    s.shrink = (float)(u.decay * rule[KOLO_RULE_LEARNING_RATE]);
    s.lamb_shrink = kolo_rule_lamb_decay(rule, s.is.vector);
    s.alias = u.aliases ? &u.aliases[span] : nullptr;
    s.even = s.is.offset % 4 == 0;
    bool left = u.left && s.alias->gradient >= 0;
    s.left = left ? (const float *)(u.left + s.alias->gradient) - s.is.offset : u.gradient;
    s.wide = u.wide && (s.even || !left);
    return s;
}

/* Completes the numbers of a rule that looks at whole arrays. first: this block has the array's first chunk, and stores
 * the array's own number. */
template <kolo_rule_kind RULE>
__device__ static void finish_numbers(const kolo_cuda_update &u, int span, bool first, Span *s)
{
    const double *rule = u.step_parameters->rule;
    double sums[2] = {0, sum_of_span(u, u.of_rule + 1, span)};
    if (RULE == KOLO_RULE_NOVOGRAD) {
        float number = kolo_rule_novograd_number(rule, u.numbers_before[span], sums[1]);
        s->numbers = kolo_rule_novograd_array(rule, number, 1);
        if (first && threadIdx.x == 0) u.numbers[span] = number;
        return;
    }
    sums[0] = sum_of_span(u, u.of_rule, span);
    s->numbers = RULE == KOLO_RULE_LARS ? kolo_rule_lars_array(rule, s->is.vector, sums)
                                        : kolo_rule_lamb_array(rule, s->is.vector, sums);
}

/* ---- going through a chunk ---- */

/* N neighbouring elements of the flat arrays. */
template <int SLOTS, int N> struct Elements {
    float w[N], g[N], slot[SLOTS > 0 ? SLOTS : 1][N];

    __device__ void load_slots(const kolo_cuda_update &u, int64_t at)
    {
        for (int s = 0; s < SLOTS; s++) load<float, N>(u.slots[s] + at, slot[s]);
    }
    __device__ void store_slots(const kolo_cuda_update &u, int64_t at) const
    {
        for (int s = 0; s < SLOTS; s++) store<float, N>(u.slots[s] + at, slot[s]);
    }
};

/* Calls work.read(elements, at) and then work.do_it(elements, at): for four neighbours at a time where the arrays are
 * aligned, and for single elements at the chunk's ends. A thread starts to load all its fours before it works on the
 * first. */
template <typename Work> __device__ static void go_through(const kolo_chunk &chunk, bool wide, Work &work)
{
    int64_t end = chunk.first + chunk.count, first = (chunk.first + 3) / 4 * 4, last = end / 4 * 4;
    if (!wide || first > last) first = last = end;
    typename Work::Four fours[FOURS];
#pragma unroll
    for (int n = 0; n < FOURS; n++) {
        int64_t at = first + 4 * (n * THREADS + (int)threadIdx.x);
        if (at < last) work.read(fours[n], at);
    }
#pragma unroll
    for (int n = 0; n < FOURS; n++) {
        int64_t at = first + 4 * (n * THREADS + (int)threadIdx.x);
        if (at < last) work.do_it(fours[n], at);
    }
    int before = (int)(first - chunk.first), ends = before + (int)(end - last);
    for (int k = (int)threadIdx.x; k < ends; k += THREADS) {
        int64_t at = k < before ? chunk.first + k : last + (k - before);
        typename Work::One one;
        work.read(one, at);
        work.do_it(one, at);
    }
}

/* sums[0]: Σ x² of the mean gradient. sums[1]: 0, or NaN if an element of the summed gradient is infinite or NaN. */
struct MeasureGradient {
    typedef Elements<0, 4> Four;
    typedef Elements<0, 1> One;
    const kolo_cuda_update &u;
    float scale, l2;
    double sums[2];

    template <int N> __device__ void read(Elements<0, N> &e, int64_t at) const
    {
        load<float, N>(u.gradient + at, e.g);
        for (int k = 0; k < N; k++) e.w[k] = 0;
        if (l2 != 0) load<float, N>(u.weights + at, e.w);
    }
    template <int N> __device__ void do_it(Elements<0, N> &e, int64_t)
    {
        for (int k = 0; k < N; k++) {
            double x = (double)kolo_mean_gradient(e.g[k], e.w[k], scale, l2);
            sums[0] += x * x;
            sums[1] += (double)(e.g[k] * 0);
        }
    }
};

/* The sums that a rule needs first. LAMB's step is computed here, too, and overwrites the gradient. */
template <kolo_rule_kind RULE> struct MeasureRule {
    static const int SLOTS = RULE == KOLO_RULE_LAMB ? 2 : 0;
    typedef Elements<SLOTS, 4> Four;
    typedef Elements<SLOTS, 1> One;
    const kolo_cuda_update &u;
    Span s;
    double sums[2];

    template <int N> __device__ void read(Elements<SLOTS, N> &e, int64_t at) const
    {
        load<float, N>(u.weights + at, e.w);
        load<float, N>(u.gradient + at, e.g);
        e.load_slots(u, at);
    }
    template <int N> __device__ void do_it(Elements<SLOTS, N> &e, int64_t at)
    {
        for (int k = 0; k < N; k++) {
            e.g[k] = s.gradient(e.g[k], e.w[k]);
            if (s.shrink > 0) e.w[k] = kolo_shrunk(e.w[k], s.shrink);
            if (RULE == KOLO_RULE_LAMB) {
                if (s.lamb_shrink > 0) e.w[k] = kolo_shrunk(e.w[k], s.lamb_shrink);
                e.g[k] = kolo_rule_lamb_step(e.g[k], &e.slot[0][k], &e.slot[SLOTS - 1][k], s.numbers);
            }
            sums[0] += (double)e.w[k] * (double)e.w[k];
            sums[1] += (double)e.g[k] * (double)e.g[k];
        }
        if (RULE != KOLO_RULE_LAMB) return;
        if (s.shrink > 0 || s.lamb_shrink > 0) store<float, N>(u.weights + at, e.w);
        store<float, N>(u.gradient + at, e.g);
        e.store_slots(u, at);
    }
};

#define KOLO_SLOTS_OF(name, slots, function) slots,
static constexpr int kolo_rule_slots_of[] = {KOLO_RULES(KOLO_SLOTS_OF)};
#undef KOLO_SLOTS_OF

template <kolo_rule_kind RULE> struct Slots {
    static const int count = RULE == KOLO_RULE_LAMB ? 0 : kolo_rule_slots_of[RULE]; /* MeasureRule has updated them */
};

/* Writes N neighbours to the packed copies of the weights. */
template <int N> __device__ static void pack(const kolo_cuda_update &u, const Span &s, const float w[N], int64_t at)
{
    for (int c = 0; u.packed && s.alias && c < s.alias->copy_count; c++) {
        const kolo_copy &copy = s.alias->copies[c];
        int64_t first = at - s.is.offset;
        if (!copy.transposed && (s.even || N == 1)) {
            put<N>(copy.element, u.packed + copy.at, first, w);
            continue;
        }
        for (int k = 0; k < N; k++) {
            int i = (int)first + k, row = i / s.alias->columns;
            int there = copy.transposed ? (i - row * s.alias->columns) * s.alias->rows + row : i;
            put<1>(copy.element, u.packed + copy.at, there, w + k);
        }
    }
}

template <kolo_rule_kind RULE> struct Update {
    static const int SLOTS = Slots<RULE>::count;
    typedef Elements<SLOTS, 4> Four;
    typedef Elements<SLOTS, 1> One;
    const kolo_cuda_update &u;
    Span s;

    template <int N> __device__ void read(Elements<SLOTS, N> &e, int64_t at) const
    {
        load<float, N>(u.weights + at, e.w);
        load<float, N>(s.left + at, e.g);
        e.load_slots(u, at);
    }
    template <int N> __device__ void do_it(Elements<SLOTS, N> &e, int64_t at) const
    {
        bool ready = RULE == KOLO_RULE_LAMB; /* MeasureRule has computed the step and decayed the weights */
        for (int k = 0; k < N; k++) {
            float g = ready ? e.g[k] : s.gradient(e.g[k], e.w[k]);
            if (!ready && s.shrink > 0) e.w[k] = kolo_shrunk(e.w[k], s.shrink);
            kolo_rule_step(RULE, s.numbers, e.w, g, e.slot[0], e.slot[SLOTS > 1 ? 1 : 0], e.slot[SLOTS > 2 ? 2 : 0], k);
        }
        store<float, N>(u.weights + at, e.w);
        e.store_slots(u, at);
        pack<N>(u, s, e.w, at);
    }
};

/* Updates running means. */
struct Move {
    typedef Elements<0, 4> Four;
    typedef Elements<0, 1> One;
    const kolo_cuda_update &u;
    const float *left;
    double momentum, share;

    template <int N> __device__ void read(Elements<0, N> &e, int64_t at) const
    {
        load<float, N>(u.weights + at, e.w);
        load<float, N>(left + at, e.g);
    }
    template <int N> __device__ void do_it(Elements<0, N> &e, int64_t at) const
    {
        for (int k = 0; k < N; k++) e.w[k] = kolo_moved(e.w[k], e.g[k], momentum, share);
        store<float, N>(u.weights + at, e.w);
    }
};

/* ---- kernels ---- */

/* A block measures one part. */
__global__ void __launch_bounds__(THREADS) measure_gradient(kolo_cuda_update u)
{
    kolo_part part = u.parts[blockIdx.x];
    kolo_span span = u.spans[part.span];
    MeasureGradient measure = {u, (float)u.step_parameters->scale, span.l2, {0, 0}};
    for (int chunk = part.first; chunk < part.first + part.count && !(span.momentum > 0); chunk++)
        go_through(u.chunks[chunk], u.wide, measure);
    keep_sums(u.of_gradient + 2 * blockIdx.x, measure.sums);
}

__global__ void __launch_bounds__(THREADS) measure_penalty(kolo_cuda_update u)
{
    kolo_part part = u.parts[blockIdx.x];
    double lambda = u.spans[part.span].l2 / 2, sums[2] = {0, 0};
    for (int chunk = part.first; chunk < part.first + part.count && lambda > 0; chunk++) {
        kolo_chunk at = u.chunks[chunk];
        for (int i = (int)threadIdx.x; i < at.count; i += THREADS)
            sums[0] += lambda * (double)u.weights[at.first + i] * (double)u.weights[at.first + i];
    }
    keep_sums(u.of_rule + 2 * blockIdx.x, sums);
}

__global__ void __launch_bounds__(THREADS) add_penalties(kolo_cuda_update u, double *to)
{
    double sum = sum_of_parts(u.of_rule, 0, u.part_count);
    if (threadIdx.x == 0) *to = sum;
}

template <kolo_rule_kind RULE> __global__ void __launch_bounds__(THREADS) measure_rule(kolo_cuda_update u)
{
    kolo_part part = u.parts[blockIdx.x];
    if (!is_finite(u)) return;
    MeasureRule<RULE> measure = {u, begin_span(u, part.span), {0, 0}};
    for (int chunk = part.first; chunk < part.first + part.count && !(measure.s.is.momentum > 0); chunk++)
        go_through(u.chunks[chunk], u.wide, measure);
    keep_sums(u.of_rule + 2 * blockIdx.x, measure.sums);
    bool first = u.first_part[part.span] == (int)blockIdx.x && threadIdx.x == 0;
    if (RULE == KOLO_RULE_NOVOGRAD && first) u.numbers_before[part.span] = u.numbers[part.span];
}

/* Counts the update and adapts the loss scale. No block of the update reads these numbers: it reads the step
 * parameters, which were filled in before. */
__device__ static void count_try(kolo_scaling *scaling, bool finite)
{
    scaling->tried++;
    scaling->updates += finite;
    kolo_adapt_scale(finite, &scaling->loss_scale, &scaling->good);
}

/* A block takes a run of chunks. At each new array it adds up the sums of the array's parts. */
template <kolo_rule_kind RULE> __global__ void __launch_bounds__(THREADS) update(kolo_cuda_update u)
{
    bool measured = RULE == KOLO_RULE_LARS || RULE == KOLO_RULE_LAMB || RULE == KOLO_RULE_NOVOGRAD;
    bool finite = is_finite(u);
    if (u.scaling && blockIdx.x == 0 && threadIdx.x == 0) count_try(u.scaling, finite);
    if (!finite) return;
    int64_t count = u.chunk_count;
    int now = -1, end = (int)(count * (blockIdx.x + 1) / gridDim.x);
    Update<RULE> work = {u, Span()};
    for (int number = (int)(count * blockIdx.x / gridDim.x); number < end; number++) {
        kolo_chunk chunk = u.chunks[number];
        bool mean = u.spans[chunk.span].momentum > 0;
        if (chunk.span != now) work.s = begin_span(u, chunk.span);
        bool first = chunk.first == u.spans[chunk.span].offset;
        if (chunk.span != now && measured && !mean) finish_numbers<RULE>(u, chunk.span, first, &work.s);
        now = chunk.span;
        Move move = {u, work.s.left, work.s.is.momentum, u.step_parameters->per_sample};
        if (mean) go_through(chunk, work.s.wide, move);
        else go_through(chunk, work.s.wide, work);
    }
}

/* ---- launching ---- */

typedef void update_kernel(kolo_cuda_update u);

#define KOLO_UPDATE_OF(name, slots, function) update<KOLO_RULE_##name>,
static update_kernel *const updates[KOLO_RULE_KINDS] = {KOLO_RULES(KOLO_UPDATE_OF)};
#undef KOLO_UPDATE_OF

static update_kernel *measure_of(int rule)
{
    if (rule == KOLO_RULE_LARS) return measure_rule<KOLO_RULE_LARS>;
    if (rule == KOLO_RULE_LAMB) return measure_rule<KOLO_RULE_LAMB>;
    return rule == KOLO_RULE_NOVOGRAD ? measure_rule<KOLO_RULE_NOVOGRAD> : nullptr;
}

static bool are_wide(const kolo_cuda_update *u)
{
    uintptr_t all = (uintptr_t)u->weights | (uintptr_t)u->gradient;
    for (int s = 0; s < 3; s++) all |= (uintptr_t)u->slots[s];
    return all % 16 == 0;
}

} // namespace kolo

using namespace kolo;

bool kolo_cuda_measures_for(int rule)
{
    return measure_of(rule) != nullptr;
}

bool kolo_cuda_update_measures(const kolo_cuda_update *u)
{
    return u->scaling || u->clip_norm > 0 || u->global_clip_norm > 0 || measure_of(u->rule);
}

cudaError_t kolo_cuda_update_all(cudaStream_t stream, const kolo_cuda_update *job)
{
    kolo_cuda_update u = *job;
    u.wide = are_wide(job);
    dim3 parts((unsigned)u.part_count), blocks((unsigned)(u.chunk_count < RESIDENT ? u.chunk_count : RESIDENT));
    cudaError_t error = cudaSuccess;
    if (u.chunk_count == 0) return u.scaling ? launch(stream, dim3(1), THREADS, 0, updates[u.rule], u) : error;
    bool of_gradient = u.scaling || u.clip_norm > 0 || u.global_clip_norm > 0;
    if (of_gradient) error = launch(stream, parts, THREADS, 0, measure_gradient, u);
    update_kernel *measure = measure_of(u.rule);
    if (error == cudaSuccess && measure) error = launch(stream, parts, THREADS, 0, measure, u);
    if (error == cudaSuccess) error = launch(stream, blocks, THREADS, 0, updates[u.rule], u);
    return error;
}

cudaError_t kolo_cuda_penalty_of_all(cudaStream_t stream, const kolo_cuda_update *update, double *to)
{
    cudaError_t error = launch(stream, dim3((unsigned)update->part_count), THREADS, 0, measure_penalty, *update);
    if (error != cudaSuccess) return error;
    return launch(stream, dim3(1), THREADS, 0, add_penalties, *update, to);
}
