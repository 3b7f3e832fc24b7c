#define _GNU_SOURCE
#include "diagnostics/distributed.h"
#include "diagnostics/add.h"

#include <stdlib.h>
#include <string.h>

typedef struct look {
    diagnostics *all;
    const char *cell_name;
    const cell *c;
    const symbols *session;
    names ranks;   /* variables that hold a rank's number */
    names helpers; /* functions of the cell with a collective in them */
    bool trains_together; /* kolo_fit() is a collective here */
} look;

static const char collectives[] =
    " kolo_allreduce kolo_allreduce_start kolo_broadcast kolo_allgather kolo_allgatherv kolo_reduce_scatter "
    "kolo_reduce "
    "kolo_alltoall kolo_barrier MPI_Allreduce MPI_Iallreduce MPI_Bcast MPI_Barrier MPI_Gather MPI_Gatherv MPI_Scatter "
    "MPI_Scatterv MPI_Allgather MPI_Allgatherv MPI_Reduce MPI_Reduce_scatter MPI_Reduce_scatter_block MPI_Alltoall "
    "MPI_Alltoallv MPI_Scan MPI_Exscan MPI_Comm_split MPI_Comm_dup ";

static bool is(const look *l, size_t at, const char *spelling)
{
    return at < l->c->tokens.count && token_is(l->c->source, &l->c->tokens.items[at], spelling);
}

static char *word(const look *l, size_t at)
{
    const token *t = &l->c->tokens.items[at];
    return copy_of_bytes(l->c->source + t->begin, t->end - t->begin);
}

static bool is_name(const look *l, size_t at)
{
    return at < l->c->tokens.count && l->c->tokens.items[at].kind == TOKEN_NAME;
}

/* A name of its own, not a member's or an option's. */
static bool stands_alone(const look *l, size_t at)
{
    return is_name(l, at) && !(at && (is(l, at - 1, ".") || is(l, at - 1, "->")));
}

static bool has_word(const look *l, size_t first, size_t last, const char *spelling)
{
    for (size_t i = first; i < last; i++) {
        if (is(l, i, spelling)) return true;
    }
    return false;
}

static size_t after_group(const look *l, size_t open)
{
    size_t limit = l->c->tokens.count, end = after_brackets(l->c->source, l->c->tokens.items, open, limit);
    return end < limit ? end : limit;
}

/* The token behind the statement that begins at `at`. */
static size_t after_statement(const look *l, size_t at)
{
    size_t limit = l->c->tokens.count;
    if (is(l, at, "{")) return after_group(l, at);
    bool head = is(l, at, "if") || is(l, at, "for") || is(l, at, "while") || is(l, at, "switch");
    if (head && is(l, at + 1, "(")) {
        size_t end = after_statement(l, after_group(l, at + 1));
        return is(l, at, "if") && is(l, end, "else") ? after_statement(l, end + 1) : end;
    }
    if (is(l, at, "do")) at = after_statement(l, at + 1);
    while (at < limit && !is(l, at, ";")) {
        bool open = is(l, at, "(") || is(l, at, "[") || is(l, at, "{");
        at = open ? after_group(l, at) : at + 1;
    }
    return at < limit ? at + 1 : limit;
}

/* `int rank = kolo_rank();`, `MPI_Comm_rank(MPI_COMM_WORLD, &rank);` */
static void find_rank_variables(look *l)
{
    for (size_t i = 2; i < l->c->tokens.count; i++) {
        bool called = is(l, i, "kolo_rank") && is(l, i - 1, "=") && is_name(l, i - 2);
        char *name = called ? word(l, i - 2) : NULL;
        if (is(l, i, "MPI_Comm_rank") && is(l, i + 1, "(")) {
            size_t end = after_group(l, i + 1);
            if (end > 3 && is(l, end - 3, "&") && is_name(l, end - 2)) name = word(l, end - 2);
        }
        if (name && !names_have(&l->ranks, name)) names_add(&l->ranks, name);
        free(name);
    }
    /* One of an earlier cell's. */
    if (l->session && symbols_find(l->session, "o:rank") && !has_word(l, 0, l->c->tokens.count, "kolo_rank"))
        names_add(&l->ranks, "rank");
}

static bool tells_ranks_apart(const look *l, size_t first, size_t last)
{
    for (size_t i = first; i < last; i++) {
        if (!stands_alone(l, i)) continue;
        char *name = word(l, i);
        bool found = !strcmp(name, "kolo_rank") || names_have(&l->ranks, name);
        free(name);
        if (found) return true;
    }
    return false;
}

/* A function of an earlier cell with a collective in it? */
static bool earlier_helper(const look *l, const char *name)
{
    const entity *e = l->session ? symbols_find_bytes(l->session, 'o', name, strlen(name)) : NULL;
    bool found = false;
    for (size_t i = 0; e && e->kind == ENTITY_FUNCTION && e->definition && i < e->uses.count; i++)
        found |= word_among(collectives, e->uses.items[i]);
    return found;
}

static bool is_collective(const look *l, size_t at)
{
    if (!stands_alone(l, at) || !is(l, at + 1, "(")) return false;
    char *name = word(l, at);
    bool found = word_among(collectives, name) || names_have(&l->helpers, name) || earlier_helper(l, name) ||
                 (l->trains_together && !strcmp(name, "kolo_fit"));
    free(name);
    return found;
}

/* The first collective of the range, or `last`. */
static size_t find_collective(const look *l, size_t first, size_t last)
{
    while (first < last && !is_collective(l, first)) first++;
    return first;
}

/* Is the same function called there? */
static bool called_in(const look *l, size_t call, size_t first, size_t last)
{
    char *name = word(l, call);
    bool found = has_word(l, first, last, name);
    free(name);
    return found;
}

static void find_helpers(look *l)
{
    for (size_t i = 0; i < l->c->count; i++) {
        const piece *p = &l->c->pieces[i];
        size_t name = p->first;
        if (p->kind != PIECE_FUNCTION) continue;
        while (name < p->last && !is(l, name, "(")) name++;
        if (name == p->first || find_collective(l, name, p->last) == p->last) continue;
        char *called = word(l, name - 1);
        if (strcmp(called, "main")) names_add(&l->helpers, called);
        free(called);
    }
}

static void warn(const look *l, size_t at, char *message, char *hint)
{
    diagnostic_set_place(diagnostic_add(l->all, l->cell_name, message, hint), l->c, &l->c->tokens.items[at]);
    free(message);
    free(hint);
}

static void warn_of_some(const look *l, size_t call, size_t condition)
{
    char *name = word(l, call);
    warn(l, call, format_text("only some ranks reach this %s(): they wait in it for the others, for ever", name),
         format_text("every rank must call %s(): move it out of the condition in line %u, and keep in it what one rank "
                     "does alone",
                     name, l->c->tokens.items[condition].line));
    free(name);
}

/* `if (kolo_rank() == 0) kolo_allreduce(…);`, where the other branch does not call it. */
static void look_at_branches(const look *l, size_t at)
{
    size_t body = after_group(l, at + 1), end = after_statement(l, body);
    size_t other = is(l, end, "else") ? end + 1 : end, other_end = other > end ? after_statement(l, other) : end;
    size_t call = find_collective(l, body, end);
    if (call < end && !called_in(l, call, other, other_end)) warn_of_some(l, call, at);
    call = find_collective(l, other, other_end);
    if (call < other_end && !is(l, other, "if") && !called_in(l, call, body, end)) warn_of_some(l, call, at);
}

/* `if (kolo_rank() > 0) return;`, and further down a collective. */
static void look_at_return(const look *l, size_t at, size_t last)
{
    size_t body = after_group(l, at + 1), end = after_statement(l, body);
    bool leaves = has_word(l, body, end, "return") || has_word(l, body, end, "exit");
    if (!leaves || has_word(l, body, end, "MPI_Abort") || find_collective(l, body, end) < end) return;
    size_t behind = is(l, end, "else") ? after_statement(l, end + 1) : end, call = find_collective(l, behind, last);
    if (call >= last) return;
    char *name = word(l, call);
    warn(l, call,
         format_text("ranks that leave in line %u do not reach this %s(): the others wait in it, for ever",
                     l->c->tokens.items[at].line, name),
         format_text("every rank must call %s(): put what some ranks skip into an if, and let all go on behind it",
                     name));
    free(name);
}

/* `for (int i = 0; i < kolo_rank(); i++) kolo_barrier();` */
static void look_at_loop(const look *l, size_t at)
{
    size_t body = after_group(l, at + 1), end = after_statement(l, body), call = find_collective(l, body, end);
    if (call < end) {
        char *name = word(l, call);
        warn(l, call, format_text("the ranks call this %s() a different number of times, and then wait for ever", name),
             copy_of("every rank must go through the loop equally often"));
        free(name);
    }
}

/* `reach`: where that goes on which a return, or an exit(), skips. */
static void look_at_range(const look *l, size_t first, size_t last, size_t reach)
{
    for (size_t i = first; i < last; i++) {
        bool branch = is(l, i, "if"), loop = is(l, i, "for") || is(l, i, "while");
        if ((!branch && !loop) || !is(l, i + 1, "(")) continue;
        if (!tells_ranks_apart(l, i + 2, after_group(l, i + 1))) continue;
        if (loop) look_at_loop(l, i);
        else look_at_branches(l, i);
        if (branch) look_at_return(l, i, reach);
    }
}

/* ---- sends and receives ---- */

static const char sends[] = " MPI_Send MPI_Isend MPI_Ssend MPI_Bsend kolo_send ",
                  receives[] = " MPI_Recv MPI_Irecv MPI_Mrecv kolo_receive ",
                  both[] = " MPI_Sendrecv MPI_Sendrecv_replace MPI_Probe MPI_Iprobe MPI_Mprobe ";

static size_t find_call(const look *l, const char *among)
{
    for (size_t i = 0; i < l->c->tokens.count; i++) {
        if (!stands_alone(l, i) || !is(l, i + 1, "(")) continue;
        char *name = word(l, i);
        bool found = word_among(among, name);
        free(name);
        if (found) return i;
    }
    return none;
}

/* Does the cell do anything, beside defining functions? And a function may be one half of an exchange. */
static bool runs(const look *l)
{
    bool any = false;
    for (size_t i = 0; i < l->c->count; i++)
        any |= l->c->pieces[i].kind == PIECE_STATEMENT || l->c->pieces[i].kind == PIECE_EXPRESSION;
    return any || has_word(l, 0, l->c->tokens.count, "main");
}

/* Is it in a branch or loop that not all ranks go through? */
static bool under_condition(const look *l, size_t at)
{
    for (size_t i = 0; i < at; i++) {
        bool head = is(l, i, "if") || is(l, i, "for") || is(l, i, "while");
        if (!head || !is(l, i + 1, "(") || !tells_ranks_apart(l, i + 2, after_group(l, i + 1))) continue;
        if (after_statement(l, i) > at) return true;
    }
    return false;
}

/* Does every rank that runs the cell execute this call? Only some ranks may call a function other than main(). */
static bool all_ranks_execute(const look *l, size_t at)
{
    for (size_t i = 0; i < l->c->count; i++) {
        const piece *p = &l->c->pieces[i];
        if (at < p->first || at >= p->last) continue;
        return (p->kind != PIECE_FUNCTION || has_word(l, p->first, at, "main")) && !under_condition(l, at);
    }
    return false;
}

static void look_at_messages(const look *l)
{
    size_t send = find_call(l, sends), receive = find_call(l, receives);
    if (!runs(l) || find_call(l, both) != none) return;
    if (send != none && receive == none) {
        char *name = word(l, send);
        warn(l, send, format_text("nothing in this cell receives what %s() sends", name),
             format_text("the rank that it is sent to must call %s(), in the same cell",
                         *name == 'k' ? "kolo_receive" : "MPI_Recv"));
        free(name);
    } else if (receive != none && send == none) {
        char *name = word(l, receive);
        warn(l, receive, format_text("nothing in this cell sends what %s() waits for", name),
             format_text("the rank that it comes from must call %s(), in the same cell",
                         *name == 'k' ? "kolo_send" : "MPI_Send"));
        free(name);
    } else if (receive != none && receive < send && all_ranks_execute(l, receive) && all_ranks_execute(l, send) &&
               (is(l, receive, "MPI_Recv") || is(l, receive, "kolo_receive"))) {
        warn(l, receive, copy_of("every rank waits in this receive before any of them sends, for ever"),
             copy_of("let some ranks send first, by an if on the rank, or use MPI_Sendrecv()"));
    }
}

/* ---- training ---- */

/* Are all the callbacks written out at this call of kolo_fit()? A variable may hold any. */
static bool callbacks_are_plain(const look *l, size_t fit)
{
    size_t end = after_group(l, fit + 1), at = fit;
    while (at < end && !is(l, at, "callbacks")) at++;
    if (at == end) return true;
    for (size_t i = at + 1; i < end && !(is(l, i, ".") && is_name(l, i + 1) && is(l, i + 2, "=")); i++) {
        if (is(l, i, "(")) i = after_group(l, i) - 1;
        else if (is_name(l, i) && !is(l, i + 1, "(")) return false;
    }
    return true;
}

static bool prints_a_score(const look *l, size_t first)
{
    for (size_t i = first; i < l->c->tokens.count; i++) {
        const token *t = &l->c->tokens.items[i];
        bool names_score =
            t->kind == TOKEN_STRING && (memmem(l->c->source + t->begin, t->end - t->begin, "accuracy", 8) ||
                                        memmem(l->c->source + t->begin, t->end - t->begin, "loss", 4));
        if (names_score) return true;
    }
    return false;
}

static void look_at_training(const look *l)
{
    size_t fit = 0, last = l->c->tokens.count;
    while (fit < last && !(is(l, fit, "kolo_fit") && is(l, fit + 1, "("))) fit++;
    if (fit == last || !has_word(l, 0, last, "kolo_distributed") || !callbacks_are_plain(l, fit)) return;
    bool loads = has_word(l, 0, last, "kolo_load") || has_word(l, 0, last, "kolo_load_weights");
    if (!has_word(l, 0, last, "kolo_broadcast_variables") && !loads)
        warn(l, fit, copy_of("nothing makes the ranks' weights equal before this training"),
             copy_of("put kolo_broadcast_variables(0) among the .callbacks"));
    if (!has_word(l, 0, last, "kolo_metric_average") && prints_a_score(l, fit))
        warn(l, fit, copy_of("the scores of this training are those of each rank's own samples, not of all"),
             copy_of("put kolo_metric_average() among the .callbacks"));
}

void lint_distributed(diagnostics *all, const char *cell_name, const cell *c, const symbols *session)
{
    look l = {.all = all, .cell_name = cell_name, .c = c, .session = session};
    l.trains_together = has_word(&l, 0, c->tokens.count, "kolo_distributed") ||
                        has_word(&l, 0, c->tokens.count, "kolo_multi_worker_mirrored");
    find_rank_variables(&l);
    find_helpers(&l);
    for (size_t i = 0; i < c->count; i++) {
        const piece *p = &c->pieces[i];
        if (p->kind == PIECE_FUNCTION) look_at_range(&l, p->first, p->last, p->last);
        if (p->kind == PIECE_STATEMENT) look_at_range(&l, p->first, p->last, c->tokens.count);
    }
    look_at_messages(&l);
    look_at_training(&l);
    names_free(&l.ranks);
    names_free(&l.helpers);
}
