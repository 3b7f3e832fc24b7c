/* The rings of a host. See link_model.h.
 *
 * The first ring is the order of devices in which its slowest link leaves the most bandwidth for each step. A second
 * one is looked for in what the first one leaves free of every link, and so on, as long as it adds a quarter of the
 * first one's bandwidth. A ring and its reverse are two rings, because links work in both directions at once. On a
 * DGX-1V this finds the rings that NCCL uses there: two over pairs of NVLinks, and two over single ones.
 */
#include <math.h>
#include <string.h>

#include "link/link_model.h"

enum { SEARCHED = 8 }; /* of more devices not all orders are tried; theirs is the order of their numbers */
#define WORTH 0.25

typedef struct search {
    const kolo_link_model *model;
    int count;
    double left[KOLO_WIRES_MAX]; /* bytes/s that each wire has left */
    int order[KOLO_NODES_MAX], best_order[KOLO_NODES_MAX];
    double best; /* bytes/s of best_order */
} search;

static const kolo_route *step_of(const search *s, const int *order, int i)
{
    const kolo_graph *graph = &s->model->graph;
    return &s->model->route[graph->device[order[i]]][graph->device[order[(i + 1) % s->count]]];
}

/* The bytes/s that each step of the ring can have at the same time. */
static double rate_of(const search *s, const int *order)
{
    int uses[KOLO_WIRES_MAX] = {0};
    double rate = INFINITY;
    for (int i = 0; i < s->count; i++)
        for (int h = 0; h < step_of(s, order, i)->hops; h++) uses[step_of(s, order, i)->wire[h]]++;
    for (int w = 0; w < s->model->graph.wires; w++)
        if (uses[w] > 0 && s->left[w] / uses[w] < rate) rate = s->left[w] / uses[w];
    return rate;
}

/* Tries all orders of the devices from place `next` on. */
static void try_orders(search *s, int next)
{
    if (next == s->count) {
        double rate = rate_of(s, s->order);
        if (rate <= s->best * (1 + 1e-9)) return;
        s->best = rate;
        memcpy(s->best_order, s->order, sizeof s->order);
        return;
    }
    for (int i = next; i < s->count; i++) {
        int first = s->order[next];
        s->order[next] = s->order[i];
        s->order[i] = first;
        try_orders(s, next + 1);
        s->order[i] = s->order[next];
        s->order[next] = first;
    }
}

static void find_next(search *s)
{
    s->best = 0;
    if (s->count <= SEARCHED) {
        try_orders(s, 1);
        return;
    }
    memcpy(s->best_order, s->order, sizeof s->order);
    s->best = rate_of(s, s->order);
}

static void take(search *s)
{
    for (int i = 0; i < s->count; i++)
        for (int h = 0; h < step_of(s, s->best_order, i)->hops; h++)
            s->left[step_of(s, s->best_order, i)->wire[h]] -= s->best;
}

int kolo_rings_find(const kolo_link_model *model, int count, kolo_ring rings[KOLO_RINGS_MAX])
{
    search s = {.model = model, .count = count};
    double first = 0, sum = 0;
    int found = 0;
    for (int i = 0; i < count; i++) s.order[i] = s.best_order[i] = i;
    for (int w = 0; w < model->graph.wires; w++) s.left[w] = model->graph.wire[w].bandwidth;
    if (count > 1) find_next(&s);
    do {
        memcpy(rings[found].order, s.best_order, sizeof s.best_order);
        rings[found++].share = count > 1 ? s.best : 1;
        if (count < 2) break;
        if (found == 1) first = s.best;
        take(&s);
        find_next(&s);
    } while (found < KOLO_RINGS_MAX && s.best >= WORTH * first);
    for (int r = 0; r < found; r++) sum += rings[r].share;
    for (int r = 0; r < found; r++) rings[r].share /= sum;
    return found;
}
