/* The chief form of distributed data: one rank has read the samples, and sends each rank a shard of them. Read data.h
 * first. */
#include "data/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "runtime/runtime.h"

/* What all ranks learn from the root before the samples come. */
typedef struct head {
    kolo_failure failure; /* code KOLO_OK: none */
    int64_t samples;
    kolo_shape shape, target_shape;
    bool bytes, tokens, labels, targets, weights, autoencoder, synthetic;
    float scale;
    int label_count, classes;
    size_t class_names, feature_names; /* bytes of their texts; 0: there are none */
    char source[200];
} head;

/* ------------------------------------------------------------------------------------------ sending */

static size_t length_of(const char *const *names, int64_t count)
{
    size_t bytes = 0;
    for (int64_t i = 0; names && i < count; i++) bytes += strlen(names[i]) + 1;
    return bytes;
}

static kolo_status check(const kolo_data *data, int ranks)
{
    if (!data) return kolo_fail(KOLO_INVALID, "wanted data on the root, got NULL");
    if (data->chance)
        return kolo_fail(KOLO_INVALID, "wanted data without augmentation, which each rank adds to its shard, got "
                                       "samples that are drawn anew in each step");
    if (data->samples >= ranks) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "wanted at least %d samples, one for each rank, got %" PRId64, ranks, data->samples);
}

static head describe(const kolo_data *data, int ranks)
{
    head h = {.failure.code = check(data, ranks)};
    if (h.failure.code != KOLO_OK) {
        h.failure = kolo_failure_take();
        return h;
    }
    h.samples = data->samples;
    h.shape = data->shape;
    h.target_shape = data->target_shape;
    h.bytes = data->bytes != NULL;
    h.tokens = data->has_tokens;
    h.labels = data->has_labels;
    h.targets = data->has_targets;
    h.weights = data->weights || data->view; /* a view may give weights without an array */
    h.autoencoder = data->autoencoder;
    h.synthetic = data->synthetic;
    h.scale = data->scale;
    h.label_count = data->label_count;
    h.classes = data->classes;
    h.class_names = length_of(data->class_names, data->classes);
    h.feature_names = length_of(data->feature_names, kolo_shape_count(data->shape));
    memcpy(h.source, data->source, sizeof h.source);
    return h;
}

/* One array of the samples, with `row` bytes of each. */
typedef enum column_kind { FEATURES, LABELS, TARGETS, WEIGHTS } column_kind;

static size_t row_of(const head *h, column_kind kind)
{
    size_t elements = (size_t)kolo_shape_count(h->shape);
    switch (kind) {
    case FEATURES: return h->bytes ? elements : elements * sizeof(float);
    case LABELS: return h->labels ? (size_t)h->label_count * sizeof(int32_t) : 0;
    case TARGETS: return h->targets ? (size_t)kolo_shape_count(h->target_shape) * sizeof(float) : 0;
    case WEIGHTS: return h->weights ? sizeof(float) : 0;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------ on the root */

static kolo_status copy_row(const kolo_data *data, const head *h, column_kind kind, int64_t sample, void *to)
{
    int32_t index = (int32_t)sample;
    size_t row = row_of(h, kind);
    if (kind == FEATURES && data->bytes) memcpy(to, data->bytes + (size_t)sample * row, row);
    else if (kind == FEATURES && data->tokens) memcpy(to, data->tokens + (size_t)sample * (row / 4), row);
    else {
        kolo_gathered wanted = {.features = kind == FEATURES ? to : NULL,
                                .labels = kind == LABELS ? to : NULL,
                                .targets = kind == TARGETS ? to : NULL,
                                .weights = kind == WEIGHTS ? to : NULL,
                                .outputs = kolo_shape_count(h->target_shape)};
        KOLO_TRY(kolo_data_gather(data, NULL, &index, 0, 1, &wanted));
    }
    if (kind != FEATURES || !h->tokens || data->tokens) return KOLO_OK;
    float number; /* a view gathers tokens as floats */
    int32_t token;
    for (size_t i = 0; i < row; i += sizeof token) {
        memcpy(&number, (char *)to + i, sizeof number);
        token = (int32_t)lrintf(number);
        memcpy((char *)to + i, &token, sizeof token);
    }
    return KOLO_OK;
}

/* Rank r gets the samples r, r + ranks, r + 2 · ranks, … */
static int64_t share_of(int64_t samples, int rank, int ranks)
{
    return (samples - rank + ranks - 1) / ranks;
}

/* The rows of all ranks, one rank after the other. */
static kolo_status sort_rows(const kolo_data *data, const head *h, column_kind kind, int ranks, char *send)
{
    size_t row = row_of(h, kind);
    for (int r = 0; r < ranks; r++)
        for (int64_t i = r; i < h->samples; i += ranks, send += row) KOLO_TRY(copy_row(data, h, kind, i, send));
    return KOLO_OK;
}

/* ------------------------------------------------------------------------------------------ on all ranks */

/* Fails on all ranks, with the sentence of the root, if it failed there. */
static kolo_status agree(kolo_comm *ranks, int root, kolo_failure *failure)
{
    KOLO_TRY(ranks->kind->broadcast(ranks, failure, sizeof *failure, root));
    return failure->code == KOLO_OK ? KOLO_OK : kolo_fail(failure->code, "rank %d: %.900s", root, failure->text);
}

/* The sizes and places of the root's message to each rank, and of this rank's from the root. */
typedef struct places {
    size_t *send_bytes, *send_offsets, *receive_bytes, *receive_offsets; /* [ranks] each, in one block */
} places;

static kolo_status find_places(const kolo_comm *ranks, int root, const head *h, size_t row, places *p)
{
    size_t count = (size_t)ranks->size, *block = calloc(4 * count, sizeof *block);
    if (!block) return kolo_fail_memory(4 * count * sizeof *block, "a shard's sizes");
    *p = (places){block, block + count, block + 2 * count, block + 3 * count};
    for (int r = 0; r < ranks->size && ranks->rank == root; r++) {
        p->send_bytes[r] = row * (size_t)share_of(h->samples, r, ranks->size);
        if (r > 0) p->send_offsets[r] = p->send_offsets[r - 1] + p->send_bytes[r - 1];
    }
    p->receive_bytes[root] = row * (size_t)share_of(h->samples, ranks->rank, ranks->size);
    return KOLO_OK;
}

/* *array becomes this rank's rows, from malloc; NULL if the samples have no such array. */
static kolo_status scatter_column(kolo_comm *ranks, int root, const kolo_data *data, const head *h, column_kind kind,
                                  void **array)
{
    size_t row = row_of(h, kind);
    bool sends = ranks->rank == root;
    kolo_failure failure = {.code = KOLO_OK};
    places p = {0};
    if (row == 0) return KOLO_OK;
    *array = malloc(row * (size_t)share_of(h->samples, ranks->rank, ranks->size));
    char *send = sends ? malloc(row * (size_t)h->samples) : NULL;
    kolo_status status = *array && (send || !sends) ? find_places(ranks, root, h, row, &p)
                                                    : kolo_fail_memory(row * (size_t)h->samples, "a shard");
    if (status == KOLO_OK && sends) failure.code = sort_rows(data, h, kind, ranks->size, send);
    if (failure.code != KOLO_OK) failure = kolo_failure_take();
    if (status == KOLO_OK) status = agree(ranks, root, &failure);
    if (status == KOLO_OK)
        status = ranks->kind->alltoallv(ranks, send, p.send_bytes, p.send_offsets, *array, p.receive_bytes,
                                        p.receive_offsets);
    free(p.send_bytes);
    free(send);
    return status;
}

/* *names becomes the root's list; `bytes` are those of its texts. */
static kolo_status share_names(kolo_comm *ranks, int root, const char *const *list, int64_t count, size_t bytes,
                               char ***names)
{
    if (bytes == 0) return KOLO_OK;
    char *text = malloc(bytes), *at = text;
    const char **found = calloc((size_t)count, sizeof *found);
    kolo_status status = text && found ? KOLO_OK : kolo_fail_memory(bytes, "names");
    for (int64_t i = 0; status == KOLO_OK && list && i < count; i++) at = stpcpy(at, list[i]) + 1;
    if (status == KOLO_OK) status = ranks->kind->broadcast(ranks, text, bytes, root);
    at = text;
    for (int64_t i = 0; status == KOLO_OK && i < count; i++, at += strlen(at) + 1) found[i] = at;
    if (status == KOLO_OK) status = kolo_names_copy(found, (int)count, names);
    free(found);
    free(text);
    return status;
}

static kolo_status receive(kolo_comm *ranks, int root, const kolo_data *data, const head *h, kolo_arrays *arrays)
{
    void *features = NULL, *labels = NULL, *targets = NULL, *weights = NULL;
    kolo_status status = scatter_column(ranks, root, data, h, FEATURES, &features);
    if (status == KOLO_OK) status = scatter_column(ranks, root, data, h, LABELS, &labels);
    if (status == KOLO_OK) status = scatter_column(ranks, root, data, h, TARGETS, &targets);
    if (status == KOLO_OK) status = scatter_column(ranks, root, data, h, WEIGHTS, &weights);
    *arrays = (kolo_arrays){.samples = share_of(h->samples, ranks->rank, ranks->size),
                            .shape = h->shape,
                            .bytes = h->bytes ? features : NULL,
                            .tokens = h->tokens ? features : NULL,
                            .floats = h->bytes || h->tokens ? NULL : features,
                            .scale = h->scale,
                            .labels = labels,
                            .label_count = h->label_count,
                            .classes = h->classes,
                            .targets = targets,
                            .target_shape = h->target_shape,
                            .weights = weights,
                            .synthetic = h->synthetic};
    memcpy(arrays->source, h->source, sizeof arrays->source);
    const char *const *classes = data ? data->class_names : NULL, *const *columns = data ? data->feature_names : NULL;
    if (status == KOLO_OK) status = share_names(ranks, root, classes, h->classes, h->class_names, &arrays->class_names);
    if (status == KOLO_OK)
        status =
            share_names(ranks, root, columns, kolo_shape_count(h->shape), h->feature_names, &arrays->feature_names);
    return status;
}

static kolo_status scatter(kolo_data *data, int root, kolo_data **out)
{
    kolo_comm *ranks = kolo_world_comm();
    kolo_arrays arrays = {0};
    head h = {0};
    if (root < 0 || root >= ranks->size)
        return kolo_fail(KOLO_INVALID, "wanted a root from 0 to %d, got %d", ranks->size - 1, root);
    if (ranks->rank == root) h = describe(data, ranks->size);
    KOLO_TRY(ranks->kind->broadcast(ranks, &h, sizeof h, root));
    if (h.failure.code != KOLO_OK) return kolo_fail(h.failure.code, "rank %d: %.900s", root, h.failure.text);
    kolo_status status = receive(ranks, root, ranks->rank == root ? data : NULL, &h, &arrays);
    if (status == KOLO_OK) status = kolo_arrays_become(&arrays, out);
    else kolo_arrays_free(&arrays);
    if (status == KOLO_OK && h.autoencoder) {
        (*out)->autoencoder = true;
        (*out)->target_shape = h.shape;
    }
    return status;
}

kolo_data *kolo_data_scatter_at(kolo_data *data, int root, kolo_here here)
{
    kolo_data *shard = NULL;
    kolo_scope scope = kolo_enter("kolo_data_scatter", here);
    return kolo_leave(scope, scatter(data, root, &shard)) == KOLO_OK ? shard : NULL;
}
