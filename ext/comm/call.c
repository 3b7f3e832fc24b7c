/* The sentences about calls that differ, and about members that do not come: see call.h. */
#include "comm/call.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/hash.h"

#define STALL_LIMIT      60.0 /* seconds, the default of KOLO_STALL_LIMIT */
#define STALL_LIMIT_MOST 1e7
enum { SHOWN_MEMBERS = 12 };

/* ---------------------------------------------------------------- records */

static _Thread_local struct {
    int32_t element, part_of, reduction;
    int64_t part;
} described; /* by kolo_call_describe() */
static _Thread_local bool in_background;

void kolo_call_in_background(bool background)
{
    in_background = background;
}

bool kolo_call_is_in_background(void)
{
    return in_background;
}

void kolo_call_describe(kolo_type element, kolo_operation part_of)
{
    kolo_call_plain();
    described.element = (int32_t)element + 1;
    described.part_of = (int32_t)part_of;
}

void kolo_call_describe_parts(kolo_type element, kolo_operation part_of, int64_t count, kolo_reduce_op reduction)
{
    kolo_call_describe(element, part_of);
    described.part = count + 1;
    described.reduction = (int32_t)reduction;
}

void kolo_call_plain(void)
{
    memset(&described, 0, sizeof described);
}

static void copy_name(char *to, size_t room, const char *from)
{
    size_t length = from ? strlen(from) : 0, skipped = length < room ? 0 : length - (room - 1);
    if (length > 0) memcpy(to, from + skipped, length - skipped);
}

kolo_collective kolo_call_make(kolo_operation operation, int64_t count)
{
    kolo_scope scope = kolo_scope_now();
    kolo_collective call = {.operation = (int32_t)operation,
                            .count = count,
                            .reduction = described.reduction,
                            .part = described.part,
                            .element = described.element,
                            .part_of = described.part_of,
                            .asynchronous = in_background,
                            .line = (int32_t)scope.here.line};
    const char *path = scope.here.file, *slash = path ? strrchr(path, '/') : NULL;
    copy_name(call.file, sizeof call.file, slash ? slash + 1 : path);
    copy_name(call.function, sizeof call.function, scope.function);
    return call;
}

kolo_collective kolo_call_allreduce(int64_t count, kolo_type type, kolo_reduce_op reduction)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_ALLREDUCE, count);
    call.type = (int32_t)type;
    call.reduction = (int32_t)reduction;
    return call;
}

kolo_collective kolo_call_own(int64_t count)
{
    kolo_collective call = kolo_call_allreduce(count, KOLO_TYPE_FLOAT, KOLO_REDUCE_SUM);
    call.operation = KOLO_CALL_OWN;
    return call;
}

kolo_collective kolo_call_broadcast(size_t bytes, int root)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_BROADCAST, (int64_t)bytes);
    call.root = (int32_t)root;
    return call;
}

kolo_collective kolo_call_allgatherv(const size_t *bytes, int size)
{
    kolo_collective call = kolo_call_make(KOLO_CALL_ALLGATHERV, 0);
    call.sizes = kolo_hash_add(KOLO_HASH_START, bytes, (size_t)size * sizeof *bytes);
    for (int i = 0; i < size; i++) call.count += (int64_t)bytes[i];
    return call;
}

bool kolo_calls_equal(const kolo_collective *one, const kolo_collective *other)
{
    return memcmp(one, other, offsetof(kolo_collective, line)) == 0;
}

const kolo_collective *kolo_calls_at(const kolo_calls *calls, int member)
{
    return (const kolo_collective *)((const char *)calls->first + (size_t)member * calls->stride);
}

/* ---------------------------------------------------------------- words */

static const char *place_text(const kolo_collective *call)
{
    static const char *const own[] = {"kolo_allreduce", "kolo_broadcast", "kolo_allgather",      "kolo_allgatherv",
                                      "kolo_alltoall",  "kolo_alltoallv", "kolo_reduce_scatter", "kolo_barrier",
                                      "kolo_join",      "kolo_send",      "kolo_receive"};
    bool named = call->function[0] != '\0'; /* "kolo_fit" says more than its line alone */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        size_t length = strlen(own[i]);
        bool equal = strncmp(call->function, own[i], length) == 0;
        named = named && !(equal && (!call->function[length] || strcmp(call->function + length, "_async") == 0));
    }
    if (call->line > 0 && named) return kolo_phrase(" (%s, %s:%d)", call->function, call->file, (int)call->line);
    if (call->line > 0) return kolo_phrase(" (%s:%d)", call->file, (int)call->line);
    return call->function[0] ? kolo_phrase(" (%s)", call->function) : "";
}

const char *kolo_type_name(kolo_type type)
{
    static const char *const names[] = {"floats", "doubles", "int32_t", "int64_t", "bytes"};
    return names[type];
}

/* "500 floats", "1 float, maximum" */
static const char *counted_text(const kolo_collective *call, int64_t count, kolo_type element)
{
    static const char *const reductions[] = {"", ", mean", ", minimum", ", maximum", ", product", ", Adasum"};
    const char *type = kolo_type_name(element);
    bool one = count == 1 && type[strlen(type) - 1] == 's';
    return kolo_phrase("%lld %.*s%s", (long long)count, (int)strlen(type) - one, type, reductions[call->reduction]);
}

static const char *elements_text(const kolo_collective *call)
{
    return counted_text(call, call->count, (kolo_type)call->type);
}

/* " of 10 floats for each rank"; "" if the parts may have any size. */
static const char *parts_text(const kolo_calls *calls, const kolo_collective *call)
{
    if (call->part == 0) return "";
    const char *elements = counted_text(call, call->part - 1, (kolo_type)(call->element - 1));
    return kolo_phrase(" of %s for each %s", elements, calls->who);
}

/* A member's name in sentences. */
static int number_of(const kolo_calls *calls, int member)
{
    return calls->numbers ? calls->numbers[member] : member;
}

static const char *plain_text(const kolo_calls *calls, const kolo_collective *call)
{
    const char *place = place_text(call);
    long long bytes = (long long)call->count;
    switch (call->part_of ? call->part_of : call->operation) {
    case KOLO_CALL_ALLREDUCE: return kolo_phrase("allreduce of %s%s", elements_text(call), place);
    case KOLO_CALL_BROADCAST:
        return kolo_phrase("broadcast of %lld bytes from %s %d%s", bytes, calls->who, number_of(calls, call->root),
                           place);
    case KOLO_CALL_ALLGATHER: return kolo_phrase("allgather of %lld bytes%s", bytes, place);
    case KOLO_CALL_ALLGATHERV:
        if (call->part_of) return kolo_phrase("allgatherv%s", place);
        return kolo_phrase("allgather of parts of %lld bytes in all%s", bytes, place);
    case KOLO_CALL_ALLTOALLV:
        return kolo_phrase("alltoall%s%s%s", call->part_of && !call->part ? "v" : "", parts_text(calls, call), place);
    case KOLO_CALL_REDUCE_SCATTER: return kolo_phrase("reduce-scatter%s%s", parts_text(calls, call), place);
    case KOLO_CALL_BARRIER: return kolo_phrase("barrier%s", place);
    case KOLO_CALL_OWN: return kolo_phrase("an own allreduce of %s%s", elements_text(call), place);
    case KOLO_CALL_JOIN: return kolo_phrase("kolo_join%s", place);
    case KOLO_CALL_FINISH: return "kolo_finish";
    case KOLO_CALL_SEND:
        return kolo_phrase("kolo_send of %lld bytes to %s %d%s", bytes, calls->who, number_of(calls, call->root),
                           place);
    case KOLO_CALL_RECEIVE:
        if (call->root == KOLO_ANY_RANK) return kolo_phrase("kolo_receive from any %s%s", calls->who, place);
        return kolo_phrase("kolo_receive from %s %d%s", calls->who, number_of(calls, call->root), place);
    default: return "nothing";
    }
}

const char *kolo_call_text(const kolo_calls *calls, const kolo_collective *call)
{
    const char *text = plain_text(calls, call);
    return call->asynchronous ? kolo_phrase("asynchronous %s", text) : text;
}

/* A difference between two calls whose texts are equal. */
static const char *difference_text(const kolo_collective *one, const kolo_collective *other)
{
    if (one->operation != other->operation || one->count != other->count || one->part || other->part) return "";
    if (one->sizes != other->sizes) return ", with other sizes of the parts";
    return one->element != other->element ? ", with elements of another type" : "";
}

/* Whether members that have joined can answer this call: see kolo_join(). */
static bool is_answered(const kolo_collective *call)
{
    switch (call->operation) {
    case KOLO_CALL_ALLREDUCE: return call->reduction != KOLO_REDUCE_ADASUM;
    case KOLO_CALL_BARRIER:
    case KOLO_CALL_ALLGATHERV:
    case KOLO_CALL_JOIN: return true;
    case KOLO_CALL_ALLGATHER: return call->part_of == KOLO_CALL_ALLGATHERV; /* the counts */
    default: return false;
    }
}

/* The first member that has joined, or has not; -1: there is none. */
static int find_member(const kolo_calls *calls, bool joined)
{
    for (int i = 0; i < calls->size; i++)
        if ((kolo_calls_at(calls, i)->operation == KOLO_CALL_JOIN) == joined) return i;
    return -1;
}

static kolo_status check_joined(const kolo_calls *calls, int first)
{
    const kolo_collective *call = kolo_calls_at(calls, first);
    int joined = find_member(calls, true);
    if (joined < 0 || is_answered(call)) return KOLO_OK;
    return kolo_fail(KOLO_COMM,
                     "%s %d has called kolo_join(), after which it takes part in allreduce%s, allgatherv and barrier "
                     "only: "
                     "%s %d called %s",
                     calls->who, number_of(calls, joined),
                     call->reduction == KOLO_REDUCE_ADASUM ? " (but not Adasum)" : "", calls->who,
                     number_of(calls, first), kolo_call_text(calls, call));
}

kolo_status kolo_calls_compare(const kolo_calls *calls)
{
    int first = find_member(calls, false);
    for (int i = first + 1; first >= 0 && i < calls->size; i++) {
        const kolo_collective *one = kolo_calls_at(calls, first), *other = kolo_calls_at(calls, i);
        if (other->operation == KOLO_CALL_JOIN || kolo_calls_equal(one, other)) continue;
        const char *how = difference_text(one, other);
        return kolo_fail(KOLO_COMM, "all %ss must make the same call: %s %d called %s, %s %d %s%s", calls->who,
                         calls->who, number_of(calls, first), kolo_call_text(calls, one), calls->who,
                         number_of(calls, i), kolo_call_text(calls, other), how);
    }
    return first < 0 ? KOLO_OK : check_joined(calls, first);
}

int kolo_calls_joined(const kolo_calls *calls, bool *joined, kolo_collective *made)
{
    int count = 0, last = -1, other = -1;
    for (int i = 0; i < calls->size; i++) {
        const kolo_collective *call = kolo_calls_at(calls, i);
        joined[i] = call->operation == KOLO_CALL_JOIN;
        count += joined[i];
        if (!joined[i]) other = i;
        else if (last < 0 || call->count <= kolo_calls_at(calls, last)->count) last = i;
    }
    if (count == 0) return 0;
    *made = *kolo_calls_at(calls, other < 0 ? last : other);
    if (other < 0) made->root = last;
    return count;
}

/* ---------------------------------------------------------------- members that do not come */

/* "rank 3", "ranks 0, 1, 2": of the members that are marked. */
static const char *members_text(const kolo_calls *calls, const bool *marked)
{
    char list[200] = "";
    int count = 0;
    for (int i = 0; i < calls->size; i++) {
        if (!marked[i] || ++count > SHOWN_MEMBERS) continue;
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%d", count > 1 ? ", " : "", number_of(calls, i));
    }
    if (count > SHOWN_MEMBERS) return kolo_phrase("%ss %s and %d more", calls->who, list, count - SHOWN_MEMBERS);
    return kolo_phrase("%s%s %s", calls->who, count == 1 ? "" : "s", list);
}

/* Adds "ranks 0, 1 wait in …" for the first members that are not told yet, and marks those in the same call as told. */
static bool tell_some(const kolo_calls *calls, const bool *came, bool *told, char *text, size_t size)
{
    bool *marked = calls->size > 0 ? calloc((size_t)calls->size, sizeof *marked) : NULL;
    const kolo_collective *first = NULL;
    int count = 0;
    for (int i = 0; i < calls->size && marked; i++) {
        const kolo_collective *call = kolo_calls_at(calls, i);
        if (!came[i] || told[i]) continue;
        if (!first) first = call;
        bool same = kolo_calls_equal(first, call) && first->line == call->line;
        marked[i] = same;
        told[i] = told[i] || same;
        count += same;
    }
    size_t length = strlen(text);
    if (first)
        snprintf(text + length, size - length, "%s%s wait%s in %s", length ? ", " : "", members_text(calls, marked),
                 count == 1 ? "s" : "", kolo_call_text(calls, first));
    free(marked);
    return first != NULL;
}

kolo_status kolo_calls_stalled(const kolo_calls *calls, const bool *came, double seconds)
{
    enum { CALLS_MOST = 4 }; /* different calls in which members wait, in one sentence */
    bool *missing = calloc((size_t)calls->size, 2 * sizeof *missing), *told = missing + calls->size;
    if (!missing) return kolo_fail_memory((size_t)calls->size * 2, "a sentence about ranks");
    char text[600] = "";
    int count = 0;
    for (int i = 0; i < calls->size; i++) {
        missing[i] = !came[i];
        count += missing[i];
    }
    for (int k = 0; k < CALLS_MOST && tell_some(calls, came, told, text, sizeof text); k++) {}
    const char *group = calls->group, *elsewhere = calls->elsewhere ? calls->elsewhere : "";
    kolo_status status =
        kolo_fail(KOLO_COMM, "%s %s not come for %g s (KOLO_STALL_LIMIT)%s%s: %s%s", members_text(calls, missing),
                  count == 1 ? "has" : "have", seconds, group ? " to " : "", group ? group : "", text, elsewhere);
    free(missing);
    return status;
}

/* ---------------------------------------------------------------- the limit */

bool kolo_in_notebook(void)
{
    return getenv("KOLO_KERNEL_CELLS") != NULL;
}

static bool read_limit(const char *text, double *limit)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(value) || value < 0 || value > STALL_LIMIT_MOST) return false;
    *limit = value;
    return true;
}

double kolo_stall_limit(void)
{
    const char *text = getenv("KOLO_STALL_LIMIT");
    double limit = kolo_in_notebook() ? 0 : STALL_LIMIT;
    if (text && *text) read_limit(text, &limit);
    return limit;
}

double kolo_message_limit(void)
{
    const char *text = getenv("KOLO_STALL_LIMIT");
    return text && *text ? kolo_stall_limit() : STALL_LIMIT;
}

kolo_status kolo_stall_check_environment(void)
{
    const char *text = getenv("KOLO_STALL_LIMIT");
    double limit;
    if (!text || !*text || read_limit(text, &limit)) return KOLO_OK;
    return kolo_fail(KOLO_INVALID, "KOLO_STALL_LIMIT: wanted seconds from 0 (no limit) to %g, got \"%.80s\"",
                     STALL_LIMIT_MOST, text);
}

bool kolo_stall_passed(kolo_stall *stall, int came, uint64_t life)
{
    double now = kolo_now();
    if (stall->since == 0 || came > stall->came || life != stall->life) {
        stall->since = now;
        stall->came = came;
        stall->life = life;
    }
    return stall->limit > 0 && now - stall->since >= stall->limit;
}

struct timespec kolo_stall_turn(const kolo_stall *stall)
{
    double turn = stall->limit / 20 < 1 ? stall->limit / 20 : 1;
    return (struct timespec){.tv_sec = (time_t)turn, .tv_nsec = (long)((turn - (double)(time_t)turn) * 1e9)};
}

/* ---------------------------------------------------------------- signs of life */

static _Atomic uint64_t own_life;
static _Atomic(_Atomic uint64_t *) life = &own_life;
static _Thread_local void (*tell_of_life)(void);

/* Two threads may count one sign less than there were: it only matters that the number changes. */
void kolo_show_life(void)
{
    _Atomic uint64_t *counter = atomic_load_explicit(&life, memory_order_relaxed);
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
    if (tell_of_life) tell_of_life();
}

uint64_t kolo_life_shown(void)
{
    return atomic_load_explicit(atomic_load_explicit(&life, memory_order_relaxed), memory_order_relaxed);
}

void kolo_life_count_at(_Atomic uint64_t *where)
{
    atomic_store(&life, where ? where : &own_life);
}

void kolo_life_tell(void (*tell)(void))
{
    tell_of_life = tell;
}
