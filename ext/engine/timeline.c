/* See timeline.h. */
#include "engine/timeline.h"

static const char *name_of(const kolo_plan *plan, const kolo_op *op)
{
    bool loss = op->kind == KOLO_OP_LOSS || op->kind == KOLO_OP_DENSE_LOSS;
    if (loss) return "loss";
    return plan->layers ? plan->layers[op->layer].name : "operation";
}

/* The bytes of the gradients that a layer's backward operations write. */
static int64_t gradient_bytes(const kolo_program *program, const kolo_op *op)
{
    const kolo_layer_node *layer = program->plan.layers ? &program->plan.layers[op->layer] : NULL;
    const kolo_model *model = program->model;
    int64_t elements = 0;
    for (int i = 0; layer && i < program->gradients.count; i++) {
        int parameter = program->plan.values[program->gradients.values[i]].parameter;
        int64_t next =
            parameter + 1 < model->parameter_count ? model->parameters[parameter + 1].offset : model->weight_count;
        bool own = false;
        for (int p = 0; p < layer->parameter_count; p++) own = own || layer->parameters[p] == parameter;
        if (own) elements += next - model->parameters[parameter].offset;
    }
    return elements * (int64_t)sizeof(float);
}

void kolo_timeline_note_op(const kolo_engine *engine, int op, int end, kolo_layer_event *event)
{
    const kolo_plan *plan = &engine->program->plan;
    const kolo_op *ops = plan->ops;
    bool forward = op < plan->forward_count, next_forward = op + 1 < plan->forward_count;
    kolo_timeline_span span = forward ? KOLO_SPAN_FORWARD : KOLO_SPAN_BACKWARD;
    event->runs = event->runs || ops[op].computed_by < 0;
    if (op + 1 < end && ops[op + 1].layer == ops[op].layer && next_forward == forward) return;
    int64_t now = kolo_timeline_now();
    if (engine->streams->steps_ahead > 0) span = KOLO_SPAN_ENQUEUE;
    int64_t bytes = event->runs && span == KOLO_SPAN_BACKWARD ? gradient_bytes(engine->program, &ops[op]) : 0;
    if (event->runs) kolo_timeline_record(event->begun, now, span, name_of(plan, &ops[op]), event->microbatch, bytes);
    event->begun = now;
    event->runs = false;
}

/* Where one replica computes for all, it is the device to whose shard the microbatch belongs: the inverse of
 * kolo_shard_begin(). */
static int replica_of(const kolo_engine_rows *rows, int64_t microbatch)
{
    if (rows->members <= 1) return rows->replica;
    return (int)(((microbatch + 1) * rows->members - 1) / rows->microbatches) - rows->first_member;
}

/* Scores are computed by threads of their own, which have rows of their own. */
static kolo_timeline_place move(const kolo_engine *engine, int context, int lane, int64_t microbatch)
{
    const kolo_engine_rows *rows = &engine->rows;
    kolo_timeline_place place = {"evaluation", engine->context_count > 1 ? context : -1, lane, -1};
    if (!rows->steps) return kolo_timeline_move(place);
    place.step = (int64_t)engine->shard->batch->step;
    place.kind = rows->worker > 0 ? "worker" : "device";
    place.number = rows->worker - 1;
    if (rows->worker == 0)
        place.number = kolo_model_device(engine->program->model, replica_of(rows, microbatch), context);
    return kolo_timeline_move(place);
}

kolo_timeline_place kolo_timeline_enter_device(const kolo_engine *engine, int context, int lane, int64_t microbatch)
{
    kolo_timeline_place nowhere = {0};
    return kolo_timeline_is_on() ? move(engine, context, lane, microbatch) : nowhere;
}
