/* The modelled time of a round of transfers. See link_model.h.
 *
 *     time of a transfer = Σ latency of its wires + max over its wires of (bytes of all transfers on the wire) /
 * bandwidth time of the round  = that of its slowest transfer
 */
#include <stdlib.h>

#include "core/grow.h"
#include "link/link_model.h"

kolo_status kolo_round_open(const kolo_link_model *model, kolo_round *round)
{
    size_t wires = (size_t)model->hosts * (size_t)model->graph.wires;
    *round = (kolo_round){.model = model, .load = calloc(wires + 1, sizeof *round->load)};
    return round->load ? KOLO_OK : kolo_fail_memory(wires * sizeof *round->load, "the loads of links");
}

void kolo_round_close(kolo_round *round)
{
    free(round->transfer);
    free(round->load);
    *round = (kolo_round){0};
}

kolo_place kolo_device_at(const kolo_link_model *model, int device)
{
    const kolo_graph *graph = &model->graph;
    return (kolo_place){.host = device / graph->devices, .node = graph->device[device % graph->devices]};
}

kolo_status kolo_round_add(kolo_round *round, kolo_place from, kolo_place to, double bytes)
{
    KOLO_TRY(kolo_make_room(&round->transfer, &round->room, round->count + 1, sizeof *round->transfer, "transfers"));
    round->transfer[round->count++] = (kolo_transfer){from, to, bytes};
    return KOLO_OK;
}

/* A part of a transfer's way, within one host. */
typedef struct stretch {
    const kolo_route *route;
    double *load; /* [wires] of the host */
} stretch;

/* Within a host there is one stretch; else one to the network and one from there. Returns their number. */
static int stretches_of(const kolo_round *round, const kolo_transfer *transfer, stretch way[2])
{
    const kolo_link_model *model = round->model;
    size_t wires = (size_t)model->graph.wires;
    kolo_place from = transfer->from, to = transfer->to;
    int network = model->graph.network;
    bool local = from.host == to.host;
    way[0] = (stretch){&model->route[from.node][local ? to.node : network], round->load + (size_t)from.host * wires};
    if (local) return 1;
    way[1] = (stretch){&model->route[network][to.node], round->load + (size_t)to.host * wires};
    return 2;
}

static void add_loads(kolo_round *round, const kolo_transfer *transfer, double bytes)
{
    stretch way[2];
    int count = stretches_of(round, transfer, way);
    for (int s = 0; s < count; s++)
        for (int i = 0; i < way[s].route->hops; i++) way[s].load[way[s].route->wire[i]] += bytes;
}

static void clear_loads(kolo_round *round, const kolo_transfer *transfer)
{
    stretch way[2];
    int count = stretches_of(round, transfer, way);
    for (int s = 0; s < count; s++)
        for (int i = 0; i < way[s].route->hops; i++) way[s].load[way[s].route->wire[i]] = 0;
}

static double seconds_of(const kolo_round *round, const kolo_transfer *transfer)
{
    stretch way[2];
    double latency = 0, slowest = 0;
    int count = stretches_of(round, transfer, way);
    for (int s = 0; s < count; s++) {
        latency += way[s].route->latency;
        for (int i = 0; i < way[s].route->hops; i++) {
            int wire = way[s].route->wire[i];
            double seconds = way[s].load[wire] / round->model->graph.wire[wire].bandwidth;
            if (seconds > slowest) slowest = seconds;
        }
    }
    return latency + slowest;
}

double kolo_round_seconds(kolo_round *round)
{
    double slowest = 0;
    for (size_t i = 0; i < round->count; i++) add_loads(round, &round->transfer[i], round->transfer[i].bytes);
    for (size_t i = 0; i < round->count; i++) {
        double seconds = seconds_of(round, &round->transfer[i]);
        if (seconds > slowest) slowest = seconds;
    }
    for (size_t i = 0; i < round->count; i++) clear_loads(round, &round->transfer[i]);
    round->count = 0;
    return slowest;
}
