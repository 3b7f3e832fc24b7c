/* Named numbers: see numbers.h. */
#include "model/numbers.h"

#include <stdio.h>
#include <string.h>

static int find(const kolo_numbers *numbers, const char *name)
{
    int i = 0;
    while (i < numbers->count && strncmp(numbers->names[i], name, sizeof numbers->names[i] - 1) != 0) i++;
    return i;
}

double kolo_numbers_get(const kolo_numbers *numbers, const char *name, double fallback)
{
    int i = find(numbers, name);
    return i < numbers->count ? numbers->values[i] : fallback;
}

bool kolo_numbers_set(kolo_numbers *numbers, const char *name, double value)
{
    int i = find(numbers, name);
    if (i == KOLO_NUMBERS_MAX) return false;
    if (i == numbers->count) snprintf(numbers->names[numbers->count++], sizeof numbers->names[i], "%s", name);
    numbers->values[i] = value;
    return true;
}
