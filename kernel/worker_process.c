#define _GNU_SOURCE
#include "worker_process.h"
#include "display.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waiting.h"
#include "worker/family.h"

static void close_one(int *descriptor)
{
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

void worker_blank(worker_process *w)
{
    *w = (worker_process){
        .supervisor_socket = -1, .control = -1, .wake = -1, .out_pipe = -1, .error_pipe = -1, .input = -1};
}

bool worker_open(worker_process *w, output *out, const char *program, const char *folder)
{
    worker_blank(w);
    w->out = out;
    w->program = copy_of(program);
    w->folder = copy_of(folder);
    w->payload = need_zeroed(MESSAGE_LIMIT);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return w->wake >= 0 && getrandom(&w->token, sizeof w->token, 0) == sizeof w->token;
}

static bool end_one(const relative *r, void *closure)
{
    const worker_process *w = closure;
    if (r->session == getsid(0)) return false; /* the compilers, which are the kernel's own */
    if (w->sibling && r->branch == w->sibling->supervisor) return false;
    if (r->state != 'Z') return kill(r->process, SIGKILL) == 0;
    if (r->parent == getpid()) waitpid(r->process, NULL, WNOHANG);
    return false;
}

/* The processes below a supervisor that is gone are the kernel's own children now (subreaper), in sessions that are not
 * the kernel's. */
static void end_orphans(worker_process *w)
{
    w->orphans_ended = true;
    for (int i = 0; i < 200 && family_each(end_one, w); i++) usleep(5000);
    family_each(end_one, w);
    if (w->supervisor > 0 && kill(w->supervisor, 0) != 0) w->supervisor = 0;
}

/* The supervisor is started anew when a cell has managed to end it. */
static bool start_supervisor(worker_process *w)
{
    int pair[2];
    if (w->supervisor > 0) {
        kill(w->supervisor, SIGKILL);
        waitpid(w->supervisor, NULL, 0);
        w->supervisor = 0;
    }
    close_one(&w->supervisor_socket);
    end_orphans(w);
    w->orphans_ended = false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return false;
    char *number = format_text("%d", pair[1]), *version = format_text("%d", PROTOCOL_VERSION);
    char place[] = "below", *arguments[] = {w->program, number, w->folder, version, place, NULL};
    if (!w->below) strcpy(place, "top");
    fcntl(pair[1], F_SETFD, 0);
    int failed = posix_spawn(&w->supervisor, w->program, NULL, NULL, arguments, environ);
    close(pair[1]);
    free(number);
    free(version);
    w->supervisor_socket = pair[0];
    /* The token goes first, and not on the command line, which every user of the host can read. */
    if (!failed) failed = send(pair[0], &w->token, sizeof w->token, MSG_NOSIGNAL) != sizeof w->token;
    if (failed) close_one(&w->supervisor_socket);
    return !failed;
}

static bool supervisor_gone(const worker_process *w)
{
    struct pollfd ready = {w->supervisor_socket, 0, 0};
    return w->supervisor_socket < 0 || poll(&ready, 1, 0) < 0 || (ready.revents & (POLLHUP | POLLERR));
}

static char *pack_environment(const worker_process *w, size_t *size)
{
    text packed = {0};
    for (size_t i = 0; i < w->environment.count; i++) {
        text_add_bytes(&packed, w->environment.items[i], strlen(w->environment.items[i]) + 1);
    }
    *size = packed.size;
    return text_take(&packed);
}

static bool send_start(worker_process *w, int control, int out, int error)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int descriptors[] = {control, input, out, error};
    size_t size;
    char *environment = pack_environment(w, &size);
    message start = {.token = w->token, .kind = MESSAGE_START};
    bool sent = message_send(w->supervisor_socket, &start, environment, size, descriptors, 4);
    free(environment);
    close(input);
    return sent;
}

bool worker_start(worker_process *w)
{
    if (supervisor_gone(w) && !start_supervisor(w)) return false;
    int control[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
    close_one(&w->control);
    close_one(&w->out_pipe);
    close_one(&w->error_pipe);
    bool made = !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) && !pipe2(out, O_CLOEXEC) &&
                !pipe2(error, O_CLOEXEC);
    w->control = control[0];
    w->out_pipe = out[0];
    w->error_pipe = error[0];
    w->process = 0;
    w->fatal_seen = w->unreported = false;
    if (made) {
        fcntl(out[0], F_SETFL, O_NONBLOCK);
        fcntl(error[0], F_SETFL, O_NONBLOCK);
        fcntl(out[0], F_SETPIPE_SZ, 1 << 18);
    }
    w->starting = made && send_start(w, control[1], out[1], error[1]);
    close_one(&control[1]);
    close_one(&out[1]);
    close_one(&error[1]);
    return w->starting;
}

bool worker_is_up(const worker_process *w)
{
    return (w->process > 0 || w->starting) && w->control >= 0 && w->supervisor_socket >= 0;
}

static void drain_pipe(worker_process *w, int *pipe, int stream)
{
    static char block[1 << 16];
    for (size_t total = 0; *pipe >= 0 && total < (4u << 20);) {
        ssize_t got = read(*pipe, block, sizeof block);
        if (got == 0) close_one(pipe);
        if (got <= 0) break;
        output_add(w->out, stream, block, (size_t)got);
        total += (size_t)got;
    }
}

void worker_drain(worker_process *w)
{
    if (!w->orphans_ended && supervisor_gone(w)) end_orphans(w);
    drain_pipe(w, &w->out_pipe, 1);
    drain_pipe(w, &w->error_pipe, 2);
}

static void drain_for_display(void *closure)
{
    worker_drain(closure);
}

void worker_serve_display(worker_process *w)
{
    if (w->display) display_serve(w->display, w->out, drain_for_display, w);
}

static void read_pipe(worker_process *w, int *pipe, int stream)
{
    static char block[1 << 16];
    ssize_t got = read(*pipe, block, sizeof block);
    if (got > 0) output_add(w->out, stream, block, (size_t)got);
    if (got == 0) close_one(pipe);
}

/* Names the reason why the supervisor is gone, where it is known: only a part of the installation is new. */
static void name_supervisors_end(worker_process *w)
{
    int status = 0;
    for (int i = 0; i < 20 && w->supervisor > 0; i++) {
        pid_t ended = waitpid(w->supervisor, &status, WNOHANG);
        if (ended == w->supervisor) w->supervisor = 0;
        else usleep(5000);
    }
    if (w->supervisor || !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_OTHER_VERSION) return;
    free(w->culled);
    w->culled =
        copy_of("kolo-worker is of another version than kolo-kernel: install Kolo anew, and restart the kernel");
}

/* A message from the supervisor: only the end of the worker matters here. */
static bool take_supervisor_news(worker_process *w)
{
    message news;
    int descriptors[MESSAGE_DESCRIPTORS];
    static char payload[MESSAGE_LIMIT];
    ssize_t size = message_receive(w->supervisor_socket, w->token, &news, payload, descriptors);
    if (size == MESSAGE_GONE) {
        w->ended_idle = !w->running;
        w->unreported = true;
        close_one(&w->supervisor_socket);
        name_supervisors_end(w);
        if (!w->orphans_ended) end_orphans(w);
        w->status = SIGKILL;
        w->process = 0;
        w->starting = false;
        return true;
    }
    if (size < 0) return false;
    if (news.kind == MESSAGE_STARTED) {
        w->starting = false;
        w->process = news.number > 0 ? news.number : 0;
        return w->process == 0;
    }
    if (news.kind == MESSAGE_CULLED) {
        free(w->culled);
        w->culled = copy_of(payload);
        return false;
    }
    if (news.kind != MESSAGE_ENDED || news.number != w->process) return false;
    w->ended_idle = !w->running;
    w->unreported = true;
    w->status = news.code;
    w->process = 0;
    return true;
}

/* Puts a refusal in the place of an answer, so that the cell fails with this sentence. */
static void answer_instead(worker_process *w, const char *why)
{
    w->last = (message){.kind = MESSAGE_ANSWER, .code = -1, .number = STATUS_REFUSED};
    w->payload_size = (size_t)snprintf(w->payload, MESSAGE_LIMIT, "%s", why) + 1;
}

/* A reply from the worker. A dying one's last word is kept; its end comes through the supervisor. */
static bool take_reply(worker_process *w)
{
    int descriptors[MESSAGE_DESCRIPTORS];
    message reply;
    ssize_t size = message_receive(w->control, w->token, &reply, w->payload, descriptors);
    if (size == MESSAGE_GONE) close_one(&w->control);
    if (size == MESSAGE_BROKEN)
        answer_instead(w, "the answer of the cells' process was cut, or is of another version of Kolo");
    if (size < 0) return size == MESSAGE_BROKEN;
    w->last = reply;
    w->payload_size = (size_t)size;
    if (reply.kind == MESSAGE_FATAL) w->fatal_seen = true;
    return reply.kind != MESSAGE_FATAL && reply.kind != MESSAGE_READY;
}

enum { WATCH_SUPERVISOR, WATCH_CONTROL, WATCH_WAKE, WATCH_OUT, WATCH_ERROR, WATCH_DISPLAY };

int worker_delay(const worker_process *w)
{
    bool room = output_has_room(w->out);
    double wait = 1, flush = output_delay(w->out);
    if (flush >= 0 && flush < wait) wait = flush;
    if (!room && wait > 0.01) wait = 0.01;
    if (w->running && wait > 0.03) wait = 0.03;
    if (w->interrupted > 0 && wait > 0.005) wait = 0.005;
    return (int)(wait * 1000) + 1;
}

void worker_watch(const worker_process *w, int *descriptors)
{
    bool room = output_has_room(w->out);
    const int all[WORKER_WATCHED] = {w->supervisor_socket, w->control, w->wake, room ? w->out_pipe : -1,
                                     room ? w->error_pipe : -1};
    memcpy(descriptors, all, sizeof all);
}

/* One turn: waits for news and pumps output. True when `*result` is set. */
bool worker_turn(worker_process *w, int wait, outcome *result)
{
    struct pollfd watched[WATCH_DISPLAY + 1];
    if (w->unsent) {
        w->unsent = false;
        *result = OUTCOME_ANSWER;
        return true;
    }
    bool room = output_has_room(w->out);
    watched[WATCH_SUPERVISOR] = (struct pollfd){w->supervisor_socket, POLLIN, 0};
    watched[WATCH_CONTROL] = (struct pollfd){w->control, POLLIN, 0};
    watched[WATCH_WAKE] = (struct pollfd){w->wake, POLLIN, 0};
    watched[WATCH_OUT] = (struct pollfd){room ? w->out_pipe : -1, POLLIN, 0};
    watched[WATCH_ERROR] = (struct pollfd){room ? w->error_pipe : -1, POLLIN, 0};
    watched[WATCH_DISPLAY] = (struct pollfd){w->display ? display_watch(w->display) : -1, POLLIN, 0};
    if (poll(watched, WATCH_DISPLAY + 1, wait) < 0) return false;
    if (watched[WATCH_OUT].revents) read_pipe(w, &w->out_pipe, 1);
    if (watched[WATCH_ERROR].revents) read_pipe(w, &w->error_pipe, 2);
    worker_serve_display(w);
    output_tick(w->out);
    if (watched[WATCH_WAKE].revents) worker_take_wake(w);
    if (w->interrupted > 0 && w->display) display_drop_held(w->display);
    bool answered = watched[WATCH_CONTROL].revents;
    if (w->interrupted > 0 && !answered) waiting_interrupt(w);
    if (w->running) waiting_look(w);
    if (watched[WATCH_CONTROL].revents && take_reply(w)) {
        *result = OUTCOME_ANSWER;
        return true;
    }
    if (watched[WATCH_SUPERVISOR].revents && take_supervisor_news(w)) {
        *result = OUTCOME_ENDED;
        return true;
    }
    return false;
}

static outcome wait_for_reply(worker_process *w)
{
    outcome result = OUTCOME_ENDED;
    while (!worker_turn(w, worker_delay(w), &result)) {
        if (w->supervisor_socket < 0) break;
    }
    return result;
}

/* A worker that hears nothing any more is ended, if it has not ended: the news of it is the answer. */
static void send_request(worker_process *w, message request, const void *payload, size_t size, const int *descriptor)
{
    request.token = w->token;
    w->fatal_seen = w->unsent = false;
    if (w->control >= 0 && message_send(w->control, &request, payload, size, descriptor, descriptor ? 1 : 0)) return;
    bool gone = w->control < 0 || errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
    if (gone && w->process > 0) kill(w->process, SIGKILL);
    if (gone) return;
    char why[200];
    if (errno == EMSGSIZE)
        snprintf(why, sizeof why, "too much at once for the cells' process: %zu bytes, and %d are the most", size,
                 MESSAGE_LIMIT - 1);
    else snprintf(why, sizeof why, "the cells' process cannot be reached: %s", strerror(errno));
    answer_instead(w, why);
    w->unsent = true;
}

outcome worker_ask(worker_process *w, uint32_t kind, const void *payload, size_t size)
{
    send_request(w, (message){.kind = kind}, payload, size, NULL);
    return wait_for_reply(w);
}

outcome worker_tell(worker_process *w, message request, const void *payload, size_t size)
{
    send_request(w, request, payload, size, NULL);
    return wait_for_reply(w);
}

outcome worker_peek(worker_process *w, uint64_t address, size_t size)
{
    send_request(w, (message){.kind = MESSAGE_PEEK, .address = address, .size = size}, NULL, 0, NULL);
    return wait_for_reply(w);
}

static void tell_supervisor(worker_process *w, bool runs)
{
    message watch = {.token = w->token, .kind = MESSAGE_WATCH, .number = runs};
    if (w->supervisor_socket >= 0) message_send(w->supervisor_socket, &watch, NULL, 0, NULL, 0);
}

void worker_begin(worker_process *w, uint32_t kind, const void *payload, size_t size, bool asks)
{
    int ends[2] = {-1, -1};
    if (w->input_file) asks = false;
    if (asks && pipe2(ends, O_CLOEXEC)) asks = false;
    if (w->input_file) ends[0] = open(w->input_file, O_RDONLY | O_CLOEXEC);
    if (!asks && ends[0] < 0) ends[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    free(w->culled);
    w->culled = NULL;
    w->input = ends[1];
    w->asks = w->out->holds = asks;
    w->running = true;
    tell_supervisor(w, true);
    send_request(w, (message){.kind = kind}, payload, size, &ends[0]);
    close(ends[0]);
}

outcome worker_finish(worker_process *w, outcome result)
{
    w->running = w->out->holds = false;
    tell_supervisor(w, false);
    if (result == OUTCOME_ANSWER) {
        w->wall += w->last.wall;
        w->user += w->last.user;
        w->system += w->last.system;
    }
    if (result == OUTCOME_ANSWER &&
        supervisor_gone(w)) { /* the cell ended its supervisor, and with it its own process */
        result = OUTCOME_ENDED;
        close_one(&w->supervisor_socket);
        w->status = SIGKILL;
        w->process = 0;
    }
    close_one(&w->input);
    worker_drain(w);
    worker_serve_display(w);
    return result;
}

outcome worker_run(worker_process *w, uint32_t kind, const void *payload, size_t size, bool asks)
{
    worker_begin(w, kind, payload, size, asks);
    return worker_finish(w, wait_for_reply(w));
}

void worker_take_wake(worker_process *w)
{
    uint64_t woken;
    if (read(w->wake, &woken, sizeof woken) > 0 && !w->interrupted) w->interrupted = seconds_now();
}

void worker_forget_wake(worker_process *w)
{
    uint64_t woken;
    (void)!read(w->wake, &woken, sizeof woken);
}

void worker_interrupt(worker_process *w)
{
    uint64_t one = 1;
    (void)!write(w->wake, &one, sizeof one);
}

static bool wait_for_end(worker_process *w, double seconds)
{
    outcome result = OUTCOME_ANSWER;
    for (double end = seconds_now() + seconds; result != OUTCOME_ENDED && seconds_now() < end;)
        worker_turn(w, worker_delay(w), &result);
    return result == OUTCOME_ENDED;
}

/* A worker whose control socket closes ends by itself, as a program does: with its exit handlers, which are heard. */
bool worker_ask_to_end(worker_process *w)
{
    if (w->running || w->process <= 0 || w->control < 0) return false;
    close_one(&w->control);
    return wait_for_end(w, 1);
}

void worker_stop(worker_process *w, bool gently)
{
    bool had = w->process != 0 || w->starting;
    if (gently && worker_ask_to_end(w)) had = false;
    message sweep = {.token = w->token, .kind = MESSAGE_SWEEP, .number = gently};
    if (w->supervisor_socket < 0 || !message_send(w->supervisor_socket, &sweep, NULL, 0, NULL, 0)) return;
    if (had) wait_for_end(w, 3);
}

void worker_close(worker_process *w)
{
    close_one(&w->supervisor_socket);
    if (w->supervisor > 0) {
        for (int i = 0; i < 300 && waitpid(w->supervisor, NULL, WNOHANG) == 0; i++) usleep(10000);
    }
    end_orphans(w);
    close_one(&w->control);
    close_one(&w->out_pipe);
    close_one(&w->error_pipe);
    close_one(&w->input);
    close_one(&w->wake);
    names_free(&w->environment);
    free(w->program);
    free(w->folder);
    free(w->payload);
    free(w->culled);
    free(w->input_file);
}

char *worker_folder(const worker_process *w)
{
    char *link = format_text("/proc/%d/cwd", (int)w->process), *folder = need_zeroed(4096);
    bool told = w->process > 0 && readlink(link, folder, 4095) > 0;
    if (!told && !getcwd(folder, 4095)) folder[0] = 0; /* a worker that is starting begins where the kernel is */
    free(link);
    return folder;
}
