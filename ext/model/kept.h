/* Named copies of a model's weights that belong to a training, such as those of its best epoch. A checkpoint holds
 * them, so a resumed training has them again. */
#ifndef KOLO_MODEL_KEPT_H
#define KOLO_MODEL_KEPT_H

#include <kolo.h>

#define KOLO_KEPT_MAX  KOLO_CALLBACKS_MAX
#define KOLO_KEPT_NAME 64

typedef struct kolo_kept {
    int count;
    char names[KOLO_KEPT_MAX][KOLO_KEPT_NAME];
    float *values[KOLO_KEPT_MAX]; /* [weights of the model] each, allocated here */
} kolo_kept;

/* The copy of that name, or NULL. */
float *kolo_kept_find(const kolo_kept *kept, const char *name);
/* The copy of that name, for the caller to fill in; a new one, of zeros, if there is none. NULL: there are
 * KOLO_KEPT_MAX already, or there is no memory. */
float *kolo_kept_add(kolo_kept *kept, const char *name, int64_t weights);
void kolo_kept_clear(kolo_kept *kept);

#endif
