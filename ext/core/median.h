/* Sorting numbers, and their median. */
#ifndef KOLO_CORE_MEDIAN_H
#define KOLO_CORE_MEDIAN_H

#include <stddef.h>

/* Sorts the numbers, none of which is NaN, in ascending order. */
void kolo_sort_numbers(double *numbers, size_t count);
/* Sorts the numbers in the same way. Returns the one in the middle, or the mean of the two there; NaN if count is 0. */
double kolo_median(double *numbers, size_t count);

#endif
