/* Handles of libkolo's, and recipes by value, which the library itself shows (show/bundle.h there). See value.h. */
#define _GNU_SOURCE
#include "values/value_writer.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST = 32 << 20 }; /* bytes of a bundle */

typedef struct shower {
    const char *type, *function;
} shower;

static const shower handles[] = {{"kolo_model", "kolo_model_bundle"},
                                 {"kolo_history", "kolo_history_bundle"},
                                 {"kolo_data", "kolo_data_bundle"},
                                 {NULL, NULL}},
                    recipes[] = {{"kolo_layer", "kolo_layer_bundle"},
                                 {"kolo_optimizer", "kolo_optimizer_bundle"},
                                 {"kolo_strategy", "kolo_strategy_bundle"},
                                 {"kolo_loss", "kolo_loss_bundle"},
                                 {"kolo_metric", "kolo_metric_bundle"},
                                 {"kolo_schedule", "kolo_schedule_bundle"},
                                 {"kolo_scores", "kolo_scores_bundle"},
                                 {"kolo_callback", "kolo_callback_bundle"},
                                 {"kolo_device_list", "kolo_devices_bundle"},
                                 {"kolo_topology_report", "kolo_topology_bundle"},
                                 {"kolo_bandwidth_report", "kolo_bandwidth_bundle"},
                                 {NULL, NULL}};

static const char *function_for(const shower *list, CXType record)
{
    char *name = clang_text(clang_getCursorSpelling(clang_getTypeDeclaration(record)));
    while (list->type && strcmp(name, list->type) != 0) list++;
    free(name);
    return list->function;
}

const char *shower_of(CXType plain, bool *by_value)
{
    CXType pointee = plain.kind == CXType_Pointer ? plain_type(clang_getPointeeType(plain)) : plain;
    *by_value = plain.kind == CXType_Record;
    return pointee.kind == CXType_Record ? function_for(*by_value ? recipes : handles, pointee) : NULL;
}

json_t *object_bundle(const memory *from, uint64_t address, size_t size)
{
    if (size > LARGEST) return NULL;
    char *json = need_zeroed(size + 1);
    bool whole = true;
    for (size_t at = 0; whole && at < size; at += READ_AHEAD) {
        size_t step = size - at < READ_AHEAD ? size - at : READ_AHEAD;
        whole = from->read(from->closure, address + at, step, json + at);
    }
    json_t *data = whole ? json_loads(json, 0, NULL) : NULL;
    free(json);
    if (json_is_string(json_object_get(data, "text/plain"))) return data;
    json_decref(data);
    return NULL;
}
