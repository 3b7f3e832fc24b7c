/* Copies between the devices of a plan, if each has its own memory. See engine/program.h. */
#ifndef KOLO_PLAN_COPIES_H
#define KOLO_PLAN_COPIES_H

#include "plan/plan.h"

/* Adds the copies. A value is stored on the device of the operation that writes it, the features on device 0. A value
 * that is read on another device is copied there once, before the first operation that reads it there. The devices of
 * the operations are numbers from 0 to devices - 1. */
kolo_status kolo_copies_insert(kolo_plan *plan, int devices);

#endif
