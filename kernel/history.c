#define _GNU_SOURCE
#include "history.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_file(history *h)
{
    FILE *file = fopen(h->path, "re");
    if (!file) return;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, file) > 0) {
        json_t *entry = json_loads(line, 0, NULL);
        if (json_is_array(entry) && json_array_size(entry) == 3 && json_is_string(json_array_get(entry, 2))) {
            json_array_append(h->entries, entry);
            long session = (long)json_integer_value(json_array_get(entry, 0));
            if (session >= h->session) h->session = session + 1;
        }
        json_decref(entry);
    }
    free(line);
    fclose(file);
}

void history_open(history *h, const char *path)
{
    *h = (history){.entries = json_array(), .session = 1, .path = path ? strdup(path) : NULL};
    if (h->path) read_file(h);
}

void history_close(history *h)
{
    json_decref(h->entries);
    free(h->path);
    *h = (history){0};
}

void history_add(history *h, long line, const char *source)
{
    json_t *entry = json_pack("[I, I, s]", (json_int_t)h->session, (json_int_t)line, source);
    if (!entry) return;
    json_array_append(h->entries, entry);
    char *dump = json_dumps(entry, JSON_COMPACT);
    FILE *file = h->path ? fopen(h->path, "ae") : NULL;
    if (file) {
        fprintf(file, "%s\n", dump);
        fclose(file);
    }
    free(dump);
    json_decref(entry);
}

static void add_entry(json_t *into, json_t *entry, bool with_output)
{
    json_t *source = json_array_get(entry, 2);
    json_t *shown = with_output ? json_pack("[O, n]", source) : json_incref(source);
    json_array_append_new(into, json_pack("[O, O, o]", json_array_get(entry, 0), json_array_get(entry, 1), shown));
}

static bool in_range(const history *h, json_t *entry, const json_t *request)
{
    long session = (long)json_integer_value(json_object_get(request, "session"));
    long start = (long)json_integer_value(json_object_get(request, "start"));
    json_t *stop = json_object_get(request, "stop");
    if (session <= 0) session += h->session;
    long line = (long)json_integer_value(json_array_get(entry, 1));
    return json_integer_value(json_array_get(entry, 0)) == session && line >= start &&
           (!json_is_integer(stop) || line < json_integer_value(stop));
}

static bool seen_later(const json_t *entries, size_t at, const char *source)
{
    for (size_t i = at + 1; i < json_array_size(entries); i++) {
        if (!strcmp(json_string_value(json_array_get(json_array_get(entries, i), 2)), source)) return true;
    }
    return false;
}

json_t *history_answer(const history *h, const json_t *request)
{
    const char *kind = json_string_value(json_object_get(request, "hist_access_type"));
    const char *pattern = json_string_value(json_object_get(request, "pattern"));
    bool with_output = json_is_true(json_object_get(request, "output"));
    bool unique = json_is_true(json_object_get(request, "unique"));
    json_int_t limit = json_integer_value(json_object_get(request, "n"));
    json_t *found = json_array();
    size_t index;
    json_t *entry;
    json_array_foreach(h->entries, index, entry)
    {
        const char *source = json_string_value(json_array_get(entry, 2));
        bool wanted = !kind || !strcmp(kind, "tail");
        if (kind && !strcmp(kind, "range")) wanted = in_range(h, entry, request);
        if (kind && !strcmp(kind, "search")) wanted = !fnmatch(pattern ? pattern : "*", source, 0);
        if (wanted && unique && seen_later(h->entries, index, source)) wanted = false;
        if (wanted) add_entry(found, entry, with_output);
    }
    bool limited = limit > 0 && !(kind && !strcmp(kind, "range"));
    while (limited && (json_int_t)json_array_size(found) > limit) json_array_remove(found, 0);
    return json_pack("{s:s, s:o}", "status", "ok", "history", found);
}
