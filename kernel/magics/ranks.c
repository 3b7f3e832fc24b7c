/* %ranks and %%ranks: cells on the ranks of an MPI job. See magics.h, ranks/ranks.h. */
#define _GNU_SOURCE
#include "ranks/ranks.h"
#include "magics/magics.h"
#include "print.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4096 }; /* ranks that one can mean to start from a notebook */

/* "0-3 on host1, 4-7 on host2" */
static char *hosts_of(const ranks *r)
{
    text list = {0};
    bool *told = need_zeroed((size_t)r->count), *which = need_zeroed((size_t)r->count);
    for (int i = 0; i < r->count; i++) {
        if (told[i]) continue;
        for (int k = 0; k < r->count; k++) {
            which[k] = !strcmp(r->peers[i].host ? r->peers[i].host : "?", r->peers[k].host ? r->peers[k].host : "?");
            told[k] |= which[k];
        }
        char *listed = ranks_listed(which, r->count);
        text_addf(&list, "%s%s on %s", list.size ? ", " : "", listed, r->peers[i].host ? r->peers[i].host : "?");
        free(listed);
    }
    free(told);
    free(which);
    return text_take(&list);
}

static void say_ranks(session *s, double took)
{
    const ranks *r = s->ranks;
    char *hosts = hosts_of(r), *time = took > 0 ? format_text(" started in %.1f s", took) : copy_of("");
    char *line = format_text("%d %s%s: %s\n", r->count, r->count == 1 ? "rank" : "ranks", time, hosts);
    print_out(s, line);
    free(hosts);
    free(time);
    free(line);
}

static result show_ranks(session *s)
{
    result why = {0};
    if (ranks_live(s) && ranks_failed(s->ranks, &why)) return why;
    if (ranks_live(s)) say_ranks(s, 0);
    else print_out(s, "no ranks: %ranks 8 starts eight\n");
    return (result){0};
}

static bool read_count(const char *word, int *count, result *r)
{
    char *end;
    errno = 0;
    long value = strtol(word, &end, 10);
    if (end == word || *end || errno || value < 0 || value > MOST) {
        *r = error_result("UsageError", "%%ranks: wanted a number of ranks from 0 to %d, got '%s'", (int)MOST, word);
        return false;
    }
    *count = (int)value;
    return true;
}

/* More than come up within their time. Of other hosts only kolorun knows what they can do. */
static bool too_many_for_here(int count, const names *given, result *r)
{
    enum { A_CORE = 32 };
    long cores = sysconf(_SC_NPROCESSORS_ONLN), most = (cores > 0 ? cores : 1) * A_CORE;
    if (count <= most || given->count > 1) return false;
    *r = error_result("UsageError",
                      "%%ranks: %d ranks are too many for the %ld cores of this machine: %ld can be started here",
                      count, cores, most);
    return true;
}

result magic_ranks(session *s, const char *words, const char *name)
{
    (void)name;
    names given = words_of(words);
    result r = {0};
    int count = 0;
    if (!given.count) {
        r = show_ranks(s);
    } else if (!read_count(given.items[0], &count, &r) || too_many_for_here(count, &given, &r)) {
        /* said */
    } else if (given.count > 1 && *given.items[1] != '-') {
        r = usage_result(s, "ranks", false);
    } else if (count == 0) {
        print_out(s, ranks_live(s) ? "the ranks have ended\n" : "there are no ranks\n");
        ranks_end(s);
    } else {
        names options = {given.items + 1, given.count - 1, 0};
        double began = seconds_now();
        r = ranks_start(s, count, &options);
        s->ranks_initialised = false;
        if (!r.failed) say_ranks(s, seconds_now() - began);
    }
    names_free(&given);
    return r;
}

/* The list of ranks is the first word when it begins as one, `0,2` or `[0, 2]`; the rest of the line belongs to the
 * cell. The list without blanks and closed brackets; the caller frees. */
static char *take_list(const char **words)
{
    bool brackets = **words == '[';
    if (!brackets && (**words < '0' || **words > '9')) return copy_of("");
    const char *at = *words, *end = at + strcspn(at, brackets ? "]" : " \t");
    bool closed = brackets && *end;
    text list = {0};
    for (at += closed; at < end; at++) {
        if (*at != ' ' && *at != '\t') text_add_bytes(&list, at, 1);
    }
    *words = end + closed;
    *words += strspn(*words, " \t");
    return list.size ? text_take(&list) : copy_of("[]");
}

/* Without kolo_init() the library takes each rank for a process of its own. */
static void tell_of_init(session *s, const char *code)
{
    token_list tokens = tokens_of(code);
    bool asks = false;
    for (size_t i = 0; i < tokens.count; i++) {
        const token *t = &tokens.items[i];
        asks |= token_is(code, t, "kolo_rank") || token_is(code, t, "kolo_size");
        s->ranks_initialised |= token_is(code, t, "kolo_init");
    }
    tokens_free(&tokens);
    if (asks && !s->ranks_initialised)
        print_error(s,
                    "kolo_rank() is 0 and kolo_size() is 1 on every rank until kolo_init(NULL, NULL) has run there\n");
}

result cell_ranks(session *s, const char *words, const char *body, const char *name)
{
    if (!ranks_live(s)) {
        int before = s->ranks ? s->ranks->count : 8;
        return error_result("RankError", "no ranks: %%ranks %d starts %s", before, before == 1 ? "one" : "them");
    }
    if (s->ranks->choosing) return error_result("UsageError", "%%%%ranks stands once, in the cell's first line");
    const char *rest = words;
    char *list = take_list(&rest), *problem = NULL;
    char *code = in_place(s, words, (size_t)(rest - words), body);
    result r = {0};
    if (ranks_choose(s->ranks, list, &problem)) {
        tell_of_init(s, code);
        s->ranks->choosing = true;
        transcript_begin(&s->ranks->said, &s->out, s->ranks->count);
        r = run_cell(s, code, name);
        if (s->ranks) s->ranks->choosing = false;
    } else {
        r = error_result("UsageError", "%%%%ranks: %s", problem);
    }
    free(problem);
    free(list);
    free(code);
    return r;
}
