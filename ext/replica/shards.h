/* Which batches of an epoch a worker can train on: all, or with .sharded those of its own rank, which alone has the
 * samples. The batches of all ranks are numbered one rank after the other. */
#ifndef KOLO_REPLICA_SHARDS_H
#define KOLO_REPLICA_SHARDS_H

typedef struct kolo_shards {
    const int
        *first; /* [count + 1]: shard s has the batches first[s] … first[s+1]-1. NULL: there is one shard, of all */
    int count;        /* 0 if first is NULL */
    int workers;      /* of each shard */
} kolo_shards;

/* The number of shards, and that of a worker's; a shard's first batch, and the one after its last. steps: batches of
 * the epoch. */
static inline int kolo_shard_count(const kolo_shards *shards)
{
    return shards->first ? shards->count : 1;
}

static inline int kolo_shard_of(const kolo_shards *shards, int worker)
{
    return shards->first ? worker / shards->workers : 0;
}

static inline int kolo_shard_first(const kolo_shards *shards, int shard)
{
    return shards->first ? shards->first[shard] : 0;
}

static inline int kolo_shard_end(const kolo_shards *shards, int shard, int steps)
{
    return shards->first ? shards->first[shard + 1] : steps;
}

#endif
