/* The losses and metrics, a row at a time (loss_rows.cuh). Rows of up to LANES_WIDTH outputs are computed by lanes of a
 * warp, longer ones by a block, which keeps the row in shared memory if it fits, so that it is read once.
 *
 * Each block adds up its rows: doubles in one slot per team, which are then added in order; counts (of classes, of
 * predictions) as integers, whose sum does not depend on the order. The sums of the blocks are added in a fixed order:
 * by the last block to end, or by a second kernel where there are many sums. */
#include "backend/cuda/loss_rows.cuh"

namespace kolo
{

const int LANES_THREADS = 128, LANES_WIDTH = 512; /* the widest row that a warp takes */
const int BLOCK_THREADS = 512;
const int LOSS_BLOCKS = 1024, LAST_SUMS = 16; /* the most sums that the last block adds up by itself */
const int CACHED_BYTES = 110 << 10; /* of a row and sums, at most: two blocks fit on an H100's multiprocessor */
const int MEETING_BYTES = 1 << 10; /* static shared memory, for sums over warps */
const int SLOTS = 1 + KOLO_LOSS_METRICS; /* of a team: the loss, and a number for each metric */

/* ---- rows ---- */

template <int N, bool PLAIN, typename Team>
__device__ static void one_row(Row<Team> &row, const kolo_loss_job &job, double weight, double *slots, unsigned *counts)
{
    row.largest = {0, 0};
    row.sum = 1;
    row.truth = row.label;
    if (job.needs_largest) {
        row.largest = find_largest<N>(row, false);
        row.first = place_of(row.largest, row.n);
    }
    if (job.needs_truth && row.t) row.truth = place_of(find_largest<N>(row, true), row.n);
    if (job.needs_softmax) row.sum = sum_exponentials<N>(row);
    double loss = loss_of<N, PLAIN>(row, job);
    if (row.counts && row.team.rank == 0) slots[0] += weight * loss;
    add_metrics<N, PLAIN>(row, job, slots, counts);
}

__device__ static inline void *at(const void *array, kolo_element element, int64_t i)
{
    return array ? (char *)array + i * (element == KOLO_ELEMENT_FLOAT ? 4 : 2) : NULL;
}

/* Row `number` of the microbatch, of which `counted` rows count. For any other row it writes a zero gradient and
 * returns row `instead`, so that the teams of a warp stay in step. */
template <typename Team>
__device__ static Row<Team> row_at(const kolo_loss_job &job, const kolo_step_parameters *step_parameters, Team team,
                                   int64_t number, int64_t counted, int64_t instead, double *weight)
{
    Row<Team> row = {};
    row.team = team;
    row.n = (int)job.width;
    row.counts = number < counted;
    void *slopes = at(job.gradient, job.gradient_element, number * job.width);
    const float none = 0;
    if (!row.counts && slopes && number < job.microbatch * job.rows)
        for (int i = team.rank; i < row.n; i += team.size) put<1>(job.gradient_element, slopes, i, &none);
    if (!row.counts) number = instead;
    row.z = (const typename Team::Z *)job.outputs + number * job.width;
    row.t = job.targets ? job.targets + number * job.width : NULL;
    row.dz = row.counts ? slopes : NULL;
    row.slopes = job.gradient_element;
    row.label = job.labels ? job.labels[number] : 0;
    *weight = (job.weights ? (double)job.weights[number / job.rows] : 1) / (double)job.rows;
    row.factor = (float)*weight;
    row.scale = (float)step_parameters->loss_scale;
    return row;
}

/* ---- sums ---- */

/* Writes a block's sums to parts[k][blocks]: the sum of its losses, then the metrics' sums in the order of the
 * totals. */
__device__ static void write_parts(const kolo_loss_job &job, int teams, const double *slots, const unsigned *counts,
                                   double *parts)
{
    __syncthreads();
    for (int k = (int)threadIdx.x; k < 1 + job.sums; k += (int)blockDim.x) {
        int slot = 0;
        for (int m = 0; m < job.metric_count; m++)
            if (job.metrics[m].offset < k) slot = 1 + m; /* offsets grow */
        double sum = 0;
        if (slot > 0 && has_counts(job.metrics[slot - 1].formula)) sum = (double)counts[k - 1] / (double)job.rows;
        else
            for (int team = 0; team < teams; team++) sum += slots[team * SLOTS + slot];
        parts[(int64_t)k * gridDim.x + blockIdx.x] = sum;
    }
}

/* One warp adds sum k of all blocks to the totals. */
__device__ static void add_part(const kolo_loss_job &job, const kolo_step_parameters *step_parameters,
                                const double *parts, int blocks, int k)
{
    double sum = 0;
    int lane = (int)(threadIdx.x % 32);
    for (int b = lane; b < blocks; b += 32) sum += __ldcg(&parts[(int64_t)k * blocks + b]);
    sum = warp_sum(sum);
    if (lane > 0) return;
    if (k > 0) job.total_sums[k - 1] += sum;
    if (k == 0) *job.total_loss += sum;
    if (k == 0) *job.total_samples += samples_of(step_parameters, job.first, job.microbatch);
}

__device__ static void add_up(const kolo_loss_job &job, const kolo_step_parameters *step_parameters,
                              const double *parts)
{
    if (1 + job.sums > LAST_SUMS || !last_block(job.tickets, gridDim.x)) return;
    for (int k = (int)(threadIdx.x / 32); k < 1 + job.sums; k += (int)(blockDim.x / 32))
        add_part(job, step_parameters, parts, (int)gridDim.x, k);
}

__global__ void add_parts(const __grid_constant__ kolo_loss_job job, const kolo_step_parameters *step_parameters,
                          const double *parts, int blocks)
{
    int k = (int)(thread_number() / 32);
    if (k < 1 + job.sums) add_part(job, step_parameters, parts, blocks, k);
}

/* ---- kernels ---- */

__device__ static void clear_sums(int teams, int sums, double *slots, unsigned *counts)
{
    for (int i = (int)threadIdx.x; i < teams * SLOTS; i += (int)blockDim.x) slots[i] = 0;
    for (int i = (int)threadIdx.x; i < sums; i += (int)blockDim.x) counts[i] = 0;
    __syncthreads();
}

/* Teams of `lanes` lanes compute a row each. Losses that are not plain want 108 registers: without a bound that leaves
 * room for so many, ptxas takes 80 and local memory. 0: no bound. */
template <bool PLAIN>
__global__ void __launch_bounds__(LANES_THREADS, PLAIN ? 0 : 4)
    loss_by_lanes(const __grid_constant__ kolo_loss_job job, const kolo_step_parameters *step_parameters, int lanes,
                  double *parts)
{
    KOLO_SHARED_BYTES(shared);
    int teams = (int)blockDim.x / lanes, own = (int)threadIdx.x / lanes;
    double *slots = (double *)shared, weight;
    unsigned *counts = (unsigned *)(slots + teams * SLOTS);
    int64_t rows = job.microbatch * job.rows,
            counted = samples_of(step_parameters, job.first, job.microbatch) * job.rows;
    clear_sums(teams, job.sums, slots, counts);
    WarpTeam team = {(int)threadIdx.x % lanes, lanes};
    for (int64_t base = (int64_t)blockIdx.x * teams; base < rows; base += (int64_t)gridDim.x * teams) {
        int64_t instead = base < counted ? base : 0;
        Row<WarpTeam> row = row_at(job, step_parameters, team, base + own, counted, instead, &weight);
        if (base < counted) one_row<1, PLAIN>(row, job, weight, slots + own * SLOTS, counts);
    }
    write_parts(job, teams, slots, counts, parts);
    add_up(job, step_parameters, parts);
}

/* Copies the row to shared memory, unconverted. */
template <int N, typename Z> __device__ static void keep(Row<BlockTeam<Z>> &row, Z *kept)
{
    for (int i = row.team.rank * N; i < row.n; i += row.team.size * N)
        *(Run<Z, N> *)checked<Run<Z, N>>(kept + i) = *checked<Run<Z, N>>(row.z + i);
    row.z = kept;
    __syncthreads(); /* threads also read elements that others copied, such as the label's */
}

/* Z: the type of the outputs. For plain losses two blocks run on a multiprocessor: one loads its row while the other
 * computes. */
template <typename Z, int N, bool PLAIN>
__global__ void __launch_bounds__(BLOCK_THREADS, PLAIN ? 2 : 1)
    loss_by_blocks(const __grid_constant__ kolo_loss_job job, const kolo_step_parameters *step_parameters, int kept,
                   double *parts)
{
    KOLO_SHARED_BYTES(shared);
    double *slots = (double *)(shared + kept), weight;
    unsigned *counts = (unsigned *)(slots + SLOTS);
    int64_t counted = samples_of(step_parameters, job.first, job.microbatch) * job.rows;
    clear_sums(1, job.sums, slots, counts);
    BlockTeam<Z> team = {(int)threadIdx.x, (int)blockDim.x};
    for (int64_t number = blockIdx.x; number < job.microbatch * job.rows; number += gridDim.x) {
        Row<BlockTeam<Z>> row = row_at(job, step_parameters, team, number, counted, 0, &weight);
        if (number >= counted) continue;
        if (kept > 0) keep<N>(row, (Z *)shared);
        one_row<N, PLAIN>(row, job, weight, slots, counts);
        __syncthreads(); /* all threads have read the row before the next one overwrites it */
    }
    write_parts(job, 1, slots, counts, parts);
    add_up(job, step_parameters, parts);
}

/* ---- launching ---- */

/* The smallest power of two that is enough, up to a warp. */
static int lanes_for(int64_t width)
{
    int lanes = 1;
    while (lanes < 32 && lanes < width) lanes *= 2;
    return lanes;
}

static int64_t blocks_of(const kolo_loss_job *job)
{
    int64_t rows = job->microbatch * job->rows,
            teams = job->width > LANES_WIDTH ? 1 : LANES_THREADS / lanes_for(job->width);
    int64_t blocks = (rows + teams - 1) / teams;
    return blocks < LOSS_BLOCKS ? blocks : LOSS_BLOCKS;
}

/* Bytes of the sums of a block that takes a row at a time. */
static int sum_bytes(const kolo_loss_job *job)
{
    return SLOTS * (int)sizeof(double) + job->sums * (int)sizeof(unsigned);
}

/* Bytes of a row that such a block keeps in shared memory. 0: it reads the row again for each pass. */
static int kept_bytes(const kolo_loss_job *job)
{
    int64_t row = (job->width * (int64_t)kolo_element_bytes(job->outputs_element) + 15) / 16 * 16;
    int most = job->shared - MEETING_BYTES < CACHED_BYTES ? job->shared - MEETING_BYTES : CACHED_BYTES;
    return job->width > LANES_WIDTH && row <= most - sum_bytes(job) ? (int)row : 0;
}

static bool is_plain(const kolo_loss_job *job)
{
    bool plain = job->loss == KOLO_FORMULA_SPARSE_CROSSENTROPY;
    for (int m = 0; m < job->metric_count; m++) {
        kolo_formula metric = job->metrics[m].formula;
        plain = plain && (metric == KOLO_FORMULA_CATEGORICAL_ACCURACY || metric == KOLO_FORMULA_TOP_K);
    }
    return plain;
}

template <int N, bool PLAIN>
static cudaError_t by_blocks(cudaStream_t stream, const kolo_loss_job *job, const kolo_step_parameters *step_parameters,
                             double *parts)
{
    int kept = kept_bytes(job), threads = job->width <= 4096 ? 256 : BLOCK_THREADS, shared = kept + sum_bytes(job);
    return with(job->outputs_element, [&](auto zero) {
        return launch_large(stream, dim3((unsigned)blocks_of(job)), dim3((unsigned)threads), (size_t)shared,
                            loss_by_blocks<decltype(zero), N, PLAIN>, *job, step_parameters, kept, parts);
    });
}

} // namespace kolo

using namespace kolo;

size_t kolo_cuda_loss_scratch(const kolo_loss_job *job)
{
    return (size_t)(blocks_of(job) * (1 + job->sums)) * sizeof(double);
}

bool kolo_cuda_loss_reads_once(const kolo_loss_job *job)
{
    return kept_bytes(job) > 0;
}

template <bool PLAIN>
static cudaError_t start(cudaStream_t stream, const kolo_loss_job *job, const kolo_step_parameters *step_parameters,
                         double *parts)
{
    int lanes = lanes_for(job->width);
    size_t shared = (size_t)(LANES_THREADS / lanes * SLOTS) * sizeof(double) + (size_t)job->sums * sizeof(unsigned);
    if (job->width <= LANES_WIDTH)
        return launch(stream, dim3((unsigned)blocks_of(job)), LANES_THREADS, shared, loss_by_lanes<PLAIN>, *job,
                      step_parameters, lanes, parts);
    if (job->width % 4 == 0) return by_blocks<4, PLAIN>(stream, job, step_parameters, parts);
    return by_blocks<1, PLAIN>(stream, job, step_parameters, parts);
}

cudaError_t kolo_cuda_loss(cudaStream_t stream, const kolo_loss_job *job, const kolo_step_parameters *step_parameters,
                           void *scratch)
{
    double *parts = (double *)scratch;
    cudaError_t error = is_plain(job) ? start<true>(stream, job, step_parameters, parts)
                                      : start<false>(stream, job, step_parameters, parts);
    if (error != cudaSuccess || 1 + job->sums <= LAST_SUMS) return error;
    return launch(stream, blocks_for((int64_t)(1 + job->sums) * 32), THREADS, 0, add_parts, *job, step_parameters,
                  (const double *)parts, (int)blocks_of(job));
}
