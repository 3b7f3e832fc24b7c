/* The loaded objects of cells. Read first: session.h. */
#ifndef KERNEL_LOADS_H
#define KERNEL_LOADS_H

#include "session.h"

/* Takes `payload`. */
void loads_add(session *s, const char *path, text *payload, bool founds);
/* The newest has run: it is forgotten when nothing of it lasts. */
void loads_settle(session *s);
/* Into a new worker. */
bool loads_again(session *s);
void loads_clear(session *s);

#endif
