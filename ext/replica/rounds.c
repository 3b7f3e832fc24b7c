/* Rounds through a model's arrays: see rounds.h. */
#include "replica/rounds.h"

#define CHUNK 8192 /* elements: 32 KiB of each array */

int64_t kolo_chunks(const kolo_parameter *parameter)
{
    return (kolo_shape_count(parameter->shape) + CHUNK - 1) / CHUNK;
}

int64_t kolo_chunks_before(const kolo_model *model, int number)
{
    int64_t chunks = 0;
    for (int p = 0; p < number; p++) chunks += kolo_chunks(&model->parameters[p]);
    return chunks;
}

int64_t kolo_update_chunks(const kolo_model *model)
{
    return kolo_chunks_before(model, model->parameter_count) + 1;
}

typedef struct walk {
    const kolo_model *model;
    int before, workers; /* of other replicas, before this one's; in all */
    bool whole;
    void (*work)(void *argument, const kolo_piece *piece);
    void *argument;
} walk;

/* A worker's run of chunks, cut where a parameter ends, and at every chunk unless walk.whole. */
static kolo_status do_share(void *argument, int member)
{
    const walk *w = argument;
    int64_t all = kolo_chunks_before(w->model, w->model->parameter_count), worker = w->before + member;
    int64_t chunk = all * worker / w->workers, end = all * (worker + 1) / w->workers, begins = 0;
    for (int p = 0; p < w->model->parameter_count && chunk < end; p++) {
        const kolo_parameter *parameter = &w->model->parameters[p];
        int64_t ends = begins + kolo_chunks(parameter), size = kolo_shape_count(parameter->shape);
        while (chunk < end && chunk < ends) {
            int64_t next = !w->whole ? chunk + 1 : ends < end ? ends : end;
            int64_t first = (chunk - begins) * CHUNK, last = (next - begins) * CHUNK;
            w->work(w->argument, &(kolo_piece){parameter, p, first, (last < size ? last : size) - first, chunk});
            chunk = next;
        }
        begins = ends;
    }
    return KOLO_OK;
}

kolo_status kolo_round(kolo_replica *replica, bool whole, void (*work)(void *argument, const kolo_piece *piece),
                       void *argument)
{
    const kolo_trainer *trainer = replica->trainer;
    kolo_team *team = replica->engine->team;
    bool shares = trainer->weight_placement == KOLO_WEIGHTS_SHARED;
    if (trainer->weight_placement == KOLO_WEIGHTS_CENTRAL) {
        if (replica->index != trainer->updater) return KOLO_OK;
        if (trainer->parameter_team) team = trainer->parameter_team;
    }
    int size = kolo_team_size(team);
    walk w = {trainer->model, shares ? replica->index * size : 0, shares ? trainer->running * size : size, whole, work,
              argument};
    return kolo_team_run(team, do_share, &w);
}

kolo_status kolo_replica_wait(kolo_replica *replica)
{
    kolo_comm *local = replica->local;
    return replica->trainer->running > 1 ? local->kind->barrier(local) : KOLO_OK;
}

kolo_status kolo_replica_meet(kolo_replica *replica)
{
    return replica->trainer->weight_placement == KOLO_WEIGHTS_COPIED ? KOLO_OK : kolo_replica_wait(replica);
}
