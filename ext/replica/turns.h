/* The order in which asynchronous workers exchange weights: written out before an epoch, or noted while it happens, and
 * kept as a JSON file. */
#ifndef KOLO_REPLICA_TURNS_H
#define KOLO_REPLICA_TURNS_H

#include "core/error.h"
#include "replica/shards.h"

/* One exchange: the worker's number, and the batches of the epoch that it has trained on since its last exchange. */
typedef struct kolo_turn {
    int worker, batches;
    int *batch; /* [batches] */
} kolo_turn;

/* The exchanges of an epoch, in their order. Zeros: none. */
typedef struct kolo_turns {
    kolo_turn *turn; /* [count] */
    int count;
    size_t room;
} kolo_turns;

/* The exchanges of several epochs. Zeros: none. */
typedef struct kolo_order {
    kolo_turns *epoch; /* [count] */
    int count;
} kolo_order;

/* The contents of a file besides the exchanges. */
typedef struct kolo_order_head {
    const char *strategy;
    int workers, window, steps; /* steps: batches of an epoch */
    const bool *gone; /* [workers], those that get no batches; NULL: none. Not in the file */
    bool at_once; /* all workers exchange at once: each round has a turn of each. Not in the file */
    kolo_shards shards; /* of whose batches the worker of a turn takes the next. Not in the file */
} kolo_order_head;

/* Adds a turn with a copy of the batches. */
kolo_status kolo_turns_add(kolo_turns *turns, int worker, const int *batch, int batches);
void kolo_turns_clear(kolo_turns *turns);
/* Adds an empty epoch; *turns is valid until the next call. */
kolo_status kolo_order_add(kolo_order *order, kolo_turns **turns);
void kolo_order_clear(kolo_order *order);

/* The turns of an epoch by a script like "0 1 0 1 2" (see kolo_strategy.turns): NULL is 0, 1, … in turn. Fails unless
 * it has numbers of workers only, and one of each shard. */
kolo_status kolo_turns_by_script(const char *script, const kolo_order_head *head, kolo_turns *turns);
/* The turns of an epoch in which all workers exchange at once: one for each worker and exchange, also without batches.
 */
kolo_status kolo_turns_at_once(const kolo_order_head *head, kolo_turns *turns);

/* Reads a file, and fails unless it is of such a training, and each epoch has each of its batches once, and with
 * .at_once each round each worker, since the others would wait for one who never comes. */
kolo_status kolo_order_read(const char *path, const kolo_order_head *head, kolo_order *order);
kolo_status kolo_order_write(const char *path, const kolo_order_head *head, const kolo_order *order);

#endif
