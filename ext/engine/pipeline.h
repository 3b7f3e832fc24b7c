/* A pipeline: microbatches go through the segments of a program side by side.
 *
 * Where all microbatches of the shard must meet, none goes on before the last has come and what they brought is added
 * up, in the order of their numbers. Elsewhere each goes on as soon as a thread of the next segment's device is free:
 * while device 1 works on microbatch 0, device 0 works on microbatch 1. Read engine/program.h first.
 */
#ifndef KOLO_ENGINE_PIPELINE_H
#define KOLO_ENGINE_PIPELINE_H

#include "engine/engine.h"

/* Of an engine whose program has several segments; activations are opened when they are needed, and kept. */
kolo_status kolo_pipeline_open(kolo_engine *engine, kolo_pipeline **pipeline);
void kolo_pipeline_close(kolo_pipeline **pipeline); /* takes NULL */

/* Computes a shard, as kolo_engine_run() does. */
kolo_status kolo_pipeline_run(kolo_pipeline *pipeline, const kolo_shard *shard, kolo_reduction *reduction);

#endif
