/* Reading and writing JSON files. */
#ifndef KOLO_CORE_JSON_H
#define KOLO_CORE_JSON_H

#include <jansson.h>

#include "core/error.h"

/* Writes `whole` and a newline, with jansson's flags, and releases it. NULL is what jansson returns when there is no
 * memory; `what` names it in the failure's message. The file appears completely or not at all. */
kolo_status kolo_json_write(const char *path, json_t *whole, size_t flags, const char *what);

/* Reads a file; `what` names its contents in messages: "a history". The caller releases *whole, which is NULL on
 * failure. */
kolo_status kolo_json_read(const char *path, const char *what, json_t **whole);

#endif
