/* A cell on the ranks: from the first letter to its result. Read first: ranks.h, ending.h. */
#define _GNU_SOURCE
#include "ranks/ranks.h"

#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double GRACE = 0.3, /* seconds that other ranks have to fail of the same, or to say their last words */
    WHERE_AFTER = 0.5, /* after an interrupt, before the ranks' own guards end what cannot be stepped out of */
    INTERRUPT_LIMIT = 2.3, REMARK_AFTER = 5;

typedef struct course {
    ranks *r;
    double interrupted; /* when; 0: not */
    double first_finished; /* 0: nobody has */
    double failed; /* when the first failure was seen; 0: none */
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
        letter_send(r->socket, r->peers[i].name, &head, payload.data, payload.size, object, (size_t)size);
    }
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
    names_add(have, line, whole - 1);
}

/* What %cd and %env have changed since. */
static void send_surroundings(ranks *r)
{
    char *folder = getcwd(NULL, 0);
    if (folder && r->folder && strcmp(folder, r->folder)) {
        ranks_tell(r, (message){.kind = RANK_FOLDER}, folder, strlen(folder) + 1);
        free(r->folder);
        r->folder = copy_of(folder);
    }
    free(folder);
    const names *now = &r->s->machine.environment;
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
        p->ended = p->asked_where = false;
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
    char *prompt = format_text("rank %d: ", rank), *line = s->front.ask(s->front.self, prompt);
    r->peers[rank].asks = false;
    peer_tell(r, rank, (message){.kind = RANK_INPUT, .code = line ? 0 : -1}, line, line ? strlen(line) + 1 : 0);
    double now = seconds_now();
    for (int i = 0; i < r->count; i++) r->peers[i].heard = now; /* nobody was listened to meanwhile */
    free(prompt);
    free(line);
}

static void take_interrupt(course *c)
{
    machine *m = &c->r->s->machine;
    uint64_t woken;
    if (read(m->wake, &woken, sizeof woken) > 0 && !m->interrupted) m->interrupted = seconds_now();
    if (m->interrupted > 0 && c->interrupted == 0) {
        c->interrupted = seconds_now();
        to_running(c->r, RANK_INTERRUPT);
    }
    if (c->interrupted > 0 && !c->asked_where && seconds_now() - c->interrupted > WHERE_AFTER) {
        c->asked_where = true;
        to_running(c->r, RANK_SAY_WHERE);
    }
}

static bool same_where(const peer *a, const peer *b)
{
    return a->where && b->where ? !strcmp(a->where, b->where) : a->where == b->where;
}

/* "ranks 0-2 in MPI_Barrier at In[4]:3, rank 5 at In[4]:9": those for which `which`, put together by where they are. */
static char *places(const ranks *r, const bool *which)
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
        char *places_now = places(r, run), *through = ranks_named(r, done);
        char *line = format_text("still running: %s; %s finished a while ago: is it waited for? (interrupt ends it)\n",
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

static bool has_failed(const peer *p)
{
    bool well =
        p->ended && p->end.survived && (p->end.ending == ENDING_RETURNED || p->end.ending == ENDING_INTERRUPTED);
    return p->silent || (p->ended && !well);
}

static bool any_failed(const ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        if (has_failed(&r->peers[i])) return true;
    }
    return r->launcher_gone;
}

static void note_finished(course *c)
{
    int chosen = 0;
    for (int i = 0; i < c->r->count; i++) chosen += c->r->peers[i].chosen;
    if (!output_has_room(&c->r->s->out))
        c->first_finished = 0; /* a flood is being shown: who is through is not known */
    else if (c->first_finished == 0 && running_count(c->r) < chosen) c->first_finished = seconds_now();
}

/* True when there is nothing left to wait for. */
static bool over(course *c)
{
    ranks *r = c->r;
    double now = seconds_now();
    if (r->s->closing) return true;
    if (c->failed == 0 && any_failed(r)) c->failed = now;
    if (c->interrupted > 0) return running_count(r) == 0 || now - c->interrupted > INTERRUPT_LIMIT;
    if (c->failed > 0) return running_count(r) == 0 || now - c->failed > GRACE;
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

/* ------------------------------------------------------------------------------ failures */

static bool alike(const peer *a, const peer *b)
{
    return a->silent == b->silent && a->ended == b->ended && a->end.ending == b->end.ending &&
           a->end.code == b->end.code && a->end.frames_size == b->end.frames_size &&
           (!a->end.frames_size || !memcmp(a->end.frames, b->end.frames, a->end.frames_size));
}

static result failure_of(ranks *r, const peer *p)
{
    if (p->silent && !p->ended)
        return error_result("RankError",
                            "not heard of for 4 seconds: its process on %s was stopped, or the way to it is cut",
                            p->host ? p->host : "its host");
    if (p->end.ending < 0) return load_failure(r->s, p->end.frames);
    if (!p->end.survived && p->end.ending == ENDING_SIGNAL && p->end.code == SIGSTOP)
        return error_result("RankError", "its process was stopped, and ended for that");
    return ended_result(r->s, &p->end);
}

/* Adds what happened to those that are alike; the first such failure is the error's own sentence. */
static void add_failure(ranks *r, const bool *which, const peer *p, result *why)
{
    char *named = ranks_named(r, which);
    result one = failure_of(r, p);
    const char *trace = one.traceback.data ? one.traceback.data : one.value, *rest = strchr(trace, '\n');
    text_addf(&why->traceback, "%s\033[1;31m%s: %s\033[0m%s", why->traceback.size ? "\n" : "", named, one.value,
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
    if (!any_failed(r)) return false;
    for (double end = seconds_now() + GRACE; r->launcher_gone && seconds_now() < end;) ranks_turn(r, 20);
    add_failures(r, why);
    if (!why->failed) {
        char *said = ranks_reason(r);
        *why = error_result("RankError", "%s", said ? said : "kolorun has ended, and the ranks with it");
        free(said);
    }
    char *again = ranks_again(r);
    text_addf(&why->traceback, "\n%s", again);
    free(again);
    ranks_end(r->s, true);
    return true;
}

/* An interrupt that every rank could be stepped out of leaves the job as it is. */
static result interrupted_result(ranks *r)
{
    bool stuck = false, *which = need_zeroed((size_t)r->count);
    const peer *first = NULL;
    for (int i = 0; i < r->count; i++) {
        const peer *p = &r->peers[i];
        which[i] = p->running || (p->ended && !p->end.survived);
        stuck |= which[i];
        if (p->chosen && p->ended && p->end.ending == ENDING_INTERRUPTED && !first) first = p;
    }
    result e = {0};
    if (stuck) {
        char *list = places(r, which), *again = ranks_again(r);
        e = error_result("KeyboardInterrupt", "interrupted; could not be stepped out of: %s", list);
        text_addf(&e.traceback, "\n%s", again);
        free(list);
        free(again);
        ranks_end(r->s, true);
    } else {
        e = first ? ended_result(r->s, &first->end) : error_result("KeyboardInterrupt", "interrupted");
    }
    free(which);
    return e;
}

/* ------------------------------------------------------------------------------ values */

typedef struct place {
    ranks *r;
    int rank;
} place;

static bool read_memory(void *closure, uint64_t address, size_t size, void *into)
{
    const place *p = closure;
    ranks *r = p->r;
    r->bytes_here = false;
    peer_tell(r, p->rank, (message){.kind = RANK_PEEK, .address = address, .size = size}, NULL, 0);
    for (double end = seconds_now() + 3; !r->bytes_here && seconds_now() < end && !any_failed(r);) ranks_turn(r, 20);
    bool there = r->bytes_here && r->bytes.head.code == 0 && r->bytes.size == size;
    if (there) memcpy(into, r->bytes.payload, size);
    return there;
}

static const char *plain_of(const json_t *data)
{
    const char *plain = json_string_value(json_object_get(data, "text/plain"));
    return plain ? plain : "";
}

static void publish_data(ranks *r, const char *type, json_t *data)
{
    json_t *content =
        strcmp(type, "execute_result")
            ? json_pack("{s:o, s:{}, s:{}}", "data", data, "metadata", "transient")
            : json_pack("{s:i, s:o, s:{}}", "execution_count", (int)r->s->count, "data", data, "metadata");
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    if (dump) output_publish(&r->s->out, type, dump);
    free(dump);
    json_decref(content);
}

/* "[0-7] 42": the value of those ranks. */
static char *tagged(const ranks *r, const bool *which, const char *plain)
{
    char *listed = ranks_listed(which, r->count);
    char *line = format_text("[%s]%s%s", listed, strchr(plain, '\n') ? "\n" : " ", plain);
    free(listed);
    return line;
}

/* Pictures and tables of ranks that do not agree: each with its ranks before it. */
static void publish_rich(ranks *r, const bool *which, const json_t *value)
{
    json_t *data = json_deep_copy(value);
    char *listed = ranks_listed(which, r->count), *line = format_text("[%s]\n", listed);
    print_out(r->s, line);
    publish_data(r, "display_data", data);
    free(line);
    free(listed);
}

/* One line for all ranks that have the same: "[0-7] 42". */
static void publish_grouped(ranks *r, json_t *const *values)
{
    text list = {0};
    bool *told = need_zeroed((size_t)r->count), *which = need_zeroed((size_t)r->count);
    json_t *only = NULL;
    size_t groups = 0;
    for (int i = 0; i < r->count; i++) {
        if (!values[i] || told[i]) continue;
        bool all = true;
        for (int k = 0; k < r->count; k++) {
            which[k] = values[k] && json_equal(values[i], values[k]);
            told[k] |= which[k];
            all &= which[k] || !values[k];
        }
        only = all ? json_deep_copy(values[i]) : NULL;
        char *line = tagged(r, which, plain_of(values[i]));
        if (!only && json_object_size(values[i]) > 1) publish_rich(r, which, values[i]);
        else text_addf(&list, "%s%s", groups++ ? "\n" : "", line);
        free(line);
    }
    json_t *data = only ? only : json_object();
    if (list.size) json_object_set_new(data, "text/plain", json_stringn(list.data, list.size));
    if (list.size) {
        json_decref(r->s->value);
        r->s->value = json_incref(data);
        publish_data(r, "execute_result", data);
    } else {
        json_decref(data);
    }
    text_free(&list);
    free(told);
    free(which);
}

static void publish_values(ranks *r, value_reader data, void *closure)
{
    json_t **values = need_zeroed((size_t)r->count * sizeof *values);
    for (int i = 0; i < r->count; i++) {
        place at = {r, i};
        memory from = {.read = read_memory, .closure = &at};
        if (r->peers[i].chosen) values[i] = data(closure, &from, r->peers[i].end.address, r->peers[i].end.size);
    }
    publish_grouped(r, values);
    for (int i = 0; i < r->count; i++) json_decref(values[i]);
    free(values);
}

/* For %time: until the last rank was through, and the processor time of all. */
static void add_times(ranks *r)
{
    machine *m = &r->s->machine;
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
    if (c.interrupted > 0) return interrupted_result(r);
    if (ranks_failed(r, &why)) return why;
    add_times(r);
    if (data) publish_values(r, data, closure);
    r->said.displays |= data != NULL;
    return (result){0};
}
