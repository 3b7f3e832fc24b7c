/* Buckets of gradients: see buckets.h. */
#include "engine/buckets.h"

#include <stdlib.h>

#include "backend/backend.h"

/* ---------------------------------------------------------------- the cut */

/* The last operation that reads or writes a gradient; -1: none. An operation that another one's kernel computes is done
 * when that one is. */
static int last_use(const kolo_plan *plan, int value)
{
    int last = -1;
    for (int o = 0; o < plan->op_count; o++) {
        const kolo_op *op = &plan->ops[o];
        bool uses = false;
        for (int i = 0; i < KOLO_OP_INS; i++)
            uses = uses || (op->in[i] >= 0 && kolo_plan_base(plan, op->in[i]) == value);
        for (int i = 0; i < KOLO_OP_OUTS; i++)
            uses = uses || (op->out[i] >= 0 && kolo_plan_base(plan, op->out[i]) == value);
        int done = op->computed_by > o ? op->computed_by : o;
        if (uses && done > last) last = done;
    }
    return last;
}

/* The bytes of each parameter's gradient, bytes[parameters]: 0 for a parameter without one. */
static void measure(const kolo_program *program, int64_t *bytes)
{
    const kolo_gradients *all = &program->gradients;
    for (int i = 0; i < all->count; i++) {
        int parameter = program->plan.values[all->values[i]].parameter;
        int64_t next = parameter + 1 < program->model->parameter_count
                           ? program->model->parameters[parameter + 1].offset
                           : program->model->weight_count;
        bytes[parameter] = (next - program->model->parameters[parameter].offset) * (int64_t)sizeof(float);
    }
}

/* Cuts the parameters from the last to the first: bucket_of[parameters]. */
static void cut(kolo_buckets *b, int64_t wanted, const int64_t *bytes, int *bucket_of)
{
    const kolo_model *model = b->program->model;
    int64_t filled = 0, left = 0, end = model->weight_count;
    for (int p = 0; p < model->parameter_count; p++) left += bytes[p];
    for (int p = model->parameter_count - 1; p >= 0; p--) {
        bucket_of[p] = b->count;
        filled += bytes[p];
        left -= bytes[p];
        if (p > 0 && (filled < wanted || left == 0)) continue;
        int64_t first = p > 0 ? model->parameters[p].offset : 0;
        b->buckets[b->count++] = (kolo_bucket){.first = first, .count = end - first};
        end = first;
        filled = 0;
    }
}

/* Makes a part of each run of neighbouring values of one segment that are of one bucket. Returns whether every part is
 * complete within its segment. */
static bool list_parts(kolo_buckets *b, const int *bucket_of)
{
    const kolo_program *program = b->program;
    const kolo_plan *plan = &program->plan;
    bool fine = true;
    for (int s = 0; s < program->segment_count; s++) {
        const kolo_gradients *all = &program->segments[s].gradients;
        kolo_bucket_part *part = NULL;
        for (int i = 0; i < all->count; i++) {
            int v = all->values[i], bucket = bucket_of[plan->values[v].parameter], ready = last_use(plan, v);
            size_t first = plan->values[v].offset;
            size_t end = i + 1 < all->count ? plan->values[all->values[i + 1]].offset : all->first + all->bytes;
            if (!part || part->bucket != bucket) {
                part = &b->parts[b->part_count++];
                *part = (kolo_bucket_part){.bucket = bucket, .segment = s, .ready = ready};
                part->gradients = (kolo_gradients){.program = program, .first = first, .values = all->values + i};
                b->buckets[bucket].parts++;
            }
            part->gradients.bytes = end - part->gradients.first;
            part->gradients.count++;
            if (ready > part->ready) part->ready = ready;
            b->part_of[v] = b->part_count - 1;
            fine = fine && ready < program->segments[s].end;
        }
    }
    return fine;
}

/* When the backward pass completes a bucket: the last operation of its parts. */
static int ready_of(const kolo_buckets *b, int bucket)
{
    int ready = -1;
    for (int p = 0; p < b->part_count; p++)
        if (b->parts[p].bucket == bucket && b->parts[p].ready > ready) ready = b->parts[p].ready;
    return ready;
}

static void swap(kolo_buckets *b, int one, int other)
{
    kolo_bucket moved = b->buckets[one];
    b->buckets[one] = b->buckets[other];
    b->buckets[other] = moved;
    for (int p = 0; p < b->part_count; p++) {
        int *bucket = &b->parts[p].bucket;
        if (*bucket == one || *bucket == other) *bucket = *bucket == one ? other : one;
    }
}

/* Numbers the buckets in the order in which they are completed. */
static void sort(kolo_buckets *b)
{
    for (int i = 1; i < b->count; i++)
        for (int k = i; k > 0 && ready_of(b, k) < ready_of(b, k - 1); k--) swap(b, k, k - 1);
}

static kolo_status cut_and_open(kolo_buckets *b, int64_t wanted)
{
    const kolo_program *program = b->program;
    size_t parameters = (size_t)program->model->parameter_count, values = (size_t)program->plan.value_count;
    int64_t *bytes = calloc(parameters + 1, sizeof *bytes);
    int *bucket_of = calloc(parameters + 1, sizeof *bucket_of);
    b->buckets = calloc(parameters + 1, sizeof *b->buckets);
    b->parts = calloc(values + 1, sizeof *b->parts);
    b->part_of = calloc(values + 1, sizeof *b->part_of);
    kolo_status status = KOLO_OK;
    bool fine = false;
    if (!bytes || !bucket_of || !b->buckets || !b->parts || !b->part_of)
        status = kolo_fail_memory(values * sizeof *b->parts, "the buckets of gradients");
    else {
        measure(program, bytes);
        cut(b, wanted, bytes, bucket_of);
        fine = list_parts(b, bucket_of) && b->count > 1;
        sort(b);
    }
    if (!fine) b->count = 0;
    for (int p = 0; p < b->part_count && fine && status == KOLO_OK; p++)
        status = kolo_gradients_reduction(&b->parts[p].gradients, &b->parts[p].tree);
    free(bytes);
    free(bucket_of);
    return status;
}

kolo_status kolo_buckets_open(const kolo_program *program, int64_t bytes, kolo_buckets **buckets)
{
    *buckets = NULL;
    kolo_buckets *made = calloc(1, sizeof *made);
    if (!made) return kolo_fail_memory(sizeof *made, "the buckets of gradients");
    made->program = program;
    kolo_status status = cut_and_open(made, bytes);
    if (status == KOLO_OK && made->count > 0) *buckets = made;
    else kolo_buckets_close(&made);
    return status;
}

/* The sum may be left from a step that has failed. */
static void give_back(kolo_bucket_part *part)
{
    if (part->tree) kolo_reduction_return(part->tree, part->sum);
    part->sum = NULL;
}

void kolo_buckets_close(kolo_buckets **buckets)
{
    kolo_buckets *closed = *buckets;
    *buckets = NULL;
    if (!closed) return;
    for (int p = 0; p < closed->part_count; p++) {
        give_back(&closed->parts[p]);
        kolo_reduction_close(&closed->parts[p].tree);
    }
    free(closed->parts);
    free(closed->part_of);
    free(closed->buckets);
    free(closed);
}

/* ---------------------------------------------------------------- a step */

void kolo_buckets_begin(kolo_buckets *buckets, int64_t microbatches, int64_t expected)
{
    buckets->expected = expected;
    for (int p = 0; p < buckets->part_count; p++) {
        kolo_bucket_part *part = &buckets->parts[p];
        give_back(part);
        kolo_reduction_begin(part->tree, microbatches);
        atomic_store(&part->inserted, 0);
    }
    for (int i = 0; i < buckets->count; i++) atomic_store(&buckets->buckets[i].complete, 0);
}

kolo_status kolo_buckets_reserve(kolo_buckets *buckets)
{
    kolo_status status = KOLO_OK;
    for (int p = 0; p < buckets->part_count && status == KOLO_OK; p++) {
        kolo_reduction *tree = buckets->parts[p].tree;
        float *blocks[2] = {NULL, NULL};
        for (int i = 0; i < 2 && status == KOLO_OK; i++) status = kolo_reduction_borrow(tree, &blocks[i]);
        for (int i = 0; i < 2; i++) kolo_reduction_return(tree, blocks[i]);
    }
    return status;
}

kolo_status kolo_buckets_borrow(kolo_buckets *buckets, int segment, float **blocks)
{
    kolo_status status = KOLO_OK;
    for (int p = 0; p < buckets->part_count; p++) {
        kolo_bucket_part *part = &buckets->parts[p];
        blocks[p] = NULL;
        if (part->segment == segment && status == KOLO_OK) status = kolo_reduction_borrow(part->tree, &blocks[p]);
    }
    if (status != KOLO_OK) kolo_buckets_return(buckets, segment, blocks);
    return status;
}

void kolo_buckets_return(kolo_buckets *buckets, int segment, float **blocks)
{
    for (int p = 0; p < buckets->part_count; p++)
        if (buckets->parts[p].segment == segment) kolo_reduction_return(buckets->parts[p].tree, blocks[p]);
}

/* Adds the nodes that are left, in the order of their microbatches. */
static kolo_status add_nodes(kolo_bucket_part *part)
{
    kolo_node nodes[KOLO_REDUCTION_NODES_MAX];
    int count = kolo_reduction_take(part->tree, nodes);
    kolo_status status = KOLO_OK;
    part->sum = count > 0 ? nodes[0].gradient : NULL;
    for (int i = 1; i < count; i++) {
        if (status == KOLO_OK) status = kolo_gradients_add(&part->gradients, part->sum, nodes[i].gradient);
        kolo_reduction_return(part->tree, nodes[i].gradient);
    }
    return status;
}

static kolo_status complete(kolo_buckets *buckets, kolo_bucket_part *part)
{
    kolo_bucket *bucket = &buckets->buckets[part->bucket];
    KOLO_TRY(add_nodes(part));
    if (atomic_fetch_add(&bucket->complete, 1) + 1 < bucket->parts) return KOLO_OK;
    return buckets->ready(buckets->owner, part->bucket);
}

static kolo_status insert(kolo_buckets *buckets, kolo_bucket_part *part, int64_t microbatch, float **block)
{
    kolo_node node = {.index = microbatch, .gradient = *block};
    *block = NULL; /* the tree takes it over */
    KOLO_TRY(kolo_reduction_insert(part->tree, node));
    return atomic_fetch_add(&part->inserted, 1) + 1 < buckets->expected ? KOLO_OK : complete(buckets, part);
}

kolo_status kolo_buckets_insert(kolo_buckets *buckets, int segment, int op, int64_t microbatch, float **blocks)
{
    for (int p = 0; p < buckets->part_count; p++) {
        kolo_bucket_part *part = &buckets->parts[p];
        if (part->segment == segment && part->ready == op) KOLO_TRY(insert(buckets, part, microbatch, &blocks[p]));
    }
    return KOLO_OK;
}

/* In the order in which the operations would complete them. */
kolo_status kolo_buckets_pass(kolo_buckets *buckets, int segment)
{
    for (int o = buckets->program->segments[segment].first; o < buckets->program->segments[segment].end; o++)
        for (int p = 0; p < buckets->part_count; p++)
            if (buckets->parts[p].segment == segment && buckets->parts[p].ready == o)
                KOLO_TRY(complete(buckets, &buckets->parts[p]));
    return KOLO_OK;
}

kolo_status kolo_buckets_unpack(kolo_buckets *buckets, int bucket, float *gradient)
{
    const kolo_bucket *which = &buckets->buckets[bucket];
    const kolo_program *program = buckets->program;
    if (buckets->expected == 0)
        KOLO_TRY(program->backend->streams->clear(program->streams[0], gradient + which->first,
                                                  (size_t)which->count * sizeof *gradient));
    for (int p = 0; p < buckets->part_count; p++) {
        kolo_bucket_part *part = &buckets->parts[p];
        if (part->bucket != bucket || !part->sum) continue;
        KOLO_TRY(kolo_gradients_unpack(&part->gradients, part->sum, gradient));
        give_back(part);
    }
    return KOLO_OK;
}
