/* Where the kernel and its ranks meet: endpoints, addresses, keys. Read first: wire.h. */
#ifndef KERNEL_RANKS_CONTACT_H
#define KERNEL_RANKS_CONTACT_H

#include "cells/text.h"

/* The kernel's side. `folder`: for the socket of this host; NULL when ranks are on other hosts too: then TCP with
 * CURVE, on a port of its own, on every interface. Adds "NAME=value" lines for the ranks' environment. NULL, and a
 * sentence, on failure. */
void *contact_listen(void *context, const char *folder, const char *token, names *environment, char **problem);

/* A rank's side, from its environment: a DEALER named `name`. Of several addresses the first that answers. NULL, and a
 * sentence, on failure. */
void *contact_reach(void *context, const char *name, char **problem);

#endif
