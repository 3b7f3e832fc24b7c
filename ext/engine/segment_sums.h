/* Sums gradients segment by segment, for programs that reduce over microbatches.
 *
 * In such a program all microbatches are computed at the same time. If each kept the gradients of the whole model until
 * its end, a batch of a hundred microbatches would need the memory of a hundred models. Each segment therefore has its
 * own reduction tree. A microbatch's gradients are inserted as soon as the microbatch has passed the segment. At the
 * end the trees are joined. All of them have the same nodes then.
 */
#ifndef KOLO_ENGINE_SEGMENT_SUMS_H
#define KOLO_ENGINE_SEGMENT_SUMS_H

#include "engine/reduction_tree.h"
#include "engine/program.h"

typedef struct kolo_segment_sums {
    const kolo_program *program;
    kolo_reduction **reductions; /* [segments]; NULL: no gradients. The first segment always has a tree */
} kolo_segment_sums;

kolo_status kolo_segment_sums_open(const kolo_program *program, kolo_segment_sums *sums);
void kolo_segment_sums_close(kolo_segment_sums *sums); /* takes a struct of all zeros */

/* Begins a batch of `microbatches` microbatches. */
void kolo_segment_sums_begin(kolo_segment_sums *sums, int64_t microbatches);
/* Lends memory for the segment's gradients of a microbatch (NULL if it has none); takes over these gradients; gives the
 * memory back without inserting them. Any thread may call them. */
kolo_status kolo_segment_sums_borrow(kolo_segment_sums *sums, int segment, float **gradient);
kolo_status kolo_segment_sums_insert(kolo_segment_sums *sums, int segment, int64_t microbatch, float *gradient);
void kolo_segment_sums_return(kolo_segment_sums *sums, int segment, float *gradient);
/* After all microbatches: joins the sums to nodes of whole gradients and inserts them into `reduction`. */
kolo_status kolo_segment_sums_finish(kolo_segment_sums *sums, kolo_reduction *reduction);

#endif
