/* All-reduce and broadcast: see shared.h, and shared.c for slots and records.
 *
 * Where the values of all members lie in memory that all members have mapped, each member reduces its slice of the
 * whole array and writes the result into every member's array. Otherwise each member copies its values to its slot,
 * chunk by chunk, and the members reduce each chunk in the same way. Both combine the values of the members in the
 * order of their numbers, so both give the same bits. */
#include "comm/shared_record.h"

#include "comm/sum.h"

/* Bytes. Up to here each member adds all values itself, which costs less time than a second barrier. */
enum { SMALL = 1 << 12 };

/* An all-reduce of this member. */
typedef struct allreduce {
    kolo_shared *shared;
    char *values; /* NULL: the member has joined, and has none */
    int64_t count;
    kolo_type type;
    kolo_reduce_op reduction;
    unsigned turn; /* of the first chunk */
} allreduce;

static size_t bytes_of(int64_t count, kolo_type type)
{
    return (size_t)count * kolo_type_bytes(type);
}

static bool is_small(int64_t count, kolo_type type)
{
    return bytes_of(count, type) <= SMALL;
}

static bool has_joined(const kolo_shared *shared, int member)
{
    return shared->joined_count > 0 && shared->joined[member];
}

/* Elements. */
typedef struct slice {
    int64_t begin, end;
} slice;

/* The slice of a chunk, or of the whole array, that this member reduces. */
static slice own_slice(const kolo_shared *shared, int64_t count, kolo_type type)
{
    return (slice){kolo_slice_begin(count, type, shared->rank, shared->size),
                   kolo_slice_begin(count, type, shared->rank + 1, shared->size)};
}

/* ---------------------------------------------------------------- in place */

static const kolo_shareable_place *place_of(const kolo_shared *shared, unsigned turn, int member)
{
    return &shared->records[turn % 2][member].place;
}

/* The number of members that have values, and of those whose values can be mapped. */
static void count_places(const kolo_shared *shared, unsigned turn, int *members, int *places)
{
    *members = *places = 0;
    for (int i = 0; i < shared->size; i++) {
        if (has_joined(shared, i)) continue;
        ++*members;
        *places += place_of(shared, turn, i)->serial != 0;
    }
}

/* Maps the blocks that are new to the group. Returns whether there are any. */
static bool map_new_blocks(kolo_shared *shared, unsigned turn)
{
    bool some = false, all = true;
    for (int i = 0; i < shared->size; i++) {
        const kolo_shareable_place *place = place_of(shared, turn, i);
        if (has_joined(shared, i) || kolo_mappings_has(shared->mappings, i, place)) continue;
        some = true;
        all = kolo_mappings_add(shared->mappings, i, place) && all;
    }
    atomic_store(&shared->records[turn % 2][shared->rank].maps, all);
    return some;
}

/* Tells the others whether this member could map the new blocks, and learns it of them. */
static void agree_on_blocks(kolo_shared *shared, unsigned turn)
{
    bool all = true;
    kolo_shared_wait_for_all(shared);
    for (int i = 0; i < shared->size; i++) all = all && atomic_load(&shared->records[turn % 2][i].maps);
    kolo_mappings_settle(shared->mappings, all);
}

/* Lists where the members' values are in this process, and returns their number; 0: not all can be used. */
static int list_places(const allreduce *a)
{
    kolo_shared *shared = a->shared;
    int count = 0;
    for (int i = 0; i < shared->size; i++) {
        if (has_joined(shared, i)) continue;
        void *values = kolo_mappings_at(shared->mappings, i, place_of(shared, a->turn, i));
        if (!values) return 0;
        shared->sources[count++] = i == shared->rank ? a->values : values;
    }
    return count;
}

/* Behind the first barrier. Returns whether the all-reduce is done: the same on all members. */
static bool reduce_in_place(const allreduce *a)
{
    kolo_shared *shared = a->shared;
    int members, places;
    count_places(shared, a->turn, &members, &places);
    if (places == 0 || places < members) return false;
    if (map_new_blocks(shared, a->turn)) agree_on_blocks(shared, a->turn);
    int count = list_places(a);
    if (count == 0) return false;
    slice own = own_slice(shared, a->count, a->type);
    kolo_reduce_slice(a->type, a->reduction, shared->sources, count, shared->sources, count, own.begin, own.end);
    kolo_shared_wait_for_all(shared);
    return true;
}

/* ---------------------------------------------------------------- with slots */

static int64_t chunk_elements(const kolo_shared *shared, kolo_type type)
{
    return (int64_t)(kolo_shared_chunk_bytes(shared->size) / kolo_type_bytes(type));
}

/* Copies a chunk without one slice. */
static void copy_without(slice left_out, char *to, const char *from, int64_t count, kolo_type type)
{
    size_t width = kolo_type_bytes(type), begin = (size_t)left_out.begin * width, end = (size_t)left_out.end * width;
    kolo_copy_bytes(to, from, begin);
    kolo_copy_bytes(to + end, from + end, (size_t)count * width - end);
}

/* Lists the members' chunks, and returns their number. This member's own is at `values`; one that has joined has none.
 */
static int list_sources(kolo_shared *shared, void **slots, void *values)
{
    int count = 0;
    for (int i = 0; i < shared->size; i++)
        if (!has_joined(shared, i)) shared->sources[count++] = i == shared->rank ? values : slots[i];
    return count;
}

/* A part of the array that fits a slot. */
typedef struct chunk {
    void **slots;
    char *values;
    int64_t count;
} chunk;

static chunk chunk_at(const allreduce *a, int64_t at, unsigned turn)
{
    int64_t most = chunk_elements(a->shared, a->type), rest = a->count - at;
    return (chunk){.slots = a->shared->slots[turn % 2],
                   .values = a->values ? a->values + bytes_of(at, a->type) : NULL,
                   .count = rest < most ? rest : most};
}

/* Copies what the others read of this member's chunk. */
static void copy_to_slot(const allreduce *a, chunk c)
{
    slice left_out = is_small(c.count, a->type) ? (slice){0} : own_slice(a->shared, c.count, a->type);
    if (c.values) copy_without(left_out, c.slots[a->shared->rank], c.values, c.count, a->type);
}

/* Reduces the member's slice of all chunks into slot 0 and into its values, then copies the other members' slices from
 * there. */
static void reduce_by_slices(const allreduce *a, chunk c)
{
    kolo_shared *shared = a->shared;
    slice own = own_slice(shared, c.count, a->type);
    void *targets[] = {c.slots[0], c.values};
    int sources = list_sources(shared, c.slots, c.values);
    kolo_reduce_slice(a->type, a->reduction, shared->sources, sources, targets, c.values ? 2 : 1, own.begin, own.end);
    kolo_shared_wait_for_all(shared);
    if (c.values) copy_without(own, c.values, c.slots[0], c.count, a->type);
}

static void reduce_chunk(const allreduce *a, chunk c)
{
    if (!is_small(c.count, a->type)) {
        reduce_by_slices(a, c);
        return;
    }
    void *values = c.values;
    int sources = list_sources(a->shared, c.slots, values);
    if (values) kolo_reduce_slice(a->type, a->reduction, a->shared->sources, sources, &values, 1, 0, c.count);
}

/* Behind the first barrier. Members whose values can be mapped have not copied them to their slots yet. */
static void reduce_with_slots(const allreduce *a)
{
    kolo_shared *shared = a->shared;
    int members, places;
    chunk c = chunk_at(a, 0, a->turn);
    count_places(shared, a->turn, &members, &places);
    if (places > 0) {
        if (place_of(shared, a->turn, shared->rank)->serial != 0) copy_to_slot(a, c);
        kolo_shared_wait_for_all(shared);
    }
    reduce_chunk(a, c);
    for (int64_t at = c.count; at < a->count; at += c.count) {
        c = chunk_at(a, at, shared->turn++);
        copy_to_slot(a, c);
        kolo_shared_wait_for_all(shared);
        reduce_chunk(a, c);
    }
}

/* ---------------------------------------------------------------- all-reduce and broadcast */

/* The meeting was the turn of the first chunk. */
void kolo_shared_answer_allreduce(kolo_shared *shared)
{
    allreduce a = {.shared = shared,
                   .count = shared->made.count,
                   .type = (kolo_type)shared->made.type,
                   .reduction = (kolo_reduce_op)shared->made.reduction,
                   .turn = shared->turn - 1};
    if (!reduce_in_place(&a)) reduce_with_slots(&a);
}

kolo_status kolo_shared_allreduce(kolo_shared *shared, void *values, int64_t count, kolo_type type,
                                  kolo_reduce_op reduction)
{
    kolo_collective call = kolo_call_allreduce(count, type, reduction);
    allreduce a = {.shared = shared,
                   .values = values,
                   .count = count,
                   .type = type,
                   .reduction = reduction,
                   .turn = shared->turn++};
    shared->place =
        is_small(count, type) ? (kolo_shareable_place){0} : kolo_shareable_find(values, bytes_of(count, type));
    if (shared->place.serial == 0) copy_to_slot(&a, chunk_at(&a, 0, a.turn));
    kolo_status met = kolo_shared_gather(shared, a.turn, &call);
    shared->place = (kolo_shareable_place){0};
    KOLO_TRY(met);
    if (!reduce_in_place(&a)) reduce_with_slots(&a);
    return KOLO_OK;
}

kolo_status kolo_shared_broadcast(kolo_shared *shared, void *data, size_t bytes, int root)
{
    kolo_collective call = kolo_call_broadcast(bytes, root);
    size_t most = kolo_shared_chunk_bytes(shared->size), at = 0;
    do {
        unsigned turn = shared->turn++;
        size_t part = bytes - at < most ? bytes - at : most;
        void *slot = shared->slots[turn % 2][root];
        if (shared->rank == root) kolo_copy_bytes(slot, (char *)data + at, part);
        if (at == 0) KOLO_TRY(kolo_shared_gather(shared, turn, &call));
        else kolo_shared_wait_for_all(shared);
        if (shared->rank != root) kolo_copy_bytes((char *)data + at, slot, part);
        at += most;
    } while (at < bytes);
    return KOLO_OK;
}
