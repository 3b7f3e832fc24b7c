/* Reading --config-file with jansson: see config.h. */
#define _GNU_SOURCE 1 /* asprintf */
#include "launch/config.h"

#include "launch/say.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct argp_option *find_option(const struct argp_option *known, const char *name)
{
    static const char *const of_command_line[] = {"config-file", "help", "h", "version", "check-build", "cb"};
    for (size_t i = 0; i < sizeof of_command_line / sizeof *of_command_line; i++)
        if (!strcmp(name, of_command_line[i])) return NULL;
    for (; known->name; known++)
        if (!strcmp(known->name, name)) return known;
    return NULL;
}

/* Whether the option takes a value, which an alias does if the option before it does. */
static bool takes_value(const struct argp_option *option)
{
    while (option->flags & OPTION_ALIAS) option--;
    return option->arg != NULL;
}

static bool may_be_repeated(const char *name)
{
    return !strcmp(name, "env") || !strncmp(name, "network-interface", strlen("network-interface"));
}

/* Adds "--name=value". False if the value is neither a text nor a whole number. */
static bool add_value(const char *name, const json_t *value, struct words *words)
{
    char *word = NULL;
    int length = json_is_string(value) ? asprintf(&word, "--%s=%s", name, json_string_value(value))
                 : json_is_integer(value)
                     ? asprintf(&word, "--%s=%" JSON_INTEGER_FORMAT, name, json_integer_value(value))
                     : 0;
    if (length > 0) words_add(words, word);
    else words->failed = words->failed || length < 0;
    free(length > 0 ? word : NULL);
    return length != 0;
}

static int read_flag(const char *path, const char *name, const json_t *value, struct words *words)
{
    char word[64];
    if (!json_is_boolean(value)) return launch_say(KOLORUN_WRONG_USE, "%s: \"%s\": wanted true or false", path, name);
    snprintf(word, sizeof word, "--%s", name);
    if (json_is_true(value)) words_add(words, word);
    return KOLORUN_GO_ON;
}

static int read_member(const char *path, const struct argp_option *option, const json_t *value, struct words *words)
{
    const char *name = option->name;
    if (!takes_value(option)) return read_flag(path, name, value, words);
    if (!json_is_array(value) && add_value(name, value, words)) return KOLORUN_GO_ON;
    if (!json_is_array(value) || !may_be_repeated(name))
        return launch_say(KOLORUN_WRONG_USE, "%s: \"%s\": wanted a text or a whole number%s", path, name,
                          may_be_repeated(name) ? ", or a list of them" : "");
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!add_value(name, json_array_get(value, i), words))
            return launch_say(KOLORUN_WRONG_USE, "%s: \"%s\": wanted a list of texts", path, name);
    return KOLORUN_GO_ON;
}

int config_read(const char *path, const struct argp_option *known, struct words *words)
{
    json_error_t error;
    json_t *whole = json_load_file(path, JSON_REJECT_DUPLICATES, &error), *value;
    const char *name;
    int code = KOLORUN_GO_ON;
    if (!whole && error.line < 0) return launch_say(KOLORUN_WRONG_USE, "--config-file %s: %s", path, error.text);
    if (!whole) return launch_say(KOLORUN_WRONG_USE, "%s line %d: %s", path, error.line, error.text);
    if (!json_is_object(whole))
        code = launch_say(KOLORUN_WRONG_USE, "%s: wanted a JSON object, as in {\"num-proc\": 4}", path);
    else json_object_foreach(whole, name, value)
        {
            const struct argp_option *option = find_option(known, name);
            if (code != KOLORUN_GO_ON) break;
            code = option
                       ? read_member(path, option, value, words)
                       : launch_say(KOLORUN_WRONG_USE, "%s: \"%s\" is not an option that a file can set", path, name);
        }
    json_decref(whole);
    return code;
}
