/* The error of a cell that did not return: the fault, its line and cell, and the calls that led to it. Read
 * first: report.h, worker/protocol.h. */
#define _GNU_SOURCE
#include "report.h"
#include "colours.h"
#include "sources.h"
#include "worker/checks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    char *function, *file; /* "f", "In[3]" */
    unsigned line;
} place;

static void place_free(place *p)
{
    free(p->function);
    free(p->file);
    *p = (place){0};
}

/* The file of %run that this path ends in, as its name was given; NULL: it is none. */
static const char *program_file(const session *s, const char *path)
{
    size_t size = strlen(path);
    for (size_t i = s->source_count; i-- > 0;) {
        const char *name = s->sources[i].name;
        size_t own = strlen(name);
        bool ends = own <= size && !strcmp(path + size - own, name) && (own == size || path[size - own - 1] == '/');
        if (ends && strncmp(name, "In[", 3)) return name;
    }
    return NULL;
}

/* The place that two lines of addr2line's tell: the function, and "/folder/file:line". */
static place place_told(const session *s, const char *found)
{
    place p = {0};
    size_t name_size = strcspn(found, "\n");
    char *where = found[name_size] ? copy_of_bytes(found + name_size + 1, strcspn(found + name_size + 1, "\n")) : NULL;
    char *in = where ? strrchr(where, '/') : NULL;
    char *colon = in ? strrchr(in, ':') : NULL;
    unsigned line = colon ? (unsigned)strtoul(colon + 1, NULL, 10) : 0; /* "?" where none is known */
    if (colon) *colon = 0;
    const char *file = !line                                                         ? NULL
                       : !strncmp(in + 1, "In[", 3) || is_header(s->symbols, in + 1) ? in + 1
                                                                                     : program_file(s, where);
    if (file) p = (place){.function = copy_of_bytes(found, strcspn(found, "\n$")), .file = copy_of(file), .line = line};
    free(where);
    return p;
}

/* Asks addr2line where in a cell's source an offset of its object is. Where it knows no line there, and `before` is
 * true, the nearest place before it counts: the check at a function's end has no line of its own. */
static place locate(const session *s, const char *object, const char *offset, bool before)
{
    enum { STEP = 4, FARTHEST = 60 };
    unsigned long at = strtoul(offset, NULL, 16), last = before ? FARTHEST : 0;
    place p = {0};
    names arguments = {0};
    char *log = format_text("%s/frames.log", s->folder);
    names_add_words(&arguments, (const char *const[]){"addr2line", "-f", "-e", object, NULL});
    for (unsigned long back = 0; back <= last && back <= at; back += STEP) {
        char *address = format_text("0x%lx", at - back);
        names_add(&arguments, address);
        free(address);
    }
    char *found = output_of_tool(names_arguments(&arguments), log);
    for (const char *one = found; one && *one && !p.file;) {
        p = place_told(s, one);
        for (int i = 0; i < 2; i++) one += strcspn(one, "\n") + (one[strcspn(one, "\n")] == '\n');
    }
    free(found);
    free(log);
    names_free(&arguments);
    return p;
}

/* The whole path of a frame's object, which a rank (ranks/rank.c) names without its folder. NULL: no cell's. */
static char *object_of(const session *s, const char *name)
{
    if (!strchr(name, '/')) return format_text("%s/%s", s->folder, name);
    return strncmp(name, s->folder, strlen(s->folder)) ? NULL : copy_of(name);
}

/* The calls that are repeated when a stack has overflown. */
typedef struct cycle {
    names places; /* the frames that have been seen: "object+offset" */
    names functions; /* of those, in the same order; "" where it is not known */
    names repeated; /* functions that have been seen at the same place twice */
} cycle;

static void cycle_free(cycle *c)
{
    names_free(&c->places);
    names_free(&c->functions);
    names_free(&c->repeated);
}

/* Has this frame been seen before? */
static bool seen_before(cycle *c, const char *object, const char *offset)
{
    char *key = format_text("%s+%s", object, offset);
    size_t i = 0;
    while (i < c->places.count && strcmp(c->places.items[i], key)) i++;
    bool seen = i < c->places.count;
    if (!seen) names_add(&c->places, key);
    else if (*c->functions.items[i] && !names_have(&c->repeated, c->functions.items[i]))
        names_add(&c->repeated, c->functions.items[i]);
    free(key);
    return seen;
}

/* The frames of the cells, as lines of a backtrace; the innermost one's place to `first`. `around`: of a stack that has
 * overflown, whose lines are shown once; else NULL. */
static void add_backtrace(session *s, const char *frames, size_t size, text *into, place *first, cycle *around)
{
    unsigned shown = 0;
    char *last = copy_of("");
    frame f;
    for (const char *at = frames, *end = frames + size; shown < 16 && frame_next(&at, end, &f);) {
        char *object = *f.object == MARK_CALL ? NULL : object_of(s, f.object);
        if (!object || (around && seen_before(around, object, f.offset))) {
            free(object);
            continue;
        }
        place p = locate(s, object, f.offset, !first->file);
        free(object);
        if (around) names_add(&around->functions, p.function ? p.function : "");
        char *code = p.file ? source_line_of(s, p.file, p.line) : NULL;
        bool whole = p.function && !strncmp(p.function, "In_", 3);
        char *line = p.file ? format_text("  %s:%u%s%s%s", p.file, p.line, whole ? "" : " in ", whole ? "" : p.function,
                                          whole ? "" : "()")
                            : NULL;
        if (line && strcmp(line, last)) {
            text_addf(into, "\n" BOLD "%s" PLAIN, line);
            if (code && *code) text_addf(into, "\n    %s", code + strspn(code, " \t"));
            shown++;
            free(last);
            last = copy_of(line);
        }
        if (p.file && !first->file) {
            *first = p;
            p = (place){0};
        }
        free(line);
        free(code);
        place_free(&p);
    }
    free(last);
}

static const char *signal_sentence(int number)
{
    switch (number) {
    case SIGSEGV: return "Segmentation fault";
    case SIGBUS: return "Bus error";
    case SIGFPE: return "Division by zero";
    case SIGILL: return "Illegal instruction";
    case SIGABRT: return "Aborted";
    case SIGKILL: return "Killed";
    case SIGTRAP: return "Trap";
    default: return strsignal(number);
    }
}

/* " at In[3]:2, on another thread", or "". */
static char *place_sentence(const exit_status *e, const place *p)
{
    const char *thread = e->thread ? ", on another thread than the cell's own" : "";
    return p->file ? format_text(" at %s:%u%s", p->file, p->line, thread) : copy_of(thread);
}

static void name_exit(const exit_status *e, result *r, const place *p)
{
    int status = e->status, code = e->code;
    char *where = place_sentence(e, p);
    if (status == STATUS_UNDEFINED || status == STATUS_REFUSED) {
        free(where);
        return;
    }
    if (e->reason) {
        r->name = copy_of("ResourceError");
        r->value = format_text("%s%s%s", e->reason, p->file ? "," : "", where);
    } else if (status == STATUS_EXIT) {
        r->name = copy_of("Exit");
        r->value = format_text("exit(%d) was called%s", code, where);
    } else if (status == STATUS_GONE) {
        r->name = copy_of("Exit");
        r->value =
            format_text("the process that runs the cells ended with exit code %d, or was replaced by another program",
                        code);
    } else if (status == STATUS_INTERRUPTED) {
        r->name = copy_of("KeyboardInterrupt");
        r->value = format_text("interrupted%s", where);
    } else if (status == STATUS_SIGNAL && e->before && !p->file) {
        r->name = copy_of(signal_sentence(code));
        r->value = format_text("%s before the cell ran: an earlier cell has damaged the memory", r->name);
    } else if (status == STATUS_SIGNAL) {
        r->name = copy_of(signal_sentence(code));
        bool address = (code == SIGSEGV || code == SIGBUS) && e->frames;
        r->value = address ? format_text("%s%s, address 0x%lx", signal_sentence(code), where, (unsigned long)e->address)
                           : format_text("%s%s", signal_sentence(code), where);
    } else {
        r->name = copy_of("Error");
        r->value = format_text("the cell did not return%s", where);
    }
    free(where);
}

/* 523712: "about 524,000". The count is no more exact, since unwinding misses some frames. */
static char *about(uint64_t count)
{
    uint64_t step = 1;
    while (count / step >= 1000) step *= 10;
    uint64_t round = (count + step / 2) / step * step;
    if (round >= 1000000) return format_text("about %.3g million", (double)round / 1e6);
    if (round < 1000) return format_text("%s%lu", round < 100 ? "" : "about ", (unsigned long)round);
    return format_text("about %lu,%03lu", (unsigned long)(round / 1000), (unsigned long)(round % 1000));
}

/* "even() and odd() called each other about 262,000 times". */
static char *recursion_sentence(const names *repeated, const char *innermost, uint64_t calls)
{
    text said = {0};
    if (!repeated->count) {
        text_addf(&said, "the variables of %s%s need more space than is left on the stack",
                  innermost ? innermost : "the cell", innermost ? "()" : "");
        return text_take(&said);
    }
    for (size_t i = 0; i < repeated->count; i++) {
        const char *between = !i ? "" : i + 1 < repeated->count ? ", " : " and ";
        text_addf(&said, "%s%s()", between, repeated->items[i]);
    }
    char *times = about(calls / repeated->count);
    text_addf(&said, " called %s %s times", repeated->count > 1 ? "each other" : "itself", times);
    free(times);
    return text_take(&said);
}

static void name_overflow(const exit_status *e, result *r, const place *p, const names *repeated)
{
    bool whole = !p->function || !strncmp(p->function, "In_", 3);
    char *where = place_sentence(e, p), *why = recursion_sentence(repeated, whole ? NULL : p->function, e->address);
    r->name = copy_of("Stack overflow");
    r->value = format_text("%s%s: %s", r->name, where, why);
    free(where);
    free(why);
}

/* Why a function's link name led to a trap. The caller frees. */
static char *trap_sentence(const session *s, const char *link)
{
    const char *type = "", *name = symbols_name_of(s->symbols, link, &type);
    char *bare = name ? copy_of(name) : copy_of_bytes(link, strcspn(link, "$"));
    const entity *e = symbols_find_bytes(s->symbols, 'o', bare, strlen(bare));
    bool function = e && e->kind == ENTITY_FUNCTION && e->link;
    char *sentence;
    if (function && !strcmp(e->link, link) && e->unfit) {
        sentence = format_text("%s() cannot be called as it is: %s", bare, e->unfit);
    } else if (function && strcmp(e->link, link) != 0) {
        sentence =
            format_text("the signature of %s() has changed: this pointer to it is of the time when it was '%s'; it is "
                        "'%s' now",
                        bare, type, e->type);
    } else {
        sentence = format_text("%s() is declared, and nothing defines it", bare);
    }
    free(bare);
    return sentence;
}

static void name_missing(const session *s, const exit_status *e, result *r, const place *p)
{
    char *sentence = trap_sentence(s, e->frames), *where = place_sentence(e, p);
    r->name = copy_of(strstr(sentence, "nothing defines it") ? "UndefinedFunction" : "UnfitFunction");
    r->value = *where ? format_text("%s; it was called%s", sentence, where) : copy_of(sentence);
    free(where);
    free(sentence);
}

/* The part of the words before the next '|', which is put an end to; the next one begins behind it. */
static char *next_part(char **at)
{
    char *part = *at, *bar = strchr(part, '|');
    if (bar) *bar = 0;
    *at = bar ? bar + 1 : part + strlen(part);
    return part;
}

/* The name that stands in that line and column; NULL: none does. The caller frees. */
static char *name_at(session *s, const char *file, unsigned line, unsigned column)
{
    char *code = source_line_of(s, file, line), *name = NULL;
    if (code && column && column <= strlen(code)) {
        const char *at = code + column - 1;
        size_t size = word_size(at);
        while (size && (at[size] == '.' || !strncmp(at + size, "->", 2))) { /* a member's array */
            size += at[size] == '.' ? 1 : 2;
            size += word_size(at + size);
        }
        if (size && !(*at >= '0' && *at <= '9')) name = copy_of_bytes(at, size);
    }
    free(code);
    return name;
}

/* "index 7 is outside of 'a', whose type is int[5]": checks.h. */
static char *index_sentence(session *s, const char *words)
{
    char *copy = copy_of(words + 1), *at = copy, *index = next_part(&at), *type = next_part(&at);
    char *file = next_part(&at), *line = next_part(&at);
    char *name = name_at(s, file, (unsigned)strtoul(line, NULL, 10), (unsigned)strtoul(at, NULL, 10));
    char *plain = strstr(type, "(aka '"); /* "'row' (aka 'int[5]')" */
    if (plain) type = plain + 5;
    type[1 + strcspn(type + (*type != 0), "'")] = 0; /* it comes in quotes */
    const char *open = strchr(type, '[');
    unsigned long count = open ? strtoul(open + 1, NULL, 10) : 0;
    char *said =
        format_text("index %s is outside of %s%s%s (%s), which has the elements [0] to [%lu]", index,
                    name ? "'" : "its array", name ? name : "", name ? "'" : "", type + 1, count - (count > 0));
    free(name);
    free(copy);
    return said;
}

/* The sentence in the words of checks.h, with the place of the call that it is about. */
static char *call_sentence(session *s, const char *words)
{
    char *copy = copy_of(words + 1), *at = copy, *sentence = next_part(&at), *offset = next_part(&at);
    char *object = *at ? object_of(s, at) : NULL;
    place p = object ? locate(s, object, offset, false) : (place){0};
    const char *mark = strstr(sentence, MARK_PLACE);
    bool null = strstr(sentence, " gave NULL") != NULL;
    int before = mark ? (int)(mark - sentence) : (int)strlen(sentence);
    const char *behind = mark ? mark + 1 : "";
    char *said = p.file ? format_text("%.*s%s %s:%u%s%s", before, sentence, null ? " at" : " (asked for at", p.file,
                                      p.line, null ? "" : ")", behind)
                        : format_text("%.*s%s", before, sentence, behind);
    place_free(&p);
    free(object);
    free(copy);
    return said;
}

/* A fault at NULL: adds the last call that gave NULL, where it is known. */
static void add_null_call(session *s, const exit_status *e, size_t before, text *into)
{
    const char *at = e->frames + before, *end = e->frames + e->frames_size;
    for (; e->frames && at < end; at += strlen(at) + 1) {
        if (*at != MARK_CALL) continue;
        char *said = call_sentence(s, at);
        text_addf(into, "\nThe last call that gave NULL: %s", said);
        free(said);
        return;
    }
}

static void name_refused(session *s, const exit_status *e, result *r, const place *p)
{
    char *where = place_sentence(e, p);
    char *said = *e->frames == MARK_INDEX  ? index_sentence(s, e->frames)
                 : *e->frames == MARK_CALL ? call_sentence(s, e->frames)
                                           : copy_of(e->frames);
    r->name = copy_of("Error");
    r->value = format_text("%s%s%s", said, p->file ? "," : "", where);
    free(said);
    free(where);
}

result exit_status_result(session *s, const exit_status *e)
{
    result r = {.failed = true};
    text trace = {0};
    place first = {0};
    cycle around = {0};
    bool text_first = e->status == STATUS_UNDEFINED || e->status == STATUS_REFUSED;
    size_t before = text_first && e->frames && e->frames_size ? strnlen(e->frames, e->frames_size) + 1 : 0;
    if (e->frames && e->frames_size >= before) {
        add_backtrace(s, e->frames + before, e->frames_size - before, &trace, &first,
                      e->status == STATUS_OVERFLOW ? &around : NULL);
    }
    if (e->status == STATUS_OVERFLOW) name_overflow(e, &r, &first, &around.repeated);
    else name_exit(e, &r, &first);
    cycle_free(&around);
    if (before && e->status == STATUS_UNDEFINED) name_missing(s, e, &r, &first);
    if (before && e->status == STATUS_REFUSED) name_refused(s, e, &r, &first);
    if (!r.value) {
        r.name = copy_of("Error");
        r.value = copy_of("the cell did not return, and its process has not said why");
    }
    text_addf(&r.traceback, BOLD "%s" PLAIN, r.value);
    if (trace.size) text_add(&r.traceback, trace.data);
    add_null_call(s, e, before, &r.traceback);
    place_free(&first);
    text_free(&trace);
    return r;
}

char *place_of_frames(session *s, const char *frames, size_t size)
{
    text trace = {0};
    place first = {0};
    add_backtrace(s, frames, size, &trace, &first, NULL);
    char *found = first.file ? format_text("%s:%u", first.file, first.line) : NULL;
    text_free(&trace);
    place_free(&first);
    return found;
}

result load_failure(const char *why)
{
    const char *symbol = strstr(why, "undefined symbol: ");
    const char *reason = strstr(why, ".so: "); /* after the path */
    if (strstr(why, "cannot map zero-fill pages"))
        return error_result("LinkError", "the variables that the cell defines need more memory than there is");
    if (!symbol) return error_result("LinkError", "the cell cannot be loaded: %s", reason ? reason + 5 : why);
    symbol += strlen("undefined symbol: ");
    int size = (int)strcspn(symbol, " ,\n");
    return error_result("LinkError",
                        "'%.*s' is declared but not defined, neither in a cell nor in a loaded library "
                        "(%%ldflags -lNAME loads one)",
                        size, symbol);
}
