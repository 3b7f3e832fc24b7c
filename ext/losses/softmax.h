/* The exponentials of a long row, in float32, sixteen at once: what losses and metrics of many classes spend their time
 * with. A row's result depends on that row alone. Worth it from KOLO_LONG_ROW on (rows.h); shorter
 * ones are computed in double. */
#ifndef KOLO_LOSSES_SOFTMAX_H
#define KOLO_LOSSES_SOFTMAX_H

#include <stdint.h>

/* Σ exp(z − max z), its parts into parts[count] unless NULL (z itself is fine); *largest is max z. */
double kolo_exponentials(const float *z, int64_t count, float *parts, float *largest);
/* x·factor − less, in place. */
void kolo_scale_row(float *x, int64_t count, float factor, float less);
/* The first of the largest elements. */
int64_t kolo_first_largest(const float *x, int64_t count);

#endif
