/* A topology in one line a device, for comparing. */
#ifndef KOLO_TESTS_DESCRIBED_H
#define KOLO_TESTS_DESCRIBED_H

#include "ext/core/small.h"

#include <stdio.h>
#include <string.h>

/* "X NV1 SYS | 0-19,40-59 | 0" */
static inline const char *described(const kolo_topology_report *report, int device)
{
    static char text[512];
    size_t used = 0;
    for (int other = 0; other < report->count; other++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s ", report->between[device][other].name);
    const kolo_device_place *place = &report->device[device];
    snprintf(text + used, sizeof text - used, "| %s | %d", place->cpus, place->numa_node);
    return text;
}

#endif
