/* How a cell on the ranks failed, said once for all that failed alike; where ranks hang. Read first: ranks.h,
 * exit_status.h.
 */
#define _GNU_SOURCE
#include "ranks/ranks.h"
#include "colours.h"
#include "print.h"
#include "report.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static const double GRACE = 0.3; /* seconds for the last words of ranks whose kolorun has ended */

static bool same_where(const peer *a, const peer *b)
{
    return a->where && b->where ? !strcmp(a->where, b->where) : a->where == b->where;
}

char *ranks_places(const ranks *r, const bool *which)
{
    text list = {0};
    bool *told = need_zeroed((size_t)r->count), *alike = need_zeroed((size_t)r->count);
    for (int i = 0; i < r->count; i++) {
        if (!which[i] || told[i]) continue;
        for (int k = 0; k < r->count; k++) {
            alike[k] = which[k] && same_where(&r->peers[i], &r->peers[k]);
            told[k] |= alike[k];
        }
        char *named = ranks_named(r, alike);
        const char *where = r->peers[i].where;
        text_addf(&list, "%s%s%s%s", list.size ? ", " : "", named, where ? " " : "", where ? where : "");
        free(named);
    }
    free(told);
    free(alike);
    return text_take(&list);
}

static bool has_failed(const peer *p)
{
    bool well =
        p->ended && p->end.survived && (p->end.status == STATUS_RETURNED || p->end.status == STATUS_INTERRUPTED);
    return p->silent || p->problem || (p->ended && !well);
}

bool ranks_any_failed(const ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        if (has_failed(&r->peers[i])) return true;
    }
    return r->launcher_gone;
}

bool ranks_recovered(const ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        const peer *p = &r->peers[i];
        if (p->silent || p->problem || (p->ended && (!p->end.survived || p->end.status < 0))) return false;
    }
    return !r->launcher_gone;
}

static bool alike(const peer *a, const peer *b)
{
    return a->silent == b->silent && a->problem == b->problem && a->ended == b->ended &&
           a->end.status == b->end.status && a->end.code == b->end.code && a->end.frames_size == b->end.frames_size &&
           (!a->end.frames_size || !memcmp(a->end.frames, b->end.frames, a->end.frames_size));
}

static result failure_of(ranks *r, const peer *p)
{
    if (p->problem && !p->ended) return error_result("RankError", "%s", p->problem);
    if (p->silent && !p->ended)
        return error_result("RankError",
                            "no message for 4 seconds: its process on %s was stopped, or the network connection is cut",
                            p->host ? p->host : "its host");
    if (p->end.status < 0) return load_failure(p->end.frames);
    if (!p->end.survived && p->end.status == STATUS_SIGNAL && p->end.code == SIGSTOP)
        return error_result("RankError", "its process was stopped, and ended for that");
    return exit_status_result(r->s, &p->end);
}

/* Adds what happened to those that are alike; the first such failure is the error's own sentence. */
static void add_failure(ranks *r, const bool *which, const peer *p, result *why)
{
    char *named = ranks_named(r, which);
    result one = failure_of(r, p);
    const char *trace = one.traceback.data ? one.traceback.data : one.value, *rest = strchr(trace, '\n');
    text_addf(&why->traceback, "%s" RED "%s: %s" PLAIN "%s", why->traceback.size ? "\n" : "", named, one.value,
              rest ? rest : "");
    if (!why->failed) {
        why->failed = true;
        why->name = copy_of(one.name);
        why->value = format_text("%s: %s", named, one.value);
    }
    result_free(&one);
    free(named);
}

static void add_failures(ranks *r, result *why)
{
    bool *told = need_zeroed((size_t)r->count), *which = need_zeroed((size_t)r->count);
    for (int i = 0; i < r->count; i++) {
        if (told[i] || !has_failed(&r->peers[i])) continue;
        for (int k = 0; k < r->count; k++) {
            which[k] = has_failed(&r->peers[k]) && alike(&r->peers[i], &r->peers[k]);
            told[k] |= which[k];
        }
        add_failure(r, which, &r->peers[i], why);
    }
    free(told);
    free(which);
}

bool ranks_failed(ranks *r, result *why)
{
    if (!ranks_any_failed(r)) return false;
    for (double end = seconds_now() + GRACE; r->launcher_gone && seconds_now() < end;) ranks_turn(r, 20);
    bool go_on = ranks_recovered(r);
    for (int i = 0; i < r->count; i++) {
        go_on &= !r->peers[i].running;
        if (r->peers[i].spared) r->peers[i].ended = false; /* it has done nothing wrong */
    }
    add_failures(r, why);
    if (go_on && why->failed) {
        text_add(&why->traceback, "\nThe ranks live on, and so do their variables.");
        for (int i = 0; i < r->count; i++) r->peers[i].ended = false;
        return true;
    }
    if (!why->failed) {
        char *said = ranks_reason(r);
        *why = error_result("RankError", "%s", said ? said : "kolorun has ended, and the ranks with it");
        free(said);
    }
    char *again = ranks_again(r);
    text_addf(&why->traceback, "\n%s", again);
    free(again);
    ranks_end(r->s);
    return true;
}

/* An interrupt that every rank could be stepped out of leaves the job as it is. */
result ranks_interrupted(ranks *r)
{
    bool stuck = false, *which = need_zeroed((size_t)r->count);
    const peer *first = NULL;
    for (int i = 0; i < r->count; i++) {
        const peer *p = &r->peers[i];
        which[i] = p->running || (p->ended && !p->end.survived);
        stuck |= which[i];
        if (p->chosen && p->ended && p->end.status == STATUS_INTERRUPTED && !first) first = p;
    }
    result e = {0};
    if (stuck) {
        char *list = ranks_places(r, which), *again = ranks_again(r);
        e = error_result("KeyboardInterrupt", "interrupted; these ranks could not be stopped within their call: %s",
                         list);
        text_addf(&e.traceback, "\n%s", again);
        free(list);
        free(again);
        ranks_end(r->s);
    } else {
        e = first ? exit_status_result(r->s, &first->end) : error_result("KeyboardInterrupt", "interrupted");
    }
    free(which);
    return e;
}

void ranks_tend(session *s)
{
    if (!ranks_live(s)) return;
    ranks *r = s->ranks;
    ranks_turn(r, 0);
    result why = {0};
    if (!ranks_failed(r, &why)) return;
    char *line = format_text("%s\n", why.traceback.data);
    print_error(s, line);
    free(line);
    result_free(&why);
}
