/* Updates on the device: cuts a model's arrays into chunks and parts, which a table keeps. Kernels: optimizers.cu. */
#include "backend/cuda/cuda.h"
#include "optimizers/optimizer.h"

#include <stdlib.h>
#include <string.h>

#define PARTS 1024 /* of an update, one block each; there are at most this many, plus one for each array */

/* The state of a job, made before its first update is enqueued. */
typedef struct update_table {
    const kolo_span *spans; /* the job's */
    const kolo_plan *plan;  /* the plan whose parameters they are, or NULL */
    int span_count, chunk_count, part_count;
    void *memory; /* on the device: spans, chunks, parts, first parts, sums, numbers, aliases, at the offsets .at */
    size_t at[7], bytes;
} update_table;

/* ---- cutting ---- */

/* Spans are cut at multiples of KOLO_CHUNK, so that each chunk but a span's first begins at a multiple of 16 bytes. */
static int64_t chunks_of(const kolo_span *span)
{
    if (span->count == 0) return 0;
    return (span->offset + span->count - 1) / KOLO_CHUNK - span->offset / KOLO_CHUNK + 1;
}

static kolo_chunk chunk_of(const kolo_span *span, int number, int64_t chunk)
{
    int64_t end = span->offset + span->count, first = (span->offset / KOLO_CHUNK + chunk) * KOLO_CHUNK;
    int64_t last = first + KOLO_CHUNK < end ? first + KOLO_CHUNK : end;
    if (first < span->offset) first = span->offset;
    return (kolo_chunk){.first = first, .count = (int32_t)(last - first), .span = number};
}

/* Fills in the arrays that are not NULL. Returns the number of parts. */
static int cut(const update_table *table, kolo_chunk *chunks, kolo_part *parts, int32_t *first_part)
{
    int most = (table->chunk_count + PARTS - 1) / PARTS, chunk = 0, part = 0;
    for (int s = 0; s < table->span_count; s++) {
        int count = (int)chunks_of(&table->spans[s]);
        if (first_part) first_part[s] = part;
        for (int c = 0; c < count; c += most, part++)
            if (parts) parts[part] = (kolo_part){chunk + c, count - c < most ? count - c : most, s};
        for (int c = 0; c < count && chunks; c++) chunks[chunk + c] = chunk_of(&table->spans[s], s, c);
        chunk += count;
    }
    if (first_part) first_part[table->span_count] = part;
    return part;
}

/* ---- the table ---- */

enum { SPANS, CHUNKS, PARTS_AT, FIRST_PARTS, SUMS, NUMBERS, ALIASES };

static void place(update_table *table)
{
    size_t spans = (size_t)table->span_count, parts = (size_t)table->part_count;
    const size_t bytes[] = {spans * sizeof(kolo_span),
                            (size_t)table->chunk_count * sizeof(kolo_chunk),
                            parts * sizeof(kolo_part),
                            (spans + 1) * sizeof(int32_t),
                            4 * parts * sizeof(double),
                            spans * sizeof(float),
                            table->plan ? spans * sizeof(kolo_alias) : 0};
    for (int i = 0; i < 7; i++) {
        table->at[i] = table->bytes;
        table->bytes += kolo_align(bytes[i], KOLO_GPU_ALIGNMENT);
    }
}

static kolo_status fill(update_table *table, const kolo_update_job *job, cudaStream_t stream)
{
    char *image = calloc(1, table->bytes);
    if (!image) return kolo_fail_memory(table->bytes, "an update's table");
    memcpy(image, table->spans, (size_t)table->span_count * sizeof *table->spans);
    cut(table, (kolo_chunk *)(image + table->at[CHUNKS]), (kolo_part *)(image + table->at[PARTS_AT]),
        (int32_t *)(image + table->at[FIRST_PARTS]));
    if (table->plan) kolo_cuda_find_aliases(job, (kolo_alias *)(image + table->at[ALIASES]));
    cudaError_t error = kolo_cuda_allocate(&table->memory, table->bytes);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(table->memory, image, table->bytes, cudaMemcpyHostToDevice, stream);
    cudaError_t waited = cudaStreamSynchronize(stream); /* a copy may read pageable memory after the call returned */
    if (waited != cudaSuccess) cudaStreamSynchronize(stream); /* the copy's arrays are freed after this */
    if (error == cudaSuccess) error = waited;
    free(image);
    KOLO_CUDA(error, "preparing updates");
    return KOLO_OK;
}

static void free_table(update_table *table)
{
    if (table) kolo_cuda_free(table->memory);
    free(table);
}

kolo_status kolo_cuda_expect_updates(kolo_stream *stream, kolo_update_job *job)
{
    if (job->prepared) return KOLO_OK;
    KOLO_TRY(kolo_cuda_enter(stream));
    update_table *table = calloc(1, sizeof *table);
    if (!table) return kolo_fail_memory(sizeof *table, "an update's table");
    *table = (update_table){.spans = job->spans, .plan = job->plan, .span_count = job->span_count};
    for (int s = 0; s < job->span_count; s++) table->chunk_count += (int)chunks_of(&job->spans[s]);
    table->part_count = cut(table, NULL, NULL, NULL);
    place(table);
    kolo_status status = fill(table, job, stream->handle);
    if (status == KOLO_OK) job->prepared = table;
    else free_table(table);
    return status;
}

void kolo_cuda_forget_updates(kolo_stream *stream, kolo_update_job *job)
{
    update_table *table = job->prepared;
    bool can = table && kolo_cuda_opened_here(stream) && cudaSetDevice(stream->device) == cudaSuccess;
    if (can) kolo_cuda_free(table->memory);
    cudaGetLastError(); /* clears the error of a lost device */
    free(table);
    job->prepared = NULL;
}

/* ---- updates ---- */

bool kolo_cuda_has_rule(const kolo_optimizer *optimizer)
{
    double numbers[KOLO_RULE_NUMBERS];
    const kolo_optimizer_kind *kind = optimizer->kind;
    return kind->rule && (!kind->measure || kolo_cuda_measures_for(kolo_rule_numbers(optimizer, 0, 1, numbers)));
}

/* Fills in *update from the job and its table. */
static kolo_status lay_out(kolo_stream *stream, const kolo_update_job *job, kolo_cuda_update *update)
{
    const update_table *table = job->prepared;
    KOLO_TRY(kolo_cuda_enter(stream));
    char *memory = table->memory;
    double *sums = (double *)(memory + table->at[SUMS]);
    *update = (kolo_cuda_update){.chunk_count = table->chunk_count,
                                 .part_count = table->part_count,
                                 .spans = (const kolo_span *)memory,
                                 .chunks = (const kolo_chunk *)(memory + table->at[CHUNKS]),
                                 .parts = (const kolo_part *)(memory + table->at[PARTS_AT]),
                                 .first_part = (const int32_t *)(memory + table->at[FIRST_PARTS]),
                                 .of_gradient = sums,
                                 .of_rule = sums + 2 * table->part_count,
                                 .numbers_before = (float *)(memory + table->at[NUMBERS]),
                                 .weights = job->weights,
                                 .gradient = job->gradient,
                                 .slots = {job->slots[0], job->slots[1], job->slots[2]},
                                 .numbers = job->numbers,
                                 .step_parameters = job->step_parameters,
                                 .clip_value = job->clip_value,
                                 .clip_norm = job->clip_norm,
                                 .global_clip_norm = job->global_clip_norm,
                                 .decay = job->decay,
                                 .scaling = job->scaling,
                                 .aliases = table->plan ? (const kolo_alias *)(memory + table->at[ALIASES]) : NULL,
                                 .packed = job->packed};
    return KOLO_OK;
}

kolo_status kolo_cuda_update_weights(kolo_stream *stream, const kolo_update_job *job)
{
    double numbers[KOLO_RULE_NUMBERS];
    kolo_cuda_update update;
    KOLO_TRY(lay_out(stream, job, &update));
    update.rule = kolo_rule_numbers(job->optimizer, 0, 1, numbers);
    bool measures = kolo_cuda_update_measures(&update);
    if (job->packed_gradient) KOLO_TRY(kolo_cuda_unpack_left(job, measures));
    update.left = measures ? NULL : (const char *)job->packed_gradient;
    KOLO_CUDA(kolo_cuda_update_all(stream->handle, &update), "updating the weights");
    return job->packed ? kolo_cuda_pack_rest(job) : KOLO_OK;
}

kolo_status kolo_cuda_penalty(kolo_stream *stream, const kolo_update_job *job, double *to)
{
    kolo_cuda_update update;
    KOLO_TRY(lay_out(stream, job, &update));
    KOLO_CUDA(kolo_cuda_penalty_of_all(stream->handle, &update, to), "the penalty of the weights");
    return KOLO_OK;
}
