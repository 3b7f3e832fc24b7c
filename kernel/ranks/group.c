/* Receives the ranks' messages, and ends the ranks. Read first: ranks.h. */
#define _GNU_SOURCE
#include "ranks/ranks.h"
#include "lock.h"
#include "print.h"
#include "report.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static const double END_LIMIT = 2.0, CLOSE_LIMIT = 1.0, /* seconds in which kolorun ends its ranks in order */
    SILENCE = 4.0;                   /* without a beat (wire.h) a rank is taken for lost */

bool ranks_live(const session *s)
{
    return s->ranks && s->ranks->live;
}

bool ranks_chosen(const session *s)
{
    return ranks_live(s) && s->ranks->choosing;
}

void peer_tell(ranks *r, int rank, message head, const void *payload, size_t size)
{
    peer *p = &r->peers[rank];
    bool sent = rank_message_send(r->socket, p->name, &head, payload, size, NULL, 0);
    if (!sent && p->heard > 0) p->problem = "it cannot be reached any more";
}

void ranks_tell(ranks *r, message head, const void *payload, size_t size)
{
    for (int i = 0; i < r->count; i++) peer_tell(r, i, head, payload, size);
}

char *ranks_again(const ranks *r)
{
    return format_text("The ranks have ended; %%ranks %d starts them again.", r->count);
}

/* ------------------------------------------------------------------------------ what ranks say */

static void note_end(peer *p, const rank_message *l, bool survived)
{
    free((char *)(uintptr_t)p->end.frames);
    p->end = (exit_status){.status = l->head.number,
                           .code = l->head.code,
                           .address = l->head.address,
                           .size = l->head.size,
                           .frames = copy_of_bytes(l->payload, l->size),
                           .frames_size = l->size,
                           .survived = survived};
    p->times = l->head;
    p->ended = true;
    p->running = p->asks = false;
}

/* Names of displays are the ranks' own: two ranks may have chosen the same. */
static json_t *own_display(int rank, json_t *content)
{
    json_t *transient = json_object_get(content, "transient");
    const char *id = json_string_value(json_object_get(transient, "display_id"));
    if (id) {
        char *own = format_text("rank %d %s", rank, id);
        json_object_set_new(transient, "display_id", json_string(own));
        free(own);
    }
    return content;
}

/* Where several ranks may show pictures, a line before each names the rank. */
static void name_display(ranks *r, int rank)
{
    int chosen = 0;
    for (int i = 0; i < r->count; i++) chosen += r->peers[i].chosen;
    char *line = format_text("[%d]\n", rank);
    transcript_end(&r->said, rank);
    if (chosen > 1) print_out(r->s, line);
    free(line);
}

static void publish(ranks *r, int rank, const rank_message *l)
{
    const char *type = l->payload;
    json_t *content = json_loads(rank_message_second(l), 0, NULL);
    if (!strcmp(type, "stream") && r->s->worker.interrupted > 0 && !output_has_room(&r->s->out)) {
        r->said.dropped = true; /* an interrupt does not wait until all of a flood has been shown */
    } else if (!strcmp(type, "stream")) {
        const char *words = json_string_value(json_object_get(content, "text")),
                   *name = json_string_value(json_object_get(content, "name"));
        if (words && name) transcript_add(&r->said, rank, strcmp(name, "stderr") ? 1 : 2, words, strlen(words));
    } else if (content &&
               strcmp(type, "clear_output")) { /* clear_output by one rank would clear the others' output, too */
        if (!strcmp(type, "display_data")) name_display(r, rank);
        char *dump = json_dumps(own_display(rank, content), JSON_COMPACT);
        r->said.displays = true;
        if (dump) output_publish(&r->s->out, type, dump);
        free(dump);
    }
    json_decref(content);
}

/* "in MPI_Recv at In[4]:2": the outermost call of MPI's, and the innermost line of a cell's. */
static char *where_of(session *s, const rank_message *l)
{
    char *call = NULL, *line = place_of_frames(s, l->payload, l->size);
    frame f;
    for (const char *at = l->payload, *end = at + l->size; frame_next(&at, end, &f);) {
        const char *name = strstr(f.symbol, "MPI_");
        if (!name || name - f.symbol > 1) continue;
        free(call);
        call = copy_of(name);
    }
    char *where = line || call ? format_text("%s%s%s%s%s", call ? "in " : "", call ? call : "", call && line ? " " : "",
                                             line ? "at " : "", line ? line : "")
                               : NULL;
    free(call);
    free(line);
    return where;
}

static void obey(ranks *r, int rank, rank_message *l)
{
    peer *p = &r->peers[rank];
    p->heard = seconds_now();
    if (l->problem) {
        p->problem = l->problem;
        p->running = p->asks = false;
        return;
    }
    switch (l->head.kind) {
    case RANK_HELLO:
        free(p->host);
        p->host = copy_of(l->payload);
        p->process = l->head.code;
        break;
    case RANK_READY: p->ready = true; break;
    case RANK_PUBLISH: publish(r, rank, l); break;
    case RANK_ASK:
        p->asks = true;
        free(p->question);
        p->question = copy_of(l->size ? l->payload : "");
        break;
    case RANK_DONE: note_end(p, l, true); break;
    case RANK_DIED: note_end(p, l, false); break;
    case RANK_WHERE:
        free(p->where);
        p->where = where_of(r->s, l);
        p->asked_where = false;
        break;
    case RANK_BYTES:
        rank_message_free(&r->bytes);
        r->bytes = *l;
        r->bytes_here = true;
        *l = (rank_message){0};
        break;
    default: break;
    }
}

/* May more messages be taken now, or would their output outrun the server? */
static bool has_room(ranks *r)
{
    return output_has_room(&r->s->out) || r->s->worker.interrupted > 0;
}

static void take_messages(ranks *r)
{
    char name[RANK_NAME];
    rank_message l;
    for (int i = 0; i < 256 && has_room(r) && rank_message_take(r->socket, name, &l); i++) {
        for (int rank = 0; rank < r->count; rank++) {
            if (!strcmp(name, r->peers[rank].name)) obey(r, rank, &l);
        }
        rank_message_free(&l);
    }
}

static void judge_silence(ranks *r)
{
    double now = seconds_now();
    for (int i = 0; i < r->count; i++) {
        peer *p = &r->peers[i];
        if (p->heard > 0 && now - p->heard > SILENCE) p->silent = true;
    }
}

void ranks_turn(ranks *r, int wait)
{
    int descriptors[WORKER_WATCHED];
    zmq_pollitem_t items[2 + WORKER_WATCHED];
    size_t count = 0;
    bool room = has_room(r);
    if (!room && wait > 10) wait = 10;
    if (room) items[count++] = (zmq_pollitem_t){.socket = r->socket, .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.fd = r->s->worker.wake, .events = ZMQ_POLLIN};
    worker_watch(&r->launcher, descriptors);
    for (size_t i = 0; i < WORKER_WATCHED; i++) {
        if (descriptors[i] >= 0) items[count++] = (zmq_pollitem_t){.fd = descriptors[i], .events = ZMQ_POLLIN};
    }
    double began = seconds_now();
    if (wait > 0) cell_waits(r->s);
    zmq_poll(items, (int)count, wait);
    if (wait > 0) cell_goes_on(r->s);
    outcome how;
    if (!r->launcher_gone && worker_turn(&r->launcher, 0, &how)) {
        worker_finish(&r->launcher, how);
        r->launcher_gone = true;
    }
    output_flush(&r->heard);
    if (room) take_messages(r);
    for (int i = 0; !room && i < r->count; i++) r->peers[i].heard += seconds_now() - began; /* not listened to */
    judge_silence(r);
    transcript_tick(&r->said);
    worker_drain(&r->s->worker);
    output_tick(&r->s->out);
}

/* ------------------------------------------------------------------------------ ending */

/* Asks kolorun to end its ranks and to delete MPI's files. The caller kills the ranks that are left after the limit. */
static void ask_to_end(ranks *r)
{
    ranks_tell(r, (message){.kind = RANK_QUIT}, NULL, 0);
    double began = seconds_now(), limit = r->s->closing ? CLOSE_LIMIT : END_LIMIT;
    bool asked = false;
    while (!r->launcher_gone && seconds_now() - began < limit) {
        outcome how;
        if (worker_turn(&r->launcher, 20, &how)) r->launcher_gone = true;
        if (asked || r->launcher.process <= 0 || seconds_now() - began < 0.3) continue;
        kill(r->launcher.process, SIGINT);
        asked = true;
    }
}

static void free_peers(ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->peers[i].host);
        free(r->peers[i].where);
        free(r->peers[i].question);
        free((char *)(uintptr_t)r->peers[i].end.frames);
    }
    free(r->peers);
    r->peers = NULL;
}

void ranks_end(session *s)
{
    if (!ranks_live(s)) return;
    ranks *r = s->ranks;
    r->live = false;
    if (r->socket) ask_to_end(r);
    worker_close(&r->launcher);
    s->worker.sibling = NULL;
    text_free(&r->heard.pending);
    r->heard = (output){0};
    if (r->socket) zmq_close(r->socket);
    if (r->context) zmq_ctx_term(r->context);
    r->socket = r->context = NULL;
    rank_message_free(&r->bytes);
    free_peers(r);
    names_free(&r->environment);
    free(r->folder);
    r->folder = NULL;
    transcript_free(&r->said);
}

void ranks_close(session *s)
{
    if (!s->ranks) return;
    ranks_end(s);
    text_free(&s->ranks->words);
    free(s->ranks);
    s->ranks = NULL;
}

int ranks_watch(const session *s)
{
    int descriptor = -1;
    size_t size = sizeof descriptor;
    if (ranks_live(s) && s->ranks->socket) zmq_getsockopt(s->ranks->socket, ZMQ_FD, &descriptor, &size);
    return descriptor;
}
