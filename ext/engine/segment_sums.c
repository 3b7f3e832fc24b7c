/* A reduction tree for each segment: see segment_sums.h. */
#include "engine/segment_sums.h"

#include <stdlib.h>

/* The first segment always has a tree, because put_parts() makes the joined nodes like its nodes. */
kolo_status kolo_segment_sums_open(const kolo_program *program, kolo_segment_sums *sums)
{
    *sums = (kolo_segment_sums){.program = program};
    sums->reductions = calloc((size_t)program->segment_count, sizeof(kolo_reduction *));
    if (!sums->reductions)
        return kolo_fail_memory((size_t)program->segment_count * sizeof(kolo_reduction *), "the tree of sums");
    for (int s = 0; s < program->segment_count; s++) {
        const kolo_gradients *gradients = &program->segments[s].gradients;
        if (gradients->bytes > 0 || s == 0) KOLO_TRY(kolo_gradients_reduction(gradients, &sums->reductions[s]));
    }
    return KOLO_OK;
}

void kolo_segment_sums_close(kolo_segment_sums *sums)
{
    for (int s = 0; sums->reductions && s < sums->program->segment_count; s++)
        kolo_reduction_close(&sums->reductions[s]);
    free(sums->reductions);
    *sums = (kolo_segment_sums){0};
}

void kolo_segment_sums_begin(kolo_segment_sums *sums, int64_t microbatches)
{
    for (int s = 0; s < sums->program->segment_count; s++)
        if (sums->reductions[s]) kolo_reduction_begin(sums->reductions[s], microbatches);
}

kolo_status kolo_segment_sums_borrow(kolo_segment_sums *sums, int segment, float **gradient)
{
    *gradient = NULL;
    return sums->reductions[segment] ? kolo_reduction_borrow(sums->reductions[segment], gradient) : KOLO_OK;
}

kolo_status kolo_segment_sums_insert(kolo_segment_sums *sums, int segment, int64_t microbatch, float *gradient)
{
    if (!sums->reductions[segment]) return KOLO_OK;
    return kolo_reduction_insert(sums->reductions[segment], (kolo_node){.index = microbatch, .gradient = gradient});
}

void kolo_segment_sums_return(kolo_segment_sums *sums, int segment, float *gradient)
{
    if (gradient) kolo_reduction_return(sums->reductions[segment], gradient);
}

/* Copies the segment's part of every node's gradient. The parts are given back to their tree, also after a failure. */
static kolo_status put_part(kolo_segment_sums *sums, int segment, const kolo_node *nodes, const kolo_node *parts,
                            int count)
{
    const kolo_program *program = sums->program;
    const kolo_gradients *from = &program->segments[segment].gradients;
    const kolo_stream_kind *streams = program->backend->streams;
    kolo_status status = KOLO_OK;
    for (int n = 0; n < count; n++) {
        if (from->bytes > 0 && status == KOLO_OK)
            status = streams->copy(program->streams[0], (char *)nodes[n].gradient + from->first, parts[n].gradient,
                                   from->bytes);
        kolo_reduction_return(sums->reductions[segment], parts[n].gradient);
    }
    return status;
}

/* Makes nodes like the parts, with memory for whole gradients. After a failure the gradients of the rest are NULL. */
static kolo_status borrow_nodes(kolo_reduction *reduction, kolo_node *nodes, const kolo_node *parts, int count)
{
    kolo_status status = KOLO_OK;
    for (int n = 0; n < count; n++) {
        nodes[n] = (kolo_node){.level = parts[n].level, .index = parts[n].index};
        if (status == KOLO_OK) status = kolo_reduction_borrow(reduction, &nodes[n].gradient);
    }
    return status;
}

static void return_parts(kolo_segment_sums *sums, int segment, const kolo_node *parts, int count)
{
    for (int n = 0; n < count; n++) kolo_segment_sums_return(sums, segment, parts[n].gradient);
}

static kolo_status put_parts(kolo_segment_sums *sums, kolo_reduction *reduction, kolo_node *nodes, kolo_node *parts,
                             int *count)
{
    kolo_status status = KOLO_OK;
    *count = 0;
    for (int s = 0; s < sums->program->segment_count && status == KOLO_OK; s++) {
        if (!sums->reductions[s]) continue;
        int taken = kolo_reduction_take(sums->reductions[s], parts);
        if (s == 0) status = borrow_nodes(reduction, nodes, parts, *count = taken);
        if (taken != *count)
            status = kolo_fail(KOLO_INTERNAL, "a segment's sums have %d nodes, wanted %d", taken, *count);
        if (status == KOLO_OK) status = put_part(sums, s, nodes, parts, taken);
        else return_parts(sums, s, parts, taken);
    }
    return status;
}

kolo_status kolo_segment_sums_finish(kolo_segment_sums *sums, kolo_reduction *reduction)
{
    int count = 0;
    kolo_node *nodes = calloc(2 * (size_t)KOLO_REDUCTION_NODES_MAX, sizeof *nodes);
    if (!nodes) return kolo_fail_memory(2 * (size_t)KOLO_REDUCTION_NODES_MAX * sizeof *nodes, "the tree of sums");
    kolo_status status = put_parts(sums, reduction, nodes, nodes + KOLO_REDUCTION_NODES_MAX, &count);
    for (int n = 0; n < count; n++) {
        if (status == KOLO_OK) status = kolo_reduction_insert(reduction, nodes[n]);
        else kolo_reduction_return(reduction, nodes[n].gradient);
    }
    free(nodes);
    return status;
}
