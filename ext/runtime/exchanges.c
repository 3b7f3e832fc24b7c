/* The collectives of kolo.h whose parts have other sizes on each rank, and messages between two ranks. The sizes are
 * exchanged first, so that a part that does not fit fails on all ranks alike. */
#include "runtime/asynchronous.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/call.h"
#include "runtime/process_set.h"

/* ---------------------------------------------------------------- exchanges */

/* Each rank sends this to all others before an exchange. */
typedef struct notice {
    int64_t present; /* 1; 0: the rank has joined (kolo_join()), which knows nothing of notices */
    int64_t room; /* elements */
    int64_t counts[]; /* allgatherv: [1] its elements; alltoallv: [size] those for each rank */
} notice;

typedef struct exchange {
    kolo_comm *ranks;
    kolo_type type;
    size_t notice_bytes;
    char *notices; /* [size] of notice_bytes each */
    size_t *bytes; /* [4 × size]: sizes and offsets of the parts that are sent, then of those that are received */
    int64_t *counts; /* [size] elements that this rank receives from each */
} exchange;

static const notice *notice_of(const exchange *x, int rank)
{
    return (const notice *)(x->notices + (size_t)rank * x->notice_bytes);
}

static void exchange_close(exchange *x)
{
    free(x->notices);
    free(x->bytes);
    free(x->counts);
}

static kolo_status exchange_open(exchange *x, kolo_comm *ranks, int64_t room, const int64_t *counts, int number,
                                 kolo_type type)
{
    size_t size = (size_t)ranks->size, bytes = sizeof(notice) + (size_t)number * sizeof(int64_t);
    *x = (exchange){.ranks = ranks, .type = type, .notice_bytes = bytes};
    x->notices = calloc(size, bytes);
    x->bytes = calloc(4 * size, sizeof *x->bytes);
    x->counts = calloc(size, sizeof *x->counts);
    if (!x->notices || !x->bytes || !x->counts) return kolo_fail_memory(size * bytes, "the ranks' counts");
    notice *mine = (notice *)(x->notices + (size_t)ranks->rank * bytes);
    mine->present = 1;
    mine->room = room;
    memcpy(mine->counts, counts, (size_t)number * sizeof *counts);
    return ranks->kind->allgather(ranks, mine, bytes, x->notices);
}

static kolo_status check_room(int rank, const notice *of, int64_t total)
{
    if (total <= of->room || !of->present) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "rank %d: wanted room for %lld elements, got room for %lld", rank, (long long)total,
                     (long long)of->room);
}

/* Sets sizes and offsets of parts that follow one another. */
static void lay_out(const exchange *x, const int64_t *counts, size_t *bytes, size_t *offsets)
{
    size_t at = 0;
    for (int i = 0; i < x->ranks->size; i++) {
        bytes[i] = (size_t)counts[i] * kolo_type_bytes(x->type);
        offsets[i] = at;
        at += bytes[i];
    }
}

static kolo_status gather(exchange *x, const kolo_allgatherv_args *args)
{
    int size = x->ranks->size;
    int64_t total = 0;
    for (int i = 0; i < size; i++) total += notice_of(x, i)->counts[0];
    for (int i = 0; i < size; i++)
        KOLO_TRY(check_room(kolo_process_set_number(args->process_set, i), notice_of(x, i), total));
    for (int i = 0; i < size; i++) x->counts[i] = notice_of(x, i)->counts[0];
    lay_out(x, x->counts, x->bytes, x->bytes + size);
    if (args->counts) memcpy(args->counts, x->counts, (size_t)size * sizeof *x->counts);
    return x->ranks->kind->allgatherv(x->ranks, args->values, args->all, x->bytes, x->bytes + size);
}

static kolo_status allgatherv(const kolo_allgatherv_args *args, kolo_type type)
{
    exchange x;
    kolo_comm *ranks;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    KOLO_TRY(kolo_check_array(args->values, args->count, 1, type, "values"));
    KOLO_TRY(kolo_check_array(args->all, args->room, 1, type, "elements of room for all ranks' values"));
    kolo_call_describe(type, KOLO_CALL_ALLGATHERV);
    kolo_status status = exchange_open(&x, ranks, args->room, &args->count, 1, type);
    if (status == KOLO_OK) status = gather(&x, args);
    kolo_call_plain();
    exchange_close(&x);
    return status;
}

kolo_status kolo_allgatherv_at(const kolo_allgatherv_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_allgatherv", here);
    return kolo_leave(scope, allgatherv(args, type));
}

/* Every rank knows the counts of every pair, so all ranks find out together that a rank has too little room. */
static kolo_status check_rooms(const exchange *x, const kolo_process_set *set)
{
    for (int to = 0; to < x->ranks->size; to++) {
        int64_t total = 0;
        for (int from = 0; from < x->ranks->size; from++) total += notice_of(x, from)->counts[to];
        KOLO_TRY(check_room(kolo_process_set_number(set, to), notice_of(x, to), total));
    }
    return KOLO_OK;
}

static kolo_status swap(exchange *x, const kolo_alltoallv_args *args)
{
    int size = x->ranks->size;
    KOLO_TRY(check_rooms(x, args->process_set));
    for (int i = 0; i < size; i++) x->counts[i] = notice_of(x, i)->counts[x->ranks->rank];
    size_t *sent = x->bytes, *received = x->bytes + 2 * (size_t)size;
    lay_out(x, args->counts, sent, sent + size);
    lay_out(x, x->counts, received, received + size);
    if (args->received_counts) memcpy(args->received_counts, x->counts, (size_t)size * sizeof *x->counts);
    return x->ranks->kind->alltoallv(x->ranks, args->values, sent, sent + size, args->received, received,
                                     received + size);
}

/* every: what each rank gets, which must be the same on all ranks; -1: the counts may differ. */
static kolo_status alltoallv(const kolo_alltoallv_args *args, int64_t every, kolo_type type)
{
    exchange x;
    kolo_comm *ranks;
    int64_t total = 0;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    if (!args->counts) return kolo_fail(KOLO_INVALID, "wanted %d counts, got NULL", ranks->size);
    for (int i = 0; i < ranks->size; i++) {
        KOLO_TRY(kolo_check_array(args, args->counts[i], 1, type, "values"));
        if (__builtin_add_overflow(total, args->counts[i], &total))
            return kolo_fail(KOLO_INVALID, "wanted counts that fit in memory");
    }
    KOLO_TRY(kolo_check_array(args->values, total, 1, type, "values"));
    KOLO_TRY(kolo_check_array(args->received, args->room, 1, type, "elements of room for what is received"));
    kolo_call_describe_parts(type, KOLO_CALL_ALLTOALLV, every, KOLO_REDUCE_SUM);
    kolo_status status = exchange_open(&x, ranks, args->room, args->counts, ranks->size, type);
    if (status == KOLO_OK) status = swap(&x, args);
    kolo_call_plain();
    exchange_close(&x);
    return status;
}

kolo_status kolo_alltoallv_at(const kolo_alltoallv_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_alltoallv", here);
    return kolo_leave(scope, alltoallv(args, -1, type));
}

static kolo_status check_alltoall(const void *call, kolo_type type)
{
    const kolo_alltoall_args *args = call;
    kolo_comm *ranks;
    KOLO_TRY(kolo_set_comm(args->process_set, &ranks));
    KOLO_TRY(kolo_check_array(args->values, args->count, ranks->size, type, "values"));
    return kolo_check_array(args->received, args->count, ranks->size, type, "elements of room for what is received");
}

static kolo_status alltoall(const void *call, kolo_type type)
{
    const kolo_alltoall_args *args = call;
    int64_t size = kolo_process_set_size(args->process_set);
    KOLO_TRY(check_alltoall(args, type));
    int64_t *counts = calloc((size_t)size, sizeof *counts);
    if (!counts) return kolo_fail_memory((size_t)size * sizeof *counts, "the ranks' counts");
    for (int64_t i = 0; i < size; i++) counts[i] = args->count;
    kolo_status status = alltoallv(&(kolo_alltoallv_args){.values = args->values,
                                                          .counts = counts,
                                                          .received = args->received,
                                                          .room = args->count * size,
                                                          .process_set = args->process_set},
                                   args->count, type);
    free(counts);
    return status;
}

kolo_status kolo_alltoall_at(const kolo_alltoall_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_alltoall", here);
    return kolo_leave(scope, alltoall(args, type));
}

kolo_handle kolo_alltoall_async_at(const kolo_alltoall_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_alltoall_async", here);
    return kolo_asynchronous_leave(scope, check_alltoall(args, type), alltoall,
                                   kolo_asynchronous_copy(args, sizeof *args), type);
}

/* ---------------------------------------------------------------- messages */

static kolo_status check_partner(int rank, bool any, const char *name)
{
    bool other = rank >= 0 && rank < kolo_size() && rank != kolo_rank();
    if (other || (any && rank == KOLO_ANY_RANK)) return KOLO_OK;
    if (kolo_size() == 1) return kolo_fail(KOLO_INVALID, "there is no other rank %s: the job has 1 rank", name);
    return kolo_fail(KOLO_INVALID, "wanted another rank (0 to %d, not %d)%s %s, got %d", kolo_size() - 1, kolo_rank(),
                     any ? " or KOLO_ANY_RANK" : "", name, rank);
}

static kolo_status check_tag(int tag, bool any)
{
    if ((tag >= 0 && tag <= KOLO_TAG_MOST) || (any && tag == KOLO_ANY_TAG)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, ".tag: wanted 0 to %d%s, got %d", KOLO_TAG_MOST, any ? " or KOLO_ANY_TAG" : "", tag);
}

/* Records the failure of a message of a learner's own all-reduce: see comm/own.h. A message that has arrived is a sign
 * of life to the ranks that wait for this one. */
static kolo_status watched(kolo_status status)
{
    if (status == KOLO_OK) kolo_show_life();
    kolo_message_watch *watch = kolo_world_comm()->watch;
    if (watch && status != KOLO_OK && !watch->failed) {
        kolo_failure failure = kolo_failure_take();
        kolo_failure_give(&failure);
        snprintf(watch->why, sizeof watch->why, "%.*s", (int)sizeof watch->why - 1,
                 failure.code != KOLO_OK ? failure.text : kolo_status_name(status));
        watch->failed = true;
    }
    return status;
}

static bool has_failed(void)
{
    const kolo_message_watch *watch = kolo_world_comm()->watch;
    return watch && watch->failed;
}

static kolo_status send(const kolo_send_args *args, kolo_type type)
{
    kolo_comm *ranks = kolo_world_comm();
    KOLO_TRY(kolo_check_array(args->values, args->count, 1, type, "values"));
    KOLO_TRY(check_partner(args->to, false, "to send to"));
    KOLO_TRY(check_tag(args->tag, false));
    return ranks->kind->send(ranks, args->values, (size_t)args->count * kolo_type_bytes(type), args->to,
                             kolo_tag_of(args->tag, type));
}

kolo_status kolo_send_at(const kolo_send_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_send", here);
    return kolo_leave(scope, has_failed() ? KOLO_COMM : watched(send(args, type)));
}

static kolo_status receive(const kolo_receive_args *args, kolo_type type)
{
    kolo_comm *ranks = kolo_world_comm();
    kolo_message message = {.from = KOLO_ANY_RANK};
    KOLO_TRY(kolo_check_array(args->values, args->count, 1, type, "elements of room for a message"));
    KOLO_TRY(check_partner(args->from, true, "to receive from"));
    KOLO_TRY(check_tag(args->tag, true));
    kolo_status status;
    do { /* empty messages above KOLO_TAG_MOST are kolo_fit()'s own (training/fit_presence.c) */
        status = ranks->kind->receive(ranks, args->values, (size_t)args->count * kolo_type_bytes(type), args->from,
                                      kolo_tag_of(args->tag, type), &message);
    } while (status == KOLO_OK && message.tag > KOLO_TAG_MOST);
    if (args->message) *args->message = message;
    return status;
}

kolo_status kolo_receive_at(const kolo_receive_args *args, kolo_type type, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_receive", here);
    return kolo_leave(scope, has_failed() ? KOLO_COMM : watched(receive(args, type)));
}

static kolo_status probe(const kolo_probe_args *args, bool *there)
{
    kolo_comm *ranks = kolo_world_comm();
    kolo_message message;
    KOLO_TRY(check_partner(args->from, true, "to receive from"));
    KOLO_TRY(check_tag(args->tag, true));
    KOLO_TRY(ranks->kind->probe(ranks, args->from, args->tag, there, &message));
    while (*there && message.tag > KOLO_TAG_MOST) { /* as above */
        KOLO_TRY(ranks->kind->receive(ranks, NULL, 0, message.from, message.tag, &message));
        KOLO_TRY(ranks->kind->probe(ranks, args->from, args->tag, there, &message));
    }
    if (*there && args->message) *args->message = message;
    return KOLO_OK;
}

bool kolo_probe_at(const kolo_probe_args *args, kolo_here here)
{
    bool there = false;
    kolo_scope scope = kolo_enter("kolo_probe", here);
    return kolo_leave(scope, probe(args, &there)) == KOLO_OK && there;
}
