/* Exchanges of workers with the centre: see center.h. All functions whose names do not begin with kolo_, and those of
 * center_state.h, are called with the lock held. */
#include <string.h>

#include "core/clock.h"
#include "replica/center_state.h"

static void finish_exchange(kolo_center_worker_state *w)
{
    w->exchange.batches = w->position = 0;
    w->exchanged = w->totals;
    w->admitted = false;
    w->turn++;
}

/* Admits the worker's exchange as the next one. */
static kolo_status admit(kolo_center *center, kolo_center_worker_state *w, double samples, kolo_ticket *ticket)
{
    const kolo_exchange *mine = &w->exchange;
    if (center->epoch.record && !center->epoch.turns)
        KOLO_TRY(kolo_turns_add(center->epoch.record, mine->number, w->batches, mine->batches));
    *ticket = kolo_center_give_ticket(center, mine->number);
    ticket->staleness = center->exchanges - w->exchanged_at;
    ticket->samples = samples;
    ticket->learning_rate = center->learning_rate;
    ticket->updates = center->updates;
    if (center->args.kind->updates_center) center->updates++;
    w->exchanged_at = ++center->exchanges;
    center->turn++;
    w->admitted = true;
    w->given_at = kolo_now();
    pthread_cond_broadcast(&center->changed);
    return KOLO_OK;
}

/* Leaves out the turns of workers that are gone. */
void kolo_center_skip_lost_turns(kolo_center *center)
{
    const kolo_turns *turns = center->epoch.turns;
    while (turns && center->turn < turns->count && center->workers[turns->turn[center->turn].worker].gone)
        center->turn++;
}

/* Waits for the worker's turn. *comes: it comes; otherwise the epoch was stopped before. *done: false if it has not
 * come at the end. */
static kolo_status wait_for_turn(kolo_center *center, const kolo_center_worker_state *w, double end, bool *comes,
                                 bool *done)
{
    *comes = *done = true;
    if (!center->epoch.turns) return center->ended == FAILED ? kolo_center_called_off(center) : KOLO_OK;
    for (kolo_center_skip_lost_turns(center); center->turn != w->turn && !center->ended;
         kolo_center_skip_lost_turns(center))
        if (!kolo_center_wait(center, end)) {
            *done = false;
            return KOLO_OK;
        }
    *comes = center->turn == w->turn;
    return center->ended == FAILED ? kolo_center_called_off(center) : KOLO_OK;
}

static kolo_status admit_in_turn(kolo_center *center, kolo_center_worker_state *w, double samples, double end,
                                 kolo_admission *admission)
{
    *admission = (kolo_admission){.done = false};
    KOLO_TRY(wait_for_turn(center, w, end, &admission->comes, &admission->done));
    admission->batches = w->exchange.batches;
    if (!admission->done) return KOLO_OK;
    if (admission->comes) return admit(center, w, samples, &admission->ticket);
    w->exchange.batches = 0;
    return KOLO_OK;
}

/* Exchanges without the lock, so that the next worker may follow from part to part. */
static kolo_status exchange_in_turn(kolo_center *center, kolo_center_worker_state *w, const kolo_offer *offer,
                                    double end, bool *done)
{
    kolo_admission admission;
    KOLO_TRY(admit_in_turn(center, w, offer->samples, end, &admission));
    *done = admission.done;
    if (!admission.done || !admission.comes) return KOLO_OK;
    kolo_status status = KOLO_OK;
    bool exchanged;
    pthread_mutex_unlock(&center->lock);
    for (int i = 0; i < center->args.parts && status == KOLO_OK; i++)
        status = kolo_center_parts_exchange(center->parts, i, &admission.ticket, w->exchange.number, admission.batches,
                                            offer, 0, &exchanged);
    pthread_mutex_lock(&center->lock);
    if (status == KOLO_OK) finish_exchange(w);
    return status;
}

typedef struct exchange_of_all {
    kolo_exchange worker[KOLO_DEVICES_MAX];
    int count;
} exchange_of_all;

static void exchange_all(void *argument, const kolo_part_args *part)
{
    const exchange_of_all *all = argument;
    part->kind->exchange_all(part->strategy, all->worker, all->count);
}

/* Makes the exchange of all if all that are left have come. The offers of the others wait in their exchanges. */
void kolo_center_exchange_if_all_came(kolo_center *center)
{
    exchange_of_all all = {.count = 0};
    int trained = 0;
    for (int i = 0; i < center->args.workers; i++) {
        const kolo_center_worker_state *w = &center->workers[i];
        if (w->gone) continue;
        if (!w->arrived) return;
        all.worker[all.count++] = w->exchange;
        trained += w->exchange.batches;
    }
    if (trained > 0) {
        kolo_ticket ticket = kolo_center_give_ticket(center, -1);
        kolo_center_parts_visit(center->parts, 0, &ticket, 0, exchange_all, &all); /* these strategies have one part */
    }
    for (int i = 0; i < center->args.workers; i++) {
        kolo_center_worker_state *w = &center->workers[i];
        if (w->gone) continue;
        memcpy(kolo_center_parts_start(center->parts, i), w->exchange.weights,
               (size_t)center->args.count * sizeof(float));
        finish_exchange(w);
        w->arrived = false;
    }
    center->turn += center->args.workers; /* the order has a turn for each worker, also for those that are gone */
    center->round++;
    center->last_round = center->ended != GOES_ON;
}

static kolo_status exchange_at_once(kolo_center *center, kolo_center_worker_state *w, const kolo_offer *offer,
                                    double end, bool *done)
{
    int round = center->round;
    w->exchange.weights = offer->weights;
    w->exchange.start =
        offer->start ? (float *)offer->start : kolo_center_parts_start(center->parts, w->exchange.number);
    w->arrived = *done = true;
    kolo_center_exchange_if_all_came(center);
    pthread_cond_broadcast(&center->changed);
    while (*done && center->round == round && center->ended != FAILED) *done = kolo_center_wait(center, end);
    *done = *done || center->round != round;
    if (!*done) w->arrived = false; /* until it comes again */
    return center->ended == FAILED ? kolo_center_called_off(center) : KOLO_OK;
}

kolo_status kolo_center_exchange(kolo_center *center, int worker_number, const kolo_offer *offer, double seconds,
                                 bool *done)
{
    double end = kolo_center_end_of(seconds);
    kolo_center_worker_state *w = &center->workers[worker_number];
    pthread_mutex_lock(&center->lock);
    kolo_status status = center->args.kind->exchange_all ? exchange_at_once(center, w, offer, end, done)
                                                         : exchange_in_turn(center, w, offer, end, done);
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
    return status;
}

kolo_status kolo_center_admit(kolo_center *center, int worker_number, double samples, double seconds,
                              kolo_admission *admission)
{
    double end = kolo_center_end_of(seconds);
    pthread_mutex_lock(&center->lock);
    kolo_status status = admit_in_turn(center, &center->workers[worker_number], samples, end, admission);
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
    return status;
}

void kolo_center_exchanged(kolo_center *center, int worker_number)
{
    pthread_mutex_lock(&center->lock);
    kolo_center_worker_state *w = &center->workers[worker_number];
    if (w->admitted) finish_exchange(w); /* else the epoch has begun anew */
    pthread_cond_broadcast(&center->changed);
    pthread_mutex_unlock(&center->lock);
}

kolo_status kolo_center_check(kolo_center *center)
{
    pthread_mutex_lock(&center->lock);
    kolo_center_look_for_stalled(center);
    kolo_status status = center->ended == FAILED ? kolo_center_called_off(center) : KOLO_OK;
    pthread_mutex_unlock(&center->lock);
    return status;
}
