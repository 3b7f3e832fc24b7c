/* All-reduce, broadcast and barrier through memory that several processes of one host share.
 *
 * For ranks that outnumber the cores of their host. A message-passing all-reduce takes a logarithm of rounds, and in
 * each of them a rank must get a core to answer another; here all meet twice for each chunk, and whoever waits sleeps
 * (barrier.h). Who provides the memory is somebody else's business: mpi.c asks MPI for it.
 */
#ifndef KOLO_COMM_SHARED_H
#define KOLO_COMM_SHARED_H

#include "comm/barrier.h"
#include "comm/comm.h"

/* One process's view. Every process must make the same calls in the same order. */
typedef struct kolo_shared {
    kolo_futex_barrier *barrier;
    void **slots[2]; /* [size] places in the shared memory: a chunk of each member's */
    unsigned turn;   /* chunks so far; they use slots[0] and slots[1] in turn */
    int rank, size;
} kolo_shared;

/* The shared memory that a group needs; it must be all zeros before the first member opens it. */
size_t kolo_shared_bytes(int size);
kolo_status kolo_shared_open(kolo_shared *shared, void *memory, int rank, int size);
void kolo_shared_close(kolo_shared *shared); /* the memory stays its owner's */

/* As in kolo_comm_kind. They cannot fail; if a member dies, the others wait until somebody ends them. */
void kolo_shared_allreduce(kolo_shared *shared, void *values, int64_t count, kolo_type type);
void kolo_shared_broadcast(kolo_shared *shared, void *data, size_t bytes, int root);
void kolo_shared_barrier(kolo_shared *shared);

#endif
