/* The backend that these tests hold against the reference: oneDNN; tests/ext/backend/cuda/ builds them for another. */
#ifndef KOLO_TESTS_TESTED_H
#define KOLO_TESTS_TESTED_H

#include <stdio.h>

#include "backend/backend.h"
#include "core/plugin.h"

#ifndef KOLO_TEST_BACKEND
#define KOLO_TEST_BACKEND "onednn"
#endif

/* NULL, and a sentence, where the plugin does not load. */
static inline const kolo_backend *tested_backend(void)
{
    const char *why;
    const kolo_plugin *plugin = kolo_plugin_load(KOLO_TEST_BACKEND, &why);
    if (!plugin) fprintf(stderr, "the plugin does not load: %s\n", why);
    return plugin ? plugin->backend : NULL;
}

#endif
