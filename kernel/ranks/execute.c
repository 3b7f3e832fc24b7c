/* A cell on the ranks: from the first message to its result. Read first: ranks.h, exit_status.h. */
#define _GNU_SOURCE
#include "patience.h"
#include "ranks/ranks.h"
#include "lock.h"
#include "print.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double GRACE = 0.3, /* seconds that other ranks have to fail of the same, or to say their last words */
    WHERE_AFTER = 0.5, /* after an interrupt, before the ranks are asked where they are, and as long again before the
                          second time */
    INTERRUPT_LIMIT = 2.3, REMARK_AFTER = 5;

typedef struct course {
    ranks *r;
    double interrupted; /* when; 0: not */
    patience patience;  /* since then */
    double first_finished; /* 0: nobody has */
    double failed; /* when the first failure was seen; 0: none */
    double sought;  /* when the others were asked where they are because of it; 0: not yet */
    double sparing; /* when they were interrupted for it; 0: not yet */
    int looks;      /* how often the ranks were asked where they are since the interrupt */
    bool asked_where, remarked;
} course;

/* ------------------------------------------------------------------------------ sending */

static void send_load(ranks *r, const load *l)
{
    char *object = NULL, *copy = copy_of(l->path);
    FILE *file = fopen(l->path, "re");
    long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    if (size >= 0) object = need_zeroed((size_t)size + 1);
    bool there = size >= 0 && !fseek(file, 0, SEEK_SET) && fread(object, 1, (size_t)size, file) == (size_t)size;
    if (file) fclose(file);
    size_t path_size = strlen(l->payload) + 1;
    const char *name = basename(copy);
    text payload = {0};
    text_add_bytes(&payload, name, strlen(name) + 1);
    text_add_bytes(&payload, l->payload + path_size, l->size - path_size);
    message head = {.kind = RANK_LOAD};
    for (int i = 0; there && i < r->count; i++) {
        if (!rank_message_send(r->socket, r->peers[i].name, &head, payload.data, payload.size, object, (size_t)size))
            r->peers[i].problem = "it cannot be reached any more";
    }
    for (int i = 0; !there && i < r->count; i++) r->peers[i].problem = "an object of an earlier cell cannot be read";
    text_free(&payload);
    free(object);
    free(copy);
}

static void send_variable(ranks *r, const char *line)
{
    names *have = &r->environment;
    size_t name = strcspn(line, "=") + 1, whole = strlen(line) + 1;
    char *pair = copy_of_bytes(line, whole);
    pair[name - 1] = 0;
    ranks_tell(r, (message){.kind = RANK_SETENV}, pair, whole);
    free(pair);
    for (size_t i = 0; i < have->count; i++) {
        if (strncmp(have->items[i], line, name)) continue;
        free(have->items[i]);
        have->items[i] = copy_of(line);
        return;
    }
    names_add_bytes(have, line, whole - 1);
}

/* Sends the folder and the variables that %cd and %env have changed since the last cell. */
static void send_surroundings(ranks *r)
{
    char *folder = ranks_folder();
    if (folder && r->folder && strcmp(folder, r->folder)) {
        ranks_tell(r, (message){.kind = RANK_FOLDER}, folder, strlen(folder) + 1);
        free(r->folder);
        r->folder = copy_of(folder);
    }
    free(folder);
    const names *now = &r->s->worker.environment;
    for (size_t i = 0; i < now->count; i++) {
        const char *line = now->items[i];
        if (!ranks_go_without(line) && !names_have(&r->environment, line)) send_variable(r, line);
    }
}

static void send_cell(ranks *r, const char *path, const char *function)
{
    session *s = r->s;
    send_surroundings(r);
    for (; r->loads_sent < s->load_count; r->loads_sent++) {
        const load *one = &s->loads[r->loads_sent];
        if (one->size) send_load(r, one); /* else it is forgotten */
    }
    char *copy = copy_of(path);
    const char *name = basename(copy);
    text payload = {0};
    text_add_bytes(&payload, name, strlen(name) + 1);
    text_add_bytes(&payload, function, strlen(function) + 1);
    for (int i = 0; i < r->count; i++) {
        peer *p = &r->peers[i];
        p->running = p->chosen;
        p->ended = p->asked_where = p->spared = false;
        free(p->where);
        p->where = NULL;
        if (p->chosen)
            peer_tell(r, i, (message){.kind = RANK_RUN, .number = s->allow_stdin}, payload.data, payload.size);
    }
    text_free(&payload);
    free(copy);
}

/* ------------------------------------------------------------------------------ meanwhile */

static int running_count(const ranks *r)
{
    int running = 0;
    for (int i = 0; i < r->count; i++) running += r->peers[i].running;
    return running;
}

static void to_running(ranks *r, uint32_t kind)
{
    for (int i = 0; i < r->count; i++) {
        if (!r->peers[i].running) continue;
        peer_tell(r, i, (message){.kind = kind}, NULL, 0);
        if (kind == RANK_SAY_WHERE) r->peers[i].asked_where = true;
    }
}

static void ask_user(ranks *r, int rank)
{
    session *s = r->s;
    transcript_end(&r->said, rank);
    output_flush(&s->out);
    const char *question = r->peers[rank].question;
    char *prompt = format_text("rank %d: %s", rank, question ? question : "");
    cell_waits(s);
    char *line = s->front.ask(s->front.self, prompt);
    cell_goes_on(s);
    r->peers[rank].asks = false;
    peer_tell(r, rank, (message){.kind = RANK_INPUT, .code = line ? 0 : -1}, line, line ? strlen(line) + 1 : 0);
    double now = seconds_now();
    for (int i = 0; i < r->count; i++) r->peers[i].heard = now; /* nobody was listened to meanwhile */
    free(prompt);
    free(line);
}

/* A rank in a call of MPI waits for others, and cannot recover. */
static bool in_mpi(const peer *p)
{
    return p->running && p->where && !strncmp(p->where, "in MPI_", 7);
}

static int in_mpi_count(const ranks *r)
{
    int count = 0;
    for (int i = 0; i < r->count; i++) count += in_mpi(&r->peers[i]);
    return count;
}

static bool any_asked_where(const ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        if (r->peers[i].running && r->peers[i].asked_where) return true;
    }
    return false;
}

static void take_interrupt(course *c)
{
    worker_process *m = &c->r->s->worker;
    worker_take_wake(m);
    if (m->interrupted > 0 && c->interrupted == 0) {
        c->interrupted = seconds_now();
        to_running(c->r, RANK_INTERRUPT);
    }
    if (c->interrupted > 0 && !any_asked_where(c->r) && seconds_now() - c->interrupted > WHERE_AFTER * (c->looks + 1)) {
        c->looks++;
        to_running(c->r, RANK_SAY_WHERE);
    }
}

/* Some are through and others are not: a collective call that not all make, or a message that nobody sends? Said once.
 */
static void remark(course *c)
{
    ranks *r = c->r;
    double passed = c->first_finished > 0 ? seconds_now() - c->first_finished : 0;
    if (c->remarked || passed < REMARK_AFTER || c->interrupted > 0) return;
    if (!c->asked_where) to_running(r, RANK_SAY_WHERE);
    c->asked_where = true;
    bool waiting = false, *run = need_zeroed((size_t)r->count), *done = need_zeroed((size_t)r->count);
    for (int i = 0; i < r->count; i++) {
        run[i] = r->peers[i].running;
        done[i] = r->peers[i].chosen && !run[i];
        waiting |= r->peers[i].asked_where;
    }
    if (!waiting || passed > REMARK_AFTER + 1) {
        char *places_now = ranks_places(r, run), *through = ranks_named(r, done);
        char *line = format_text("still running: %s; %s finished a while ago, and the others may be waiting for it "
                                 "(interrupt ends the cell)\n",
                                 places_now, through);
        print_error(r->s, line);
        output_flush(&r->s->out);
        free(places_now);
        free(through);
        free(line);
        c->remarked = true;
        c->asked_where = false;
    }
    free(run);
    free(done);
}

static void note_finished(course *c)
{
    int chosen = 0;
    for (int i = 0; i < c->r->count; i++) chosen += c->r->peers[i].chosen;
    if (!output_has_room(&c->r->s->out))
        c->first_finished = 0; /* a flood is being shown: who is through is not known */
    else if (c->first_finished == 0 && running_count(c->r) < chosen) c->first_finished = seconds_now();
}

/* A rank has failed and recovered: the others are interrupted, so that all keep their variables. True
 * when there is nothing left to wait for. */
static bool spared(course *c)
{
    ranks *r = c->r;
    if (!ranks_recovered(r)) return true;
    if (c->sparing > 0) return patience_passed(&c->patience, c->sparing) > INTERRUPT_LIMIT;
    if (c->sought == 0) {
        to_running(r, RANK_SAY_WHERE);
        c->sought = seconds_now();
    }
    if (any_asked_where(r) && seconds_now() - c->sought < WHERE_AFTER) return false;
    if (in_mpi_count(r)) return true;
    for (int i = 0; i < r->count; i++) r->peers[i].spared = r->peers[i].running;
    to_running(r, RANK_INTERRUPT);
    c->sparing = seconds_now();
    return false;
}

/* All that still run were in MPI when they were first asked, which has barred the way back into the cell, and were
 * there the second time. How long that took on a busy machine does not matter. */
static bool stuck_in_mpi(const course *c)
{
    return c->looks >= 2 && !any_asked_where(c->r) && in_mpi_count(c->r) == running_count(c->r);
}

/* True when there is nothing left to wait for. */
static bool over(course *c)
{
    ranks *r = c->r;
    double now = seconds_now();
    if (r->s->closing) return true;
    if (c->failed == 0 && ranks_any_failed(r)) c->failed = now;
    if (c->interrupted > 0)
        return running_count(r) == 0 || stuck_in_mpi(c) ||
               patience_passed(&c->patience, c->interrupted) > INTERRUPT_LIMIT;
    if (c->failed > 0) return running_count(r) == 0 || (now - c->failed > GRACE && spared(c));
    return running_count(r) == 0;
}

static void wait_for_cell(course *c)
{
    while (!over(c)) {
        ranks_turn(c->r, c->interrupted > 0 || c->failed > 0 ? 10 : 30);
        take_interrupt(c);
        note_finished(c);
        remark(c);
        for (int i = 0; i < c->r->count; i++) {
            if (c->r->peers[i].asks && c->interrupted == 0) ask_user(c->r, i);
        }
    }
}

/* For %time: until the last rank was through, and the processor time of all. */
static void add_times(ranks *r)
{
    worker_process *m = &r->s->worker;
    int64_t longest = 0;
    for (int i = 0; i < r->count; i++) {
        const peer *p = &r->peers[i];
        if (!p->chosen || !p->ended) continue;
        if (p->times.wall > longest) longest = p->times.wall;
        m->user += p->times.user;
        m->system += p->times.system;
    }
    m->wall += longest;
}

/* ------------------------------------------------------------------------------ all of it */

result ranks_run(session *s, const char *path, const char *function, value_reader data, void *closure)
{
    ranks *r = s->ranks;
    course c = {.r = r};
    result why = {0};
    if (ranks_failed(r, &why)) return why; /* since the last cell */
    send_cell(r, path, function);
    wait_for_cell(&c);
    for (int i = 0; i < r->count; i++) transcript_end(&r->said, i);
    transcript_fold(&r->said);
    if (r->said.dropped) print_error(s, "[what the ranks printed last, before the interrupt, is not shown]\n");
    if (s->closing) return error_result("KeyboardInterrupt", "the kernel is shutting down");
    if (c.interrupted > 0) return ranks_interrupted(r);
    if (ranks_failed(r, &why)) return why;
    add_times(r);
    if (data) ranks_publish_values(r, data, closure);
    r->said.displays |= data != NULL;
    return (result){0};
}
