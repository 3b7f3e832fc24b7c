/* Opening a model, and the speed between two devices. See link_model.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/link_model.h"

static bool is_path(const char *machine)
{
    size_t length = strlen(machine);
    return strchr(machine, '/') || (length > 5 && strcmp(machine + length - 5, ".json") == 0);
}

/* Reads the next number of "0,3"; false if there is none. */
static bool next_number(const char **list, int *number)
{
    char *end;
    long value = strtol(*list, &end, 10);
    if (end == *list || **list == '+' || **list == ' ' || (*end && *end != ',') || (*end == ',' && !end[1]))
        return false;
    *number = value >= 0 && value < KOLO_NODES_MAX ? (int)value : KOLO_NODES_MAX;
    *list = *end ? end + 1 : end;
    return true;
}

static kolo_status choose_devices(kolo_graph *graph, const char *list)
{
    int chosen[KOLO_NODES_MAX], count = 0;
    bool taken[KOLO_NODES_MAX + 1] = {false};
    const char *rest = list;
    do {
        int number;
        if (!next_number(&rest, &number) || number >= graph->devices || taken[number])
            return kolo_fail(KOLO_INVALID,
                             ".devices: wanted different numbers from 0 to %d, such as \"0,1\", got \"%.40s\"",
                             graph->devices - 1, list);
        taken[number] = true;
        chosen[count++] = graph->device[number];
    } while (*rest);
    memcpy(graph->device, chosen, (size_t)count * sizeof *chosen);
    graph->devices = count;
    return KOLO_OK;
}

/* Gives one link another bandwidth: "gpu0-plx0:0.76". A name may contain a '-', so every one is tried. */
static kolo_status change_link(kolo_graph *graph, const char *text)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    double bandwidth = colon ? strtod(colon + 1, &end) : NAN;
    bool fine = colon && end > colon + 1 && !*end && bandwidth >= 1e-6 && bandwidth <= 1e6;
    int found = 0;
    for (int w = 0; fine && w < graph->wires; w++) {
        kolo_wire *wire = &graph->wire[w];
        const char *from = graph->node[wire->from].name, *to = graph->node[wire->to].name;
        size_t length = (size_t)(colon - text);
        bool meant = strncmp(text, kolo_phrase("%s-%s:", from, to), length + 1) == 0 ||
                     strncmp(text, kolo_phrase("%s-%s:", to, from), length + 1) == 0;
        if (!meant) continue;
        wire->bandwidth = bandwidth * 1e9;
        found++;
    }
    if (found) return KOLO_OK;
    if (fine) return kolo_fail(KOLO_NOT_FOUND, ".link: wanted a link of the machine, got \"%.80s\"", text);
    return kolo_fail(KOLO_INVALID,
                     ".link: wanted two nodes and 1e-6 to 1e6 GB/s, such as \"gpu0-plx0:0.76\", got \"%.80s\"", text);
}

static kolo_status fill_graph(kolo_link_model *model, const kolo_link_model_args *args, int *hosts,
                              kolo_network *network)
{
    if (is_path(args->machine)) KOLO_TRY(kolo_machine_from_json(args->machine, &model->graph, hosts, network));
    else KOLO_TRY(kolo_machine_named(args->machine, &model->graph));
    if (args->hosts) *hosts = args->hosts;
    if (args->network) KOLO_TRY(kolo_network_named(args->network, network));
    if (*hosts < 1 || *hosts > KOLO_HOSTS_MAX)
        return kolo_fail(KOLO_INVALID, ".hosts: wanted 1 to %d, got %d", KOLO_HOSTS_MAX, *hosts);
    if (args->link) KOLO_TRY(change_link(&model->graph, args->link));
    return args->devices ? choose_devices(&model->graph, args->devices) : KOLO_OK;
}

static kolo_status open_model(const kolo_link_model_args *args, kolo_link_model *model)
{
    static const char usual[] = "ib-edr";
    kolo_network network = {.kind = ""};
    int hosts = 1;
    if (!args->machine) return kolo_fail(KOLO_INVALID, "machine: wanted a name or the path of a .json file, got NULL");
    KOLO_TRY(fill_graph(model, args, &hosts, &network));
    const char *name = args->network ? args->network : *network.kind ? network.kind : usual;
    if (!*network.kind) KOLO_TRY(kolo_network_named(usual, &network));
    model->hosts = hosts;
    model->no_peer_access = args->no_peer_access;
    if (hosts == 1) snprintf(model->name, sizeof model->name, "%.60s", args->machine);
    else snprintf(model->name, sizeof model->name, "%d x %.60s, %s", hosts, args->machine, name);
    if (hosts > 1)
        KOLO_TRY(kolo_graph_add_network(&model->graph, args->machine, network.kind, network.bandwidth,
                                        network.latency));
    return kolo_link_find_routes(model);
}

kolo_link_model *kolo_link_model_open_at(const kolo_link_model_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_link_model_open", here);
    kolo_link_model *model = calloc(1, sizeof *model);
    kolo_status status = model ? open_model(args, model) : kolo_fail_memory(sizeof *model, "a link model");
    if (kolo_leave(scope, status) != KOLO_OK) kolo_link_model_free(&model);
    return model;
}

void kolo_link_model_free(kolo_link_model **model)
{
    if (!model) return;
    free(*model);
    *model = NULL;
}

const char *kolo_link_model_name(const kolo_link_model *model)
{
    return model ? model->name : "";
}

int kolo_link_model_devices(const kolo_link_model *model)
{
    return model ? model->hosts * model->graph.devices : 0;
}

int kolo_link_model_hosts(const kolo_link_model *model)
{
    return model ? model->hosts : 0;
}

kolo_status kolo_link_check_devices(const kolo_link_model *model, int *devices)
{
    int most = kolo_link_model_devices(model), each = model->graph.devices;
    if (*devices == 0) *devices = most;
    if (*devices < 1 || *devices > most)
        return kolo_fail(KOLO_INVALID, ".devices: wanted 1 to %d of %s, got %d", most, model->name, *devices);
    if (*devices <= each || *devices % each == 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".devices: wanted at most %d, or a multiple of it, of %s, got %d", each, model->name,
                     *devices);
}

/* ---------------------------------------------------------------- two devices */

#define COPY 1e9 /* bytes, so many that latency counts for nothing beside them */

/* The kind of the link with the smallest bandwidth. */
static const char *narrowest(const kolo_link_model *model, kolo_place from, kolo_place to)
{
    const kolo_graph *graph = &model->graph;
    bool local = from.host == to.host;
    const kolo_route *ways[] = {&model->route[from.node][local ? to.node : graph->network],
                                &model->route[local ? to.node : graph->network][to.node]};
    const kolo_wire *found = NULL;
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < ways[w]->hops; i++) {
            const kolo_wire *wire = &graph->wire[ways[w]->wire[i]];
            if (!found || wire->bandwidth < found->bandwidth) found = wire;
        }
    return found ? found->kind : "";
}

static kolo_status read_pair(const kolo_link_model *model, int from, int to, kolo_modelled_pair *pair)
{
    kolo_round round;
    int most = kolo_link_model_devices(model);
    if (!model) return KOLO_INVALID;
    if (from < 0 || to < 0 || from >= most || to >= most)
        return kolo_fail(KOLO_INVALID, "wanted devices from 0 to %d, got %d and %d", most - 1, from, to);
    if (from == to) return KOLO_OK;
    kolo_place a = kolo_device_at(model, from), b = kolo_device_at(model, to);
    kolo_status status = kolo_round_open(model, &round);
    if (status == KOLO_OK) status = kolo_round_add(&round, a, b, 0);
    double latency = kolo_round_seconds(&round);
    if (status == KOLO_OK) status = kolo_round_add(&round, a, b, COPY);
    double one_way = kolo_round_seconds(&round);
    if (status == KOLO_OK) status = kolo_round_add(&round, a, b, COPY);
    if (status == KOLO_OK) status = kolo_round_add(&round, b, a, COPY);
    double both_ways = kolo_round_seconds(&round);
    kolo_round_close(&round);
    if (status != KOLO_OK) return status;
    *pair = (kolo_modelled_pair){.one_way = COPY / (one_way - latency) / 1e9,
                                 .both_ways = 2 * COPY / (both_ways - latency) / 1e9,
                                 .latency = latency * 1e6};
    snprintf(pair->kind, sizeof pair->kind, "%s", narrowest(model, a, b));
    return KOLO_OK;
}

kolo_modelled_pair kolo_link_model_pair_at(const kolo_link_model *model, int from, int to, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_link_model_pair", here);
    kolo_modelled_pair pair = {.one_way = NAN, .both_ways = NAN, .latency = NAN};
    kolo_leave(scope, read_pair(model, from, to, &pair));
    return pair;
}
