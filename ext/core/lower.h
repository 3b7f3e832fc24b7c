/* Lowering: a model's layers written out as a plan. */
#ifndef KOLO_CORE_LOWER_H
#define KOLO_CORE_LOWER_H

#include "core/program.h"

/* Fills in an empty plan; on failure what it holds is freed with kolo_plan_free(). */
kolo_status kolo_lower(const kolo_model *model, kolo_purpose purpose, int leaf, kolo_plan *plan);

#endif
