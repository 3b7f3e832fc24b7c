/* A tree of sums for each segment: see segment_sums.h. */
#include "engine/segment_sums.h"

#include <stdlib.h>
#include <string.h>

/* For kolo_reduction_open(): blocks of one segment's gradients. */
static void *allocate_block(const void *whose, size_t bytes)
{
    const kolo_segment *segment = whose;
    return kolo_program_allocate(segment->program, bytes);
}

static void deallocate_block(const void *whose, void *memory)
{
    const kolo_segment *segment = whose;
    kolo_program_deallocate(segment->program, memory);
}

static void add_blocks(const void *whose, float *to, const float *from)
{
    const kolo_segment *segment = whose;
    const kolo_plan *plan = &segment->program->plan;
    for (int i = 0; i < segment->value_count; i++) {
        const kolo_value *value = &plan->values[segment->values[i]];
        if (value->kind != KOLO_VALUE_GRADIENT || value->view_of >= 0) continue;
        size_t at = value->offset - segment->gradient_first;
        segment->program->backend->add(plan, segment->values[i], (char *)to + at, (const char *)from + at);
    }
}

kolo_status kolo_segment_sums_open(const kolo_program *program, kolo_segment_sums *sums)
{
    *sums = (kolo_segment_sums){.program = program};
    sums->reductions = calloc((size_t)program->segment_count, sizeof(kolo_reduction *));
    if (!sums->reductions) return kolo_fail_memory((size_t)program->segment_count, "the tree of sums");
    for (int s = 0; s < program->segment_count; s++) {
        const kolo_segment *segment = &program->segments[s];
        if (segment->gradient_bytes == 0) continue;
        kolo_reduction_memory memory = {allocate_block, deallocate_block, add_blocks, segment};
        KOLO_TRY(kolo_reduction_open((int64_t)(segment->gradient_bytes / sizeof(float)), memory, &sums->reductions[s]));
    }
    return kolo_reduction_open(0, (kolo_reduction_memory){0}, &sums->totals);
}

void kolo_segment_sums_close(kolo_segment_sums *sums)
{
    for (int s = 0; sums->reductions && s < sums->program->segment_count; s++)
        kolo_reduction_close(&sums->reductions[s]);
    kolo_reduction_close(&sums->totals);
    free(sums->reductions);
    *sums = (kolo_segment_sums){0};
}

void kolo_segment_sums_begin(kolo_segment_sums *sums, int64_t microbatches)
{
    for (int s = 0; s < sums->program->segment_count; s++)
        if (sums->reductions[s]) kolo_reduction_begin(sums->reductions[s], microbatches);
    kolo_reduction_begin(sums->totals, microbatches);
}

kolo_status kolo_segment_sums_borrow(kolo_segment_sums *sums, int segment, float **gradient)
{
    *gradient = NULL;
    return sums->reductions[segment] ? kolo_reduction_borrow(sums->reductions[segment], gradient) : KOLO_OK;
}

kolo_status kolo_segment_sums_insert(kolo_segment_sums *sums, int segment, int64_t microbatch, float *gradient)
{
    if (!gradient) return KOLO_OK;
    return kolo_reduction_insert(sums->reductions[segment], (kolo_node){.index = microbatch, .gradient = gradient});
}

void kolo_segment_sums_return(kolo_segment_sums *sums, int segment, float *gradient)
{
    if (gradient) kolo_reduction_return(sums->reductions[segment], gradient);
}

/* The segment's part of every node's gradient. */
static kolo_status put_part(kolo_segment_sums *sums, int segment, kolo_node *nodes, int count)
{
    kolo_node parts[KOLO_REDUCTION_MOST];
    if (!sums->reductions[segment]) return KOLO_OK;
    const kolo_segment *from = &sums->program->segments[segment];
    int taken = kolo_reduction_take(sums->reductions[segment], parts);
    for (int n = 0; n < taken; n++) {
        if (n < count)
            memcpy((char *)nodes[n].gradient + from->gradient_first, parts[n].gradient, from->gradient_bytes);
        kolo_reduction_return(sums->reductions[segment], parts[n].gradient);
    }
    return taken == count ? KOLO_OK
                          : kolo_fail(KOLO_INTERNAL, "a segment's sums have %d nodes, wanted %d", taken, count);
}

kolo_status kolo_segment_sums_finish(kolo_segment_sums *sums, kolo_reduction *reduction)
{
    kolo_node nodes[KOLO_REDUCTION_MOST];
    int count = kolo_reduction_take(sums->totals, nodes);
    for (int n = 0; n < count; n++) KOLO_TRY(kolo_reduction_borrow(reduction, &nodes[n].gradient));
    for (int s = 0; s < sums->program->segment_count; s++) KOLO_TRY(put_part(sums, s, nodes, count));
    for (int n = 0; n < count; n++) KOLO_TRY(kolo_reduction_insert(reduction, nodes[n]));
    return KOLO_OK;
}
