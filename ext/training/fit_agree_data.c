/* Whether all ranks have the same data: see fit.h. */
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "data/view.h"
#include "training/fit.h"

/* Of data in memory all samples are compared, or if there are more elements than this, so many from all over them. */
#define ELEMENTS_MOST ((int64_t)1 << 24)
/* So many samples are compared of features that a view computes, which may take long, from all over them. */
#define COMPUTED_MOST 256
#define CHUNK         ((int64_t)1 << 16) /* elements that are gathered at once, if a sample does not have more */

enum { FEATURES, LABELS, TARGETS, WEIGHTS, FIELDS };
static const char *const field_names[FIELDS] = {"features", "labels", "targets", "sample weights"};
typedef uint64_t hashes[2][FIELDS]; /* of the training data, and of the validation data */

/* ---------------------------------------------------------------- one field of one data set */

static bool has_field(const kolo_data *data, int field)
{
    return field == FEATURES ? true
           : field == LABELS ? data->has_labels
                             : field == WEIGHTS || (data->has_targets && !data->autoencoder);
}

/* Elements of one sample. */
static int64_t width_of(const kolo_data *data, int field)
{
    return field == FEATURES ? kolo_shape_count(data->shape)
           : field == LABELS ? data->label_count
                             : (field == TARGETS ? kolo_shape_count(data->target_shape) : 1);
}

static bool is_computed(const kolo_data *data)
{
    const kolo_view *view = data->view;
    if (!view) return false;
    if (!view->kind->keeps_features) return true;
    for (int i = 0; i < view->sources; i++)
        if (is_computed(&view->from[i])) return true;
    return false;
}

static int64_t count_compared(const kolo_data *data, int field)
{
    int64_t most = ELEMENTS_MOST / width_of(data, field);
    if (field == FEATURES && is_computed(data)) most = COMPUTED_MOST;
    if (most < 2) most = 2;
    return data->samples < most ? data->samples : most;
}

/* Hashes `count` samples, the first and the last among them. `room` holds `rows` of them. */
static kolo_status hash_rows(const kolo_data *data, int field, int64_t count, int rows, void *room, uint64_t *hash)
{
    int32_t index[KOLO_VIEW_ROWS];
    int64_t width = width_of(data, field);
    kolo_gathered to = {.outputs = width};
    if (field == FEATURES) to.features = room;
    else if (field == LABELS) to.labels = room;
    else if (field == TARGETS) to.targets = room;
    else to.weights = room;
    for (int64_t at = 0; at < count; at += rows) {
        int some = (int)(count - at < rows ? count - at : rows);
        for (int i = 0; i < some; i++)
            index[i] = (int32_t)(count > 1 ? (at + i) * (data->samples - 1) / (count - 1) : 0);
        KOLO_TRY(kolo_data_gather(data, NULL, index, 0, some, &to));
        *hash = kolo_hash_add_lanes(*hash, room, some * width);
    }
    return KOLO_OK;
}

static kolo_status hash_field(const kolo_data *data, int field, uint64_t *hash)
{
    int64_t count = count_compared(data, field), width = width_of(data, field), rows = CHUNK / width;
    if (rows > KOLO_VIEW_ROWS) rows = KOLO_VIEW_ROWS;
    if (rows < 1) rows = 1;
    size_t bytes = (size_t)(rows * width) * sizeof(float);
    void *room = calloc(1, bytes);
    if (!room) return kolo_fail_memory(bytes, "some samples");
    kolo_status status = hash_rows(data, field, count, (int)rows, room, hash);
    free(room);
    return status;
}

/* The features of data in memory never change, and a program may fit often: their hash is kept. */
static kolo_status hash_features(const kolo_data *data, uint64_t *hash)
{
    kolo_storage *storage = data->storage;
    const void *array = data->bytes    ? (const void *)data->bytes
                        : data->floats ? (const void *)data->floats
                                       : (const void *)data->tokens;
    if (array && storage->hashed == array && storage->hashed_samples == data->samples) {
        *hash = storage->hash;
        return KOLO_OK;
    }
    KOLO_TRY(hash_field(data, FEATURES, hash));
    if (array) storage->hashed = array, storage->hashed_samples = data->samples, storage->hash = *hash;
    return KOLO_OK;
}

/* ---------------------------------------------------------------- all of it */

static kolo_status hash_all(const kolo_fit_state *state, hashes mine)
{
    const kolo_data *data[] = {state->data, state->validation};
    for (int d = 0; d < 2; d++)
        for (int field = 0; field < FIELDS; field++) {
            mine[d][field] = KOLO_HASH_START;
            if (!data[d] || !has_field(data[d], field)) continue;
            if (field == FEATURES) KOLO_TRY(hash_features(data[d], &mine[d][field]));
            else KOLO_TRY(hash_field(data[d], field, &mine[d][field]));
        }
    return KOLO_OK;
}

/* Programs for Horovod give each rank a shard of its own, and a rank would then train on a part of its shard only. */
static const char *advice_on_shards(const kolo_model *model)
{
    return kolo_strategy_has_workers(kolo_model_strategy(model))
               ? ", or set .sharded if each has a shard of its own"
               : " (only strategies of workers, such as kolo_downpour(), train on shards that ranks have alone)";
}

static kolo_status compare(const kolo_fit_state *state, hashes *all)
{
    for (int rank = 1; rank < state->ranks->size; rank++)
        for (int field = 0; field < FIELDS; field++) {
            if (all[rank][0][field] != all[0][0][field])
                return kolo_fail(KOLO_INVALID,
                                 "wanted the same data on all ranks, got other %s on rank %d than on rank 0: give "
                                 "every "
                                 "rank the whole data set, since kolo_fit() divides it among the ranks itself%s",
                                 field_names[field], rank, advice_on_shards(state->model));
            if (all[rank][1][field] != all[0][1][field])
                return kolo_fail(KOLO_INVALID,
                                 "wanted the same validation data on all ranks, got other %s on rank %d than on rank "
                                 "0: "
                                 "give every rank all of them, since kolo_fit() divides them among the ranks itself",
                                 field_names[field], rank);
        }
    return KOLO_OK;
}

kolo_status kolo_fit_agree_on_data(const kolo_fit_state *state)
{
    kolo_comm *ranks = state->ranks;
    hashes mine, *all = calloc((size_t)ranks->size, sizeof *all);
    if (!all) return kolo_fail_memory((size_t)ranks->size * sizeof *all, "the ranks' data");
    kolo_status status = kolo_fit_agree_to_begin(state, hash_all(state, mine));
    if (status == KOLO_OK) status = ranks->kind->allgather(ranks, mine, sizeof mine, all);
    if (status == KOLO_OK) status = compare(state, all);
    free(all);
    return status;
}
