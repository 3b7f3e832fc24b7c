/* See turns.h. A file is {"strategy", "workers", "window", "steps", "epochs": [[[worker, [batch, …]], …], …]}. */
#include "replica/turns.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "core/grow.h"
#include "core/json.h"

/* ---------------------------------------------------------------- lists */

kolo_status kolo_turns_add(kolo_turns *turns, int worker, const int *batch, int batches)
{
    size_t bytes = (size_t)batches * sizeof *batch;
    KOLO_TRY(kolo_make_room(&turns->turn, &turns->room, (size_t)turns->count + 1, sizeof *turns->turn,
                            "the order of exchanges"));
    int *copy = malloc(bytes + 1);
    if (!copy) return kolo_fail_memory(bytes, "the order of exchanges");
    if (batches > 0) memcpy(copy, batch, bytes);
    turns->turn[turns->count++] = (kolo_turn){worker, batches, copy};
    return KOLO_OK;
}

void kolo_turns_clear(kolo_turns *turns)
{
    for (int i = 0; i < turns->count; i++) free(turns->turn[i].batch);
    free(turns->turn);
    *turns = (kolo_turns){0};
}

kolo_status kolo_order_add(kolo_order *order, kolo_turns **turns)
{
    size_t bytes = (size_t)(order->count + 1) * sizeof *order->epoch;
    kolo_turns *more = realloc(order->epoch, bytes);
    if (!more) return kolo_fail_memory(bytes, "the order of exchanges");
    order->epoch = more;
    *turns = &more[order->count++];
    **turns = (kolo_turns){0};
    return KOLO_OK;
}

void kolo_order_clear(kolo_order *order)
{
    for (int i = 0; i < order->count; i++) kolo_turns_clear(&order->epoch[i]);
    free(order->epoch);
    *order = (kolo_order){0};
}

/* ---------------------------------------------------------------- scripts */

/* Reads the next worker of a script, and begins anew at its end. */
static kolo_status next_worker(const char *script, const char **at, int workers, int *worker)
{
    while (isspace((unsigned char)**at)) ++*at;
    if (!**at) *at = script;
    char *end;
    long number = strtol(*at, &end, 10);
    bool valid = end != *at && number >= 0 && number < workers && (!*end || isspace((unsigned char)*end));
    if (!valid)
        return kolo_fail(KOLO_INVALID,
                         ".turns: wanted numbers of workers from 0 to %d with spaces between, got \"%.40s\"",
                         workers - 1, script);
    *at = end;
    *worker = (int)number;
    return KOLO_OK;
}

/* How far the batches of each shard are dealt out, and how many batches are left of shards that somebody can train on.
 */
typedef struct dealing {
    const kolo_order_head *head;
    int next[KOLO_DEVICES_MAX], left;
} dealing;

static int left_for(const dealing *d, int worker)
{
    int shard = kolo_shard_of(&d->head->shards, worker);
    return kolo_shard_end(&d->head->shards, shard, d->head->steps) - d->next[shard];
}

/* Adds a turn with the worker's next `wanted` batches, or with those that are left. */
static kolo_status add_next(kolo_turns *turns, int worker, dealing *d, int wanted)
{
    int left = left_for(d, worker), batches = left < wanted ? left : wanted;
    int *next = &d->next[kolo_shard_of(&d->head->shards, worker)], *batch = malloc((size_t)batches * sizeof *batch + 1);
    if (!batch) return kolo_fail_memory((size_t)batches * sizeof *batch, "the order of exchanges");
    for (int i = 0; i < batches; i++) batch[i] = (*next)++;
    d->left -= batches;
    kolo_status status = kolo_turns_add(turns, worker, batch, batches);
    free(batch);
    return status;
}

static bool is_gone(const kolo_order_head *head, int worker)
{
    return head->gone && head->gone[worker];
}

static bool somebody_is_left(const kolo_order_head *head, int shard)
{
    for (int w = 0; w < head->workers; w++)
        if (kolo_shard_of(&head->shards, w) == shard && !is_gone(head, w)) return true;
    return false;
}

static dealing begin(const kolo_order_head *head)
{
    dealing made = {.head = head};
    for (int s = 0; s < kolo_shard_count(&head->shards); s++) {
        made.next[s] = kolo_shard_first(&head->shards, s);
        if (somebody_is_left(head, s)) made.left += kolo_shard_end(&head->shards, s, head->steps) - made.next[s];
    }
    return made;
}

#define IDLE_MOST 100000 /* turns without a batch, one after the other, until a script has none but these */

kolo_status kolo_turns_by_script(const char *script, const kolo_order_head *head, kolo_turns *turns)
{
    const char *at = script;
    dealing d = begin(head);
    for (int worker = -1, idle = 0; d.left > 0 && idle < IDLE_MOST;) {
        if (script) KOLO_TRY(next_worker(script, &at, head->workers, &worker));
        else worker = (worker + 1) % head->workers;
        idle = is_gone(head, worker) || left_for(&d, worker) == 0 ? idle + 1 : 0;
        if (idle == 0) KOLO_TRY(add_next(turns, worker, &d, head->window));
    }
    if (d.left == 0 || head->gone || !head->shards.first) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     ".turns: wanted a worker of each rank, since each has a shard of its own, got \"%.40s\"", script);
}

kolo_status kolo_turns_at_once(const kolo_order_head *head, kolo_turns *turns)
{
    for (dealing d = begin(head); d.left > 0;)
        for (int w = 0; w < head->workers; w++) KOLO_TRY(add_next(turns, w, &d, is_gone(head, w) ? 0 : head->window));
    return KOLO_OK;
}

/* ---------------------------------------------------------------- writing */

static json_t *describe_turn(const kolo_turn *turn)
{
    json_t *batches = json_array();
    for (int i = 0; i < turn->batches; i++) json_array_append_new(batches, json_integer(turn->batch[i]));
    return json_pack("[i, o]", turn->worker, batches);
}

static json_t *describe(const kolo_order_head *head, const kolo_order *order)
{
    json_t *epochs = json_array();
    for (int e = 0; e < order->count; e++) {
        json_t *turns = json_array();
        for (int i = 0; i < order->epoch[e].count; i++)
            json_array_append_new(turns, describe_turn(&order->epoch[e].turn[i]));
        json_array_append_new(epochs, turns);
    }
    return json_pack("{s:s, s:i, s:i, s:i, s:o}", "strategy", head->strategy, "workers", head->workers, "window",
                     head->window, "steps", head->steps, "epochs", epochs);
}

kolo_status kolo_order_write(const char *path, const kolo_order_head *head, const kolo_order *order)
{
    return kolo_json_write(path, describe(head, order), JSON_COMPACT, "the order of exchanges");
}

/* ---------------------------------------------------------------- reading */

static kolo_status check_head(const char *path, json_t *whole, const kolo_order_head *head)
{
    const char *strategy;
    json_int_t workers, window, steps;
    if (json_unpack(whole, "{s:s, s:I, s:I, s:I}", "strategy", &strategy, "workers", &workers, "window", &window,
                    "steps", &steps) != 0)
        return kolo_fail(KOLO_FORMAT, "%s: wanted a file that .record has written, got other JSON", path);
    bool same = workers == head->workers && steps == head->steps && window == head->window;
    if (same && strcmp(strategy, head->strategy) == 0) return KOLO_OK;
    return kolo_fail(KOLO_INVALID,
                     "%s: wanted the exchanges of strategy %s with %d workers, %d batches an epoch and a window of %d, "
                     "got those of %.40s with %lld, %lld and %lld",
                     path, head->strategy, head->workers, head->steps, head->window, strategy, (long long)workers,
                     (long long)steps, (long long)window);
}

static kolo_status read_turn(const char *path, json_t *from, const kolo_order_head *head, bool *seen, kolo_turns *turns)
{
    json_t *batches = json_array_get(from, 1), *worker = json_array_get(from, 0);
    size_t count = json_array_size(batches);
    if (!json_is_integer(worker) || !json_is_array(batches) || json_integer_value(worker) < 0 ||
        json_integer_value(worker) >= head->workers || count > (size_t)head->steps)
        return kolo_fail(KOLO_FORMAT, "%s: exchange %d of an epoch: wanted [worker, [batches]] with a worker below %d",
                         path, turns->count, head->workers);
    int *batch = calloc(count + 1, sizeof *batch);
    if (!batch) return kolo_fail_memory(count * sizeof *batch, "the order of exchanges");
    kolo_status status = KOLO_OK;
    int shard = kolo_shard_of(&head->shards, (int)json_integer_value(worker));
    int first = kolo_shard_first(&head->shards, shard), end = kolo_shard_end(&head->shards, shard, head->steps);
    for (size_t i = 0; i < count && status == KOLO_OK; i++) {
        json_t *number = json_array_get(batches, i);
        json_int_t value = json_is_integer(number) ? json_integer_value(number) : -1;
        bool valid = value >= first && value < end && !seen[value];
        if (valid) seen[batch[i] = (int)value] = true;
        else
            status =
                kolo_fail(KOLO_FORMAT,
                          "%s: exchange %d of an epoch: wanted batches from %d to %d, each once, got another value",
                          path, turns->count, first, end - 1);
    }
    if (status == KOLO_OK) status = kolo_turns_add(turns, (int)json_integer_value(worker), batch, (int)count);
    free(batch);
    return status;
}

/* Whether each round of exchanges at once has each worker. */
static kolo_status check_rounds(const char *path, const kolo_order_head *head, const kolo_turns *turns)
{
    bool came[KOLO_DEVICES_MAX] = {false}, whole = turns->count % head->workers == 0;
    for (int i = 0; i < turns->count && whole; i++) {
        int worker = turns->turn[i].worker;
        bool in_odd_round = i / head->workers % 2 != 0; /* the marks of one round are those that the next one changes */
        whole = came[worker] == in_odd_round;
        came[worker] = !in_odd_round;
    }
    if (whole) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT,
                     "%s: wanted an exchange of each of the %d workers in each round, since all exchange at once, got "
                     "a round without one",
                     path, head->workers);
}

static kolo_status read_epoch(const char *path, json_t *from, const kolo_order_head *head, kolo_turns *turns)
{
    bool *seen = calloc((size_t)head->steps, sizeof *seen);
    if (!seen) return kolo_fail_memory((size_t)head->steps, "the order of exchanges");
    kolo_status status = KOLO_OK;
    int trained = 0;
    for (size_t i = 0; i < json_array_size(from) && status == KOLO_OK; i++)
        status = read_turn(path, json_array_get(from, i), head, seen, turns);
    free(seen);
    for (int i = 0; i < turns->count; i++) trained += turns->turn[i].batches;
    if (status == KOLO_OK && head->at_once) status = check_rounds(path, head, turns);
    if (status != KOLO_OK || trained == head->steps) return status;
    return kolo_fail(KOLO_FORMAT, "%s: wanted %d batches in an epoch, got %d", path, head->steps, trained);
}

kolo_status kolo_order_read(const char *path, const kolo_order_head *head, kolo_order *order)
{
    json_t *whole;
    KOLO_TRY(kolo_json_read(path, "the order of exchanges", &whole));
    json_t *epochs = json_object_get(whole, "epochs");
    kolo_status status = check_head(path, whole, head);
    for (size_t e = 0; e < json_array_size(epochs) && status == KOLO_OK; e++) {
        kolo_turns *turns;
        status = kolo_order_add(order, &turns);
        if (status == KOLO_OK) status = read_epoch(path, json_array_get(epochs, e), head, turns);
    }
    json_decref(whole);
    return status;
}
