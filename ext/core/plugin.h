/* Plugins: the parts that need an outside library, loaded when asked for. */
#ifndef KOLO_CORE_PLUGIN_H
#define KOLO_CORE_PLUGIN_H

#include "backend/backend.h"
#include "comm/comm.h"
#include "topology/topology.h"

#define KOLO_PLUGIN_VERSION 2

/* What libkolo_NAME.so exports as `kolo_plugin_entry`; a part it does not have is NULL. */
typedef struct kolo_plugin {
    unsigned version; /* KOLO_PLUGIN_VERSION */
    const kolo_backend *backend;
    const kolo_world_kind *world;
    const struct kolo_fetcher *fetcher; /* fetch/fetch.h */
    kolo_read_machine *read_machine;    /* topology/topology.h */
} kolo_plugin;

/* Loads libkolo_NAME.so from libkolo.so's own folder, once; NULL, with *why a clause of a sentence, when it cannot. */
const kolo_plugin *kolo_plugin_load(const char *name, const char **why);

#endif
