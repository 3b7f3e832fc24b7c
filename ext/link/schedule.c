/* The rounds of ring, hierarchical and parameter-server collectives. See link_model.h; tree.c has the trees.
 *
 * All rounds of a ring are alike, so one is simulated: 2(N−1) · (α + S/(N·B)) for an all-reduce over links of bandwidth
 * B and latency α that nothing else uses.
 */
#include "link/link_model.h"

/* ---------------------------------------------------------------- rings */

/* Over all hosts: which devices of a host a ring visits, in which order. */
typedef struct cycles {
    int count;
    kolo_ring ring[KOLO_RINGS_MAX];
} cycles;

static int local_devices(const kolo_task *task)
{
    int each = task->model->graph.devices;
    return task->devices < each ? task->devices : each;
}

/* The NIC by which a device sends to the network: the node before the network on its route. */
static int nic_of(const kolo_link_model *model, int device)
{
    const kolo_graph *graph = &model->graph;
    const kolo_route *route = &model->route[graph->device[device]][graph->network];
    return graph->wire[route->wire[route->hops - 1]].from;
}

/* Turns the ring of a host so that its last device, from which bytes leave the host, is at place `last` of `ring`. */
static kolo_ring turned(const kolo_ring *ring, int count, int last)
{
    kolo_ring result = *ring;
    for (int i = 0; i < count; i++) result.order[i] = ring->order[(last + 1 + i) % count];
    return result;
}

/* Rings across hosts: the best ring of a host, once for each NIC, leaving the host at that NIC's first device. */
static void spread_over_nics(const kolo_link_model *model, int count, cycles *c)
{
    const kolo_ring best = c->ring[0];
    int nics[KOLO_RINGS_MAX];
    c->count = 0;
    for (int i = 0; i < count && c->count < KOLO_RINGS_MAX; i++) {
        int nic = nic_of(model, best.order[i]), known = 0;
        while (known < c->count && nics[known] != nic) known++;
        if (known < c->count) continue;
        nics[c->count] = nic;
        c->ring[c->count++] = turned(&best, count, i);
    }
    for (int r = 0; r < c->count; r++) c->ring[r].share = 1.0 / c->count;
}

static void find_cycles(const kolo_task *task, cycles *c)
{
    int local = local_devices(task);
    c->count = kolo_rings_find(task->model, local, c->ring);
    if (task->devices > local) spread_over_nics(task->model, local, c);
}

/* Adds a step of a ring: each device sends to the next one. open: the last one sends nothing, so the ring is a chain.
 */
static kolo_status add_step(kolo_round *round, const kolo_ring *ring, int local, int devices, double bytes, bool open)
{
    int each = round->model->graph.devices;
    for (int i = 0; i + open < devices; i++) {
        int next = (i + 1) % devices;
        int from = i / local * each + ring->order[i % local], to = next / local * each + ring->order[next % local];
        KOLO_TRY(kolo_round_add(round, kolo_device_at(round->model, from), kolo_device_at(round->model, to), bytes));
    }
    return KOLO_OK;
}

/* The seconds of a round in which all rings make a step, each with its share of `bytes`. */
static kolo_status step_seconds(kolo_round *round, const cycles *c, int local, int devices, double bytes, bool open,
                                double *seconds)
{
    for (int r = 0; r < c->count; r++)
        KOLO_TRY(add_step(round, &c->ring[r], local, devices, bytes * c->ring[r].share, open));
    *seconds = kolo_round_seconds(round);
    return KOLO_OK;
}

/* A chain through which k pieces follow each other: N−2+k rounds. k is the best power of two. */
static kolo_status chain(const kolo_task *task, kolo_round *round, const cycles *c, double *seconds, int64_t *rounds)
{
    int local = local_devices(task);
    for (int64_t pieces = 1; pieces <= 1 << 20; pieces *= 2) {
        double one;
        int64_t count = task->devices - 2 + pieces;
        KOLO_TRY(step_seconds(round, c, local, task->devices, task->bytes / (double)pieces, true, &one));
        if (pieces > 1 && (double)count * one >= *seconds) break;
        *seconds = (double)count * one;
        *rounds = count;
    }
    return KOLO_OK;
}

static kolo_status around(const kolo_task *task, kolo_round *round, const cycles *c, double *seconds, int64_t *rounds)
{
    double one;
    *rounds = (task->operation == KOLO_MODELLED_ALLREDUCE ? 2 : 1) * (int64_t)(task->devices - 1);
    KOLO_TRY(step_seconds(round, c, local_devices(task), task->devices, task->bytes / task->devices, false, &one));
    *seconds = (double)*rounds * one;
    return KOLO_OK;
}

kolo_status kolo_rounds_of_ring(const kolo_task *task, double *seconds, int64_t *rounds)
{
    kolo_round round;
    cycles c;
    kolo_status status;
    find_cycles(task, &c);
    KOLO_GO(done, kolo_round_open(task->model, &round));
    if (task->operation == KOLO_MODELLED_BROADCAST) status = chain(task, &round, &c, seconds, rounds);
    else status = around(task, &round, &c, seconds, rounds);
done:
    kolo_round_close(&round);
    return status;
}

/* ---------------------------------------------------------------- hierarchical */

/* The ring all-reduce between the devices of the same number, for all numbers at once. */
static kolo_status across_hosts(const kolo_task *task, kolo_round *round, double *seconds, int64_t *rounds)
{
    const kolo_link_model *model = task->model;
    int each = model->graph.devices, hosts = task->devices / each;
    for (int i = 0; i < task->devices; i++) {
        int next = (i + each) % task->devices;
        KOLO_TRY(kolo_round_add(round, kolo_device_at(model, i), kolo_device_at(model, next),
                                task->bytes / each / hosts));
    }
    *rounds = 2 * ((int64_t)hosts - 1);
    *seconds = (double)*rounds * kolo_round_seconds(round);
    return KOLO_OK;
}

kolo_status kolo_rounds_of_hierarchical(const kolo_task *task, double *seconds, int64_t *rounds)
{
    int each = task->model->graph.devices;
    kolo_task within = {task->model, task->bytes, each, KOLO_MODELLED_REDUCE_SCATTER};
    double local = 0;
    int64_t local_rounds = 0;
    kolo_round round;
    kolo_status status = kolo_round_open(task->model, &round);
    if (status == KOLO_OK) status = across_hosts(task, &round, seconds, rounds);
    kolo_round_close(&round);
    if (status == KOLO_OK && each > 1) status = kolo_rounds_of_ring(&within, &local, &local_rounds);
    *seconds += 2 * local; /* the all-gather takes as long as the reduce-scatter */
    *rounds += 2 * local_rounds;
    return status;
}

/* ---------------------------------------------------------------- parameter server */

kolo_status kolo_rounds_of_parameter_server(const kolo_task *task, double *seconds, int64_t *rounds)
{
    const kolo_link_model *model = task->model;
    kolo_place server = {.host = 0, .node = model->graph.host};
    kolo_round round;
    kolo_status status = kolo_round_open(model, &round);
    *seconds = 0;
    *rounds = 2;
    for (int back = 0; back < 2 && status == KOLO_OK; back++) {
        for (int i = 0; i < task->devices && status == KOLO_OK; i++) {
            kolo_place device = kolo_device_at(model, i);
            status = kolo_round_add(&round, back ? server : device, back ? device : server, task->bytes);
        }
        *seconds += kolo_round_seconds(&round);
    }
    kolo_round_close(&round);
    return status;
}
