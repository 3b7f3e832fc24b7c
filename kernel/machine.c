#define _GNU_SOURCE
#include "machine.h"
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

void machine_blank(machine *m)
{
    *m = (machine){.guard_socket = -1, .control = -1, .wake = -1, .out_pipe = -1, .error_pipe = -1, .input = -1};
}

bool machine_open(machine *m, output *out, const char *program, const char *folder)
{
    machine_blank(m);
    m->out = out;
    m->program = copy_of(program);
    m->folder = copy_of(folder);
    m->payload = need_zeroed(MESSAGE_LIMIT);
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return m->wake >= 0 && getrandom(&m->token, sizeof m->token, 0) == sizeof m->token;
}

static bool end_one(const relative *r, void *closure)
{
    const machine *m = closure;
    if (r->session == getsid(0)) return false; /* the compilers, which are the kernel's own */
    if (m->sibling && r->branch == m->sibling->guard) return false;
    if (r->state != 'Z') return kill(r->process, SIGKILL) == 0;
    if (r->parent == getpid()) waitpid(r->process, NULL, WNOHANG);
    return false;
}

/* What was below a guard that is gone is below the kernel now (subreaper), in sessions that are not the kernel's. */
static void end_orphans(machine *m)
{
    m->orphans_ended = true;
    for (int i = 0; i < 200 && family_each(end_one, m); i++) usleep(5000);
    family_each(end_one, m);
    if (m->guard > 0 && kill(m->guard, 0) != 0) m->guard = 0;
}

/* The guard is started anew when a cell has managed to end it. */
static bool start_guard(machine *m)
{
    int pair[2];
    if (m->guard > 0) {
        kill(m->guard, SIGKILL);
        waitpid(m->guard, NULL, 0);
        m->guard = 0;
    }
    close_one(&m->guard_socket);
    end_orphans(m);
    m->orphans_ended = false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) return false;
    char *number = format_text("%d", pair[1]), *version = format_text("%d", PROTOCOL_VERSION);
    char place[] = "below", *arguments[] = {m->program, number, m->folder, version, place, NULL};
    if (!m->below) strcpy(place, "top");
    fcntl(pair[1], F_SETFD, 0);
    int failed = posix_spawn(&m->guard, m->program, NULL, NULL, arguments, environ);
    close(pair[1]);
    free(number);
    free(version);
    m->guard_socket = pair[0];
    /* The token goes first, and not on the command line, which every user of the host can read. */
    if (!failed) failed = send(pair[0], &m->token, sizeof m->token, MSG_NOSIGNAL) != sizeof m->token;
    if (failed) close_one(&m->guard_socket);
    return !failed;
}

static bool guard_gone(const machine *m)
{
    struct pollfd ready = {m->guard_socket, 0, 0};
    return m->guard_socket < 0 || poll(&ready, 1, 0) < 0 || (ready.revents & (POLLHUP | POLLERR));
}

static char *pack_environment(const machine *m, size_t *size)
{
    text packed = {0};
    for (size_t i = 0; i < m->environment.count; i++) {
        text_add_bytes(&packed, m->environment.items[i], strlen(m->environment.items[i]) + 1);
    }
    *size = packed.size;
    return text_take(&packed);
}

static bool send_start(machine *m, int control, int out, int error)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int descriptors[] = {control, input, out, error};
    size_t size;
    char *environment = pack_environment(m, &size);
    message start = {.token = m->token, .kind = MESSAGE_START};
    bool sent = message_send(m->guard_socket, &start, environment, size, descriptors, 4);
    free(environment);
    close(input);
    return sent;
}

bool machine_start_worker(machine *m)
{
    if (guard_gone(m) && !start_guard(m)) return false;
    int control[2] = {-1, -1}, out[2] = {-1, -1}, error[2] = {-1, -1};
    close_one(&m->control);
    close_one(&m->out_pipe);
    close_one(&m->error_pipe);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) || pipe2(out, O_CLOEXEC) ||
        pipe2(error, O_CLOEXEC))
        return false;
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(error[0], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETPIPE_SZ, 1 << 18);
    m->control = control[0];
    m->out_pipe = out[0];
    m->error_pipe = error[0];
    m->worker = 0;
    m->fatal_seen = m->unreported = false;
    bool sent = send_start(m, control[1], out[1], error[1]);
    m->starting = sent;
    close(control[1]);
    close(out[1]);
    close(error[1]);
    return sent;
}

bool machine_has_worker(const machine *m)
{
    return (m->worker > 0 || m->starting) && m->control >= 0 && m->guard_socket >= 0;
}

static void drain_pipe(machine *m, int *pipe, int stream)
{
    static char block[1 << 16];
    for (size_t total = 0; *pipe >= 0 && total < (4u << 20);) {
        ssize_t got = read(*pipe, block, sizeof block);
        if (got == 0) close_one(pipe);
        if (got <= 0) break;
        output_add(m->out, stream, block, (size_t)got);
        total += (size_t)got;
    }
}

void machine_drain(machine *m)
{
    if (!m->orphans_ended && guard_gone(m)) end_orphans(m);
    drain_pipe(m, &m->out_pipe, 1);
    drain_pipe(m, &m->error_pipe, 2);
}

static void drain_for_display(void *closure)
{
    machine_drain(closure);
}

static void read_pipe(machine *m, int *pipe, int stream)
{
    static char block[1 << 16];
    ssize_t got = read(*pipe, block, sizeof block);
    if (got > 0) output_add(m->out, stream, block, (size_t)got);
    if (got == 0) close_one(pipe);
}

/* Why the guard is gone, where it can be told: an installation of which only a part is new. */
static void name_guards_end(machine *m)
{
    int status = 0;
    for (int i = 0; i < 20 && m->guard > 0; i++) {
        pid_t ended = waitpid(m->guard, &status, WNOHANG);
        if (ended == m->guard) m->guard = 0;
        else usleep(5000);
    }
    if (m->guard || !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_OTHER_VERSION) return;
    free(m->culled);
    m->culled =
        copy_of("kolo-worker is of another version than kolo-kernel: install Kolo anew, and restart the kernel");
}

/* A message from the guard: only the end of the worker matters here. */
static bool take_guard_news(machine *m)
{
    message news;
    int descriptors[MESSAGE_DESCRIPTORS];
    static char payload[MESSAGE_LIMIT];
    ssize_t size = message_receive(m->guard_socket, m->token, &news, payload, descriptors);
    if (size == MESSAGE_GONE) {
        m->ended_idle = !m->running;
        m->unreported = true;
        close_one(&m->guard_socket);
        name_guards_end(m);
        if (!m->orphans_ended) end_orphans(m);
        m->status = SIGKILL;
        m->worker = 0;
        m->starting = false;
        return true;
    }
    if (size < 0) return false;
    if (news.kind == MESSAGE_STARTED) {
        m->starting = false;
        m->worker = news.number > 0 ? news.number : 0;
        return m->worker == 0;
    }
    if (news.kind == MESSAGE_CULLED) {
        free(m->culled);
        m->culled = copy_of(payload);
        return false;
    }
    if (news.kind != MESSAGE_ENDED || news.number != m->worker) return false;
    m->ended_idle = !m->running;
    m->unreported = true;
    m->status = news.code;
    m->worker = 0;
    return true;
}

/* In the place of an answer: the cell has failed for this. */
static void answer_instead(machine *m, const char *why)
{
    m->last = (message){.kind = MESSAGE_ANSWER, .code = -1, .number = ENDING_REFUSED};
    m->payload_size = (size_t)snprintf(m->payload, MESSAGE_LIMIT, "%s", why) + 1;
}

/* A reply from the worker. A dying one's last word is kept; its end comes through the guard. */
static bool take_reply(machine *m)
{
    int descriptors[MESSAGE_DESCRIPTORS];
    message reply;
    ssize_t size = message_receive(m->control, m->token, &reply, m->payload, descriptors);
    if (size == MESSAGE_GONE) close_one(&m->control);
    if (size == MESSAGE_BROKEN)
        answer_instead(m, "the answer of the cells' process was cut, or is of another version of Kolo");
    if (size < 0) return size == MESSAGE_BROKEN;
    m->last = reply;
    m->payload_size = (size_t)size;
    if (reply.kind == MESSAGE_FATAL) m->fatal_seen = true;
    return reply.kind != MESSAGE_FATAL && reply.kind != MESSAGE_READY;
}

enum { WATCH_GUARD, WATCH_CONTROL, WATCH_WAKE, WATCH_OUT, WATCH_ERROR, WATCH_DISPLAY };

int machine_delay(const machine *m)
{
    bool room = output_has_room(m->out);
    double wait = 1, flush = output_delay(m->out);
    if (flush >= 0 && flush < wait) wait = flush;
    if (!room && wait > 0.01) wait = 0.01;
    if (m->running && wait > 0.03) wait = 0.03;
    if (m->interrupted > 0 && wait > 0.005) wait = 0.005;
    return (int)(wait * 1000) + 1;
}

void machine_watch(const machine *m, int *descriptors)
{
    bool room = output_has_room(m->out);
    const int all[MACHINE_WATCHED] = {m->guard_socket, m->control, m->wake, room ? m->out_pipe : -1,
                                      room ? m->error_pipe : -1};
    memcpy(descriptors, all, sizeof all);
}

/* One turn: waits for news and pumps output. True when `*result` is set. */
bool machine_turn(machine *m, int wait, outcome *result)
{
    struct pollfd watched[WATCH_DISPLAY + 1];
    if (m->unsent) {
        m->unsent = false;
        *result = OUTCOME_ANSWER;
        return true;
    }
    bool room = output_has_room(m->out);
    watched[WATCH_GUARD] = (struct pollfd){m->guard_socket, POLLIN, 0};
    watched[WATCH_CONTROL] = (struct pollfd){m->control, POLLIN, 0};
    watched[WATCH_WAKE] = (struct pollfd){m->wake, POLLIN, 0};
    watched[WATCH_OUT] = (struct pollfd){room ? m->out_pipe : -1, POLLIN, 0};
    watched[WATCH_ERROR] = (struct pollfd){room ? m->error_pipe : -1, POLLIN, 0};
    watched[WATCH_DISPLAY] = (struct pollfd){m->display ? display_watch(m->display) : -1, POLLIN, 0};
    if (poll(watched, WATCH_DISPLAY + 1, wait) < 0) return false;
    if (watched[WATCH_OUT].revents) read_pipe(m, &m->out_pipe, 1);
    if (watched[WATCH_ERROR].revents) read_pipe(m, &m->error_pipe, 2);
    if (m->display) display_serve(m->display, m->out, drain_for_display, m);
    output_tick(m->out);
    if (watched[WATCH_WAKE].revents) machine_take_wake(m);
    if (m->interrupted > 0 && m->display) display_drop_held(m->display);
    bool answered = watched[WATCH_CONTROL].revents;
    if (m->interrupted > 0 && !answered) waiting_interrupt(m);
    if (m->running) waiting_look(m);
    if (watched[WATCH_CONTROL].revents && take_reply(m)) {
        *result = OUTCOME_ANSWER;
        return true;
    }
    if (watched[WATCH_GUARD].revents && take_guard_news(m)) {
        *result = OUTCOME_ENDED;
        return true;
    }
    return false;
}

static outcome wait_for_reply(machine *m)
{
    outcome result = OUTCOME_ENDED;
    while (!machine_turn(m, machine_delay(m), &result)) {
        if (m->guard_socket < 0) break;
    }
    return result;
}

/* A worker that hears nothing any more is ended, if it has not ended: the news of it is the answer. */
static void send_request(machine *m, message request, const void *payload, size_t size, const int *descriptor)
{
    request.token = m->token;
    m->fatal_seen = m->unsent = false;
    if (m->control >= 0 && message_send(m->control, &request, payload, size, descriptor, descriptor ? 1 : 0)) return;
    bool gone = m->control < 0 || errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
    if (gone && m->worker > 0) kill(m->worker, SIGKILL);
    if (gone) return;
    char why[200];
    if (errno == EMSGSIZE)
        snprintf(why, sizeof why, "too much at once for the cells' process: %zu bytes, and %d are the most", size,
                 MESSAGE_LIMIT - 1);
    else snprintf(why, sizeof why, "the cells' process cannot be reached: %s", strerror(errno));
    answer_instead(m, why);
    m->unsent = true;
}

outcome machine_ask(machine *m, uint32_t kind, const void *payload, size_t size)
{
    send_request(m, (message){.kind = kind}, payload, size, NULL);
    return wait_for_reply(m);
}

outcome machine_tell(machine *m, message request, const void *payload, size_t size)
{
    send_request(m, request, payload, size, NULL);
    return wait_for_reply(m);
}

outcome machine_peek(machine *m, uint64_t address, size_t size)
{
    send_request(m, (message){.kind = MESSAGE_PEEK, .address = address, .size = size}, NULL, 0, NULL);
    return wait_for_reply(m);
}

static void tell_guard(machine *m, bool runs)
{
    message watch = {.token = m->token, .kind = MESSAGE_WATCH, .number = runs};
    if (m->guard_socket >= 0) message_send(m->guard_socket, &watch, NULL, 0, NULL, 0);
}

void machine_begin(machine *m, uint32_t kind, const void *payload, size_t size, bool asks)
{
    int ends[2] = {-1, -1};
    if (m->input_file) asks = false;
    if (asks && pipe2(ends, O_CLOEXEC)) asks = false;
    if (m->input_file) ends[0] = open(m->input_file, O_RDONLY | O_CLOEXEC);
    if (!asks && ends[0] < 0) ends[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    free(m->culled);
    m->culled = NULL;
    m->input = ends[1];
    m->asks = m->out->holds = asks;
    m->running = true;
    tell_guard(m, true);
    send_request(m, (message){.kind = kind}, payload, size, &ends[0]);
    close(ends[0]);
}

outcome machine_finish(machine *m, outcome result)
{
    m->running = m->out->holds = false;
    tell_guard(m, false);
    if (result == OUTCOME_ANSWER) {
        m->wall += m->last.wall;
        m->user += m->last.user;
        m->system += m->last.system;
    }
    if (result == OUTCOME_ANSWER && guard_gone(m)) { /* the cell ended its guard, and with it its own process */
        result = OUTCOME_ENDED;
        close_one(&m->guard_socket);
        m->status = SIGKILL;
        m->worker = 0;
    }
    close_one(&m->input);
    machine_drain(m);
    if (m->display) display_serve(m->display, m->out, drain_for_display, m);
    return result;
}

outcome machine_run(machine *m, uint32_t kind, const void *payload, size_t size, bool asks)
{
    machine_begin(m, kind, payload, size, asks);
    return machine_finish(m, wait_for_reply(m));
}

void machine_take_wake(machine *m)
{
    uint64_t woken;
    if (read(m->wake, &woken, sizeof woken) > 0 && !m->interrupted) m->interrupted = seconds_now();
}

void machine_forget_wake(machine *m)
{
    uint64_t woken;
    (void)!read(m->wake, &woken, sizeof woken);
}

void machine_interrupt(machine *m)
{
    uint64_t one = 1;
    (void)!write(m->wake, &one, sizeof one);
}

static bool wait_for_end(machine *m, double seconds)
{
    outcome result = OUTCOME_ANSWER;
    for (double end = seconds_now() + seconds; result != OUTCOME_ENDED && seconds_now() < end;)
        machine_turn(m, machine_delay(m), &result);
    return result == OUTCOME_ENDED;
}

/* A worker whose control socket closes ends by itself, as a program does: with its exit handlers, which are heard. */
bool machine_ask_to_end(machine *m)
{
    if (m->running || m->worker <= 0 || m->control < 0) return false;
    close_one(&m->control);
    return wait_for_end(m, 1);
}

void machine_stop_worker(machine *m, bool gently)
{
    bool had = m->worker != 0 || m->starting;
    if (gently && machine_ask_to_end(m)) had = false;
    message sweep = {.token = m->token, .kind = MESSAGE_SWEEP, .number = gently};
    if (m->guard_socket < 0 || !message_send(m->guard_socket, &sweep, NULL, 0, NULL, 0)) return;
    if (had) wait_for_end(m, 3);
}

void machine_close(machine *m)
{
    close_one(&m->guard_socket);
    if (m->guard > 0) {
        for (int i = 0; i < 300 && waitpid(m->guard, NULL, WNOHANG) == 0; i++) usleep(10000);
    }
    end_orphans(m);
    close_one(&m->control);
    close_one(&m->out_pipe);
    close_one(&m->error_pipe);
    close_one(&m->input);
    close_one(&m->wake);
    names_free(&m->environment);
    free(m->program);
    free(m->folder);
    free(m->payload);
    free(m->culled);
    free(m->input_file);
}

char *machine_folder(const machine *m)
{
    char *link = format_text("/proc/%d/cwd", (int)m->worker), *folder = need_zeroed(4096);
    bool told = m->worker > 0 && readlink(link, folder, 4095) > 0;
    if (!told && !getcwd(folder, 4095)) folder[0] = 0; /* a worker that is starting begins where the kernel is */
    free(link);
    return folder;
}
