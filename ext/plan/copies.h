/* Copies between the devices of a plan, where each has a memory of its own. See engine/program.h. */
#ifndef KOLO_PLAN_COPIES_H
#define KOLO_PLAN_COPIES_H

#include "plan/plan.h"

/* Every value lies where it is written, the features on device 0. What an operation reads that lies elsewhere is copied
 * to its device before, once for all that read it there. The operations' devices are numbers from 0 to devices - 1. */
kolo_status kolo_copies_insert(kolo_plan *plan, int devices);

#endif
