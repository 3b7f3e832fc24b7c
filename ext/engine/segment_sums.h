/* Gradients of microbatches that meet, summed segment by segment.
 *
 * Where microbatches meet all of them are on their way at once; if each kept the gradients of the whole model until its
 * end, a batch of a hundred microbatches would hold a hundred models. So what a segment gives goes into a tree of sums
 * of its own as soon as a microbatch has been through it. At the end the trees, which all have the same nodes, are put
 * together.
 */
#ifndef KOLO_ENGINE_SEGMENT_SUMS_H
#define KOLO_ENGINE_SEGMENT_SUMS_H

#include "engine/reduction_tree.h"
#include "engine/program.h"

typedef struct kolo_segment_sums {
    const kolo_program *program;
    kolo_reduction **reductions; /* [segments]; NULL for one that gives no gradient, but for the first */
} kolo_segment_sums;

kolo_status kolo_segment_sums_open(const kolo_program *program, kolo_segment_sums *sums);
void kolo_segment_sums_close(kolo_segment_sums *sums); /* takes one of all zeros */

/* A batch of `microbatches` microbatches begins. */
void kolo_segment_sums_begin(kolo_segment_sums *sums, int64_t microbatches);
/* Memory for what the segment gives of a microbatch (NULL if nothing), and taking it over. Any thread. */
kolo_status kolo_segment_sums_borrow(kolo_segment_sums *sums, int segment, float **gradient);
kolo_status kolo_segment_sums_insert(kolo_segment_sums *sums, int segment, int64_t microbatch, float *gradient);
void kolo_segment_sums_return(kolo_segment_sums *sums, int segment, float *gradient);
/* All microbatches have ended: their sums, as nodes of whole gradients, go into reduction. */
kolo_status kolo_segment_sums_finish(kolo_segment_sums *sums, kolo_reduction *reduction);

#endif
