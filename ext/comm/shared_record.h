/* What shared.c and shared_sums.c share. */
#ifndef KOLO_COMM_SHARED_RECORD_H
#define KOLO_COMM_SHARED_RECORD_H

#include "comm/shared.h"

struct kolo_shared_record {
    _Alignas(KOLO_CACHE_LINE) kolo_collective call;
    kolo_shareable_place place; /* of the values of an all-reduce; serial 0: other members cannot map them */
    _Atomic int maps; /* behind the first barrier: 1 if the member has mapped all members' values */
    _Atomic unsigned turn; /* the member's turn, plus 1, that the call belongs to; set after `call` and `place` */
};

/* Bytes of a chunk: whole cache lines. */
size_t kolo_shared_chunk_bytes(int size);
/* The first barrier of a call, in its turn. Behind it the members' calls are known to be the same. */
kolo_status kolo_shared_gather(kolo_shared *shared, unsigned turn, const kolo_collective *call);
/* The later barriers of a call. There is no abort: a rank that fails ends the whole job. */
void kolo_shared_wait_for_all(kolo_shared *shared);

#endif
