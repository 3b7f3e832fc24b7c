/* The numbers of replicas of the ranks that train together, which may differ: see trainer.h. */
#include <stdlib.h>
#include <string.h>

#include "replica/trainer.h"

/* The workers of a strategy are numbered by equal shares of the ranks (center_link.h). */
static kolo_status check_workers(const kolo_model *model, const int *on_ranks, int size)
{
    const kolo_strategy_kind *kind = kolo_model_strategy(model);
    for (int r = 1; r < size && kolo_strategy_has_workers(kind); r++)
        if (on_ranks[r] != on_ranks[0])
            return kolo_fail(KOLO_INVALID,
                             "strategy %s: wanted the same number of workers on all ranks, got %d on rank 0, %d on "
                             "rank %d",
                             kind->name, on_ranks[0], on_ranks[r], r);
    return KOLO_OK;
}

/* Takes on_ranks[size], which the model frees. */
static void take_numbers(kolo_model *model, int *on_ranks, int size)
{
    kolo_deployment *place = &model->place;
    bool same = place->ranks == size && memcmp(place->on_ranks, on_ranks, (size_t)size * sizeof *on_ranks) == 0;
    if (!same && model->trainer) kolo_trainer_close_groups(model->trainer);
    free(place->on_ranks);
    place->ranks = size;
    place->on_ranks = on_ranks;
}

kolo_status kolo_model_meet(kolo_model *model)
{
    kolo_comm *ranks = kolo_model_ranks(model);
    int mine = kolo_model_replicas(model), *on_ranks = calloc((size_t)ranks->size, sizeof *on_ranks);
    if (!on_ranks) return kolo_fail_memory((size_t)ranks->size * sizeof *on_ranks, "the ranks' devices");
    kolo_status status = ranks->kind->allgather(ranks, &mine, sizeof mine, on_ranks);
    if (status == KOLO_OK) status = check_workers(model, on_ranks, ranks->size);
    if (status == KOLO_OK) take_numbers(model, on_ranks, ranks->size);
    else free(on_ranks);
    return status;
}

/* Before the ranks have met, the others are taken to have as many replicas as this one. */
static int count_to(const kolo_model *model, int rank)
{
    int count = 0;
    if (!model->place.on_ranks) return rank * kolo_model_replicas(model);
    for (int r = 0; r < rank; r++) count += model->place.on_ranks[r];
    return count;
}

int kolo_model_members(const kolo_model *model)
{
    return count_to(model, kolo_model_ranks(model)->size);
}

int kolo_model_first_member(const kolo_model *model)
{
    return count_to(model, kolo_model_ranks(model)->rank);
}
