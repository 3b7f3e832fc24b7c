/* Shapes of a sample or of an array of weights; the last axis varies fastest. */
#ifndef KOLO_CORE_SHAPE_H
#define KOLO_CORE_SHAPE_H

#include <kolo.h>

typedef struct kolo_shape {
    int rank; /* 1 … 4 */
    int dim[4];
} kolo_shape;

/* The number of elements. Shapes are checked when they are made, so this cannot overflow. */
static inline int64_t kolo_shape_count(kolo_shape shape)
{
    int64_t count = 1;
    for (int axis = 0; axis < shape.rank; axis++) count *= shape.dim[axis];
    return count;
}

static inline bool kolo_shape_equal(kolo_shape a, kolo_shape b)
{
    bool equal = a.rank == b.rank;
    for (int axis = 0; equal && axis < a.rank; axis++) equal = a.dim[axis] == b.dim[axis];
    return equal;
}

/* "{28, 28, 1}", in a buffer of kolo_phrase(). */
const char *kolo_shape_text(kolo_shape shape);

#endif
