/* The memory plan: the segments of a program, and the offsets of all values. See program.h. */
#ifndef KOLO_ENGINE_MEMORY_PLAN_H
#define KOLO_ENGINE_MEMORY_PLAN_H

#include "engine/program.h"

/* Numbers the devices that the plan uses, without gaps: cpu:0 and cpu:3 become 0 and 1. */
void kolo_segments_number_devices(kolo_program *program);
/* Fills in program->segments. */
kolo_status kolo_segments_cut(kolo_program *program);
void kolo_segments_free(kolo_program *program);

/* Called after every operation is prepared. Sets the offset of every value, and the sizes of the program's memory. */
kolo_status kolo_memory_plan_assign(kolo_program *program);

#endif
