/* %time, %%time, %timeit, %%timeit: how long C takes. See magics.h. */
#define _GNU_SOURCE
#include "magics/magics.h"
#include "ranks/ranks.h"
#include "print.h"
#include "run.h"
#include "session_worker.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS_MOST = 1000, MORE = 2 }; /* numbers behind the runs' times: how many loops; was it a constant? */

/* 1.23e-06 as "1.23 µs", 90 as "1min 30s": as IPython writes times. */
static char *time_text(double seconds)
{
    static const char *const units[] = {"s", "ms", "µs", "ns"};
    static const double scale[] = {1, 1e3, 1e6, 1e9};
    if (seconds >= 60) {
        long whole = (long)seconds, hours = whole / 3600, minutes = whole / 60 % 60;
        return hours ? format_text("%ldh %ldmin %lds", hours, minutes, whole % 60)
                     : format_text("%ldmin %lds", minutes, whole % 60);
    }
    int scaled = seconds >= 1 ? 0 : seconds >= 1e-3 ? 1 : seconds >= 1e-6 ? 2 : 3;
    return format_text("%.3g %s", seconds * scale[scaled], units[scaled]);
}

/* ---- %time ---- */

static void print_times(session *s)
{
    const worker_process *w = &s->worker;
    char *user = time_text((double)w->user * 1e-9), *sys = time_text((double)w->system * 1e-9);
    char *both = time_text((double)(w->user + w->system) * 1e-9), *wall = time_text((double)w->wall * 1e-9);
    char *lines = format_text("CPU times: user %s, sys: %s, total: %s\nWall time: %s\n", user, sys, both, wall);
    print_out(s, lines);
    free(user), free(sys), free(both), free(wall), free(lines);
}

static result timed(session *s, const char *code, const char *name)
{
    s->worker.wall = s->worker.user = s->worker.system = 0;
    result r = run_stretches(s, code, name);
    if (!r.failed) print_times(s);
    return r;
}

result magic_time(session *s, const char *words, const char *name)
{
    if (!*words) return usage_result(s, "time", false);
    char *code = in_place(s, words, 0, NULL);
    result r = timed(s, code, name);
    free(code);
    return r;
}

/* Another cell magic below %%time: its work is in other processes, and compiling is part of it. */
static result timed_magic(session *s, const char *body, const char *name)
{
    double began = seconds_now();
    char *code = in_place(s, "", 0, body);
    result r = run_cell(s, code, name);
    free(code);
    if (r.failed) return r;
    char *took = time_text(seconds_now() - began), *line = format_text("Wall time: %s\n", took);
    print_out(s, line);
    free(took);
    free(line);
    return r;
}

result cell_time(session *s, const char *words, const char *body, const char *name)
{
    if (!body[strspn(body, " \t\r\n")] && !*words)
        return error_result("UsageError",
                            "%%%%time measures the cell below it, and the cell is empty; %%time STATEMENT "
                            "measures a line");
    const char *first = body + strspn(body, " \t\r\n");
    if (!*words && first[0] == '%' && first[1] == '%') return timed_magic(s, body, name);
    char *code = in_place(s, words, 0, body);
    result r = timed(s, code, name);
    free(code);
    return r;
}

/* ---- %timeit ---- */

typedef struct measuring {
    unsigned long number; /* loops a run; 0: to be found */
    long runs;
    bool quiet;
    const char *rest; /* what stands behind the options */
} measuring;

/* A number after -n or -r, which may follow at once or as the next word. False when there is none in range. */
static bool read_number(const char **at, long most, long *value)
{
    char *end;
    const char *digits = *at + 2 + strspn(*at + 2, " \t");
    *value = strtol(digits, &end, 10);
    bool whole = end > digits && (!*end || isspace((unsigned char)*end));
    *at = end;
    return whole && *value >= 1 && *value <= most;
}

/* `-z 3` is an option that is not known; `-z - 3` and `-z` are C. */
static bool is_option(const char *at)
{
    const char *next = at + 2 + strspn(at + 2, " \t");
    return next > at + 2 && (isalnum((unsigned char)*next) || *next == '_' || *next == '"');
}

/* -n or -r: `-n 3`, `-n3`; `-n x` and `-n -3` are wrong ones; `-number`, `-n[0]` and `-n - 3` are C. */
static bool takes_number(const char *at, char which)
{
    if (at[0] != '-' || at[1] != which) return false;
    const char *next = at + 2 + strspn(at + 2, " \t");
    next += *next == '-' && isdigit((unsigned char)next[1]);
    return !*next || isdigit((unsigned char)*next) || is_option(at);
}

static bool read_options(const char *words, measuring *m)
{
    *m = (measuring){.runs = 7};
    const char *at = words;
    for (bool good = true; good; at += strspn(at, " \t")) {
        long value = 0, ignored;
        if (takes_number(at, 'n')) {
            good = read_number(&at, 1000000000, &value);
            m->number = (unsigned long)value;
        } else if (takes_number(at, 'r')) {
            good = read_number(&at, RUNS_MOST, &m->runs);
        } else if (!strncmp(at, "-p", 2) && isdigit((unsigned char)at[2 + strspn(at + 2, " \t")])) {
            good = read_number(&at, 17, &ignored);
        } else if (at[0] == '-' && at[1] == 'q' && (!at[2] || isspace((unsigned char)at[2]))) {
            m->quiet = true;
            at += 2;
        } else if (*at == '-' && isalpha((unsigned char)at[1]) && is_option(at)) {
            return false;
        } else {
            break;
        }
        if (!good) return false;
    }
    m->rest = at;
    return true;
}

/* `sqrt(x);`, or the same without its `;`: its value can be stored. */
static bool is_expression(const cell *c, size_t at)
{
    static const char *const words[] = {"if",   "for",     "while",    "do",   "switch", "return",  "goto", "break",
                                        "case", "default", "continue", "else", "asm",    "__asm__", NULL};
    const piece *p = &c->pieces[at];
    const token *first = &c->tokens.items[p->first], *last = &c->tokens.items[p->last - 1];
    if (p->kind == PIECE_EXPRESSION) return true;
    bool plain = p->kind == PIECE_STATEMENT && first->kind != TOKEN_SHELL && token_is(c->source, last, ";") &&
                 !token_is(c->source, first, "{") && !token_is(c->source, first, ";") && p->last > p->first + 1;
    for (const char *const *word = words; *word && plain; word++) plain = !token_is(c->source, first, *word);
    bool labelled = p->last > p->first + 1 && token_is(c->source, first + 1, ":");
    bool directed = at > 0 && c->pieces[at - 1].kind == PIECE_DIRECTIVE; /* #pragma omp atomic */
    return plain && !labelled && !directed;
}

/* Bytes [begin, end) of the body at their line and column. */
static void add_bytes_at(text *code, const cell *c, size_t begin, size_t end, const char *place)
{
    text_addf(code, "\n%s%*s%.*s\n", place, (int)(begin - line_start(c->source, begin)), "", (int)(end - begin),
              c->source + begin);
}

/* Does it change a variable? Then it does something, however well known its value is. */
static bool sets(const cell *c, const piece *p)
{
    static const char *const signs[] = {
        "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "<<=", ">>=", "--", NULL};
    bool found = false;
    for (size_t i = p->first; i < p->last; i++) {
        for (const char *const *sign = signs; *sign; sign++) found |= token_is(c->source, &c->tokens.items[i], *sign);
    }
    return found;
}

static void add_piece(text *code, const cell *c, size_t at, const char *place)
{
    const piece *p = &c->pieces[at];
    const token *last = &c->tokens.items[p->last - 1];
    size_t begin = c->tokens.items[p->first].begin, end = last->end;
    if (!is_expression(c, at)) {
        text_add(code, "kolo_known = 0;\n");
        add_bytes_at(code, c, begin, end, place);
        return;
    }
    if (token_is(c->source, last, ";")) end = last->begin;
    text_add(code, "{ __auto_type kolo_value = __builtin_choose_expr(__builtin_types_compatible_p(__typeof__((");
    add_bytes_at(code, c, begin, end, place);
    text_add(code, ")), void), ((void)(");
    add_bytes_at(code, c, begin, end, place);
    text_add(code, "), kolo_runs[0]), (");
    add_bytes_at(code, c, begin, end, place);
    text_add(code, sets(c, p) ? "));\nkolo_known = 0;\n" : "));\nkolo_known &= __builtin_constant_p(kolo_value);\n");
    text_add(code, "__asm__ volatile(\"\" : : \"m\"(kolo_value) : \"memory\"); }\n");
}

/* The variables of the body's own hold what it has computed: that is stored. */
static void store_variables(text *code, const cell *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->pieces[i].kind != PIECE_DECLARATION) continue;
        declaration taken = declaration_of(c, &c->pieces[i]);
        for (size_t k = 0; k < taken.count && !taken.is_typedef && !taken.is_extern; k++) {
            const declarator *one = &taken.declarators[k];
            if (one->is_function || one->name == none) continue;
            const token *name = &c->tokens.items[one->name];
            text_addf(code, "__asm__ volatile(\"\" : : \"m\"(%.*s) : \"memory\");\n", (int)(name->end - name->begin),
                      c->source + name->begin);
        }
        declaration_free(&taken);
    }
}

/* `line`: where the body begins in the cell. */
static void add_kept(text *code, const char *body, unsigned line, const char *name)
{
    cell c = cell_split(body);
    for (size_t i = 0; i < c.count; i++) {
        char *place = format_text("#line %u \"%s\"\n", line + c.tokens.items[c.pieces[i].first].line - 1, name);
        add_piece(code, &c, i, place);
        free(place);
    }
    store_variables(code, &c);
    cell_free(&c);
}

/* The measured code, which begins at that line, between what measures it; the setup stands in the line above. A memory
 * clobber keeps the compiler from doing the work once for all loops; storing what it computes (`keep`) keeps it from
 * leaving the work out. */
static char *loops_of(const measuring *m, const char *setup, const char *body, unsigned line, const char *name,
                      bool keep)
{
    text code = {0};
    text_addf(&code,
              "{\n#line %u \"%s\"\n%s\n;\nstatic double kolo_runs[%ld];\nint kolo_known = %d;\nunsigned long "
              "kolo_number = %luul;\n",
              line > 1 ? line - 1 : 1, name, setup, m->runs + MORE, keep, m->number ? m->number : 1);
    text_addf(&code, "for (int kolo_run = %d; kolo_run < %ld;) {\ndouble kolo_start = kolo_cell_clock();\n",
              m->number ? 0 : -1, m->runs);
    text_add(&code, "for (unsigned long kolo_loop = kolo_number; kolo_loop; kolo_loop--) {\n"
                    "__asm__ volatile(\"\" : : : \"memory\");\n{");
    if (keep) add_kept(&code, body, line, name);
    else text_addf(&code, "\n#line %u \"%s\"\n%s\n;", line, name, body);
    text_add(&code, "}\n}\ndouble kolo_took = kolo_cell_clock() - kolo_start;\n"
                    "if (kolo_run >= 0) kolo_runs[kolo_run++] = kolo_took;\n"
                    "else if (kolo_took >= 0.2 || kolo_number >= 1000000000ul) kolo_run = 0;\n"
                    "else kolo_number *= 10;\n}\n");
    text_addf(&code,
              "kolo_runs[%ld] = (double)kolo_number;\nkolo_runs[%ld] = kolo_known;\nkolo_cell_value(kolo_runs, sizeof "
              "kolo_runs);\n}\n",
              m->runs, m->runs + 1);
    return text_take(&code);
}

static char *with_commas(unsigned long value)
{
    char *digits = format_text("%lu", value);
    text out = {0};
    for (size_t i = 0, size = strlen(digits); i < size; i++)
        text_addf(&out, "%s%c", i && (size - i) % 3 == 0 ? "," : "", digits[i]);
    free(digits);
    return text_take(&out);
}

static void print_runs(session *s, const double *runs, long count)
{
    double number = runs[count], sum = 0, squares = 0, best = INFINITY, worst = 0;
    for (long i = 0; i < count; i++) {
        double one = runs[i] / number;
        sum += one;
        if (one < best) best = one;
        if (one > worst) worst = one;
    }
    double mean = sum / (double)count;
    for (long i = 0; i < count; i++) squares += (runs[i] / number - mean) * (runs[i] / number - mean);
    char *average = time_text(mean), *deviation = time_text(sqrt(squares / (double)count));
    char *loops = with_commas((unsigned long)number);
    char *line = format_text("%s ± %s per loop (mean ± std. dev. of %ld run%s, %s loop%s each)\n", average, deviation,
                             count, count == 1 ? "" : "s", loops, number > 1 ? "s" : "");
    char *warning = format_text("The slowest run took %.2f times longer than the fastest. This could mean that an "
                                "intermediate result is being cached.\n",
                                worst / best);
    if (runs[count + 1])
        print_out(s, "The compiler has computed this beforehand: variables in the place of its constants "
                     "show what it costs.\n");
    if (worst > 4 * best && best > 0 && worst > 1e-6) print_out(s, warning);
    print_out(s, line);
    free(average), free(deviation), free(loops), free(line), free(warning);
}

/* Brackets, comments and strings that do not end where the code does would take in what measures it. */
static bool is_open(const char *code)
{
    cell c = cell_split(code);
    bool open = c.unbalanced || c.stray || c.tokens.open_comment || c.tokens.open_string;
    cell_free(&c);
    return open;
}

/* The compiler's word about such code. */
static result refuse_open(session *s, const char *code, const char *name)
{
    result r = run_c(s, code, name);
    return r.failed ? r : error_result("CompileError", "the brackets of what is measured do not match");
}

/* Compiles the measured code with what it computes stored, and where that cannot be, without. */
static result measure(session *s, const measuring *m, const char *setup, const char *body, unsigned line,
                      const char *shown, const char *name)
{
    if (ranks_chosen(s))
        return error_result("UsageError",
                            "%%timeit measures in this process alone: in a %%%%ranks cell, %%time says how "
                            "long the ranks took");
    result r = {.failed = true};
    for (int keep = 1; keep >= 0 && r.failed && (keep || !strcmp(r.name, "CompileError")); keep--) {
        char *code = loops_of(m, setup, body, line, name, keep);
        result_free(&r);
        r = run_shown(s, code, shown, name);
        free(code);
    }
    if (r.failed) return r;
    double *runs = need_zeroed((size_t)(m->runs + MORE) * sizeof *runs);
    memory worker = worker_memory(s);
    bool there = s->worker.last.size == (uint64_t)(m->runs + MORE) * sizeof *runs &&
                 worker.read(worker.closure, s->worker.last.address, (size_t)(m->runs + MORE) * sizeof *runs, runs);
    if (there && !m->quiet) print_runs(s, runs, m->runs);
    free(runs);
    return there ? r : error_result("TimeError", "the code left its loop before it was measured");
}

result magic_timeit(session *s, const char *words, const char *name)
{
    measuring m;
    if (!read_options(words, &m) || !*m.rest) return usage_result(s, "timeit", false);
    char *shown = in_place(s, words, (size_t)(m.rest - words), NULL), *body = shown;
    while (*body == '\n') body++;
    result r = is_open(body) ? refuse_open(s, shown, name) : measure(s, &m, "", body, s->word_line, shown, name);
    free(shown);
    return r;
}

result cell_timeit(session *s, const char *words, const char *body, const char *name)
{
    measuring m;
    const char *first = body + strspn(body, " \t\r\n");
    if (!read_options(words, &m) || !*first) return usage_result(s, "timeit", true);
    if (first[0] == '%' && first[1] == '%')
        return error_result("UsageError", "%%%%timeit measures C; %%%%time can stand above another magic's line");
    size_t offset = (size_t)(m.rest - words);
    char *first_line = in_place(s, words, offset, NULL), *below = in_place(s, "", 0, body),
         *shown = in_place(s, words, offset, body);
    const char *setup = first_line + strspn(first_line, "\n");
    result r = is_open(m.rest) ? refuse_open(s, first_line, name)
               : is_open(body) ? refuse_open(s, below, name)
                               : measure(s, &m, setup, body, s->word_line + 1, shown, name);
    free(first_line);
    free(below);
    free(shown);
    return r;
}
