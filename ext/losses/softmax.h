/* The exponentials of a long row in float32, sixteen at a time: losses and metrics of many classes spend most of their
 * time here. A row's result depends on that row alone. Rows of fewer than KOLO_LONG_ROW outputs (rows.h) are computed
 * in double instead. */
#ifndef KOLO_LOSSES_SOFTMAX_H
#define KOLO_LOSSES_SOFTMAX_H

#include <stdint.h>

/* Returns Σ exp(z − max z), and writes its terms to parts[count] unless that is NULL; parts may be z. *largest becomes
 * max z. */
double kolo_exponentials(const float *z, int64_t count, float *parts, float *largest);
/* x·factor − less, in place. */
void kolo_scale_row(float *x, int64_t count, float factor, float less);
/* The index of the largest element, of equal ones the first. */
int64_t kolo_first_largest(const float *x, int64_t count);

#endif
