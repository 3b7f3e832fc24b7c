/* The loss and the metrics of one row on a device (losses/rows.h has the formulas), computed by a team of threads: by
 * neighbouring lanes of a warp, as many as a short row needs, or by a block. Exponentials of a softmax are float where
 * the host's are (KOLO_LONG_ROW), and sums over a row are double. Included by loss.cu. */
#ifndef KOLO_CUDA_LOSS_ROWS_CUH
#define KOLO_CUDA_LOSS_ROWS_CUH

#include <limits.h>

#include "backend/cuda/device.cuh"
#include "losses/rows.h"

namespace kolo {

/* ---- teams ---- */

/* The largest number of a row, and the first place where it is. at is INT_MAX if there are only NaNs. */
struct Best {
    float value;
    int at;
};
__device__ static inline Best better(Best a, Best b)
{
    return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}
__device__ static inline Best shown(Best own, int by)
{
    return {__shfl_xor_sync(0xFFFFFFFFu, own.value, by), __shfl_xor_sync(0xFFFFFFFFu, own.at, by)};
}

/* Neighbouring lanes, a power of two of them. The teams of a warp run in step. */
struct WarpTeam {
    typedef float Z; /* the type of a row's outputs where the team reads them */
    int rank, size;
    __device__ double sum(double value) const
    {
        for (int by = size / 2; by > 0; by /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, by);
        return value;
    }
    __device__ Best best(Best own) const
    {
        for (int by = size / 2; by > 0; by /= 2) own = better(own, shown(own, by));
        return own;
    }
};

template <typename Z_> struct BlockTeam {
    typedef Z_ Z;
    int rank, size;
    __device__ double sum(double value) const
    {
        return block_sum(value);
    }
    __device__ Best best(Best own) const
    {
        __shared__ Best of_warps[32];
        for (int by = 16; by > 0; by /= 2) own = better(own, shown(own, by));
        __syncthreads(); /* threads may still read the previous values */
        if (rank % 32 == 0) of_warps[rank / 32] = own;
        __syncthreads();
        own = of_warps[rank % 32 < size / 32 ? rank % 32 : 0];
        for (int by = 16; by > 0; by /= 2) own = better(own, shown(own, by));
        return own;
    }
};

/* ---- a row ---- */

/* A row that a team computes. Every thread of the team has the same values, except for team.rank. */
template <typename Team> struct Row {
    Team team;
    const typename Team::Z *z;
    const float *t; /* NULL where there are labels */
    void *dz; /* NULL: no gradient is wanted */
    kolo_element slopes; /* the type of its elements */
    int n, label;
    float factor, scale; /* the gradient is multiplied by both */
    bool counts; /* false: padding, which is computed, too, but adds nothing to the results */
    Best largest;
    int first; /* the place of the largest output */
    int truth; /* the place of the largest target, or the label */
    double sum; /* Σ exp(z − largest) */
};

/* Calls f(i, z, t) for the team's elements, N neighbours at once. With SLOPES the results of f, scaled, become the
 * gradient. */
template <int N, bool SLOPES, typename Team, typename F> __device__ static void each(const Row<Team> &row, F f)
{
    for (int i = row.team.rank * N; i < row.n; i += row.team.size * N) {
        float z[N], t[N] = {0}, slope[N];
        load<typename Team::Z, N>(row.z + i, z);
        if (row.t) load<float, N>(row.t + i, t);
        for (int k = 0; k < N; k++) slope[k] = f(i + k, z[k], t[k]) * row.factor * row.scale;
        if (SLOPES) put<N>(row.slopes, row.dz, i, slope);
    }
}

/* The largest z, or t, and its place: of equals the first. NaNs are skipped; where there are only NaNs, place_of() is
 * the last place. */
template <int N, typename Team> __device__ static Best find_largest(const Row<Team> &row, bool of_targets)
{
    Best own = {-INFINITY, INT_MAX};
    each<N, false>(row, [&](int i, float z, float t) {
        own = better(own, Best{of_targets ? t : z, i});
        return 0.0f;
    });
    return row.team.best(own);
}
__device__ static inline int place_of(Best best, int n)
{
    return best.at < n ? best.at : n - 1;
}

template <typename Team> __device__ static inline double exponential(const Row<Team> &row, float z)
{
    if (row.n >= KOLO_LONG_ROW) return (double)expf(z - row.largest.value);
    return exp((double)z - (double)row.largest.value);
}

template <int N, typename Team> __device__ static double sum_exponentials(const Row<Team> &row)
{
    double sum = 0;
    for (int i = row.team.rank * N; i < row.n; i += row.team.size * N) {
        float z[N], some = 0;
        load<typename Team::Z, N>(row.z + i, z);
        for (int k = 0; k < N; k++)
            if (row.n < KOLO_LONG_ROW) sum += exponential(row, z[k]);
            else some += expf(z[k] - row.largest.value); /* conversions to double are slow */
        sum += (double)some;
    }
    return row.team.sum(sum);
}

/* ---- losses: each returns the row's loss on each thread, and writes the gradient if it is wanted ---- */

template <int N, typename Team> __device__ static double sparse_crossentropy(const Row<Team> &row, double alpha)
{
    double drawn = 0, own = (double)wide(row.z[row.label]), log_sum = (double)row.largest.value + log(row.sum);
    if (alpha > 0) {
        each<N, false>(row, [&](int, float z, float) {
            drawn += alpha / (double)row.n * (double)z;
            return 0.0f;
        });
        drawn = row.team.sum(drawn);
    }
    double loss = kolo_sparse_loss(log_sum, own, alpha, drawn);
    if (!row.dz) return loss;
    float inverse = (float)(1 / row.sum), less = (float)(alpha / (double)row.n), most = (float)(1 - alpha);
    each<N, true>(row, [&](int i, float z, float) {
        if (row.n < KOLO_LONG_ROW)
            return (float)kolo_sparse_slope(exponential(row, z) / row.sum, i == row.label, alpha, row.n);
        return expf(z - row.largest.value) * inverse - less - (i == row.label ? most : 0.0f);
    });
    return loss;
}

/* Also the KL divergence, which has no smoothing and is smaller by the targets' own entropy. */
template <int N, typename Team>
__device__ static double categorical_crossentropy(const Row<Team> &row, double alpha, bool divergence)
{
    double log_sum = (double)row.largest.value + log(row.sum), sum = 0, loss = 0;
    each<N, false>(row, [&](int, float z, float target) {
        double t = kolo_smoothed((double)target, alpha, row.n);
        sum += t;
        loss += kolo_categorical_part(t, (double)z, log_sum);
        if (divergence) loss += kolo_certainty((double)target);
        return 0.0f;
    });
    sum = row.team.sum(sum);
    if (row.dz)
        each<N, true>(row, [&](int, float z, float target) {
            double probability = exponential(row, z) / row.sum;
            return (float)(sum * probability - kolo_smoothed((double)target, alpha, row.n));
        });
    return row.team.sum(loss);
}

template <int N, typename Team> __device__ static double mean_loss(const Row<Team> &row, const kolo_loss_job &job)
{
    double loss = 0, n = (double)row.n;
    auto part = [&](int, float z, float t) {
        double slope;
        loss += kolo_mean_part(job.loss, (double)z, (double)t, job.number, &slope);
        return (float)(slope / n);
    };
    if (row.dz) each<N, true>(row, part);
    else each<N, false>(row, part);
    return row.team.sum(loss) / n;
}

/* PLAIN: a sparse cross-entropy with no metrics but accuracy and top k. Most models have these, and their kernel needs
 * half of the registers. */
template <int N, bool PLAIN, typename Team>
__device__ static double loss_of(const Row<Team> &row, const kolo_loss_job &job)
{
    if (PLAIN) return sparse_crossentropy<N>(row, job.number);
    switch (job.loss) {
    case KOLO_FORMULA_SPARSE_CROSSENTROPY: return sparse_crossentropy<N>(row, job.number);
    case KOLO_FORMULA_CATEGORICAL_CROSSENTROPY: return categorical_crossentropy<N>(row, job.number, false);
    case KOLO_FORMULA_KL_DIVERGENCE: return categorical_crossentropy<N>(row, 0, true);
    default: return mean_loss<N>(row, job);
    }
}

/* ---- metrics ---- */

/* An output as metrics of probabilities take it: behind the model's softmax or sigmoid. */
template <typename Team>
__device__ static inline float likely(const Row<Team> &row, const kolo_loss_job &job, float z, float inverse)
{
    if (job.probabilities == KOLO_FUNCTION_SOFTMAX) return (float)exponential(row, z) * inverse;
    return job.probabilities == KOLO_FUNCTION_SIGMOID ? kolo_sigmoid_of(z) : z;
}

__device__ static inline bool has_counts(kolo_formula metric)
{
    return metric == KOLO_FORMULA_COUNT_LARGEST || metric == KOLO_FORMULA_COUNT_EACH || metric == KOLO_FORMULA_AUC;
}

__device__ static inline void count_class(unsigned *counts, int number, bool claimed, bool true_one)
{
    unsigned *of_class = counts + KOLO_COUNTS * number;
    if (claimed) atomicAdd(&of_class[KOLO_CLAIMED], 1u);
    if (true_one) atomicAdd(&of_class[KOLO_TRUE], 1u);
    if (claimed && true_one) atomicAdd(&of_class[KOLO_RIGHT], 1u);
}

/* The class of the largest output is claimed; the class of the label or largest target is true. */
template <typename Team> __device__ static void count_largest(const Row<Team> &row, unsigned *counts)
{
    if (row.team.rank > 0) return;
    count_class(counts, row.first, true, row.first == row.truth);
    if (row.first != row.truth) count_class(counts, row.truth, false, true);
}

/* Each output is a class of its own. A single output stands for two: it claims class 1 if it is above 0.5, else class
 * 0. */
template <typename Team>
__device__ static void count_each(const Row<Team> &row, const kolo_loss_job &job, float inverse, unsigned *counts)
{
    each<1, false>(row, [&](int i, float z, float t) {
        bool claimed = kolo_is_there(likely(row, job, z, inverse)), true_one = kolo_is_there(t);
        count_class(counts, row.n == 1 ? 1 : i, claimed, true_one);
        if (row.n == 1) count_class(counts, 0, !claimed, !true_one);
        return 0.0f;
    });
}

template <typename Team>
__device__ static void count_buckets(const Row<Team> &row, const kolo_loss_job &job, float inverse, unsigned *counts)
{
    each<1, false>(row, [&](int, float z, float t) {
        int side = kolo_is_there(t) ? KOLO_AUC_BUCKETS : 0;
        atomicAdd(&counts[side + kolo_auc_bucket(likely(row, job, z, inverse))], 1u);
        return 0.0f;
    });
}

template <int N, typename Team> __device__ static double top_k(const Row<Team> &row, double k)
{
    int larger = 0;
    float own = wide(row.z[row.truth]);
    each<N, false>(row, [&](int, float z, float) {
        larger += z > own;
        return 0.0f;
    });
    return row.team.sum((double)larger) < k && isfinite(own);
}

template <int N, typename Team>
__device__ static double mean_of(const Row<Team> &row, const kolo_loss_job &job, kolo_formula metric, float inverse)
{
    double sum = 0;
    each<N, false>(row, [&](int, float z, float t) {
        double unused;
        float p = likely(row, job, z, inverse);
        if (metric == KOLO_FORMULA_MEAN) sum += (double)p;
        else if (metric == KOLO_FORMULA_BINARY_ACCURACY) sum += kolo_is_right(p, t);
        else if (metric == KOLO_FORMULA_MAE) sum += kolo_absolute((double)p - (double)t, &unused);
        else if (metric == KOLO_FORMULA_MSE) sum += kolo_square((double)p - (double)t, &unused);
        else sum = NAN; /* a formula that is missing here */
        return 0.0f;
    });
    return row.team.sum(sum) / (double)row.n;
}

/* A row's value of a metric with one sum, on each thread. */
template <int N, bool PLAIN, typename Team>
__device__ static double metric_of(const Row<Team> &row, const kolo_loss_job &job, const kolo_loss_metric &metric,
                                   float inverse)
{
    if (metric.formula == KOLO_FORMULA_CATEGORICAL_ACCURACY) return row.first == row.truth;
    if (PLAIN || metric.formula == KOLO_FORMULA_TOP_K) return top_k<N>(row, metric.number);
    return mean_of<N>(row, job, metric.formula, inverse);
}

template <typename Team>
__device__ static void add_counts(const Row<Team> &row, const kolo_loss_job &job, kolo_formula metric, float inverse,
                                  unsigned *counts)
{
    if (!row.counts) return;
    if (metric == KOLO_FORMULA_COUNT_LARGEST) count_largest(row, counts);
    if (metric == KOLO_FORMULA_COUNT_EACH) count_each(row, job, inverse, counts);
    if (metric == KOLO_FORMULA_AUC) count_buckets(row, job, inverse, counts);
}

template <int N, bool PLAIN, typename Team>
__device__ static void add_metrics(const Row<Team> &row, const kolo_loss_job &job, double *slots, unsigned *counts)
{
    float inverse = (float)(1 / row.sum);
    for (int m = 0; m < job.metric_count; m++) {
        const kolo_loss_metric &metric = job.metrics[m];
        if (!PLAIN && has_counts(metric.formula)) {
            add_counts(row, job, metric.formula, inverse, counts + metric.offset);
            continue;
        }
        double value = metric_of<N, PLAIN>(row, job, metric, inverse);
        if (row.counts && row.team.rank == 0) slots[1 + m] += value / (double)job.rows;
    }
}

} // namespace kolo

#endif
