/* For strategies whose workers add their changes to the centre and then continue with the centre's weights. */
#ifndef KOLO_STRATEGY_PULL_H
#define KOLO_STRATEGY_PULL_H

#include <string.h>

#include "strategy/strategy.h"

/* x ← c */
static inline void kolo_pull(const kolo_exchange *mine)
{
    memcpy(mine->weights, mine->center, (size_t)mine->count * sizeof(float));
}

/* c ← c + (x − p) · scale, x ← c. If no other worker has exchanged since and the scale is 1, c is still p, so c becomes
 * x: the sum would round, and one worker would not be plain descent. */
static inline void kolo_commit_and_pull(const kolo_exchange *mine, float scale)
{
    bool takes_all = mine->staleness == 0 && scale == 1;
    if (takes_all) memcpy(mine->center, mine->weights, (size_t)mine->count * sizeof(float));
    for (int64_t i = 0; !takes_all && i < mine->count; i++)
        mine->center[i] += (mine->weights[i] - mine->start[i]) * scale;
    kolo_pull(mine);
}

#endif
