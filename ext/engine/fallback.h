/* Operations that a backend lacks: the reference backend computes them, on canonical copies. A new operation therefore
 * works everywhere as soon as its plain loop is written. */
#ifndef KOLO_ENGINE_FALLBACK_H
#define KOLO_ENGINE_FALLBACK_H

#include "backend/backend.h"

typedef struct kolo_fallback kolo_fallback;

/* Before anything of the plan is prepared: operations that the backend lacks (kolo_backend.has) become KOLO_OP_CUSTOM,
 * which every backend has, with the reference backend's kernel behind it; it says so once for each kind of operation.
 * Those with a workspace, partial sums or labels stay as they are, for the backend to refuse. The list is to be freed
 * after the plan. */
kolo_status kolo_fallback_insert(kolo_plan *plan, const kolo_backend *backend, kolo_fallback **list);
void kolo_fallback_free(kolo_fallback **list);

#endif
