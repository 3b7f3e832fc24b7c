/* Values of a cell's last expression, read at each rank and shown together. Read first: ranks.h, values/value.h. */
#define _GNU_SOURCE
#include "ranks/ranks.h"
#include "print.h"

#include <stdlib.h>
#include <string.h>

typedef struct place {
    ranks *r;
    int rank;
} place;

static bool read_memory(void *closure, uint64_t address, size_t size, void *into)
{
    const place *p = closure;
    ranks *r = p->r;
    r->bytes_here = false;
    peer_tell(r, p->rank, (message){.kind = RANK_PEEK, .address = address, .size = size}, NULL, 0);
    for (double end = seconds_now() + 3; !r->bytes_here && seconds_now() < end && !ranks_any_failed(r);)
        ranks_turn(r, 20);
    bool there = r->bytes_here && r->bytes.head.code == 0 && r->bytes.size == size;
    if (there) memcpy(into, r->bytes.payload, size);
    return there;
}

static const char *plain_of(const json_t *data)
{
    const char *plain = json_string_value(json_object_get(data, "text/plain"));
    return plain ? plain : "";
}

static void publish_data(ranks *r, const char *type, json_t *data)
{
    json_t *content =
        strcmp(type, "execute_result")
            ? json_pack("{s:o, s:{}, s:{}}", "data", data, "metadata", "transient")
            : json_pack("{s:i, s:o, s:{}}", "execution_count", (int)r->s->count, "data", data, "metadata");
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) output_publish(&r->s->out, type, dump);
    free(dump);
    json_decref(content);
}

/* "[0-7] 42": the value of those ranks. */
static char *tagged(const ranks *r, const bool *which, const char *plain)
{
    char *listed = ranks_listed(which, r->count);
    char *line = format_text("[%s]%s%s", listed, strchr(plain, '\n') ? "\n" : " ", plain);
    free(listed);
    return line;
}

/* Pictures and tables of ranks that do not agree: each with its ranks before it. */
static void publish_rich(ranks *r, const bool *which, const json_t *value)
{
    json_t *data = json_deep_copy(value);
    char *listed = ranks_listed(which, r->count), *line = format_text("[%s]\n", listed);
    print_out(r->s, line);
    publish_data(r, "display_data", data);
    free(line);
    free(listed);
}

/* One line for all ranks that have the same: "[0-7] 42". */
static void publish_grouped(ranks *r, json_t *const *values)
{
    text list = {0};
    bool *told = need_zeroed((size_t)r->count), *which = need_zeroed((size_t)r->count);
    json_t *only = NULL;
    size_t groups = 0;
    for (int i = 0; i < r->count; i++) {
        if (!values[i] || told[i]) continue;
        bool all = true;
        for (int k = 0; k < r->count; k++) {
            which[k] = values[k] && json_equal(values[i], values[k]);
            told[k] |= which[k];
            all &= which[k] || !values[k];
        }
        only = all ? json_deep_copy(values[i]) : NULL;
        char *line = tagged(r, which, plain_of(values[i]));
        if (!only && json_object_size(values[i]) > 1) publish_rich(r, which, values[i]);
        else text_addf(&list, "%s%s", groups++ ? "\n" : "", line);
        free(line);
    }
    json_t *data = only ? only : json_object();
    if (list.size) json_object_set_new(data, "text/plain", json_stringn(list.data, list.size));
    if (list.size) {
        json_decref(r->s->value);
        r->s->value = json_incref(data);
        publish_data(r, "execute_result", data);
    } else {
        json_decref(data);
    }
    text_free(&list);
    free(told);
    free(which);
}

void ranks_publish_values(ranks *r, value_reader data, void *closure)
{
    json_t **values = need_zeroed((size_t)r->count * sizeof *values);
    for (int i = 0; i < r->count; i++) {
        place at = {r, i};
        memory from = {.read = read_memory, .closure = &at};
        if (r->peers[i].chosen) values[i] = data(closure, &from, r->peers[i].end.address, r->peers[i].end.size);
    }
    publish_grouped(r, values);
    for (int i = 0; i < r->count; i++) json_decref(values[i]);
    free(values);
}
