/* Lists from malloc that grow. */
#ifndef KOLO_CORE_GROW_H
#define KOLO_CORE_GROW_H

#include <stddef.h>

#include "core/error.h"

/* Makes room for `wanted` elements of `element` bytes in *block, a pointer to memory from malloc that has room for
 * *room of them, and at least doubles it if it is too small. `what`: for an error. */
kolo_status kolo_grow(void *block, size_t *room, size_t wanted, size_t element, const char *what);
static inline kolo_status kolo_make_room(void *block, size_t *room, size_t wanted, size_t element, const char *what)
{
    return wanted <= *room ? KOLO_OK : kolo_grow(block, room, wanted, element, what);
}

#endif
