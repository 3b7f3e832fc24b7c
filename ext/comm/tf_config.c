/* Reads TF_CONFIG: see tf_config.h. */
#include "comm/tf_config.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static const char *const types[] = {"chief", "worker", "ps", "evaluator"};
enum { CHIEF, WORKER, PS, EVALUATOR, TYPES };

#define WANTED_TYPES "\"chief\", \"worker\", \"ps\" or \"evaluator\""

typedef struct reading {
    const json_t *cluster, *tasks[TYPES]; /* the list of each type, or NULL */
    int count[TYPES];
    int type, index; /* of this process */
} reading;

static int find_type(const char *name)
{
    for (int i = 0; name && i < TYPES; i++)
        if (strcmp(name, types[i]) == 0) return i;
    return -1;
}

/* ---------------------------------------------------------------- the cluster */

/* "host:port"; an IPv6 address stands in brackets. */
static bool is_address(const char *text)
{
    const char *colon = text ? strrchr(text, ':') : NULL;
    if (!colon || colon == text || strlen(text) >= KOLO_TASK_ADDRESS || strpbrk(text, " \t\n/")) return false;
    if (strchr(text, ':') != colon && text[0] != '[') return false;
    char *end;
    long port = strtol(colon + 1, &end, 10);
    return end != colon + 1 && *end == '\0' && port >= 1 && port <= 65535;
}

static kolo_status read_tasks(reading *r, const char *name, const json_t *list)
{
    int type = find_type(name);
    if (type < 0)
        return kolo_fail(KOLO_INVALID,
                         "TF_CONFIG: a type of tasks in \"cluster\": wanted " WANTED_TYPES ", got \"%.40s\"", name);
    if (!json_is_array(list))
        return kolo_fail(KOLO_INVALID, "TF_CONFIG: \"cluster\": wanted a list of \"host:port\" for \"%s\"", name);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *address = json_string_value(json_array_get(list, i));
        if (!is_address(address))
            return kolo_fail(KOLO_INVALID, "TF_CONFIG: address of %s %zu: wanted \"host:port\", got \"%.80s\"", name, i,
                             address ? address : "no text");
    }
    r->tasks[type] = list;
    r->count[type] = (int)json_array_size(list);
    return KOLO_OK;
}

static const char *address_of(const reading *r, int type, int index)
{
    return json_string_value(json_array_get(r->tasks[type], (size_t)index));
}

/* Compares the addresses of tasks with those of the tasks before them. */
static kolo_status check_duplicates(const reading *r)
{
    for (int type = 0; type < TYPES; type++)
        for (int i = 0; i < r->count[type]; i++)
            for (int other = 0; other <= type; other++)
                for (int k = 0; k < (other == type ? i : r->count[other]); k++)
                    if (strcmp(address_of(r, type, i), address_of(r, other, k)) == 0)
                        return kolo_fail(KOLO_INVALID,
                                         "TF_CONFIG: wanted an address of its own for each task, got \"%s\" for %s %d "
                                         "and %s %d",
                                         address_of(r, type, i), types[other], k, types[type], i);
    return KOLO_OK;
}

static kolo_status read_cluster(reading *r, json_t *cluster)
{
    const char *name;
    json_t *list;
    if (!json_is_object(cluster) || json_object_size(cluster) == 0)
        return kolo_fail(KOLO_INVALID, "TF_CONFIG: wanted \"cluster\" with a list of \"host:port\" for \"worker\"");
    json_object_foreach(cluster, name, list) KOLO_TRY(read_tasks(r, name, list));
    if (r->count[CHIEF] > 1 || r->count[EVALUATOR] > 1)
        return kolo_fail(KOLO_INVALID,
                         "TF_CONFIG: \"cluster\": wanted at most one chief and one evaluator, got %d and "
                         "%d",
                         r->count[CHIEF], r->count[EVALUATOR]);
    if (r->count[CHIEF] + r->count[WORKER] > KOLO_TASKS_MAX)
        return kolo_fail(KOLO_INVALID, "TF_CONFIG: \"cluster\": wanted at most %d workers, got %d", KOLO_TASKS_MAX,
                         r->count[CHIEF] + r->count[WORKER]);
    return check_duplicates(r);
}

/* ---------------------------------------------------------------- the task */

/* Some tools write the index as text. */
static bool read_index(const json_t *value, int *index)
{
    const char *text = json_string_value(value);
    char *end;
    long long number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (text) number = strtoll(text, &end, 10);
    bool fine = number >= 0 && number < KOLO_TASKS_MAX && (!text || (end != text && *end == '\0'));
    *index = fine ? (int)number : -1;
    return fine;
}

static kolo_status read_task(reading *r, const json_t *task)
{
    const char *name = json_string_value(json_object_get(task, "type"));
    if (!json_is_object(task))
        return kolo_fail(KOLO_INVALID,
                         "TF_CONFIG: wanted \"task\" with the \"type\" and the \"index\" of this process");
    r->type = find_type(name);
    if (r->type < 0)
        return kolo_fail(KOLO_INVALID, "TF_CONFIG: \"type\" of \"task\": wanted " WANTED_TYPES ", got %s%.40s%s",
                         name ? "\"" : "", name ? name : "none", name ? "\"" : "");
    if (!read_index(json_object_get(task, "index"), &r->index))
        return kolo_fail(KOLO_INVALID, "TF_CONFIG: \"index\" of \"task\": wanted a whole number of at least 0");
    /* TensorFlow's evaluator need not be in the cluster. */
    if (r->type == EVALUATOR || r->index < r->count[r->type]) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "TF_CONFIG: \"index\" of \"task\": wanted less than %d, as many as \"cluster\" has of "
                     "\"%s\", got %d",
                     r->count[r->type], types[r->type], r->index);
}

/* ---------------------------------------------------------------- the cluster */

static kolo_status list_addresses(const reading *r, kolo_cluster *cluster)
{
    int chiefs = r->count[CHIEF];
    if (r->type == PS)
        return kolo_fail(KOLO_UNSUPPORTED,
                         "TF_CONFIG: this process is \"ps\" %d: wanted \"chief\", \"worker\" or "
                         "\"evaluator\", since workers that mirror train without parameter servers",
                         r->index);
    if (r->type == EVALUATOR) return KOLO_OK;
    cluster->size = chiefs + r->count[WORKER];
    cluster->rank = r->type == CHIEF ? 0 : chiefs + r->index;
    cluster->addresses = calloc((size_t)cluster->size, sizeof *cluster->addresses);
    if (!cluster->addresses) return kolo_fail_memory((size_t)cluster->size * sizeof *cluster->addresses, "TF_CONFIG");
    for (int i = 0; i < cluster->size; i++) {
        const char *address = i < chiefs ? address_of(r, CHIEF, i) : address_of(r, WORKER, i - chiefs);
        memcpy(cluster->addresses[i], address, strlen(address) + 1);
    }
    return KOLO_OK;
}

static kolo_status read_all(const json_t *whole, kolo_cluster *cluster)
{
    reading r = {0};
    if (!json_is_object(whole))
        return kolo_fail(KOLO_INVALID, "TF_CONFIG: wanted a JSON object with \"cluster\" and \"task\"");
    if (json_object_size(whole) == 0) return KOLO_OK;
    KOLO_TRY(read_cluster(&r, json_object_get(whole, "cluster")));
    KOLO_TRY(read_task(&r, json_object_get(whole, "task")));
    return list_addresses(&r, cluster);
}

kolo_status kolo_tf_config_read(const char *text, kolo_cluster *cluster)
{
    json_error_t error;
    *cluster = (kolo_cluster){.size = 1};
    if (!text || !*text) return KOLO_OK;
    json_t *whole = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!whole)
        return kolo_fail(KOLO_INVALID, "TF_CONFIG: wanted JSON, got \"%.60s\": %s at character %d", text, error.text,
                         error.position);
    kolo_status status = read_all(whole, cluster);
    json_decref(whole);
    return status;
}

void kolo_cluster_free(kolo_cluster *cluster)
{
    free(cluster->addresses);
    cluster->addresses = NULL;
}
