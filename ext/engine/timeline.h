/* What the engine adds to the timeline (core/timeline.h): the layers, in rows of the devices. */
#ifndef KOLO_ENGINE_TIMELINE_H
#define KOLO_ENGINE_TIMELINE_H

#include "core/timeline.h"
#include "engine/engine.h"

/* The operations of one layer that a lane runs one after the other: one event. */
typedef struct kolo_layer_event {
    int64_t begun, microbatch; /* begun: 0 without a recording */
    bool runs; /* one of the operations is not computed by another layer's kernel */
} kolo_layer_event;

/* Operation `op` has run, of a segment that ends at `end`. If the next one is not of the same layer, the event is
 * recorded, and the next one begins. Where work is only enqueued, the events say so. */
void kolo_timeline_note_op(const kolo_engine *engine, int op, int end, kolo_layer_event *event);

/* Enters the row of the device that computes this microbatch. */
kolo_timeline_place kolo_timeline_enter_device(const kolo_engine *engine, int context, int lane, int64_t microbatch);

#endif
