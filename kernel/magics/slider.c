/* %slider: a slider that sets a variable. See magics.h, widgets/widgets.h. */
#define _GNU_SOURCE
#include "help/help_page.h"
#include "magics/magics.h"
#include "run.h"
#include "session_worker.h"
#include "widgets/widgets.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ends {
    double values[3]; /* MIN, MAX, STEP */
    bool whole[3];
    bool has_step;
} ends;

static const char *const parts[] = {"MIN", "MAX", "STEP"};

static bool read_number(const char *word, double *value)
{
    char *end;
    *value = strtod(word, &end);
    return end != word && !*end && isfinite(*value);
}

/* As C takes it: 5 is whole, 5.0 and 5e3 are floating. */
static bool written_whole(const char *word)
{
    word += *word == '-' || *word == '+';
    return *word && !word[strspn(word, "0123456789")];
}

static result read_ends(const names *given, ends *into)
{
    into->has_step = given->count > 3;
    for (size_t i = 0; i + 1 < given->count; i++) {
        const char *word = given->items[i + 1];
        if (!read_number(word, &into->values[i]))
            return error_result("UsageError", "%%slider: %s must be a number, got '%s'", parts[i], word);
        into->whole[i] = written_whole(word);
    }
    double range = into->values[1] - into->values[0];
    if (range <= 0)
        return error_result("UsageError", "%%slider: MIN must be less than MAX, got %s and %s", given->items[1],
                            given->items[2]);
    if (!isfinite(range)) return error_result("UsageError", "%%slider: from MIN to MAX is too far for a double");
    if (into->has_step && (into->values[2] <= 0 || into->values[2] > range))
        return error_result("UsageError",
                            "%%slider: STEP must be above 0 and at most MAX - MIN, which is %.15g, got %s", range,
                            given->items[3]);
    return (result){0};
}

/* The sentence for a name that no variable may have; NULL: one may. */
static char *no_name(session *s, const char *name)
{
    size_t size = strlen(name);
    bool good = isalpha((unsigned char)*name) || *name == '_';
    for (const char *p = name; *p; p++) good &= isalnum((unsigned char)*p) || *p == '_';
    if (!good) return format_text("NAME must be the name of a variable, got '%s'", name);
    char *about = describe_keyword(name);
    bool keyword = about != NULL;
    free(about);
    if (keyword) return format_text("NAME must be the name of a variable, got '%s', a word of C's own", name);
    if (symbols_find_bytes(s->symbols, 'm', name, size)) return format_text("'%s' is a macro, not a variable", name);
    return NULL;
}

/* Why a slider cannot set that name of the session's; NULL: it can. */
static char *no_variable(const entity *e, const char *name)
{
    number n;
    if (e->kind == ENTITY_FUNCTION) return format_text("'%s' is a function, not a variable", name);
    if (e->kind != ENTITY_VARIABLE) return format_text("'%s' is a type, not a variable", name);
    if (e->is_const) return format_text("'%s' is const: no slider can change it", name);
    if (e->threads) return format_text("each thread has its own '%s': no slider can change all of them", name);
    if (number_of(e, &n)) return NULL;
    return format_text("'%s' is of type %s: a slider sets whole numbers and floating ones", name,
                       e->type ? e->type : "another kind");
}

static result refused(char *sentence)
{
    result r = error_result("UsageError", "%%slider: %s", sentence);
    free(sentence);
    return r;
}

/* `int NAME = MIN;`, which is part of the program. MIN is written anew, since 010 is 8 in C. */
static result make_variable(session *s, const char *name, double least, bool whole)
{
    char *code = format_text("%s %s = %.15g;", whole ? "int" : "double", name, least);
    if (strtod(strchr(code, '=') + 1, NULL) != least) {
        free(code);
        code = format_text("double %s = %.17g;", name, least);
    }
    unsigned paused = s->journal.paused;
    s->journal.paused = 0;
    result r = run_c(s, code, "%slider");
    s->journal.paused = paused;
    free(code);
    return r;
}

static bool all_whole(const ends *given)
{
    return given->whole[0] && given->whole[1] && (!given->has_step || given->whole[2]);
}

/* A whole number's slider has whole ends and steps: which of them has not, or NULL. */
static const char *not_whole(const ends *given)
{
    for (size_t i = 0; i < 2 + (size_t)given->has_step; i++) {
        if (given->values[i] != floor(given->values[i]) || fabs(given->values[i]) > SLIDER_EXACT) return parts[i];
    }
    return NULL;
}

static result place(session *s, slider *one, const ends *given, const number *n)
{
    const char *broken = n->floating ? NULL : not_whole(given);
    if (broken)
        return refused(format_text("'%s' is of type %s: %s must be a whole number of at most 2^53", one->name, n->type,
                                   broken));
    one->whole = !n->floating;
    one->least = given->values[0];
    one->most = given->values[1];
    one->step = given->has_step ? given->values[2] : one->whole ? 1 : (one->most - one->least) / 100;
    if (!number_fits(n, one))
        return refused(format_text("'%s' is of type %s, which does not go from %.15g to %.15g", one->name, n->type,
                                   one->least, one->most));
    if (!ensure_worker(s) || !number_read(s, n, &one->value))
        return refused(format_text("the value of '%s' cannot be read", one->name));
    if (!(one->value >= one->least && one->value <= one->most))
        return refused(format_text("'%s' is %.15g, outside of %.15g to %.15g: give it a value there first, or take "
                                   "another range",
                                   one->name, one->value, one->least, one->most));
    return (result){0};
}

/* A variable that is made must fit its type as one that is there must. */
static result check_new(const char *name, const ends *given)
{
    static const number plain_int = {NULL, "int", false, true, sizeof(int)};
    slider one = {.whole = true, .least = given->values[0], .most = given->values[1]};
    if (!all_whole(given) || number_fits(&plain_int, &one)) return (result){0};
    return refused(format_text("'%s' would be an int, which does not go from %.15g to %.15g", name, one.least,
                               one.most));
}

static result show(session *s, const names *given, const ends *range)
{
    const char *name = given->items[0];
    entity *e = symbols_find_bytes(s->symbols, 'o', name, strlen(name));
    result r = {0};
    if (!e) r = check_new(name, range);
    if (!e && !r.failed) r = make_variable(s, name, range->values[0], all_whole(range));
    if (r.failed) return r;
    if (!e) e = symbols_find_bytes(s->symbols, 'o', name, strlen(name));
    char *other = e ? no_variable(e, name) : format_text("no variable '%s' can be made", name);
    if (other) return refused(other);
    number n;
    slider one = {.name = copy_of(name)};
    number_of(e, &n);
    r = place(s, &one, range, &n);
    if (!r.failed) widgets_add(s, &one);
    slider_free(&one);
    return r;
}

result magic_slider(session *s, const char *words, const char *name)
{
    (void)name;
    names given = words_of(words);
    ends range = {0};
    char *wrong = NULL;
    result r = {0};
    if (given.count < 3 || given.count > 4) r = usage_result(s, "slider", false);
    else if ((wrong = no_name(s, given.items[0]))) r = refused(wrong);
    else r = read_ends(&given, &range);
    if (!r.failed) r = show(s, &given, &range);
    names_free(&given);
    return r;
}
