/* Plugins: the parts that need an outside library, loaded when asked for.
 *
 * This header names the types of the parts without including their headers, which stand above it: a file that uses a
 * part includes the header named beside it. */
#ifndef KOLO_CORE_PLUGIN_H
#define KOLO_CORE_PLUGIN_H

#include <kolo.h>

#define KOLO_PLUGIN_VERSION 2

struct kolo_machine;

/* What libkolo_NAME.so exports as `kolo_plugin_entry`; a part it does not have is NULL. */
typedef struct kolo_plugin {
    unsigned version;                    /* KOLO_PLUGIN_VERSION */
    const struct kolo_backend *backend;  /* backend/backend.h */
    const struct kolo_world_kind *world; /* comm/comm.h */
    const struct kolo_fetcher *fetcher;  /* fetch/fetch.h */
    /* topology/topology.h: kolo_read_machine */
    kolo_status (*read_machine)(int sharers, int count, struct kolo_machine *machine);
} kolo_plugin;

/* Loads libkolo_NAME.so from libkolo.so's own folder. The first call for a name loads; later ones return the same.
 * Returns NULL, with *why a clause of a sentence, when it cannot. Any thread. */
const kolo_plugin *kolo_plugin_load(const char *name, const char **why);

#endif
