/* See center_parts.h. */
#include "replica/center_parts.h"

#include <stdlib.h>
#include <string.h>

struct kolo_center_parts {
    kolo_parts_args args;
    float *weights;          /* [count] */
    float **starts;          /* [workers][count] */
    kolo_center_part **part; /* [parts]; NULL for those of other ranks */
};

/* ---------------------------------------------------------------- opening and closing */

static kolo_status open_part(kolo_center_parts *parts, int number)
{
    const kolo_part_args args = {.kind = parts->args.kind,
                                 .strategy = parts->args.strategy,
                                 .range = parts->args.ranges[number],
                                 .weights = parts->weights,
                                 .update = parts->args.update,
                                 .owner = parts->args.owner};
    return kolo_center_part_open(&args, &parts->part[number]);
}

static kolo_status open_arrays(kolo_center_parts *parts)
{
    size_t count = (size_t)parts->args.count + 1;
    bool all = (parts->weights = calloc(count, sizeof(float))) != NULL;
    for (int i = 0; i < parts->args.workers && all; i++)
        all = (parts->starts[i] = calloc(count, sizeof(float))) != NULL;
    return all ? KOLO_OK : kolo_fail_memory(count * sizeof(float), "the centre's weights");
}

kolo_status kolo_center_parts_open(const kolo_parts_args *args, kolo_center_parts **parts)
{
    kolo_center_parts *made = *parts = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the centre of the workers");
    made->args = *args;
    made->starts = calloc((size_t)args->workers, sizeof *made->starts);
    made->part = calloc((size_t)args->parts, sizeof *made->part);
    kolo_status status =
        made->starts && made->part ? open_arrays(made) : kolo_fail_memory(sizeof *made, "the centre of the workers");
    for (int i = args->first; i < args->end && status == KOLO_OK; i++) status = open_part(made, i);
    if (status != KOLO_OK) kolo_center_parts_close(parts);
    return status;
}

void kolo_center_parts_close(kolo_center_parts **parts)
{
    kolo_center_parts *closed = *parts;
    *parts = NULL;
    if (!closed) return;
    for (int i = 0; closed->starts && i < closed->args.workers; i++) free(closed->starts[i]);
    for (int i = 0; closed->part && i < closed->args.parts; i++) kolo_center_part_close(&closed->part[i]);
    free(closed->starts);
    free(closed->part);
    free(closed->weights);
    free(closed);
}

kolo_status kolo_fail_lost_server(int rank, const char *why)
{
    return kolo_fail(KOLO_COMM, "the server on rank %d, which keeps a part of the weights, is lost: %.800s", rank, why);
}

const kolo_parts_args *kolo_center_parts_args(const kolo_center_parts *parts)
{
    return &parts->args;
}

/* ---------------------------------------------------------------- weights */

static size_t range_bytes(const kolo_part_range *range)
{
    return (size_t)(range->end - range->first) * sizeof(float);
}

/* Copies a range of `from` to the same range of `to`. */
static void copy_range(float *to, const float *from, const kolo_part_range *range)
{
    memcpy(to + range->first, from + range->first, range_bytes(range));
}

void kolo_center_parts_set(kolo_center_parts *parts, const float *weights)
{
    memcpy(parts->weights, weights, (size_t)parts->args.count * sizeof *weights);
    kolo_center_parts_begin_anew(parts);
}

void kolo_center_parts_begin_anew(kolo_center_parts *parts)
{
    for (int i = parts->args.first; i < parts->args.end; i++)
        for (int w = 0; w < parts->args.workers; w++)
            copy_range(parts->starts[w], parts->weights, &parts->args.ranges[i]);
}

void kolo_center_parts_set_start(kolo_center_parts *parts, int worker, const float *weights)
{
    for (int i = parts->args.first; i < parts->args.end; i++)
        copy_range(parts->starts[worker], weights, &parts->args.ranges[i]);
}

float *kolo_center_parts_weights(kolo_center_parts *parts)
{
    return parts->weights;
}

float *kolo_center_parts_start(kolo_center_parts *parts, int worker)
{
    return parts->starts[worker];
}

/* ---------------------------------------------------------------- all parts here */

void kolo_center_parts_begin(kolo_center_parts *parts, int64_t epoch)
{
    for (int i = parts->args.first; i < parts->args.end; i++) kolo_center_part_begin(parts->part[i], epoch);
}

void kolo_center_parts_fail(kolo_center_parts *parts)
{
    for (int i = parts->args.first; i < parts->args.end; i++) kolo_center_part_fail(parts->part[i]);
}

void kolo_center_parts_lose(kolo_center_parts *parts, int worker)
{
    for (int i = parts->args.first; i < parts->args.end; i++) kolo_center_part_lose(parts->part[i], worker);
}

/* ---------------------------------------------------------------- one part */

kolo_status kolo_center_parts_exchange(kolo_center_parts *parts, int part, const kolo_ticket *ticket, int worker,
                                       int batches, const kolo_offer *offer, double seconds, bool *done)
{
    float *start = parts->starts[worker];
    const kolo_exchange mine = {.number = worker,
                                .count = parts->args.count,
                                .center = parts->weights,
                                .weights = offer->weights,
                                .start = offer->start ? (float *)offer->start : start,
                                .batches = batches};
    KOLO_TRY(kolo_center_part_exchange(parts->part[part], ticket, &mine, offer->gradient, seconds, done));
    if (*done) copy_range(start, offer->weights, &parts->args.ranges[part]);
    return KOLO_OK;
}

bool kolo_center_parts_visit(kolo_center_parts *parts, int part, const kolo_ticket *ticket, double seconds,
                             void (*visit)(void *visitor, const kolo_part_args *args), void *visitor)
{
    return kolo_center_part_visit(parts->part[part], ticket, seconds, visit, visitor);
}

/* ---------------------------------------------------------------- a part as bytes */

/* The arrays of a part in the order of their bytes: its weights, its ranges of the slots, its numbers. */
typedef struct piece {
    float *values;
    size_t bytes;
} piece;
#define PIECES_MAX 8

static int list_pieces(const kolo_center_parts *parts, int part, piece pieces[PIECES_MAX])
{
    const kolo_parts_args *args = &parts->args;
    const kolo_part_range *range = &args->ranges[part];
    int count = 0;
    pieces[count++] = (piece){parts->weights + range->first, range_bytes(range)};
    for (int s = 0; s < args->slot_count; s++)
        pieces[count++] = (piece){args->slots[s] + range->first, range_bytes(range)};
    size_t numbers = (size_t)(range->end_parameter - range->first_parameter) * sizeof(float);
    if (args->numbers) pieces[count++] = (piece){args->numbers + range->first_parameter, numbers};
    return count;
}

size_t kolo_center_parts_bytes(const kolo_center_parts *parts, int part)
{
    piece pieces[PIECES_MAX];
    size_t bytes = 0;
    int count = list_pieces(parts, part, pieces);
    for (int i = 0; i < count; i++) bytes += pieces[i].bytes;
    return bytes;
}

void kolo_center_parts_copy(const kolo_center_parts *parts, int part, char *bytes)
{
    piece pieces[PIECES_MAX];
    int count = list_pieces(parts, part, pieces);
    for (int i = 0; i < count; i++) {
        memcpy(bytes, pieces[i].values, pieces[i].bytes);
        bytes += pieces[i].bytes;
    }
}

typedef struct packing {
    const kolo_center_parts *parts;
    int part;
    char *bytes;
} packing;

static void pack(void *argument, const kolo_part_args *part)
{
    const packing *p = argument;
    (void)part;
    kolo_center_parts_copy(p->parts, p->part, p->bytes);
}

bool kolo_center_parts_pack(kolo_center_parts *parts, int part, const kolo_ticket *ticket, double seconds, char *bytes)
{
    packing p = {parts, part, bytes};
    return kolo_center_parts_visit(parts, part, ticket, seconds, pack, &p);
}

void kolo_center_parts_unpack(kolo_center_parts *parts, int part, const char *bytes)
{
    piece pieces[PIECES_MAX];
    int count = list_pieces(parts, part, pieces);
    for (int i = 0; i < count; i++) {
        memcpy(pieces[i].values, bytes, pieces[i].bytes);
        bytes += pieces[i].bytes;
    }
}
