/* Shows the layers' names on a profiler's time line if KOLO_NVTX=1. NVTX consists of headers alone, and does nothing
 * without a profiler. */
#include "backend/cuda/cuda.h"
#include "layers/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
#define nvtxRangePushA(text) ((void)(text))
#define nvtxRangePop()       ((void)0)
#endif

/* "conv2d_1", "conv2d_1 backward" */
void kolo_cuda_name_range(const kolo_plan *plan, int op, char text[KOLO_RANGE_ROOM])
{
    const kolo_op *o = &plan->ops[op];
    const char *chosen = getenv("KOLO_NVTX"), *name = plan->layers ? plan->layers[o->layer].name : "operation";
    text[0] = '\0';
    if (!chosen || strcmp(chosen, "1") != 0) return;
    if (o->kind == KOLO_OP_LOSS || o->kind == KOLO_OP_DENSE_LOSS) name = "loss";
    snprintf(text, KOLO_RANGE_ROOM, "%.48s%s", name, op < plan->forward_count ? "" : " backward");
}

void kolo_cuda_begin_range(const char *text)
{
    if (*text) nvtxRangePushA(text);
}

void kolo_cuda_end_range(const char *text)
{
    if (*text) nvtxRangePop();
}
