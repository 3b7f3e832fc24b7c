/* The loaded objects of cells. Read first: session.h. */
#ifndef KERNEL_LOADS_H
#define KERNEL_LOADS_H

#include "session.h"

/* Notes an object that the worker has loaded. Takes over `payload`. */
void loads_add(session *s, const char *path, text *payload, bool founds);
/* To be called when the newest object has run. It is forgotten if the session has nothing of it. */
void loads_settle(session *s);
/* Loads all of them into a new worker. False when the worker ends meanwhile. */
bool loads_again(session *s);
void loads_clear(session *s);

#endif
