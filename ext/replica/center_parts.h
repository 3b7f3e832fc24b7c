/* The parts of the centre's weights that one rank keeps, as their server: all of them, or with .servers over several
 * ranks some. It also keeps what the rules need to know of each worker: its weights after its last exchange.
 *
 * All arrays are those of the whole centre, of which the ranges of the parts here are used: memory that nobody touches
 * costs nothing. Any thread may call the functions of one worker, those of different workers at the same time.
 */
#ifndef KOLO_REPLICA_CENTER_PARTS_H
#define KOLO_REPLICA_CENTER_PARTS_H

#include "replica/center_part.h"

typedef struct kolo_parts_args {
    const kolo_strategy_kind *kind;
    const kolo_strategy *strategy; /* must stay until the parts are closed */
    int workers;                   /* of all ranks */
    int64_t count;                 /* weights */
    const kolo_part_range *ranges; /* [parts], which have all weights between them, in order */
    int parts, first, end;         /* all; the parts first … end-1 are kept here */
    kolo_center_update *update; /* NULL unless kind->updates_center */
    void *owner;
    /* What update() changes besides the weights: slots[slot_count][count], and numbers[parameters] or NULL. */
    float *const *slots;
    int slot_count;
    float *numbers;
} kolo_parts_args;

typedef struct kolo_center_parts kolo_center_parts;

kolo_status kolo_center_parts_open(const kolo_parts_args *args, kolo_center_parts **parts);
void kolo_center_parts_close(kolo_center_parts **parts); /* takes NULL */
const kolo_parts_args *kolo_center_parts_args(const kolo_center_parts *parts);

/* Fails with the sentence for a rank that is gone although it kept parts. */
kolo_status kolo_fail_lost_server(int rank, const char *why);

/* The weights, and those of all workers after their last exchange, become these; begin_anew(): those of all
 * workers become the centre's. Nobody exchanges. */
void kolo_center_parts_set(kolo_center_parts *parts, const float *weights);
void kolo_center_parts_begin_anew(kolo_center_parts *parts);
/* The weights, of which those of the parts here are current while nobody exchanges; a worker's after its last exchange.
 */
float *kolo_center_parts_weights(kolo_center_parts *parts);
float *kolo_center_parts_start(kolo_center_parts *parts, int worker);
void kolo_center_parts_set_start(kolo_center_parts *parts, int worker, const float *weights);

/* The same as for one part (center_part.h), for all parts here. */
void kolo_center_parts_begin(kolo_center_parts *parts, int64_t epoch);
void kolo_center_parts_fail(kolo_center_parts *parts);
void kolo_center_parts_lose(kolo_center_parts *parts, int worker);

/* What a worker brings to its exchange. start: see kolo_exchange; NULL: the parts know it. gradient, samples: for
 * strategies with .updates_center. batches: that it has trained on. */
typedef struct kolo_offer {
    float *weights; /* the worker's, which become those that it goes on with */
    const float *start, *gradient;
    double samples;
} kolo_offer;

/* The worker exchanges with a part that is kept here: see kolo_center_part_exchange(). */
kolo_status kolo_center_parts_exchange(kolo_center_parts *parts, int part, const kolo_ticket *ticket, int worker,
                                       int batches, const kolo_offer *offer, double seconds, bool *done);
/* Calls visit() for a part that is kept here: see kolo_center_part_visit(). */
bool kolo_center_parts_visit(kolo_center_parts *parts, int part, const kolo_ticket *ticket, double seconds,
                             void (*visit)(void *visitor, const kolo_part_args *args), void *visitor);

/* ---- A part's weights, and what update() changes with them, as bytes for another rank ---- */

size_t kolo_center_parts_bytes(const kolo_center_parts *parts, int part);
/* Copies this rank's arrays to bytes[]. Nobody exchanges with the part. */
void kolo_center_parts_copy(const kolo_center_parts *parts, int part, char *bytes);
/* The same at the ticket's turn, for a part that is kept here. Returns false if the turn has not come after `seconds`.
 */
bool kolo_center_parts_pack(kolo_center_parts *parts, int part, const kolo_ticket *ticket, double seconds, char *bytes);
/* Copies bytes[] to this rank's arrays, for a part that is kept here or on another rank. Nobody exchanges with it. */
void kolo_center_parts_unpack(kolo_center_parts *parts, int part, const char *bytes);

#endif
