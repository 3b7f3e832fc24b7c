/* The link model: a machine as a graph of links, schedules of transfers on it, and their modelled time. The public part
 * is kolo_link_model.h: read that first.
 *
 * graph.c      nodes, links and routes
 * machines.c   the machines and networks that have names
 * json.c       a machine from a file
 * model.c      opening a model
 * clock.c      the modelled time of a round of transfers
 * rings.c      the rings of a host
 * schedule.c   the rounds of rings, of the hierarchical algorithm and of a parameter server
 * tree.c       those of trees
 * collective.c the public call, and the choice of the algorithm
 * step.c       the time of a training step
 */
#ifndef KOLO_LINK_LINK_MODEL_H
#define KOLO_LINK_LINK_MODEL_H

#include <jansson.h>
#include <stdint.h>

#include "core/error.h"

enum { KOLO_NODES_MAX = 64, KOLO_WIRES_MAX = 512, KOLO_HOPS_MAX = 16, KOLO_HOSTS_MAX = 65536 };

typedef enum kolo_node_kind {
    KOLO_NODE_DEVICE,
    KOLO_NODE_SWITCH,
    KOLO_NODE_NIC,
    KOLO_NODE_HOST,
    KOLO_NODE_NETWORK /* one for the whole cluster, joined to the NICs of every host */
} kolo_node_kind;

typedef struct kolo_node {
    char name[24];
    kolo_node_kind kind;
} kolo_node;

/* One direction of a link. */
typedef struct kolo_wire {
    int from, to; /* nodes */
    char kind[12];
    double bandwidth; /* bytes/s */
    double latency; /* s */
} kolo_wire;

typedef struct kolo_route {
    int hops; /* 0: there is none, or it leads to the node itself */
    int16_t wire[KOLO_HOPS_MAX];
    double latency; /* s, the sum of its wires */
    double bandwidth; /* bytes/s, the smallest of its wires */
} kolo_route;

/* One host, of which a cluster has several copies. */
typedef struct kolo_graph {
    int nodes, wires, devices;
    kolo_node node[KOLO_NODES_MAX];
    kolo_wire wire[KOLO_WIRES_MAX];
    int device[KOLO_NODES_MAX]; /* [devices]: their nodes */
    int host; /* the first host node; -1: none */
    int network; /* the network's node; -1: none */
} kolo_graph;

struct kolo_link_model {
    char name[128];
    int hosts;
    bool no_peer_access;
    kolo_graph graph;
    kolo_route route[KOLO_NODES_MAX][KOLO_NODES_MAX]; /* within one host, or to and from the network */
};

/* --- graph.c --- */

/* Adds a node or both directions of a link; bandwidth in GB/s, latency in µs. Fails with a sentence if there is no
 * room, or a name, a kind or a number is impossible. `where` begins the sentence: "box.json: nodes[3]". */
kolo_status kolo_graph_add_node(kolo_graph *graph, const char *where, const char *name, kolo_node_kind kind);
kolo_status kolo_graph_add_link(kolo_graph *graph, const char *where, const char *from, const char *to,
                                const char *kind, double bandwidth, double latency);
/* Joins all NICs to the network. Fails if there is no NIC. */
kolo_status kolo_graph_add_network(kolo_graph *graph, const char *where, const char *kind, double bandwidth,
                                   double latency);
/* Finds the route between any two nodes. Fails if a device does not reach another one. */
kolo_status kolo_link_find_routes(kolo_link_model *model);

/* --- machines.c, json.c --- */

typedef struct kolo_network {
    char kind[16];
    double bandwidth, latency; /* GB/s, µs */
} kolo_network;

/* Fails with a list of the names if there is none of that name. */
kolo_status kolo_machine_named(const char *name, kolo_graph *graph);
kolo_status kolo_network_named(const char *name, kolo_network *network);
/* *hosts and *network become the file's, if it has them. */
kolo_status kolo_machine_from_json(const char *path, kolo_graph *graph, int *hosts, kolo_network *network);

/* --- clock.c --- */

/* A place where bytes start or end: a node of a host. */
typedef struct kolo_place {
    int host, node;
} kolo_place;
typedef struct kolo_transfer {
    kolo_place from, to;
    double bytes;
} kolo_transfer;

/* A round that is being collected, and its loads. */
typedef struct kolo_round {
    const kolo_link_model *model;
    size_t count, room;
    kolo_transfer *transfer; /* [count] */
    double *load; /* [hosts × wires] bytes of the round; zeros between rounds */
} kolo_round;

kolo_status kolo_round_open(const kolo_link_model *model, kolo_round *round);
void kolo_round_close(kolo_round *round);
/* The place of a device, numbered over all hosts. */
kolo_place kolo_device_at(const kolo_link_model *model, int device);
kolo_status kolo_round_add(kolo_round *round, kolo_place from, kolo_place to, double bytes);
/* The modelled seconds of the transfers that were added, which are then forgotten. */
double kolo_round_seconds(kolo_round *round);

/* --- rings.c --- */

enum { KOLO_RINGS_MAX = 8 };
typedef struct kolo_ring {
    int order[KOLO_NODES_MAX]; /* devices of a host; the last one sends to the first one */
    double share; /* of the bytes */
} kolo_ring;
/* The rings over the first `count` devices of a host that are used together. Returns their number, at least 1. */
int kolo_rings_find(const kolo_link_model *model, int count, kolo_ring rings[KOLO_RINGS_MAX]);

/* --- schedule.c, tree.c --- */

/* One collective to simulate. devices: at most those of one host, or a multiple of them. */
typedef struct kolo_task {
    const kolo_link_model *model;
    double bytes;
    int devices;
    kolo_modelled_operation operation;
} kolo_task;

typedef kolo_status kolo_rounds_of(const kolo_task *task, double *seconds, int64_t *rounds);
kolo_rounds_of kolo_rounds_of_ring, kolo_rounds_of_tree, kolo_rounds_of_hierarchical, kolo_rounds_of_parameter_server;

/* --- collective.c --- */

/* The time of a task; *result is NaN on failure. */
kolo_status kolo_task_time(const kolo_task *task, kolo_algorithm algorithm, kolo_modelled_time *result);
/* Fails unless so many devices can take part; 0 means all. */
kolo_status kolo_link_check_devices(const kolo_link_model *model, int *devices);

#endif
