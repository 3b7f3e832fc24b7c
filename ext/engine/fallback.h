/* The fallback: the reference backend computes operations that a backend lacks, on canonical operands. A new operation
 * therefore works on every backend as soon as the reference backend has it. */
#ifndef KOLO_ENGINE_FALLBACK_H
#define KOLO_ENGINE_FALLBACK_H

#include "backend/backend.h"

typedef struct kolo_fallback kolo_fallback;

/* Called before any operation is prepared. Operations that the backend lacks (kolo_backend.has) become KOLO_OP_CUSTOM,
 * which every backend has, and run the reference backend's kernel. A warning is printed once for each kind of
 * operation. An operation with a workspace, partial or reduced sums, or a loss cannot be replaced: the call
 * fails with a sentence that names it. The caller frees the list after the plan. */
kolo_status kolo_fallback_insert(kolo_plan *plan, const kolo_backend *backend, kolo_fallback **list);
void kolo_fallback_free(kolo_fallback **list);

#endif
