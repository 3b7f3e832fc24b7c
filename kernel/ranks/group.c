/* Starting, hearing and ending the ranks. Read first: ranks.h. */
#define _GNU_SOURCE
#include "ranks/contact.h"
#include "ranks/ranks.h"

#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

static const double START_LIMIT = 60, /* seconds for all ranks to come up; kolorun gives up earlier where it can */
    END_LIMIT = 2.0, SILENCE = 4.0; /* without a beat (wire.h) a rank is taken for lost */

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
    letter_send(r->socket, r->peers[rank].name, &head, payload, size, NULL, 0);
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

static void note_end(peer *p, const letter *l, bool survived)
{
    free((char *)(uintptr_t)p->end.frames);
    p->end = (ended){.ending = l->head.number,
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

static void publish(ranks *r, int rank, const letter *l)
{
    const char *type = l->payload;
    json_t *content = json_loads(letter_second(l), 0, NULL);
    if (!strcmp(type, "stream") && r->s->machine.interrupted > 0 && !output_has_room(&r->s->out)) {
        r->said.dropped = true; /* an interrupt does not wait until all of a flood has been shown */
    } else if (!strcmp(type, "stream")) {
        const char *words = json_string_value(json_object_get(content, "text")),
                   *name = json_string_value(json_object_get(content, "name"));
        if (words && name) transcript_add(&r->said, rank, strcmp(name, "stderr") ? 1 : 2, words, strlen(words));
    } else if (content && strcmp(type, "clear_output")) { /* one rank's wish would clear away the others' words */
        char *dump = json_dumps(own_display(rank, content), JSON_COMPACT);
        r->said.displays = true;
        if (dump) output_publish(&r->s->out, type, dump);
        free(dump);
    }
    json_decref(content);
}

/* "in MPI_Recv at In[4]:2": the outermost call of MPI's, and the innermost line of a cell's. */
static char *where_of(session *s, const letter *l)
{
    char *call = NULL, *line = place_of_frames(s, l->payload, l->size);
    for (const char *at = l->payload, *end = at + l->size; at < end;) {
        const char *symbol = at + strlen(at) + 1;
        symbol += strlen(symbol) + 1;
        if (symbol > end) break;
        const char *name = strstr(symbol, "MPI_");
        if (name && name - symbol <= 1) {
            free(call);
            call = copy_of(name);
        }
        at = symbol + strlen(symbol) + 1;
    }
    char *where = line || call ? format_text("%s%s%s%s%s", call ? "in " : "", call ? call : "", call && line ? " " : "",
                                             line ? "at " : "", line ? line : "")
                               : NULL;
    free(call);
    free(line);
    return where;
}

static void obey(ranks *r, int rank, letter *l)
{
    peer *p = &r->peers[rank];
    p->heard = seconds_now();
    switch (l->head.kind) {
    case RANK_HELLO:
        free(p->host);
        p->host = copy_of(l->payload);
        p->process = l->head.code;
        break;
    case RANK_READY: p->ready = true; break;
    case RANK_PUBLISH: publish(r, rank, l); break;
    case RANK_ASK: p->asks = true; break;
    case RANK_DONE: note_end(p, l, true); break;
    case RANK_DIED: note_end(p, l, false); break;
    case RANK_WHERE:
        free(p->where);
        p->where = where_of(r->s, l);
        p->asked_where = false;
        break;
    case RANK_BYTES:
        letter_free(&r->bytes);
        r->bytes = *l;
        r->bytes_here = true;
        *l = (letter){0};
        break;
    default: break;
    }
}

/* May more be heard now, or would what it prints outrun the server? */
static bool has_room(ranks *r)
{
    return output_has_room(&r->s->out) || r->s->machine.interrupted > 0;
}

static void take_letters(ranks *r)
{
    char name[RANK_NAME];
    letter l;
    for (int i = 0; i < 256 && has_room(r) && letter_take(r->socket, name, &l); i++) {
        for (int rank = 0; rank < r->count; rank++) {
            if (!strcmp(name, r->peers[rank].name)) obey(r, rank, &l);
        }
        letter_free(&l);
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
    int descriptors[MACHINE_WATCHED];
    zmq_pollitem_t items[2 + MACHINE_WATCHED];
    size_t count = 0;
    bool room = has_room(r);
    if (!room && wait > 10) wait = 10;
    if (room) items[count++] = (zmq_pollitem_t){.socket = r->socket, .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.fd = r->s->machine.wake, .events = ZMQ_POLLIN};
    machine_watch(&r->launcher, descriptors);
    for (size_t i = 0; i < MACHINE_WATCHED; i++) {
        if (descriptors[i] >= 0) items[count++] = (zmq_pollitem_t){.fd = descriptors[i], .events = ZMQ_POLLIN};
    }
    double began = seconds_now();
    zmq_poll(items, (int)count, wait);
    outcome how;
    if (!r->launcher_gone && machine_turn(&r->launcher, 0, &how)) {
        machine_finish(&r->launcher, how);
        r->launcher_gone = true;
    }
    output_flush(&r->heard);
    if (room) take_letters(r);
    for (int i = 0; !room && i < r->count; i++) r->peers[i].heard += seconds_now() - began; /* not listened to */
    judge_silence(r);
    transcript_tick(&r->said);
    machine_drain(&r->s->machine);
    output_tick(&r->s->out);
}

/* ------------------------------------------------------------------------------ starting */

static void hear(void *self, const char *type, const char *content)
{
    ranks *r = self;
    json_t *heard = json_loads(content, 0, NULL);
    const char *words = json_string_value(json_object_get(heard, "text"));
    if (!strcmp(type, "stream") && words && r->words.size < 20000) text_add(&r->words, words);
    json_decref(heard);
}

/* Their names are left out. */
char *ranks_reason(const ranks *r)
{
    static const char *const speakers[] = {"kolorun: ", "kolo-rank: "};
    text found = {0};
    char *copy = copy_of(r->words.data ? r->words.data : ""), *rest;
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        for (size_t i = 0; i < sizeof speakers / sizeof *speakers; i++) {
            const char *at = strstr(line, speakers[i]);
            if (at && !(found.data && strstr(found.data, at + strlen(speakers[i]))))
                text_addf(&found, "%s%s", found.size ? "\n" : "", at + strlen(speakers[i]));
        }
    }
    free(copy);
    return found.size ? text_take(&found) : NULL;
}

/* May ranks come to be on other hosts? */
static bool beyond_this_host(const names *words)
{
    for (size_t i = 0; i < words->count; i++) {
        const char *word = words->items[i], *name = word + strspn(word, "-");
        if (*word == '-' && (*name == 'H' || !strncmp(name, "hosts", 5) || !strncmp(name, "hostfile", 8))) return true;
    }
    const char *nodes = getenv("SLURM_JOB_NUM_NODES");
    return nodes && atoi(nodes) > 1;
}

bool ranks_go_without(const char *line)
{
    return !strncmp(line, "KOLO_DISPLAY", 12) || !strncmp(line, "KOLO_KERNEL_", 12);
}

/* The user's variables go along, and the folder. */
static void add_surroundings(ranks *r)
{
    const names *from = &r->s->machine.environment;
    for (size_t i = 0; i < from->count; i++) {
        if (ranks_go_without(from->items[i])) continue;
        names_add(&r->launcher.environment, from->items[i], strlen(from->items[i]));
        names_add(&r->environment, from->items[i], strlen(from->items[i]));
    }
    r->folder = getcwd(NULL, 0);
}

static char *make_token(void)
{
    unsigned char random[16];
    text digits = {0};
    if (getrandom(random, sizeof random, 0) != sizeof random) return NULL;
    for (size_t i = 0; i < sizeof random; i++) text_addf(&digits, "%02x", random[i]);
    return text_take(&digits);
}

static bool open_launcher(ranks *r, char **problem)
{
    session *s = r->s;
    char *folder = format_text("%s-ranks", s->folder), *secret = make_token();
    bool open = secret && (mkdir(folder, 0700) == 0 || access(folder, W_OK) == 0);
    r->hearer = (front){r, hear, NULL};
    output_begin(&r->heard, &r->hearer, false);
    open = open && machine_open(&r->launcher, &r->heard, s->machine.program, folder);
    r->launcher.sibling = &s->machine;
    s->machine.sibling = &r->launcher;
    if (open) add_surroundings(r);
    for (int i = 0; open && i < r->count; i++) rank_name(r->peers[i].name, secret, i);
    free(secret);
    free(folder);
    if (!open) *problem = copy_of("the process that starts the ranks cannot be started");
    return open;
}

static bool listen_for_ranks(ranks *r, const names *words, char **problem)
{
    char secret[RANK_NAME];
    snprintf(secret, sizeof secret, "%.*s", (int)strcspn(r->peers[0].name, ":"), r->peers[0].name);
    r->context = zmq_ctx_new();
    const char *folder = beyond_this_host(words) ? NULL : r->launcher.folder;
    r->socket = contact_listen(r->context, folder, secret, &r->launcher.environment, problem);
    return r->socket != NULL;
}

static void launch(ranks *r, const names *words)
{
    text command = {0};
    char *number = format_text("%d", r->count), *copy = copy_of(r->s->executable),
         *program = format_text("%s/kolo-rank", dirname(copy));
    const char *const first[] = {r->s->launcher, "-np", number};
    for (size_t i = 0; i < 3; i++) text_add_bytes(&command, first[i], strlen(first[i]) + 1);
    for (size_t i = 0; i < words->count; i++) text_add_bytes(&command, words->items[i], strlen(words->items[i]) + 1);
    text_add_bytes(&command, program, strlen(program) + 1);
    machine_begin(&r->launcher, MESSAGE_SHELL, command.data, command.size, false);
    text_free(&command);
    free(number);
    free(copy);
    free(program);
}

static int ready_count(const ranks *r)
{
    int ready = 0;
    for (int i = 0; i < r->count; i++) ready += r->peers[i].ready;
    return ready;
}

static bool any_ended(const ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        if (r->peers[i].ended || r->peers[i].silent) return true;
    }
    return false;
}

static bool take_interrupt(session *s)
{
    uint64_t woken;
    if (read(s->machine.wake, &woken, sizeof woken) > 0) s->machine.interrupted = seconds_now();
    return s->machine.interrupted > 0;
}

/* One sentence, and below it what mpirun said in full: "…; it says:" leads to its first line. */
static result launch_error(char *why)
{
    char *rest = strchr(why, '\n');
    if (rest && rest > why && rest[-1] == ':') {
        *rest = ' ';
        memmove(rest + 1, rest + 1 + strspn(rest + 1, " "), strlen(rest + 1 + strspn(rest + 1, " ")) + 1);
        rest = strchr(rest, '\n');
    }
    if (rest) *rest = 0;
    result e = error_result("LaunchError", "%s", why);
    if (rest) text_addf(&e.traceback, "\n%s", rest + 1);
    return e;
}

static result wait_for_ranks(ranks *r)
{
    double limit = seconds_now() + START_LIMIT;
    while (ready_count(r) < r->count && !r->launcher_gone && !any_ended(r) && seconds_now() < limit) {
        ranks_turn(r, 50);
        if (take_interrupt(r->s) || r->s->closing) return error_result("KeyboardInterrupt", "interrupted");
    }
    if (ready_count(r) == r->count) return (result){0};
    for (double end = seconds_now() + 1; !r->launcher_gone && seconds_now() < end;) ranks_turn(r, 20);
    char *why = ranks_reason(r);
    result e =
        why ? launch_error(why)
            : error_result("LaunchError", "%d of %d ranks have not come up", r->count - ready_count(r), r->count);
    free(why);
    return e;
}

result ranks_start(session *s, int count, const names *words)
{
    ranks_end(s, true);
    if (!s->ranks) {
        s->ranks = need_zeroed(sizeof *s->ranks);
        s->ranks->s = s;
    }
    ranks *r = s->ranks;
    char *problem = NULL;
    r->count = count;
    r->peers = need_zeroed((size_t)count * sizeof *r->peers);
    r->live = true;
    r->loads_sent = 0;
    r->launcher_gone = false;
    text_clear(&r->words);
    transcript_begin(&r->said, &s->out, count);
    bool open = open_launcher(r, &problem) && listen_for_ranks(r, words, &problem);
    if (open && !machine_start_worker(&r->launcher)) {
        problem = copy_of("the process that starts the ranks cannot be started");
        open = false;
    }
    result e = {0};
    if (open) {
        launch(r, words);
        e = wait_for_ranks(r);
    } else {
        e = error_result("LaunchError", "%s", problem);
    }
    free(problem);
    for (int i = 0; i < count; i++) transcript_end(&r->said, i);
    if (e.failed) ranks_end(s, true);
    return e;
}

/* ------------------------------------------------------------------------------ ending */

/* kolorun ends its ranks and MPI's files in their order; what has not gone by then is swept. */
static void ask_to_end(ranks *r)
{
    ranks_tell(r, (message){.kind = RANK_QUIT}, NULL, 0);
    double began = seconds_now();
    bool asked = false;
    while (!r->launcher_gone && seconds_now() - began < END_LIMIT && !r->s->closing) {
        outcome how;
        if (machine_turn(&r->launcher, 20, &how)) r->launcher_gone = true;
        if (asked || r->launcher.worker <= 0 || seconds_now() - began < 0.3) continue;
        kill(r->launcher.worker, SIGINT);
        asked = true;
    }
}

static void free_peers(ranks *r)
{
    for (int i = 0; i < r->count; i++) {
        free(r->peers[i].host);
        free(r->peers[i].where);
        free((char *)(uintptr_t)r->peers[i].end.frames);
    }
    free(r->peers);
    r->peers = NULL;
}

void ranks_end(session *s, bool gently)
{
    if (!ranks_live(s)) return;
    ranks *r = s->ranks;
    r->live = false;
    if (gently && r->socket) ask_to_end(r);
    machine_close(&r->launcher);
    s->machine.sibling = NULL;
    text_free(&r->heard.pending);
    r->heard = (output){0};
    if (r->socket) zmq_close(r->socket);
    if (r->context) zmq_ctx_term(r->context);
    r->socket = r->context = NULL;
    letter_free(&r->bytes);
    free_peers(r);
    names_free(&r->environment);
    free(r->folder);
    r->folder = NULL;
    transcript_free(&r->said);
}

void ranks_close(session *s)
{
    if (!s->ranks) return;
    ranks_end(s, false);
    text_free(&s->ranks->words);
    free(s->ranks);
    s->ranks = NULL;
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
