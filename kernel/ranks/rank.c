/* kolo-rank: a kernel without a front of its own, one at each rank of a job that `%ranks` has started. It has a
 * supervisor and a worker as the kernel has; the worker is the MPI process. Output, displays and questions go to
 * the kernel; objects to load and functions to run come from it. Read first: wire.h, worker_process.h. */
#define _GNU_SOURCE
#include "display.h"
#include "exit_status.h"
#include "ranks/contact.h"
#include "ranks/wire.h"
#include "waiting.h"

#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

typedef struct rank {
    void *context, *socket;
    int number;
    char *folder, *program, *library;
    front front;
    output out;
    display display;
    worker_process worker;
    bool joined;      /* MPI_Init has returned */
    bool dead;        /* the worker is gone, and the kernel knows */
    bool quit;
    char *trouble;    /* why a cell could not be loaded */
    double beat;      /* when the kernel last heard from here */
    double asked_where; /* when the kernel asked where the cell is; 0: answered */
} rank;

static void tell(rank *r, message head, const void *payload, size_t size)
{
    rank_message_send(r->socket, NULL, &head, payload, size, NULL, 0);
    r->beat = seconds_now();
}

static void publish(void *self, const char *type, const char *content)
{
    text payload = {0};
    text_add_bytes(&payload, type, strlen(type) + 1);
    text_add_bytes(&payload, content, strlen(content) + 1);
    tell(self, (message){.kind = RANK_PUBLISH}, payload.data, payload.size);
    text_free(&payload);
}

/* ------------------------------------------------------------------------------ what a cell has come to */

/* The objects of cells lie in another folder at the kernel: their bare names are told. */
static char *bare_frames(const rank *r, const exit_status *e, size_t *size)
{
    text bare = {0};
    size_t prefix = strlen(r->folder);
    const char *end = e->frames + e->frames_size;
    for (const char *at = e->frames; at && at < end; at += strlen(at) + 1) {
        const char *from = !strncmp(at, r->folder, prefix) && at[prefix] == '/' ? at + prefix + 1 : at;
        text_add_bytes(&bare, from, strlen(from) + 1);
    }
    *size = bare.size;
    return text_take(&bare);
}

static void tell_exit(rank *r, uint32_t kind, const exit_status *e)
{
    size_t size;
    char *frames = bare_frames(r, e, &size);
    message head = r->worker.last; /* with the times it took */
    head.kind = kind;
    head.token = 0;
    head.number = e->status;
    head.code = e->code;
    head.address = e->address;
    head.size = e->size;
    tell(r, head, frames, size);
    free(frames);
}

/* The place that the handler in join.c has written down, if it has. */
static bool read_where(rank *r, char **frames, size_t *size)
{
    char *path = format_text("%s/where", r->folder);
    struct stat facts;
    *frames = stat(path, &facts) == 0 ? read_whole_file(path) : NULL;
    *size = *frames ? (size_t)facts.st_size : 0;
    if (*frames) unlink(path);
    free(path);
    return *frames != NULL;
}

static void tell_where(rank *r)
{
    exit_status at = {0};
    char *frames;
    bool known = read_where(r, &frames, &at.frames_size);
    if (!known && seconds_now() - r->asked_where < 0.5) return;
    r->asked_where = 0;
    at.frames = frames;
    tell_exit(r, RANK_WHERE, &at);
    free(frames);
}

static void end_cell(rank *r, outcome result)
{
    bool died = worker_finish(&r->worker, result) == OUTCOME_ENDED;
    output_end(&r->out);
    if (r->asked_where > 0) tell_where(r);
    exit_status e = exit_status_of(&r->worker, died);
    if (!r->joined && !died && e.status == STATUS_RETURNED) {
        r->joined = true;
        tell(r, (message){.kind = RANK_READY}, NULL, 0);
        return;
    }
    tell_exit(r, died ? RANK_DIED : RANK_DONE, &e);
    r->dead |= died;
}

/* The worker has ended between two cells. */
static void end_worker(rank *r)
{
    exit_status e = exit_status_of(&r->worker, true);
    output_end(&r->out);
    tell_exit(r, RANK_DIED, &e);
    r->dead = true;
}

/* ------------------------------------------------------------------------------ what the kernel wants */

static void begin(rank *r, const char *object, const char *function, bool asks)
{
    text payload = {0};
    text_add_bytes(&payload, object, strlen(object) + 1);
    text_add_bytes(&payload, function, strlen(function) + 1);
    worker_forget_wake(&r->worker);
    r->worker.interrupted = 0;
    display_begin(&r->display);
    output_begin(&r->out, &r->front, false);
    worker_begin(&r->worker, MESSAGE_RUN, payload.data, payload.size, asks);
    text_free(&payload);
}

/* Runs a cell, unless its object could not be loaded here. */
static void run(rank *r, const rank_message *l)
{
    char *path = format_text("%s/%s", r->folder, l->payload);
    if (r->trouble) {
        message head = {.kind = RANK_DONE, .number = -1};
        tell(r, head, r->trouble, strlen(r->trouble) + 1);
    } else if (!r->dead) {
        begin(r, path, rank_message_second(l), l->head.number == 1);
    }
    free(path);
}

static void load(rank *r, const rank_message *l)
{
    char *path = format_text("%s/%s", r->folder, l->payload);
    size_t name = strlen(l->payload) + 1;
    text payload = {0};
    text_add_bytes(&payload, path, strlen(path) + 1);
    text_add_bytes(&payload, l->payload + name, l->size > name ? l->size - name : 0);
    free(r->trouble);
    r->trouble = NULL;
    if (!write_whole_file(path, l->object, l->object_size)) {
        r->trouble = format_text("%s cannot be written", path);
    } else if (worker_ask(&r->worker, MESSAGE_LOAD, payload.data, payload.size) != OUTCOME_ANSWER) {
        end_worker(r);
    } else if (r->worker.last.code) {
        r->trouble = copy_of(r->worker.payload);
    }
    unlink(path); /* what is loaded needs no name */
    text_free(&payload);
    free(path);
}

static void peek(rank *r, const rank_message *l)
{
    message head = {.kind = RANK_BYTES, .code = -1};
    bool there = !r->dead && worker_peek(&r->worker, l->head.address, l->head.size) == OUTCOME_ANSWER &&
                 r->worker.last.code == 0 && r->worker.payload_size == l->head.size;
    if (there) head.code = 0;
    tell(r, head, r->worker.payload, there ? r->worker.payload_size : 0);
}

static void ask_where(rank *r)
{
    if (!r->worker.running || r->worker.process <= 0 || !r->joined) return;
    r->asked_where = seconds_now();
    if (r->worker.interrupted > 0)
        kill(r->worker.process, SIGNAL_INTERRUPT); /* where it returns to the cell, it stops */
    kill(r->worker.process, SIGNAL_WHERE);
}

static void obey(rank *r, const rank_message *l)
{
    bool idle = !r->dead && !r->worker.running;
    if (l->problem) { /* the next cell cannot be run after a message that was cut */
        free(r->trouble);
        r->trouble = copy_of(l->problem);
        return;
    }
    switch (l->head.kind) {
    case RANK_LOAD:
        if (idle && l->object) load(r, l);
        break;
    case RANK_RUN:
        if (idle) run(r, l);
        break;
    case RANK_PEEK: peek(r, l); break;
    case RANK_FOLDER:
        if (idle) worker_ask(&r->worker, MESSAGE_FOLDER, l->payload, l->size);
        break;
    case RANK_SETENV:
        if (idle) worker_ask(&r->worker, MESSAGE_SETENV, l->payload, l->size);
        break;
    case RANK_INTERRUPT: worker_interrupt(&r->worker); break;
    case RANK_SAY_WHERE: ask_where(r); break;
    case RANK_QUIT: r->quit = true; break;
    default: break;
    }
}

static void take_messages(rank *r)
{
    rank_message l;
    while (!r->quit && rank_message_take(r->socket, NULL, &l)) {
        obey(r, &l);
        rank_message_free(&l);
    }
}

/* Asks the user, through the kernel. The cell waits meanwhile, and only an end of the rank is served. */
static char *ask(void *self, const char *prompt)
{
    rank *r = self;
    char *line = NULL;
    tell(r, (message){.kind = RANK_ASK}, prompt, strlen(prompt) + 1);
    for (bool waiting = true; waiting && !r->quit;) {
        zmq_pollitem_t ready = {.socket = r->socket, .events = ZMQ_POLLIN};
        zmq_poll(&ready, 1, (long)(RANK_BEAT * 1000));
        tell(r, (message){.kind = RANK_ALIVE}, NULL, 0);
        rank_message l;
        while (waiting && rank_message_take(r->socket, NULL, &l)) {
            if (l.problem) l.head = (message){.kind = RANK_INPUT, .code = -1};
            waiting = l.head.kind != RANK_INPUT && l.head.kind != RANK_INTERRUPT && l.head.kind != RANK_QUIT;
            if (l.head.kind == RANK_INPUT && l.head.code == 0) line = copy_of(l.payload);
            if (l.head.kind == RANK_QUIT) r->quit = true;
            rank_message_free(&l);
        }
    }
    return line;
}

/* ------------------------------------------------------------------------------ its life */

static size_t watch(rank *r, zmq_pollitem_t *items)
{
    int descriptors[WORKER_WATCHED];
    size_t count = 0;
    items[count++] = (zmq_pollitem_t){.socket = r->socket, .events = ZMQ_POLLIN};
    if (r->dead) return count;
    worker_watch(&r->worker, descriptors);
    for (size_t i = 0; i < WORKER_WATCHED; i++) {
        if (descriptors[i] >= 0) items[count++] = (zmq_pollitem_t){.fd = descriptors[i], .events = ZMQ_POLLIN};
    }
    items[count++] = (zmq_pollitem_t){.fd = display_watch(&r->display), .events = ZMQ_POLLIN};
    return count;
}

static void serve(rank *r)
{
    zmq_pollitem_t items[1 + WORKER_WATCHED + 1];
    size_t count = watch(r, items);
    double beat = r->beat + RANK_BEAT - seconds_now();
    int wait = beat > 0 ? (int)(beat * 1000) + 1 : 0;
    if (!r->dead && worker_delay(&r->worker) < wait) wait = worker_delay(&r->worker);
    if (r->asked_where > 0 && wait > 10) wait = 10;
    zmq_poll(items, (int)count, wait);
    outcome result;
    if (!r->dead && worker_turn(&r->worker, 0, &result)) {
        if (r->worker.running) end_cell(r, result);
        else if (result == OUTCOME_ENDED) end_worker(r);
    }
    if (r->asked_where > 0 && r->worker.running) tell_where(r);
    take_messages(r);
    if (seconds_now() - r->beat <= RANK_BEAT) return;
    tell(r, (message){.kind = RANK_ALIVE}, NULL, 0);
    if (!r->worker.running && !r->dead) waiting_look(&r->worker); /* a worker that was stopped is ended for it */
}

static void find_programs(rank *r)
{
    char real[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", real, sizeof real - 1);
    real[size > 0 ? size : 0] = 0;
    const char *folder = dirname(real);
    r->program = format_text("%s/kolo-worker", folder);
    r->library = format_text("%s/../lib/libkolo.so", folder);
}

static void set_environment(rank *r)
{
    display_tell(&r->display, r->library, r->folder, &r->worker.environment);
    /* The kernel's own business, and kolorun's word on where a program's output goes, which is the kernel's here. */
    static const char *const not_for_cells[] = {RANKS_ENDPOINT, RANKS_TOKEN, RANKS_KEY, "KOLORUN_OUTPUT"};
    for (size_t i = 0; i < sizeof not_for_cells / sizeof *not_for_cells; i++) unsetenv(not_for_cells[i]);
}

/* On the kernel's own host within the job's folder, which goes with the job, whatever ends it. */
static char *folder_template(void)
{
    const char *endpoint = getenv(RANKS_ENDPOINT),
               *path = endpoint && !strncmp(endpoint, "ipc://", 6) ? endpoint + 6 : "";
    const char *slash = strrchr(path, '/');
    return slash ? format_text("%.*s/rank-XXXXXX", (int)(slash - path), path) : copy_of("/tmp/kolo-XXXXXX");
}

static bool open_rank(rank *r, char **problem)
{
    char name[RANK_NAME], host[256] = "";
    const char *token = getenv(RANKS_TOKEN), *number = getenv("OMPI_COMM_WORLD_RANK");
    if (!number) number = getenv("PMIX_RANK");
    if (!token || !number) {
        *problem = copy_of("it is started by %ranks in a notebook");
        return false;
    }
    r->number = (int)strtol(number, NULL, 10);
    r->front = (front){r, publish, ask};
    r->context = zmq_ctx_new();
    rank_name(name, token, r->number);
    r->socket = contact_reach(r->context, name, problem);
    if (!r->socket) return false;
    gethostname(host, sizeof host - 1);
    tell(r, (message){.kind = RANK_HELLO, .code = getpid()}, host, strlen(host) + 1);
    find_programs(r);
    r->folder = folder_template();
    output_begin(&r->out, &r->front, false);
    bool open = mkdtemp(r->folder) && display_open(&r->display, r->folder) &&
                worker_open(&r->worker, &r->out, r->program, r->folder);
    if (open) {
        const char *endpoint = getenv(RANKS_ENDPOINT);
        r->worker.below = endpoint && !strncmp(endpoint, "ipc://", 6); /* the launcher's supervisor is on this host */
        r->worker.display = &r->display;
        set_environment(r);
        open = worker_start(&r->worker);
    }
    if (!open) *problem = format_text("%s cannot be started", r->program);
    return open;
}

int main(void)
{
    static rank r;
    char *problem = NULL;
    signal(SIGPIPE, SIG_IGN);
    if (!open_rank(&r, &problem)) {
        fprintf(stderr, "kolo-rank: %s\n", problem);
        return 2;
    }
    begin(&r, "", "kolo_cell_join_ranks", false);
    while (!r.quit) serve(&r);
    worker_close(&r.worker);
    zmq_close(r.socket);
    zmq_ctx_term(r.context);
    return 0;
}
