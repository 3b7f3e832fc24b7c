/* Logs, and some of the built-in callbacks: see kolo_callbacks.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "training/fit.h"
#include "model/model.h"
#include "replica/trainer.h"

/* ---------------------------------------------------------------- logs */

void kolo_logs_put(kolo_logs *logs, const char *name, double value, double agreed)
{
    if (logs->count == KOLO_LOGS_MAX) return;
    logs->names[logs->count] = name;
    logs->agreed[logs->count] = agreed;
    logs->values[logs->count++] = value;
}

void kolo_logs_set(kolo_logs *logs, const char *name, double value)
{
    int i = 0;
    if (!logs || !name) return;
    while (i < logs->count && strcmp(logs->names[i], name) != 0) i++;
    if (i == logs->count) kolo_logs_put(logs, name, value, value);
    else logs->values[i] = logs->agreed[i] = value;
}

double kolo_logs_get(const kolo_logs *logs, const char *name)
{
    for (int i = 0; logs && name && i < logs->count; i++)
        if (strcmp(logs->names[i], name) == 0) return logs->values[i];
    return NAN;
}

/* ---------------------------------------------------------------- broadcast_variables */

/* Broadcasts the optimizer's state to the first replica of each process, then copies it to the others. Gradients that
 * were accumulated for the next update are dropped, since each rank has a part of their sum. */
static kolo_status broadcast_state(kolo_trainer *trainer, kolo_comm *ranks, int root)
{
    const kolo_model *model = trainer->model;
    size_t bytes = (size_t)model->weight_count * sizeof(float);
    size_t number_bytes = (size_t)model->parameter_count * sizeof(float);
    int slots = kolo_optimizer_slots(&model->settings.optimizer);
    kolo_replica *first = &trainer->replicas[0];
    KOLO_TRY(kolo_trainer_fetch_state(trainer));
    KOLO_TRY(ranks->kind->broadcast(ranks, &first->counters, sizeof first->counters, root));
    for (int s = 0; s < slots; s++) KOLO_TRY(ranks->kind->broadcast(ranks, first->slots[s], bytes, root));
    if (first->numbers) KOLO_TRY(ranks->kind->broadcast(ranks, first->numbers, number_bytes, root));
    first->counters.accumulated_batches = 0;
    first->counters.accumulated_samples = 0;
    if (first->accumulated) memset(first->accumulated, 0, bytes);
    return kolo_trainer_share_state(trainer);
}

kolo_status kolo_broadcast_all(kolo_model *model, int root)
{
    kolo_comm *ranks = kolo_model_ranks(model);
    if (root < 0 || root >= kolo_size())
        return kolo_fail(KOLO_INVALID, "kolo_broadcast_variables: wanted a rank from 0 to %d, got %d", kolo_size() - 1,
                         root);
    if (ranks->size == 1) return KOLO_OK;
    size_t bytes = (size_t)model->weight_count * sizeof(float);
    KOLO_TRY(ranks->kind->broadcast(ranks, model->weights, bytes, root));
    KOLO_TRY(ranks->kind->broadcast(ranks, &model->learning_rate, sizeof model->learning_rate, root));
    KOLO_TRY(broadcast_state(model->trainer, ranks, root));
    return kolo_trainer_store(model->trainer);
}

static void broadcast_at_begin(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    kolo_status status = kolo_broadcast_all(self->model, (int)self->number[0]);
    if (status != KOLO_OK) self->model->callback_status = status;
}

kolo_callback kolo_broadcast_variables(int root)
{
    return (kolo_callback){.name = "broadcast_variables", .on_train_begin = broadcast_at_begin, .number = {root}};
}

/* ---------------------------------------------------------------- metric_average */

static void average_from_now_on(kolo_callback *self, const kolo_logs *logs)
{
    (void)logs;
    self->model->average_metrics = true;
}

kolo_callback kolo_metric_average(void)
{
    return (kolo_callback){.name = "metric_average", .on_train_begin = average_from_now_on};
}

/* ---------------------------------------------------------------- throughput */

static void print_throughput(kolo_callback *self, int epoch, const kolo_logs *logs)
{
    (void)self;
    (void)epoch;
    if (kolo_rank() != 0) return;
    printf("Epoch time : %.2f\n", kolo_logs_get(logs, "seconds"));
    printf("Images/sec: %.2f\n", kolo_logs_get(logs, "images_per_second"));
    fflush(stdout);
}

kolo_callback kolo_throughput(void)
{
    return (kolo_callback){.name = "throughput", .on_epoch_end = print_throughput};
}
