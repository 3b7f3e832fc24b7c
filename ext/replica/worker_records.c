/* See worker_records.h. */
#include "replica/worker_records.h"

#include <stdlib.h>
#include <string.h>

#include "replica/workers_state.h"

/* ---------------------------------------------------------------- what a record has */

/* The arrays of a worker of this process, in the order of a record's planes. */
static int list_planes(const kolo_trainer *trainer, int index, float *planes[KOLO_WORKER_PLANES])
{
    const kolo_strategy_kind *kind = kolo_model_strategy(trainer->model);
    const kolo_replica *replica = &trainer->replicas[index];
    int count = 0, slots = kind->updates_center ? 0 : kolo_optimizer_slots(&trainer->model->settings.optimizer);
    planes[count++] = replica->weights;
    if (kind->has_memory) planes[count++] = trainer->workers->arrays[index].memory;
    for (int s = 0; s < slots; s++) planes[count++] = replica->slots[s];
    if (replica->accumulated) planes[count++] = replica->accumulated;
    return count;
}

int kolo_worker_planes(const kolo_trainer *trainer)
{
    float *planes[KOLO_WORKER_PLANES];
    return list_planes(trainer, 0, planes);
}

bool kolo_worker_has_numbers(const kolo_trainer *trainer)
{
    return trainer->replicas[0].numbers && !kolo_model_strategy(trainer->model)->updates_center;
}

size_t kolo_worker_record_bytes(const kolo_trainer *trainer)
{
    size_t numbers = kolo_worker_has_numbers(trainer) ? (size_t)trainer->model->parameter_count : 0;
    size_t values = (size_t)kolo_worker_planes(trainer) * (size_t)trainer->model->weight_count + numbers;
    return sizeof(kolo_worker_record) + values * sizeof(float);
}

int kolo_workers_count(const kolo_trainer *trainer)
{
    return trainer->workers ? trainer->workers->all : 0;
}

/* Copies a worker's arrays to its record, or back. */
static void copy_record(kolo_trainer *trainer, int index, kolo_worker_record *record, bool back)
{
    float *planes[KOLO_WORKER_PLANES], *at = record->values;
    size_t count = (size_t)trainer->model->weight_count, numbers = (size_t)trainer->model->parameter_count;
    kolo_replica *replica = &trainer->replicas[index];
    int all = list_planes(trainer, index, planes);
    for (int i = 0; i < all; i++, at += count) memcpy(back ? planes[i] : at, back ? at : planes[i], count * sizeof *at);
    if (kolo_worker_has_numbers(trainer))
        memcpy(back ? replica->numbers : at, back ? at : replica->numbers, numbers * sizeof *at);
    if (!back) record->counters = replica->counters;
    else {
        int64_t steps = replica->counters.steps, updates = replica->counters.updates;
        replica->counters = record->counters;
        replica->counters.steps = steps;
        if (kolo_model_strategy(trainer->model)->updates_center) replica->counters.updates = updates;
    }
}

/* ---------------------------------------------------------------- lists of records */

static void free_records(kolo_worker_record ***records, int count)
{
    for (int i = 0; *records && i < count; i++) free((*records)[i]);
    free(*records);
    *records = NULL;
}

void kolo_workers_free_records(kolo_workers *workers)
{
    free_records(&workers->records, workers->all);
    free_records(&workers->expected, workers->all);
}

/* Makes a list if there is none. */
static kolo_status open_records(const kolo_trainer *trainer, kolo_worker_record ***records)
{
    int count = trainer->workers->all;
    size_t bytes = kolo_worker_record_bytes(trainer);
    if (*records) return KOLO_OK;
    *records = calloc((size_t)count, sizeof **records);
    bool all = *records;
    for (int i = 0; i < count && all; i++) all = ((*records)[i] = calloc(1, bytes)) != NULL;
    if (all) return KOLO_OK;
    free_records(records, count);
    return kolo_fail_memory((size_t)count * bytes, "the workers' state");
}

kolo_status kolo_workers_open_records(kolo_trainer *trainer, kolo_worker_record *const **records)
{
    KOLO_TRY(open_records(trainer, &trainer->workers->records));
    *records = trainer->workers->records;
    return KOLO_OK;
}

static kolo_status note_own(kolo_trainer *trainer, kolo_worker_record *const *records)
{
    kolo_workers *workers = trainer->workers;
    for (int i = 0; i < trainer->count; i++) {
        KOLO_TRY(kolo_replica_fetch(&trainer->replicas[i], true));
        copy_record(trainer, i, records[workers->first + i], false);
    }
    for (int w = 0; workers->center && w < workers->all; w++)
        records[w]->behind = kolo_center_behind(workers->center, w);
    return KOLO_OK;
}

kolo_status kolo_workers_note(kolo_trainer *trainer, kolo_worker_record *const **records)
{
    kolo_workers *workers = trainer->workers;
    *records = NULL;
    if (!workers || !workers->center || workers->trains || !workers->has_trained || workers->lost > 0) return KOLO_OK;
    KOLO_TRY(open_records(trainer, &workers->records));
    KOLO_TRY(note_own(trainer, workers->records));
    *records = workers->records;
    return KOLO_OK;
}

kolo_status kolo_workers_expect(kolo_trainer *trainer, kolo_worker_record *const **records)
{
    KOLO_TRY(open_records(trainer, &trainer->workers->expected));
    *records = trainer->workers->expected;
    return KOLO_OK;
}

void kolo_workers_forget(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    if (!workers) return;
    free_records(&workers->expected, workers->all);
    workers->has_trained = false;
}

/* ---------------------------------------------------------------- records of other ranks */

kolo_status kolo_workers_send_records(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    size_t bytes = kolo_worker_record_bytes(trainer);
    if (workers->center || !workers->linked) return KOLO_OK;
    kolo_worker_record *record = calloc(1, bytes);
    kolo_status status = record ? KOLO_OK : kolo_fail_memory(bytes, "a worker's state");
    for (int i = 0; i < trainer->count && status == KOLO_OK; i++) {
        status = kolo_replica_fetch(&trainer->replicas[i], true);
        if (status != KOLO_OK) break;
        copy_record(trainer, i, record, false);
        status = kolo_center_link_record(kolo_workers_link_to(workers, 0, i), record, bytes);
    }
    free(record);
    return status;
}

kolo_status kolo_workers_await_records(kolo_trainer *trainer)
{
    const kolo_workers *workers = trainer->workers;
    return workers->center && workers->server ? kolo_center_server_wait(workers->server) : KOLO_OK;
}

/* ---------------------------------------------------------------- going on */

kolo_status kolo_workers_keep(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    if (!workers || workers->expected || !workers->has_trained) return KOLO_OK;
    KOLO_TRY(open_records(trainer, &workers->expected));
    return note_own(trainer, workers->expected);
}

/* Whether all ranks have the records of their workers. */
static kolo_status agree(kolo_workers *workers, bool *all)
{
    double have = workers->expected != NULL;
    KOLO_TRY(workers->ranks->kind->allreduce(workers->ranks, &have, 1, KOLO_TYPE_DOUBLE, KOLO_REDUCE_MIN));
    *all = have > 0;
    return KOLO_OK;
}

/* The parts on any rank need to know the weights of all workers. */
static kolo_status share_starts(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    size_t bytes = (size_t)trainer->model->weight_count * sizeof(float);
    for (int w = 0; w < workers->all; w++) {
        kolo_worker_record *record = workers->expected[w];
        KOLO_TRY(workers->ranks->kind->broadcast(workers->ranks, record->values, bytes, w / trainer->count));
        if (workers->parts) kolo_center_parts_set_start(workers->parts, w, record->values);
        if (workers->center) kolo_center_set_behind(workers->center, w, record->behind);
    }
    return KOLO_OK;
}

static kolo_status resume(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    size_t bytes = (size_t)trainer->model->weight_count * sizeof(float);
    for (int i = 0; i < trainer->count; i++) {
        copy_record(trainer, i, workers->expected[workers->first + i], true);
        memcpy(workers->arrays[i].start, trainer->replicas[i].weights, bytes);
        KOLO_TRY(kolo_replica_store(&trainer->replicas[i], true));
    }
    KOLO_TRY(kolo_workers_spread(trainer)); /* it would set the starts anew in the first epoch */
    return share_starts(trainer);
}

kolo_status kolo_workers_resume(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    bool all;
    if (!workers) return KOLO_OK;
    KOLO_TRY(agree(workers, &all));
    if (!all && workers->expected)
        kolo_warn("not all ranks have loaded the checkpoint: the workers' own weights and optimizer states in it are "
                  "dropped, and all go on with the model's weights");
    kolo_status status = all ? resume(trainer) : KOLO_OK;
    free_records(&workers->expected, workers->all);
    return status;
}
