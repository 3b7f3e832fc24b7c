/* A machine from a JSON file, as kolo_link_model.h describes it. See link_model.h. */
#include <stdio.h>
#include <string.h>

#include "core/json.h"
#include "link/link_model.h"

/* Where a value stands, for sentences. */
typedef struct place {
    const char *path, *list; /* "box.json", "nodes[3]" */
} place;

static const char *text_of(place at)
{
    return kolo_phrase("%s: %s", at.path, at.list);
}

static const char *kind_of(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a text", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",    [JSON_FALSE] = "false",   [JSON_NULL] = "null"};
    return value ? names[json_typeof(value)] : "nothing";
}

/* Refuses a name that is none of `known`, a list that ends with NULL: it may be a known one, misspelt. */
static kolo_status check_keys(place at, const json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return kolo_fail(KOLO_FORMAT, "%s: wanted an object, got %s", text_of(at), kind_of(object));
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        int i = 0;
        while (known[i] && strcmp(known[i], key) != 0) i++;
        if (!known[i])
            return kolo_fail(KOLO_FORMAT, "%s: wanted one of the names in kolo_link_model.h, got \"%.40s\"",
                             text_of(at), key);
    }
    return KOLO_OK;
}

static kolo_status read_text(place at, const json_t *object, const char *key, const char **text)
{
    const json_t *value = json_object_get(object, key);
    *text = json_string_value(value);
    if (*text) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted a text as \"%s\", got %s", text_of(at), key, kind_of(value));
}

static kolo_status read_number(place at, const json_t *object, const char *key, double *number)
{
    const json_t *value = json_object_get(object, key);
    *number = json_number_value(value);
    if (json_is_number(value)) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted a number as \"%s\", got %s", text_of(at), key, kind_of(value));
}

static kolo_status read_node(place at, const json_t *object, kolo_graph *graph)
{
    static const char *const kinds[] = {[KOLO_NODE_DEVICE] = "device",
                                        [KOLO_NODE_SWITCH] = "switch",
                                        [KOLO_NODE_NIC] = "nic",
                                        [KOLO_NODE_HOST] = "host"};
    const char *name, *kind;
    KOLO_TRY(check_keys(at, object, (const char *const[]){"name", "kind", NULL}));
    KOLO_TRY(read_text(at, object, "name", &name));
    KOLO_TRY(read_text(at, object, "kind", &kind));
    for (kolo_node_kind k = KOLO_NODE_DEVICE; k <= KOLO_NODE_HOST; k++)
        if (strcmp(kinds[k], kind) == 0) return kolo_graph_add_node(graph, text_of(at), name, k);
    return kolo_fail(KOLO_FORMAT, "%s: wanted device, switch, nic or host as \"kind\", got \"%.40s\"", text_of(at),
                     kind);
}

static kolo_status read_link(place at, const json_t *object, kolo_graph *graph)
{
    const char *from, *to, *kind;
    double bandwidth, latency;
    KOLO_TRY(check_keys(at, object,
                        (const char *const[]){"from", "to", "kind", "gigabytes_per_second", "microseconds", NULL}));
    KOLO_TRY(read_text(at, object, "from", &from));
    KOLO_TRY(read_text(at, object, "to", &to));
    KOLO_TRY(read_text(at, object, "kind", &kind));
    KOLO_TRY(read_number(at, object, "gigabytes_per_second", &bandwidth));
    KOLO_TRY(read_number(at, object, "microseconds", &latency));
    return kolo_graph_add_link(graph, text_of(at), from, to, kind, bandwidth, latency);
}

typedef kolo_status read_item(place at, const json_t *object, kolo_graph *graph);

static kolo_status read_list(const char *path, const json_t *whole, const char *key, read_item *read, kolo_graph *graph)
{
    const json_t *list = json_object_get(whole, key);
    if (!json_is_array(list))
        return kolo_fail(KOLO_FORMAT, "%s: wanted a list as \"%s\", got %s", path, key, kind_of(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        char name[40];
        snprintf(name, sizeof name, "%s[%zu]", key, i);
        KOLO_TRY(read((place){path, name}, json_array_get(list, i), graph));
    }
    return KOLO_OK;
}

static kolo_status read_network(place at, const json_t *object, kolo_network *network)
{
    const char *kind;
    if (!object) return KOLO_OK;
    KOLO_TRY(check_keys(at, object, (const char *const[]){"kind", "gigabytes_per_second", "microseconds", NULL}));
    KOLO_TRY(read_text(at, object, "kind", &kind));
    KOLO_TRY(read_number(at, object, "gigabytes_per_second", &network->bandwidth));
    KOLO_TRY(read_number(at, object, "microseconds", &network->latency));
    if (!*kind) return kolo_fail(KOLO_FORMAT, "%s: wanted a text that is not empty as \"kind\", got \"\"", text_of(at));
    snprintf(network->kind, sizeof network->kind, "%s", kind);
    return KOLO_OK;
}

static kolo_status read_hosts(const char *path, const json_t *value, int *hosts)
{
    json_int_t number = json_integer_value(value);
    if (!value) return KOLO_OK;
    if (!json_is_integer(value) || number < 1 || number > KOLO_HOSTS_MAX)
        return kolo_fail(KOLO_FORMAT, "%s: wanted a whole number from 1 to %d as \"hosts\", got %s", path,
                         KOLO_HOSTS_MAX,
                         json_is_integer(value) ? kolo_phrase("%lld", (long long)number) : kind_of(value));
    *hosts = (int)number;
    return KOLO_OK;
}

static kolo_status read_machine(const char *path, const json_t *whole, kolo_graph *graph, int *hosts,
                                kolo_network *network)
{
    KOLO_TRY(check_keys((place){path, "the machine"}, whole,
                        (const char *const[]){"nodes", "links", "hosts", "network", NULL}));
    KOLO_TRY(read_list(path, whole, "nodes", read_node, graph));
    KOLO_TRY(read_list(path, whole, "links", read_link, graph));
    KOLO_TRY(read_hosts(path, json_object_get(whole, "hosts"), hosts));
    KOLO_TRY(read_network((place){path, "network"}, json_object_get(whole, "network"), network));
    if (graph->devices > 0) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted a node that is a device, got none", path);
}

kolo_status kolo_machine_from_json(const char *path, kolo_graph *graph, int *hosts, kolo_network *network)
{
    json_t *whole = NULL;
    KOLO_TRY(kolo_json_read(path, "a machine", &whole));
    kolo_status status = read_machine(path, whole, graph, hosts, network);
    json_decref(whole);
    return status;
}
