/* kolo-what-if: kolo_what_if() for a shell, and for the kernel's %what_if.
 *
 *     kolo-what-if TRACE [OPTION=VALUE …]
 */
#include <kolo.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "whatif/options.h"

typedef enum kind { LIST, TEXT, COUNT, NUMBER, ALGORITHM, SWITCH, COMPRESSION, PACE } kind;

enum { WRONG_USE = 2 }; /* the exit code of wrong words */

static kolo_what_if_args args;
static char written[1024]; /* ".batch = 0, …": options that are given, also as 0 */

static const struct option {
    const char *name;
    kind kind;
    void *member;
    const char *member_name, *help;
} options[] = {
#define WORD(name, kind, member, help) {name, kind, &args.member, #member, help},
    KOLO_WHAT_IF_WORDS(WORD)
#undef WORD
};
#define OPTIONS (sizeof options / sizeof *options)

/* ---------------------------------------------------------------- values */

static bool read_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end > text && !*end && *number >= 0 && *number <= 1e15;
}

static bool read_count(const char *text, char ending, const char **rest, int *count)
{
    char *end;
    long value = strtol(text, &end, 10);
    bool fine = *text >= '0' && *text <= '9' && value <= 1000000000 && (*end == ending || !*end);
    if (fine) *count = (int)value;
    *rest = *end ? end + 1 : end;
    return fine && (!*end || **rest);
}

static bool read_list(const char *text, int list[KOLO_WHAT_IF_MAX])
{
    for (int i = 0; i < KOLO_WHAT_IF_MAX; i++) {
        if (!read_count(text, ',', &text, &list[i])) return false;
        if (list[i] == 0 && (i > 0 || *text)) return false; /* it would end the list */
        if (!*text) return true;
    }
    return false;
}

/* The number of the word in the list, which ends with NULL; -1: it is none of them. */
static int read_word(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) return i;
    return -1;
}

static bool read_algorithm(const char *text, kolo_algorithm *algorithm)
{
    for (int i = 0; strcmp(kolo_algorithm_name((kolo_algorithm)i), "?") != 0; i++) {
        if (strcmp(kolo_algorithm_name((kolo_algorithm)i), text) != 0) continue;
        *algorithm = (kolo_algorithm)i;
        return true;
    }
    return false;
}

static bool read_text(const char *text, const char **member)
{
    *member = text;
    return *text != 0;
}

static bool read_value(const struct option *option, const char *text)
{
    static const char *const switches[] = {"off", "on", NULL}, *const compressions[] = {"none", "fp16", "bf16", NULL};
    static const char *const paces[] = {"recorded", "same", NULL};
    const char *rest;
    int word = 0;
    switch (option->kind) {
    case LIST: return read_list(text, option->member);
    case TEXT: return read_text(text, option->member);
    case COUNT: return read_count(text, 0, &rest, option->member);
    case NUMBER: return read_number(text, option->member);
    case ALGORITHM: return read_algorithm(text, option->member);
    case SWITCH:
        word = read_word(text, switches);
        *(int *)option->member = word == 1 ? 1 : KOLO_NONE;
        return word >= 0;
    case COMPRESSION:
        word = read_word(text, compressions);
        *(kolo_compression *)option->member = (kolo_compression)(word > 0 ? word : 0);
        return word >= 0;
    case PACE:
        word = read_word(text, paces);
        *(bool *)option->member = word == 1;
        return word >= 0;
    }
    return false;
}

/* ---------------------------------------------------------------- words */

static const struct option *find_option(const char *name, size_t size)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strlen(options[i].name) == size && memcmp(options[i].name, name, size) == 0) return &options[i];
    return NULL;
}

static int refuse_word(const char *word)
{
    fputs("kolo-what-if: wanted", stderr);
    for (size_t i = 0; i < OPTIONS; i++) fprintf(stderr, "%s %s=", i ? "," : "", options[i].name);
    fprintf(stderr, ", got \"%.80s\"\n", word);
    return WRONG_USE;
}

/* A word without a '=' is the recording. Returns an exit code; 0: it was read. */
static int read_argument(const char *word)
{
    const char *equals = strchr(word, '=');
    const struct option *option = equals ? find_option(word, (size_t)(equals - word)) : NULL;
    if (!option && !args.trace && (!equals || strchr(word, '/') || strchr(word, '.'))) {
        args.trace = word;
        return 0;
    }
    if (!option) return refuse_word(word);
    if (!read_value(option, equals + 1)) {
        fprintf(stderr, "kolo-what-if: %s=: wanted %s, got \"%.80s\"\n", option->name, option->help, equals + 1);
        return WRONG_USE;
    }
    size_t used = strlen(written);
    snprintf(written + used, sizeof written - used, ".%s = 0, ", option->member_name);
    return 0;
}

static int say_help(FILE *out)
{
    fputs("Usage: kolo-what-if TRACE [OPTION=VALUE …]\n"
          "Replays a recorded training step on other machines. TRACE is a timeline: kolorun --timeline TRACE records\n"
          "one, and so does KOLO_TIMELINE=TRACE. Every answer is modelled, none is measured.\n\n",
          out);
    for (size_t i = 0; i < OPTIONS; i++) fprintf(out, "  %-13s %s\n", options[i].name, options[i].help);
    return out == stdout ? 0 : WRONG_USE;
}

int main(int argc, char **argv)
{
    if (argc < 2) return say_help(stderr);
    if (strcmp(argv[1], "--help") == 0) return say_help(stdout);
    for (int i = 1; i < argc; i++) {
        int code = read_argument(argv[i]);
        if (code) return code;
    }
    if (!args.trace) return say_help(stderr);
    args._ = written;
    kolo_init(NULL, NULL);
    kolo_what_if_at(&args, (kolo_here){0});
    return kolo_finish();
}
