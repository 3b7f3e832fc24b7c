/* The fallback: the reference backend computes operations that a backend lacks, on canonical copies. A new operation
 * therefore works on every backend as soon as its plain loop is written. */
#ifndef KOLO_ENGINE_FALLBACK_H
#define KOLO_ENGINE_FALLBACK_H

#include "backend/backend.h"

typedef struct kolo_fallback kolo_fallback;

/* Called before any operation is prepared. Operations that the backend lacks (kolo_backend.has) become KOLO_OP_CUSTOM,
 * which every backend has, and run the reference backend's kernel. A warning says so once for each kind of operation.
 * Operations with a workspace, partial sums or labels are not replaced, and the backend refuses them. The caller frees
 * the list after the plan. */
kolo_status kolo_fallback_insert(kolo_plan *plan, const kolo_backend *backend, kolo_fallback **list);
void kolo_fallback_free(kolo_fallback **list);

#endif
