/* Nodes, links and routes. See link_model.h. */
#include "link/link_model.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- nodes and links */

static int find_node(const kolo_graph *graph, const char *name)
{
    for (int i = 0; i < graph->nodes; i++)
        if (strcmp(graph->node[i].name, name) == 0) return i;
    return -1;
}

kolo_status kolo_graph_add_node(kolo_graph *graph, const char *where, const char *name, kolo_node_kind kind)
{
    int number = graph->nodes;
    if (graph->nodes == 0) graph->host = graph->network = -1;
    if (number == KOLO_NODES_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted at most %d nodes, got more", where, KOLO_NODES_MAX);
    if (!*name || strlen(name) >= sizeof graph->node->name)
        return kolo_fail(KOLO_FORMAT, "%s: wanted a name of 1 to %zu bytes, got \"%.40s\"", where,
                         sizeof graph->node->name - 1, name);
    if (find_node(graph, name) >= 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted a new name, got \"%s\" a second time", where, name);
    kolo_node *node = &graph->node[graph->nodes++];
    strcpy(node->name, name);
    node->kind = kind;
    if (kind == KOLO_NODE_DEVICE) graph->device[graph->devices++] = number;
    if (kind == KOLO_NODE_HOST && graph->host < 0) graph->host = number;
    if (kind == KOLO_NODE_NETWORK) graph->network = number;
    return KOLO_OK;
}

static kolo_status check_link(const kolo_graph *graph, const char *where, const char *kind, double bandwidth,
                              double latency)
{
    if (graph->wires + 2 > KOLO_WIRES_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted at most %d links, got more", where, KOLO_WIRES_MAX / 2);
    if (strlen(kind) >= sizeof graph->wire->kind)
        return kolo_fail(KOLO_FORMAT, "%s: wanted a kind of at most %zu bytes, got \"%.40s\"", where,
                         sizeof graph->wire->kind - 1, kind);
    if (!(bandwidth >= 1e-6 && bandwidth <= 1e6))
        return kolo_fail(KOLO_FORMAT, "%s: wanted gigabytes_per_second from 1e-6 to 1e6, got %g", where, bandwidth);
    if (!(latency >= 0 && latency <= 1e9))
        return kolo_fail(KOLO_FORMAT, "%s: wanted microseconds from 0 to 1e9, got %g", where, latency);
    return KOLO_OK;
}

static void add_wire(kolo_graph *graph, int from, int to, const char *kind, double bandwidth, double latency)
{
    kolo_wire *wire = &graph->wire[graph->wires++];
    *wire = (kolo_wire){.from = from, .to = to, .bandwidth = bandwidth * 1e9, .latency = latency * 1e-6};
    strcpy(wire->kind, kind);
}

kolo_status kolo_graph_add_link(kolo_graph *graph, const char *where, const char *from, const char *to,
                                const char *kind, double bandwidth, double latency)
{
    int a = find_node(graph, from), b = find_node(graph, to);
    if (a < 0 || b < 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted the name of a node, got \"%.40s\"", where, a < 0 ? from : to);
    if (a == b) return kolo_fail(KOLO_FORMAT, "%s: wanted two nodes, got \"%s\" at both ends", where, from);
    KOLO_TRY(check_link(graph, where, kind, bandwidth, latency));
    add_wire(graph, a, b, kind, bandwidth, latency);
    add_wire(graph, b, a, kind, bandwidth, latency);
    return KOLO_OK;
}

kolo_status kolo_graph_add_network(kolo_graph *graph, const char *where, const char *kind, double bandwidth,
                                   double latency)
{
    int nics = 0, local = graph->nodes;
    KOLO_TRY(kolo_graph_add_node(graph, where, "the network", KOLO_NODE_NETWORK));
    for (int i = 0; i < local; i++) {
        if (graph->node[i].kind != KOLO_NODE_NIC) continue;
        KOLO_TRY(kolo_graph_add_link(graph, where, graph->node[i].name, "the network", kind, bandwidth, latency));
        nics++;
    }
    if (nics > 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted a NIC, through which several hosts reach each other, got none", where);
}

/* ---------------------------------------------------------------- routes */

/* How long the wire takes for a megabyte: what a route is chosen by. */
static double cost_of(const kolo_wire *wire)
{
    return wire->latency + 1e6 / wire->bandwidth;
}

/* Whether bytes may pass through the node on their way: devices forward nothing, and NICs only to and from the network.
 */
static bool forwards(const kolo_graph *graph, int node)
{
    kolo_node_kind kind = graph->node[node].kind;
    return kind == KOLO_NODE_SWITCH || kind == KOLO_NODE_HOST || kind == KOLO_NODE_NIC;
}

/* Dijkstra's algorithm: the wire by which each node is reached from `source`, or -1. */
static void find_ways(const kolo_graph *graph, int source, int by[KOLO_NODES_MAX])
{
    double cost[KOLO_NODES_MAX];
    bool done[KOLO_NODES_MAX] = {false};
    for (int i = 0; i < graph->nodes; i++) cost[i] = i == source ? 0 : INFINITY, by[i] = -1;
    for (;;) {
        int next = -1;
        for (int i = 0; i < graph->nodes; i++)
            if (!done[i] && cost[i] < INFINITY && (next < 0 || cost[i] < cost[next])) next = i;
        if (next < 0) return;
        done[next] = true;
        if (next != source && !forwards(graph, next)) continue;
        for (int w = 0; w < graph->wires; w++) {
            const kolo_wire *wire = &graph->wire[w];
            double through = wire->from == next ? cost[next] + cost_of(wire) : INFINITY;
            if (through < cost[wire->to]) cost[wire->to] = through, by[wire->to] = w;
        }
    }
}

/* Follows the wires back from `to`. No route of more than KOLO_HOPS_MAX wires is kept. */
static void trace(const kolo_graph *graph, const int by[KOLO_NODES_MAX], int source, int to, kolo_route *route)
{
    int hops = 0;
    for (int node = to; node != source && by[node] >= 0; node = graph->wire[by[node]].from) hops++;
    *route = (kolo_route){.bandwidth = INFINITY};
    if (hops == 0 || hops > KOLO_HOPS_MAX) return;
    route->hops = hops;
    for (int node = to; node != source; node = graph->wire[by[node]].from) {
        const kolo_wire *wire = &graph->wire[by[node]];
        route->wire[--hops] = (int16_t)by[node];
        route->latency += wire->latency;
        if (wire->bandwidth < route->bandwidth) route->bandwidth = wire->bandwidth;
    }
}

/* The way to a host's memory, and from there on; both were traced already. */
static void join_routes(const kolo_route *first, const kolo_route *second, kolo_route *whole)
{
    if (first->hops == 0 || second->hops == 0 || first->hops + second->hops > KOLO_HOPS_MAX) {
        *whole = (kolo_route){.bandwidth = INFINITY};
        return;
    }
    *whole = *first;
    memcpy(whole->wire + first->hops, second->wire, (size_t)second->hops * sizeof *second->wire);
    whole->hops += second->hops;
    whole->latency += second->latency;
    if (second->bandwidth < whole->bandwidth) whole->bandwidth = second->bandwidth;
}

static double cost_of_route(const kolo_route *route)
{
    return route->hops > 0 ? route->latency + 1e6 / route->bandwidth : INFINITY;
}

/* The best route between two devices that goes through the memory of a host. */
static void route_through_host(kolo_link_model *model, int from, int to)
{
    const kolo_graph *graph = &model->graph;
    kolo_route best = {.bandwidth = INFINITY};
    for (int host = 0; host < graph->nodes; host++) {
        kolo_route whole;
        if (graph->node[host].kind != KOLO_NODE_HOST) continue;
        join_routes(&model->route[from][host], &model->route[host][to], &whole);
        if (cost_of_route(&whole) < cost_of_route(&best)) best = whole;
    }
    model->route[from][to] = best;
}

/* The way of a device to the network and back: by the NIC that is nearest and, of several, by the one that the fewest
 * devices before it have. */
static void choose_nic(kolo_link_model *model, int device, int users[KOLO_NODES_MAX])
{
    const kolo_graph *graph = &model->graph;
    int network = graph->network, best = -1;
    double least = INFINITY;
    for (int nic = 0; nic < graph->nodes; nic++) {
        double cost = cost_of_route(&model->route[device][nic]);
        if (graph->node[nic].kind != KOLO_NODE_NIC || cost > least * (1 + 1e-9)) continue;
        if (best >= 0 && cost >= least * (1 - 1e-9) && users[nic] >= users[best]) continue;
        best = nic;
        least = cost;
    }
    if (best < 0 || least == INFINITY) return;
    users[best]++;
    join_routes(&model->route[device][best], &model->route[best][network], &model->route[device][network]);
    join_routes(&model->route[network][best], &model->route[best][device], &model->route[network][device]);
}

/* Whether bytes of this device reach that one: within a host and, in a cluster, through the network. */
static kolo_status check_pair(const kolo_link_model *model, int a, int b)
{
    const kolo_graph *graph = &model->graph;
    bool within = a == b || model->route[a][b].hops > 0;
    bool across =
        graph->network < 0 || (model->route[a][graph->network].hops > 0 && model->route[graph->network][b].hops > 0);
    if (within && across) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "%s: wanted links that lead from %s to %s%s, got none", model->name,
                     graph->node[a].name, within ? "the network and back to " : graph->node[b].name,
                     within                  ? graph->node[b].name
                     : model->no_peer_access ? " through a host"
                                             : "");
}

kolo_status kolo_link_find_routes(kolo_link_model *model)
{
    const kolo_graph *graph = &model->graph;
    for (int a = 0; a < graph->nodes; a++) {
        int by[KOLO_NODES_MAX];
        find_ways(graph, a, by);
        for (int b = 0; b < graph->nodes; b++) trace(graph, by, a, b, &model->route[a][b]);
    }
    int users[KOLO_NODES_MAX] = {0};
    for (int i = 0; i < graph->devices && graph->network >= 0; i++) choose_nic(model, graph->device[i], users);
    for (int i = 0; i < graph->devices * graph->devices; i++) {
        int a = graph->device[i / graph->devices], b = graph->device[i % graph->devices];
        if (model->no_peer_access && a != b) route_through_host(model, a, b);
        KOLO_TRY(check_pair(model, a, b));
    }
    return KOLO_OK;
}
