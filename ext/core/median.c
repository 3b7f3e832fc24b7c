#include "core/median.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

void kolo_sort_numbers(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, compare);
}

double kolo_median(double *numbers, size_t count)
{
    if (count == 0) return NAN;
    kolo_sort_numbers(numbers, count);
    size_t middle = count / 2;
    return count % 2 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}
