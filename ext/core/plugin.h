/* Plugins: the parts that need an external library, loaded when they are first needed.
 *
 * This header names the types of these parts without including their headers, because core/ includes no other folder. A
 * file that uses a part includes the header that is named beside it. */
#ifndef KOLO_CORE_PLUGIN_H
#define KOLO_CORE_PLUGIN_H

#include <kolo.h>

#define KOLO_PLUGIN_VERSION 6

struct kolo_machine;

/* libkolo_NAME.so exports one of these as `kolo_plugin_entry`; a part that it does not have is NULL. */
typedef struct kolo_plugin {
    unsigned version;                    /* KOLO_PLUGIN_VERSION */
    const struct kolo_backend *backend;  /* backend/backend.h */
    const struct kolo_world_kind *world; /* comm/comm.h */
    const struct kolo_channel_kind *channels; /* comm/channel.h */
    const struct kolo_fetcher *fetcher;  /* fetch/fetch.h */
    /* topology/topology.h: kolo_read_machine */
    kolo_status (*read_machine)(int sharers, int count, struct kolo_machine *machine);
} kolo_plugin;

/* Loads libkolo_NAME.so from the folder of libkolo.so. Later calls with the same name return the same result. Returns
 * NULL on failure, with the reason in *why (part of a sentence); why may be NULL. Any thread. */
const kolo_plugin *kolo_plugin_load(const char *name, const char **why);

#endif
