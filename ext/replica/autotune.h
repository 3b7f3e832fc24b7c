/* Autotuning, Horovod's --autotune: kolo_fit() over ranks tries sizes of the gradient's buckets (overlap.h) while it
 * trains, and keeps the fastest. KOLO_AUTOTUNE and KOLO_AUTOTUNE_LOG in the environment ask for it; kolo_distributed()
 * in kolo_optimizers.h says what a user sees of it.
 *
 * The first candidate is the size without autotuning, the others are KOLO_NONE and 256 KiB to 16 MiB. Sizes that cut
 * the model into the same buckets are one candidate. After KOLO_AUTOTUNE_WARMUP updates each candidate has its turn, in
 * KOLO_AUTOTUNE_ROUNDS rounds, so that a disturbance does not hit one candidate alone. The first update of a turn is
 * not measured, since it allocates memory. Rank 0 compares the medians of its seconds and broadcasts its choice.
 *
 * All ranks count the same steps, so they change the size between the same two steps. */
#ifndef KOLO_REPLICA_AUTOTUNE_H
#define KOLO_REPLICA_AUTOTUNE_H

#include "replica/trainer.h"

enum {
    KOLO_AUTOTUNE_WARMUP = 3,   /* updates before the first turn */
    KOLO_AUTOTUNE_ROUNDS = 2,   /* turns of each candidate */
    KOLO_AUTOTUNE_MEASURED = 5, /* measured updates of a turn, which has one more */
    KOLO_AUTOTUNE_CANDIDATES = 5 /* at most */
};

/* The value of KOLO_AUTOTUNE: whether it is "1". Fails unless it is 0, 1, empty or not set. */
kolo_status kolo_autotune_read(bool *wanted);

/* Before the first step of each kolo_fit(). The first opens trainer->autotune where it is wanted and none is open, and
 * leaves one that is open as it is, unless it has not chosen yet and the microbatch has changed. It fails if the log
 * cannot be written. The second is collective where ranks train together: all must have the same candidates, or none
 * tunes. Rank 0 says once if there is nothing to tune. It begins the log. */
kolo_status kolo_autotune_open(kolo_trainer *trainer);
kolo_status kolo_autotune_agree(kolo_trainer *trainer);
/* After each step, which took so many seconds. Collective where a turn ends. */
kolo_status kolo_autotune_step(kolo_trainer *trainer, double seconds);
/* At the end of a kolo_fit(): rank 0 says once if it was too short for a choice. The next one goes on. */
void kolo_autotune_end_fit(kolo_trainer *trainer);
void kolo_autotune_close(kolo_trainer *trainer);

#endif
