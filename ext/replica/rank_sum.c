/* See rank_sum.h. Of an embedding each rank sends the rows of its gradient that are not zero, with their numbers, to
 * all others (an all-gather of parts), and adds up the rows of all ranks in the order of the ranks. So every rank has
 * the same bits, as after an all-reduce. The replicas of a rank add up their gradients first, which share a memory. */
#include "replica/rank_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/compressed.h"
#include "replica/trainer.h"

#define ELEMENTS_LEAST (1 << 16) /* of an embedding: a smaller one is summed faster than its rows are counted */
enum { TABLES_MOST = 16 };

/* The gradient of an embedding, [rows][width], and which of its rows are sent. */
typedef struct table {
    float *gradient;
    int64_t first; /* its first element in the model's gradient */
    int rows, width;
    /* In each step anew: */
    int32_t *numbers; /* [count] of the rows that are not zero */
    int64_t count;
    int64_t total; /* counts of all members */
} table;

struct kolo_row_tables {
    int count;
    table table[TABLES_MOST];
};
typedef struct kolo_row_tables tables;

/* ---------------------------------------------------------------- which embeddings */

/* The gradient must be in the host's memory, where the canonical array is. All members give the same answer. */
static bool may_be_sparse(const kolo_replica *replica)
{
    const kolo_model *model = replica->trainer->model;
    const kolo_optimizer *optimizer = &model->settings.optimizer;
    bool on_host = replica->arrays.gradient == replica->gradient;
    return on_host && kolo_model_distributed(model) && !optimizer->sparse_as_dense && !optimizer->comm;
}

static void find_tables(const kolo_replica *replica, tables *found)
{
    const kolo_model *model = replica->trainer->model;
    for (int i = 0; i < model->layer_count && found->count < TABLES_MOST; i++) {
        const kolo_layer_node *node = &model->layers[i];
        if (node->recipe.kind != &kolo_embedding_kind) continue;
        const kolo_parameter *parameter = &model->parameters[node->parameters[0]];
        const int *dim = parameter->shape.dim;
        if ((int64_t)dim[0] * dim[1] < ELEMENTS_LEAST) continue;
        found->table[found->count++] = (table){.gradient = replica->arrays.gradient + parameter->offset,
                                               .first = parameter->offset,
                                               .rows = dim[0],
                                               .width = dim[1]};
    }
}

kolo_status kolo_replica_find_tables(kolo_replica *replica)
{
    tables found = {0};
    if (may_be_sparse(replica)) find_tables(replica, &found);
    if (found.count == 0 || replica->tables) return KOLO_OK;
    replica->tables = malloc(sizeof found);
    if (!replica->tables) return kolo_fail_memory(sizeof found, "the embeddings of a model");
    *replica->tables = found;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- which rows */

/* NaN is not zero. */
static bool is_zero(const float *row, int width)
{
    uint32_t any = 0;
    for (int i = 0; i < width; i++) {
        uint32_t bits;
        memcpy(&bits, &row[i], sizeof bits);
        any |= bits << 1; /* without the sign: -0 is zero, too */
    }
    return any == 0;
}

static kolo_status find_rows(table *t)
{
    size_t bytes = (size_t)t->rows * sizeof *t->numbers;
    t->count = t->total = 0;
    t->numbers = malloc(bytes);
    if (!t->numbers) return kolo_fail_memory(bytes, "the rows of an embedding");
    for (int row = 0; row < t->rows; row++)
        if (!is_zero(t->gradient + (int64_t)row * t->width, t->width)) t->numbers[t->count++] = row;
    return KOLO_OK;
}

/* Sets counts[members][tables]. */
static kolo_status count_rows(tables *all, kolo_comm *comm, int64_t **counts)
{
    int64_t mine[TABLES_MOST];
    size_t bytes = (size_t)all->count * sizeof *mine;
    for (int i = 0; i < all->count; i++) {
        KOLO_TRY(find_rows(&all->table[i]));
        mine[i] = all->table[i].count;
    }
    *counts = calloc((size_t)comm->size, bytes);
    if (!*counts) return kolo_fail_memory((size_t)comm->size * bytes, "the counts of an embedding's rows");
    KOLO_TRY(comm->kind->allgather(comm, mine, bytes, *counts));
    for (int i = 0; i < comm->size * all->count; i++) all->table[i % all->count].total += (*counts)[i];
    return KOLO_OK;
}

/* Whether the rows of all members, with their numbers, are fewer bytes than an all-reduce moves: of N members, a member
 * receives (N−1)/N of all rows, or sends and receives (N−1)/N of the array. */
static bool is_sparse(const table *t)
{
    return t->total * (t->width + 1) < 2 * (int64_t)t->rows * t->width;
}

/* ---------------------------------------------------------------- the exchange of one table */

static size_t bytes_of(const table *t, int64_t count)
{
    return (size_t)count * (sizeof *t->numbers + (size_t)t->width * sizeof *t->gradient);
}

/* A member's part: the numbers of its rows, then the rows. They become zero in the gradient. */
static void take_rows(const table *t, char *part)
{
    size_t row_bytes = (size_t)t->width * sizeof *t->gradient;
    char *rows = part + (size_t)t->count * sizeof *t->numbers;
    kolo_copy_bytes(part, t->numbers, (size_t)t->count * sizeof *t->numbers);
    for (int64_t i = 0; i < t->count; i++) {
        float *row = t->gradient + (int64_t)t->numbers[i] * t->width;
        memcpy(rows + (size_t)i * row_bytes, row, row_bytes);
        memset(row, 0, row_bytes);
    }
}

static void add_rows(const table *t, const char *part, int64_t count)
{
    const int32_t *numbers = (const int32_t *)part;
    const float *rows = (const float *)(part + (size_t)count * sizeof *numbers);
    for (int64_t i = 0; i < count; i++, rows += t->width) {
        float *row = t->gradient + (int64_t)numbers[i] * t->width;
        for (int k = 0; k < t->width; k++) row[k] += rows[k];
    }
}

/* counts: this table's of member 0; those of the next members follow in steps of `stride`. */
static kolo_status exchange_rows(const table *t, kolo_comm *comm, const int64_t *counts, int stride)
{
    size_t members = (size_t)comm->size, mine = bytes_of(t, t->count), all = bytes_of(t, t->total), at = 0;
    size_t *bytes = malloc(2 * members * sizeof *bytes), *offsets = bytes + members;
    char *parts = malloc(all + 1), *part = malloc(mine + 1);
    kolo_status status = KOLO_MEMORY;
    if (!bytes || !parts || !part) kolo_fail_memory(all + mine, "the rows of an embedding");
    else {
        for (size_t m = 0; m < members; m++, at += bytes[m - 1]) {
            bytes[m] = bytes_of(t, counts[m * (size_t)stride]);
            offsets[m] = at;
        }
        take_rows(t, part);
        status = comm->kind->allgatherv(comm, part, parts, bytes, offsets);
        for (size_t m = 0; m < members && status == KOLO_OK; m++)
            add_rows(t, parts + offsets[m], counts[m * (size_t)stride]);
    }
    free(bytes);
    free(parts);
    free(part);
    return status;
}

/* ---------------------------------------------------------------- the whole gradient */

static kolo_status sum_whole(kolo_replica *replica, kolo_comm *comm, int64_t first, int64_t end)
{
    if (first == end) return KOLO_OK;
    return comm->kind->allreduce(comm, replica->arrays.gradient + first, end - first, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
}

static kolo_compression compression_of(const kolo_replica *replica)
{
    return replica->trainer->ranks->size > 1 ? replica->trainer->model->settings.optimizer.compression
                                             : KOLO_COMPRESSION_NONE;
}

/* Sums of gradients grow with the samples, which binary16 has no room for. All ranks give the same answer. */
static int exponent_of(const kolo_replica *replica)
{
    double samples = replica->counters.accumulated_samples + replica->samples;
    return samples > 1 ? -(int)ceil(log2(samples)) : 0;
}

kolo_status kolo_replica_sum_part(kolo_replica *replica, kolo_comm *ranks, int64_t first, int64_t end)
{
    kolo_compression compression = compression_of(replica);
    if (first == end || compression == KOLO_COMPRESSION_NONE) return sum_whole(replica, ranks, first, end);
    replica->saved_bytes += (end - first) * (int64_t)sizeof(float) * (ranks->size - 1) / ranks->size;
    return kolo_compressed_allreduce(ranks, replica->arrays.gradient + first, end - first, compression,
                                     exponent_of(replica));
}

/* The bytes that the rows of a table have less than its share of an all-reduce. */
static int64_t saved_bytes(const table *t, const kolo_comm *comm)
{
    int64_t dense = 2 * (int64_t)t->rows * t->width * (int64_t)sizeof(float) * (comm->size - 1) / comm->size;
    return dense - (int64_t)bytes_of(t, t->count) * (comm->size - 1);
}

/* Tables are in the order of the layers, and so are their gradients. */
static kolo_status sum_in_pieces(kolo_replica *replica, kolo_comm *comm, tables *all, const int64_t *counts)
{
    int64_t at = 0;
    for (int i = 0; i < all->count; i++) {
        const table *t = &all->table[i];
        if (!is_sparse(t)) continue;
        KOLO_TRY(kolo_replica_sum_part(replica, comm, at, t->first));
        KOLO_TRY(exchange_rows(t, comm, counts + i, all->count));
        replica->saved_bytes += saved_bytes(t, comm);
        at = t->first + (int64_t)t->rows * t->width;
    }
    return kolo_replica_sum_part(replica, comm, at, replica->trainer->model->weight_count);
}

static kolo_status sum_tables(kolo_replica *replica, tables *all)
{
    kolo_comm *ranks = replica->trainer->ranks;
    int64_t *counts = NULL;
    kolo_status status = count_rows(all, ranks, &counts);
    if (status == KOLO_OK) status = sum_in_pieces(replica, ranks, all, counts);
    free(counts);
    for (int i = 0; i < all->count; i++) {
        free(all->table[i].numbers);
        all->table[i].numbers = NULL;
    }
    return status;
}

kolo_status kolo_replica_sum_over_ranks(kolo_replica *replica)
{
    if (replica->tables) return sum_tables(replica, replica->tables);
    return kolo_replica_sum_part(replica, replica->trainer->ranks, 0, replica->trainer->model->weight_count);
}

/* As the all-reduce of nested.c: the first replica sums over the ranks for all replicas of its process. */
kolo_status kolo_replica_sum_gradient(kolo_replica *replica)
{
    kolo_comm *local = replica->local;
    int64_t count = replica->trainer->model->weight_count;
    if (!replica->tables && compression_of(replica) == KOLO_COMPRESSION_NONE)
        return sum_whole(replica, replica->comm, 0, count);
    KOLO_TRY(sum_whole(replica, local, 0, count));
    if (replica->index == 0) KOLO_TRY(kolo_replica_sum_over_ranks(replica));
    return local->kind->broadcast(local, replica->arrays.gradient, (size_t)count * sizeof(float), 0);
}
