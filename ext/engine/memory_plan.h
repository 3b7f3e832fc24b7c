/* Where a program is cut, and where in memory its values lie. See program.h. */
#ifndef KOLO_ENGINE_MEMORY_PLAN_H
#define KOLO_ENGINE_MEMORY_PLAN_H

#include "engine/program.h"

#define KOLO_ALIGNMENT ((size_t)64) /* a cache line; what AVX-512 loads at once */

/* Devices that nobody is on are left out: cpu:0 and cpu:3 become 0 and 1. */
void kolo_segments_number_devices(kolo_program *program);
/* Fills in program->segments. */
kolo_status kolo_segments_cut(kolo_program *program);
void kolo_segments_free(kolo_program *program);

/* Once every operation is prepared: offsets, and the bytes of every kind of memory. */
kolo_status kolo_places_assign(kolo_program *program);

/* Whether a value lies in activations or in a workspace. */
bool kolo_lives_in_a_microbatch(const kolo_value *value);

#endif
