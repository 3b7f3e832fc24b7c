/* Converts one layer's recipe to and from JSON, by the table of its options: see model_json.h. */
#include "saving/model_json.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "layers/kinds.h"

#define CHOICES_MAX 64 /* more than any enumeration of options has */

/* ------------------------------------------------------------------------------------------ choices */

/* Writes a choice's name in a file: "leaky_relu" for KOLO_LEAKY_RELU; "" for a number that is not a choice. */
static void choice_text(kolo_field_type type, int value, char text[40])
{
    static const char *const paddings[] = {[KOLO_VALID] = "KOLO_VALID", [KOLO_SAME] = "KOLO_SAME"};
    bool padding = type == KOLO_FIELD_PADDING, known = value > 0 && value <= KOLO_SAME;
    const char *name = !padding ? kolo_activation_name(value) : known ? paddings[value] : NULL;
    snprintf(text, 40, "%s", name ? name + strlen("KOLO_") : "");
    for (char *c = text; *c; c++) *c = (char)tolower((unsigned char)*c);
}

/* The choice of that name; 0: there is none. */
static int find_choice(kolo_field_type type, const char *wanted)
{
    char text[40];
    for (int value = 1; value < CHOICES_MAX; value++) {
        choice_text(type, value, text);
        if (*text && strcmp(text, wanted) == 0) return value;
    }
    return 0;
}

static const char *all_choices(kolo_field_type type)
{
    char text[40];
    const char *list = "";
    for (int value = 1; value < CHOICES_MAX; value++) {
        choice_text(type, value, text);
        if (*text) list = kolo_phrase("%s%s\"%s\"", list, *list ? ", " : "", text);
    }
    return list;
}

/* ------------------------------------------------------------------------------------------ writing */

static json_t *element_to_json(kolo_field_type type, const void *at)
{
    char choice[40];
    switch (type) {
    case KOLO_FIELD_INT: return json_integer(*(const int *)at);
    case KOLO_FIELD_BOOL: return json_boolean(*(const bool *)at);
    case KOLO_FIELD_DOUBLE: return json_real(*(const double *)at);
    case KOLO_FIELD_STRING: return json_string(*(const char *const *)at);
    case KOLO_FIELD_ACTIVATION:
        choice_text(type, (int)*(const kolo_activation *)at, choice);
        return json_string(choice);
    case KOLO_FIELD_PADDING: choice_text(type, (int)*(const kolo_padding *)at, choice); return json_string(choice);
    }
    return NULL;
}

static json_t *option_to_json(const kolo_field *field, const char *at)
{
    if (field->count == 1) return element_to_json(field->type, at);
    json_t *list = json_array();
    for (int i = 0; i < field->count; i++)
        json_array_append_new(list, element_to_json(field->type, at + (size_t)i * kolo_field_size(field->type)));
    return list;
}

static kolo_status check_can_be_written(const kolo_layer *layer)
{
    if (kolo_layer_kind_find(layer->kind->name) != layer->kind)
        return kolo_fail(KOLO_INVALID,
                         "wanted a kind that is Kolo's or that kolo_register_layer() was given, got \"%s\"",
                         layer->kind->name);
    if (!kolo_layer_kind_is_ours(layer->kind) && layer->custom.user)
        return kolo_fail(KOLO_INVALID,
                         "its .user points into this program's memory, which no file can hold: wanted NULL");
    return KOLO_OK;
}

kolo_status kolo_layer_to_json(const kolo_layer *layer, json_t **object)
{
    *object = NULL;
    KOLO_TRY(check_can_be_written(layer));
    json_t *made = json_pack("{s:s}", "kind", layer->kind->name);
    for (const kolo_field *field = kolo_layer_fields(layer->kind); made && field->name; field++) {
        const char *at = (const char *)kolo_layer_arguments(layer) + field->offset;
        if (!kolo_field_given(field, at)) continue;
        if (json_object_set_new(made, field->name, option_to_json(field, at)) == 0) continue;
        json_decref(made);
        return kolo_fail(KOLO_INVALID, "%s: wanted text in UTF-8 or a finite number, got another", field->name);
    }
    *object = made;
    return made ? KOLO_OK : kolo_fail(KOLO_INVALID, "wanted the kind's name in UTF-8, got another");
}

/* ------------------------------------------------------------------------------------------ reading */

const char *kolo_json_text(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    const char *shown = kolo_phrase("%.60s", text ? text : "nothing");
    free(text);
    return shown;
}

static kolo_status wrong(const char *option, const char *wanted, const json_t *value)
{
    return kolo_fail(KOLO_FORMAT, "%s: wanted %s, got %s", option, wanted, kolo_json_text(value));
}

static kolo_status choice_from_json(const kolo_field *field, const json_t *value, int *choice)
{
    *choice = json_is_string(value) ? find_choice(field->type, json_string_value(value)) : 0;
    return *choice ? KOLO_OK : wrong(field->name, kolo_phrase("one of %s", all_choices(field->type)), value);
}

static kolo_status int_from_json(const char *name, const json_t *value, int *number)
{
    json_int_t whole = json_integer_value(value);
    if (!json_is_integer(value) || whole < INT_MIN || whole > INT_MAX)
        return wrong(name, "a whole number of 32 bits", value);
    *number = (int)whole;
    return KOLO_OK;
}

/* Strings are not copied: they stay in the JSON. */
static kolo_status element_from_json(const kolo_field *field, const json_t *value, void *at)
{
    int choice;
    switch (field->type) {
    case KOLO_FIELD_INT: return int_from_json(field->name, value, at);
    case KOLO_FIELD_BOOL:
        if (!json_is_boolean(value)) return wrong(field->name, "true or false", value);
        *(bool *)at = json_is_true(value);
        return KOLO_OK;
    case KOLO_FIELD_DOUBLE:
        if (!json_is_number(value)) return wrong(field->name, "a number", value);
        *(double *)at = json_number_value(value);
        return KOLO_OK;
    case KOLO_FIELD_STRING:
        if (!json_is_string(value)) return wrong(field->name, "a text", value);
        *(const char **)at = json_string_value(value);
        return KOLO_OK;
    case KOLO_FIELD_ACTIVATION:
        KOLO_TRY(choice_from_json(field, value, &choice));
        *(kolo_activation *)at = (kolo_activation)choice;
        return KOLO_OK;
    case KOLO_FIELD_PADDING:
        KOLO_TRY(choice_from_json(field, value, &choice));
        *(kolo_padding *)at = choice == KOLO_SAME ? KOLO_SAME : KOLO_VALID;
        return KOLO_OK;
    }
    return kolo_fail(KOLO_INTERNAL, "%s: an option of a type that no file has", field->name);
}

static kolo_status option_from_json(const kolo_field *field, const json_t *value, char *at)
{
    if (field->count == 1) return element_from_json(field, value, at);
    if (!json_is_array(value) || json_array_size(value) != (size_t)field->count)
        return wrong(field->name, kolo_phrase("a list of %d", field->count), value);
    for (int i = 0; i < field->count; i++)
        KOLO_TRY(element_from_json(field, json_array_get(value, (size_t)i),
                                   at + (size_t)i * kolo_field_size(field->type)));
    return KOLO_OK;
}

static const kolo_field *find_field(const kolo_layer_kind *kind, const char *name)
{
    const kolo_field *field = kolo_layer_fields(kind);
    while (field->name && strcmp(field->name, name) != 0) field++;
    return field->name ? field : NULL;
}

kolo_status kolo_layer_from_json(const json_t *object, kolo_layer *layer)
{
    const json_t *kind = json_object_get(object, "kind");
    const char *name;
    json_t *value;
    *layer = (kolo_layer){0};
    if (!json_is_object(object)) return kolo_fail(KOLO_FORMAT, "wanted an object, got %s", kolo_json_text(object));
    if (!json_is_string(kind)) return wrong("kind", "the name of a kind of layer", kind);
    layer->kind = kolo_layer_kind_find(json_string_value(kind));
    if (!layer->kind) return wrong("kind", "one of Kolo's layers, or one that kolo_register_layer() was given", kind);
    if (!kolo_layer_kind_is_ours(layer->kind)) layer->custom.kind = layer->kind;
    json_object_foreach((json_t *)object, name, value)
    {
        if (strcmp(name, "kind") == 0 || strcmp(name, KOLO_JSON_FROM) == 0) continue;
        const kolo_field *field = find_field(layer->kind, name);
        if (!field) return kolo_fail(KOLO_FORMAT, "wanted options of %s, got \"%.40s\"", layer->kind->name, name);
        KOLO_TRY(option_from_json(field, value, (char *)&layer->custom + field->offset));
    }
    return KOLO_OK;
}
