#include "core/grow.h"

#include <stdlib.h>

kolo_status kolo_grow(void *block, size_t *room, size_t wanted, size_t element, const char *what)
{
    void **memory = block;
    size_t larger = *room * 2 > wanted ? *room * 2 : wanted;
    void *moved = realloc(*memory, larger * element);
    if (!moved) return kolo_fail_memory(larger * element, what);
    *memory = moved;
    *room = larger;
    return KOLO_OK;
}
