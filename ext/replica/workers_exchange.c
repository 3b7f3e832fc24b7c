/* A worker's calls of the centre: directly on rank 0, by a link on the others; and its exchanges with parts of the
 * weights that several ranks keep. See workers_state.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replica/workers_state.h"

#define MOMENTS      10 /* in a second */
#define TURN_SECONDS 1 /* that a worker waits for its turn at a part before it asks whether the epoch goes on */

static kolo_workers *workers_of(const kolo_replica *replica)
{
    return replica->trainer->workers;
}

static kolo_center_link *link_of(const kolo_replica *replica, int rank)
{
    return kolo_workers_link_to(workers_of(replica), rank, replica->index);
}

kolo_status kolo_worker_next(kolo_replica *replica, kolo_task *task)
{
    kolo_workers *workers = workers_of(replica);
    if (workers->center)
        return kolo_center_next(workers->center, kolo_worker_number(replica), workers->epochs, 0, task);
    return kolo_center_link_next(link_of(replica, 0), workers->epochs, task);
}

void kolo_worker_report(kolo_replica *replica)
{
    kolo_workers *workers = workers_of(replica);
    if (workers->center)
        kolo_center_report(workers->center, kolo_worker_number(replica), workers->epochs, &replica->local_totals);
    else kolo_center_link_report(link_of(replica, 0), &replica->local_totals);
}

/* ---------------------------------------------------------------- parts on several ranks */

static kolo_status admit(kolo_replica *replica, const kolo_offer *offer, kolo_admission *admission)
{
    kolo_workers *workers = workers_of(replica);
    int number = kolo_worker_number(replica);
    if (workers->center) return kolo_center_admit(workers->center, number, offer->samples, 0, admission);
    return kolo_center_link_admit(link_of(replica, 0), offer->samples, admission);
}

/* Fails if the epoch has failed, with its reason. */
static kolo_status check(const kolo_replica *replica)
{
    kolo_workers *workers = workers_of(replica);
    return workers->center ? kolo_center_check(workers->center) : kolo_center_link_check(link_of(replica, 0));
}

/* A part fails with its rank, or because the epoch has failed: then the centre knows the reason, perhaps a moment later
 * than this worker. */
static kolo_status with_the_reason(const kolo_replica *replica, int rank, kolo_status status)
{
    kolo_center *center = workers_of(replica)->center;
    if (status == KOLO_OK) return KOLO_OK;
    kolo_failure failure = kolo_failure_take();
    for (int i = 0; i < MOMENTS; i++) {
        KOLO_TRY(check(replica));
        if (center) break;
        usleep(1000000 / MOMENTS);
    }
    if (center) kolo_center_lose_server(center, rank);
    kolo_failure_give(&failure);
    return status;
}

static kolo_status exchange_with(kolo_replica *replica, int part, const kolo_admission *admission,
                                 const kolo_offer *offer)
{
    kolo_workers *workers = workers_of(replica);
    int rank = kolo_workers_keeper(workers, part);
    for (bool done = false; !done;) {
        kolo_status status =
            rank == workers->ranks->rank
                ? kolo_center_parts_exchange(workers->parts, part, &admission->ticket, kolo_worker_number(replica),
                                             admission->batches, offer, TURN_SECONDS, &done)
                : kolo_center_link_part(link_of(replica, rank), part, &admission->ticket, admission->batches, offer,
                                        &done);
        KOLO_TRY(with_the_reason(replica, rank, status));
        if (!done) KOLO_TRY(check(replica));
    }
    return KOLO_OK;
}

static kolo_status exchange_with_all(kolo_replica *replica, const kolo_offer *offer)
{
    kolo_workers *workers = workers_of(replica);
    kolo_admission admission;
    KOLO_TRY(admit(replica, offer, &admission));
    for (int i = 0; i < workers->servers && admission.comes; i++)
        KOLO_TRY(exchange_with(replica, i, &admission, offer));
    if (workers->center) kolo_center_exchanged(workers->center, kolo_worker_number(replica));
    else kolo_center_link_exchanged(link_of(replica, 0));
    return KOLO_OK;
}

/* Strategies exchange different arrays: weights, a gradient, or a difference of weights, and the centre's weights. */
static kolo_status exchange(kolo_replica *replica)
{
    kolo_workers *workers = workers_of(replica);
    const kolo_worker_arrays *arrays = &workers->arrays[replica->index];
    const kolo_offer offer = {.weights = kolo_replica_weights(replica),
                              .start =
                                  kolo_model_strategy(replica->trainer->model)->writes_start ? arrays->start : NULL,
                              .gradient = replica->gradient,
                              .samples = replica->local_totals.samples};
    bool done;
    if (workers->keeps) KOLO_TRY(exchange_with_all(replica, &offer));
    else if (workers->center)
        KOLO_TRY(kolo_center_exchange(workers->center, kolo_worker_number(replica), &offer, 0, &done));
    else KOLO_TRY(kolo_center_link_exchange(link_of(replica, 0), &offer));
    memcpy(arrays->start, offer.weights, (size_t)kolo_replica_count(replica) * sizeof(float));
    return kolo_replica_pack(replica);
}

kolo_status kolo_worker_exchange(kolo_replica *replica)
{
    int64_t begun = kolo_timeline_begin();
    KOLO_TRY(exchange(replica));
    kolo_timeline_end_with(begun, KOLO_SPAN_EXCHANGE, "commit and pull", -1,
                           2 * kolo_replica_count(replica) * (int64_t)sizeof(float));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- before an epoch */

static size_t bytes_of_all(const kolo_workers *workers)
{
    size_t bytes = 0;
    for (int i = 0; i < workers->servers; i++) bytes += kolo_center_parts_bytes(workers->parts, i);
    return bytes;
}

/* Copies all parts of rank 0 to all[], or from there to the parts of another rank. */
static void copy_all(kolo_workers *workers, char *all)
{
    for (int i = 0; i < workers->servers; i++) {
        if (workers->center) kolo_center_parts_copy(workers->parts, i, all);
        else kolo_center_parts_unpack(workers->parts, i, all);
        all += kolo_center_parts_bytes(workers->parts, i);
    }
    if (!workers->center) kolo_center_parts_begin_anew(workers->parts);
}

static kolo_status share_parts(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    size_t bytes = bytes_of_all(workers);
    char *all = malloc(bytes + 1);
    if (!all) return kolo_fail_memory(bytes, "the centre's weights");
    if (workers->center) copy_all(workers, all);
    kolo_status status = kolo_workers_share(trainer, all, bytes);
    if (status == KOLO_OK && !workers->center) copy_all(workers, all);
    free(all);
    return status;
}

kolo_status kolo_workers_spread(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    bool is_set = workers->is_set;
    if (!workers->keeps) return KOLO_OK;
    KOLO_TRY(kolo_workers_share(trainer, &is_set, sizeof is_set));
    workers->is_set = false;
    return is_set ? share_parts(trainer) : KOLO_OK;
}

/* ---------------------------------------------------------------- the parts of all ranks */

/* bytes[] becomes a part at the ticket's turn. */
static kolo_status get_part(kolo_workers *workers, int part, const kolo_ticket *ticket, char *bytes)
{
    int rank = kolo_workers_keeper(workers, part);
    size_t room = kolo_center_parts_bytes(workers->parts, part);
    for (bool done = false; !done;) {
        if (rank == 0) done = kolo_center_parts_pack(workers->parts, part, ticket, TURN_SECONDS, bytes);
        else KOLO_TRY(kolo_center_link_get(kolo_workers_link_to(workers, rank, 0), part, ticket, bytes, room, &done));
        if (!done) KOLO_TRY(kolo_center_check(workers->center));
    }
    if (rank > 0) kolo_center_parts_unpack(workers->parts, part, bytes);
    return KOLO_OK;
}

kolo_status kolo_workers_gather(kolo_trainer *trainer)
{
    kolo_workers *workers = trainer->workers;
    float *weights = trainer->model->weights;
    size_t all = (size_t)trainer->model->weight_count * sizeof *weights;
    if (!workers->keeps) kolo_center_get(workers->center, weights);
    else if (!workers->trains) memcpy(weights, kolo_center_parts_weights(workers->parts), all);
    if (!workers->keeps || !workers->trains) return KOLO_OK;
    size_t bytes = bytes_of_all(workers); /* at least those of the largest part */
    char *part = malloc(bytes + 1);
    if (!part) return kolo_fail_memory(bytes, "the centre's weights");
    kolo_status status = KOLO_OK;
    kolo_ticket ticket = kolo_center_visit(workers->center);
    for (int i = 0; i < workers->servers && status == KOLO_OK; i++) {
        const kolo_part_range *range = &workers->ranges[i];
        status = get_part(workers, i, &ticket, part);
        if (status == KOLO_OK)
            memcpy(weights + range->first, part, (size_t)(range->end - range->first) * sizeof(float));
    }
    free(part);
    return status;
}
