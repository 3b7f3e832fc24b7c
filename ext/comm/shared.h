/* All-reduce, broadcast and barrier through memory that several processes of one host share.
 *
 * For ranks that outnumber the cores of their host. An all-reduce with messages needs a logarithmic number of rounds,
 * and in each of them a rank must get a core to answer another rank. Here there are only two barriers for each chunk,
 * and waiting ranks sleep (barrier.h). The caller provides the memory (mpi.c: share_memory()).
 */
#ifndef KOLO_COMM_SHARED_H
#define KOLO_COMM_SHARED_H

#include "comm/barrier.h"
#include "comm/comm.h"

/* One process's access to the memory. Every process must make the same calls in the same order. */
typedef struct kolo_shared {
    kolo_futex_barrier *barrier;
    void **slots[2]; /* [2][size] places in the shared memory, each for one chunk of a member */
    unsigned turn;   /* number of chunks so far; they use slots[0] and slots[1] in turn */
    int rank, size;
} kolo_shared;

/* Bytes of shared memory for a group. The memory must be all zeros before the first member opens it. */
size_t kolo_shared_bytes(int size);
kolo_status kolo_shared_open(kolo_shared *shared, void *memory, int rank, int size);
void kolo_shared_close(kolo_shared *shared); /* does not free the shared memory */

/* As in kolo_comm_kind. They cannot fail; if a member dies, the others wait until they are ended. */
void kolo_shared_allreduce(kolo_shared *shared, void *values, int64_t count, kolo_type type);
void kolo_shared_broadcast(kolo_shared *shared, void *data, size_t bytes, int root);
void kolo_shared_barrier(kolo_shared *shared);

#endif
