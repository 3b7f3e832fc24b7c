/* Weights and gradients, to and from the canonical order: many arrays in one launch, and sums of a gradient's parts.
 * Arrays of the whole model begin anywhere, so nothing here needs more than an element's own alignment. */
#include "backend/cuda/device.cuh"

namespace kolo {

static const int MOST = 48;         /* arrays of a launch: they are its argument, of 4 KB at most */
static const int SIDE = 32;         /* of a square that is transposed in shared memory */
static const int CHUNK = 8 * THREADS; /* elements that a block copies where nothing is transposed */

struct Moves {
    kolo_packing at[MOST];
    int64_t first[MOST + 1]; /* the number of blocks before each array's */
    int count;
};

__device__ static void move_chunk(const kolo_packing &move, int64_t chunk)
{
    const int AHEAD = CHUNK / THREADS;
    int64_t count = move.rows * move.columns, first = chunk * CHUNK + threadIdx.x;
    float values[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
        if (first + k * THREADS < count) values[k] = move.from[first + k * THREADS];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
        if (first + k * THREADS < count) put<1>(move.element, move.to, first + k * THREADS, &values[k]);
}

/* to[column][row] = from[row][column] */
__device__ static void turn_square(const kolo_packing &move, int64_t number)
{
    __shared__ float square[SIDE][SIDE + 1];
    int64_t across = (move.columns + SIDE - 1) / SIDE, row = number / across * SIDE, column = number % across * SIDE;
    int x = (int)threadIdx.x % SIDE;
    for (int y = (int)threadIdx.x / SIDE; y < SIDE; y += THREADS / SIDE)
        if (row + y < move.rows && column + x < move.columns)
            square[y][x] = move.from[(row + y) * move.columns + column + x];
    __syncthreads();
    for (int y = (int)threadIdx.x / SIDE; y < SIDE; y += THREADS / SIDE)
        if (row + x < move.rows && column + y < move.columns)
            put<1>(move.element, move.to, (column + y) * move.rows + row + x, &square[x][y]);
}

/* DOWN threads share an element: each sums every DOWN-th part of it. */
__device__ static void sum_chunk(const kolo_packing &move, int64_t chunk)
{
    const int DOWN = THREADS / SIDE;
    __shared__ double all[DOWN][SIDE];
    int64_t count = move.rows * move.columns, i = chunk * SIDE + threadIdx.x % SIDE;
    int below = (int)threadIdx.x / SIDE, x = (int)threadIdx.x % SIDE;
    double sum = 0;
    if (i < count)
#pragma unroll 8
        for (int p = below; p < move.parts; p += DOWN) sum += (double)move.from[p * count + i];
    all[below][x] = sum;
    __syncthreads();
    if (below > 0 || i >= count) return;
    for (int p = 1; p < DOWN; p++) sum += all[p][x];
    ((float *)move.to)[i] = (float)sum;
}

__global__ void move_all(Moves moves)
{
    int i = 0;
    while (i + 1 < moves.count && (int64_t)blockIdx.x >= moves.first[i + 1]) i++;
    int64_t block = (int64_t)blockIdx.x - moves.first[i];
    if (moves.at[i].parts > 1) sum_chunk(moves.at[i], block);
    else if (moves.at[i].transposed) turn_square(moves.at[i], block);
    else move_chunk(moves.at[i], block);
}

static int64_t blocks_of(const kolo_packing &move)
{
    if (move.parts > 1) return (move.rows * move.columns + SIDE - 1) / SIDE;
    if (!move.transposed) return (move.rows * move.columns + CHUNK - 1) / CHUNK;
    return (move.rows + SIDE - 1) / SIDE * ((move.columns + SIDE - 1) / SIDE);
}

} // namespace kolo

using namespace kolo;

cudaError_t kolo_cuda_pack_arrays(cudaStream_t stream, const kolo_packing *moves, int count)
{
    cudaError_t error = cudaSuccess;
    for (int done = 0; done < count && error == cudaSuccess; done += MOST) {
        Moves some = {};
        some.count = count - done < MOST ? count - done : MOST;
        for (int i = 0; i < some.count; i++) {
            some.at[i] = moves[done + i];
            some.first[i + 1] = some.first[i] + blocks_of(some.at[i]);
        }
        error = launch(stream, dim3((unsigned)some.first[some.count]), THREADS, 0, move_all, some);
    }
    return error;
}
