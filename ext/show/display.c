/* kolo_display() and related calls: send frames to the notebook, or print text in a terminal. Read display.h. */
#include "show/display.h"
#include "core/utf8.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MAX ((size_t)256 << 20) /* bytes: a browser cannot show more */
#define FRAME_MAX 2800000 /* bytes of JSON: below the limits of the kernel and of a Jupyter server */

static bool is_json(const char *type)
{
    return kolo_ends_with(type, "+json") || strcmp(type, "application/json") == 0;
}

static bool is_text(const char *type)
{
    return strncmp(type, "text/", 5) == 0 || kolo_ends_with(type, "+xml") ||
           strcmp(type, "application/javascript") == 0;
}

/* ------------------------------------------------------------------------------------------ values */

/* RFC 4648. */
static json_t *base64(const unsigned char *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(size / 3 * 4 + 5), *end = text;
    if (!text) return NULL;
    for (size_t i = 0; i < size; i += 3) {
        size_t have = size - i;
        unsigned word =
            (unsigned)bytes[i] << 16 | (have > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (have > 2 ? bytes[i + 2] : 0);
        *end++ = digits[word >> 18];
        *end++ = digits[word >> 12 & 63];
        *end++ = have > 1 ? digits[word >> 6 & 63] : '=';
        *end++ = have > 2 ? digits[word & 63] : '=';
    }
    json_t *value = json_stringn(text, (size_t)(end - text));
    free(text);
    return value;
}

static kolo_status check_type(const char *type)
{
    const char *slash = type ? strchr(type, '/') : NULL;
    bool plain = slash && slash > type && slash[1];
    for (const char *c = type; plain && *c; c++) plain = *c > ' ' && *c < 127;
    if (!plain)
        return kolo_fail(KOLO_INVALID, "wanted a MIME type such as \"text/plain\", got \"%.80s\"",
                         type ? type : "NULL");
    return KOLO_OK;
}

static kolo_status value_of(const kolo_mime *form, json_t **value)
{
    json_error_t error;
    KOLO_TRY(check_type(form->type));
    if (!form->data && form->size > 0)
        return kolo_fail(KOLO_INVALID, "wanted something to show as %s, got NULL", form->type);
    if (form->size > SHOWN_MAX)
        return kolo_fail(KOLO_INVALID, "wanted at most %zu MB to show, got %zu MB", SHOWN_MAX >> 20, form->size >> 20);
    const char *data = form->data ? form->data : "";
    if (is_json(form->type)) {
        *value = json_loadb(data, form->size, JSON_DECODE_ANY, &error);
        if (!*value) return kolo_fail(KOLO_FORMAT, "wanted JSON to show as %s, got: %s", form->type, error.text);
    } else if (is_text(form->type) || form->encoded) {
        *value = json_stringn(data, form->size);
        if (!*value) return kolo_fail(KOLO_FORMAT, "wanted text in UTF-8 to show as %s, got other bytes", form->type);
    } else if (!(*value = base64((const unsigned char *)data, form->size))) {
        return kolo_fail_memory(form->size * 4 / 3, "something to show");
    }
    return KOLO_OK;
}

static kolo_status data_of(const kolo_mime *forms, int count, json_t *data)
{
    for (int i = 0; i < count; i++) {
        json_t *value = NULL;
        KOLO_TRY(value_of(&forms[i], &value));
        if (json_object_set_new(data, forms[i].type, value) != 0)
            return kolo_fail_memory(forms[i].size, "something to show");
    }
    return KOLO_OK;
}

kolo_status kolo_display_json(const kolo_mime *forms, int count, char **json)
{
    json_t *data = json_object();
    kolo_status status = data_of(forms, count, data);
    *json = status == KOLO_OK ? json_dumps(data, JSON_COMPACT) : NULL;
    json_decref(data);
    return status == KOLO_OK && !*json ? kolo_fail_memory(1 << 16, "something to show") : status;
}

/* ------------------------------------------------------------------------------------------ frames */

/* Sends a frame; *shown: the notebook accepted it. Frees data. */
static kolo_status deliver(const char *kind, const char *id, bool wait, json_t *data, bool *shown)
{
    json_t *frame = json_pack("{s:s, s:s, s:s, s:b, s:o, s:{}}", "token", kolo_display_token(), "kind", kind, "id",
                              id ? id : "", "wait", wait, "data", data, "metadata");
    char *json = frame ? json_dumps(frame, JSON_COMPACT) : NULL;
    json_decref(frame);
    if (!json) return kolo_fail(KOLO_INVALID, "wanted an id in UTF-8 and room for the picture, got neither or one");
    if (strlen(json) > FRAME_MAX) {
        size_t size = strlen(json);
        free(json);
        return kolo_fail(KOLO_INVALID, "%.1f MB are too many to show at once: a Jupyter server passes on 3 MB in 3 s",
                         (double)size * 1e-6);
    }
    fflush(stdout); /* earlier output must appear first */
    *shown = kolo_display_send(json, strlen(json));
    free(json);
    return KOLO_OK;
}

static void warn_once(void)
{
    static bool said;
    if (!__atomic_test_and_set(&said, __ATOMIC_RELAXED))
        kolo_warn("the notebook does not take what is shown: only its text is printed");
}

static void print_text(const kolo_mime *forms, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(forms[i].type, "text/plain") != 0) continue;
        const char *text = forms[i].data;
        fwrite(text ? text : "", 1, forms[i].size, stdout);
        if (forms[i].size == 0 || text[forms[i].size - 1] != '\n') fputc('\n', stdout);
        fflush(stdout);
    }
}

static kolo_status show(const char *kind, const char *id, const kolo_mime *forms, int count)
{
    bool shown = false;
    json_t *data = json_object();
    kolo_status status = data_of(forms, count, data);
    if (status == KOLO_OK && kolo_display_expected()) {
        status = deliver(kind, id, false, data, &shown);
        if (status == KOLO_OK && !shown) warn_once();
    } else {
        json_decref(data);
    }
    if (status == KOLO_OK && !shown) print_text(forms, count);
    return status;
}

kolo_status kolo_display_bundle(const char *id, const kolo_mime *forms, int count)
{
    return show(id ? "update" : "display", id, forms, count);
}

/* ------------------------------------------------------------------------------------------ the calls */

/* `encoded`: text of a binary type such as "image/png" is base64 already. */
static kolo_mime text_form(const char *mime, const char *text)
{
    return (kolo_mime){mime, text, text ? strlen(text) : 1, true};
}

kolo_status kolo_display(const char *mime, const char *text)
{
    kolo_mime form = text_form(mime, text);
    kolo_scope scope = kolo_enter("kolo_display", (kolo_here){0});
    return kolo_leave(scope, show("display", NULL, &form, 1));
}

kolo_status kolo_display_bytes(const char *mime, const void *data, size_t size)
{
    kolo_mime form = {mime, data, size, false};
    kolo_scope scope = kolo_enter("kolo_display_bytes", (kolo_here){0});
    return kolo_leave(scope, show("display", NULL, &form, 1));
}

kolo_status kolo_update_display(const char *id, const char *mime, const char *text)
{
    kolo_mime form = text_form(mime, text);
    kolo_scope scope = kolo_enter("kolo_update_display", (kolo_here){0});
    kolo_status status =
        id && *id ? show("update", id, &form, 1)
                  : kolo_fail(KOLO_INVALID, "wanted an id to update by, got %s", id ? "an empty one" : "NULL");
    return kolo_leave(scope, status);
}

kolo_status kolo_clear_output(bool wait)
{
    bool shown;
    if (!kolo_display_expected()) return KOLO_OK;
    kolo_scope scope = kolo_enter("kolo_clear_output", (kolo_here){0});
    kolo_status status = deliver("clear", NULL, wait, json_object(), &shown);
    if (status == KOLO_OK && !shown) warn_once();
    return kolo_leave(scope, status);
}
