/* Weights of an earlier moment that belong to a training, by name: those of its best epoch. A checkpoint holds them, so
 * whoever keeps them here finds them after a resume. */
#ifndef KOLO_MODEL_KEPT_H
#define KOLO_MODEL_KEPT_H

#include <kolo.h>

#define KOLO_KEPT_MAX  KOLO_CALLBACKS_MAX
#define KOLO_KEPT_NAME 64

typedef struct kolo_kept {
    int count;
    char names[KOLO_KEPT_MAX][KOLO_KEPT_NAME];
    float *values[KOLO_KEPT_MAX]; /* [weights of the model] each, owned */
} kolo_kept;

/* Those of that name, or NULL. */
float *kolo_kept_find(const kolo_kept *kept, const char *name);
/* Those of that name, to be filled; new ones where there are none. NULL: no room for more, or no memory. */
float *kolo_kept_add(kolo_kept *kept, const char *name, int64_t weights);
void kolo_kept_clear(kolo_kept *kept);

#endif
