/* HTTP for the board, by libmicrohttpd. The first part of a path is a key, and the key says who asks:
 *   GET  /INSTRUCTOR              the page            GET  /LEARNER/messages?after=N   what was pushed since
 *   GET  /INSTRUCTOR/state        JSON                POST /LEARNER/events             a list of events
 *   GET  /INSTRUCTOR/results.csv
 *   POST /INSTRUCTOR/messages     {"text": …}         POST /LEARNER/ring               {"learner", "ticket", …}
 *   POST /INSTRUCTOR/ring         {"size", "command"}
 * One thread serves all requests, so nothing is locked. */
#define _GNU_SOURCE
#include "board/board.h"
#include "board/ring.h"
#include "board/state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BODY_MOST = 64 << 10, CONNECTIONS = 600, IDLE_SECONDS = 20 };

typedef struct {
    json_t *state, *ring; /* ring: NULL until the instructor opens one */
    const char *file;
} board;

typedef struct {
    char *text;
    size_t size;
    bool too_large;
} body;

int board_say(int code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("kolo-board: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return code;
}

/* `text` is from malloc and is freed after the answer. */
static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *type, char *text)
{
    if (!text) return MHD_NO;
    struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Cache-Control", "no-store");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Content-Security-Policy",
                            "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'");
    enum MHD_Result sent = MHD_queue_response(c, status, response);
    MHD_destroy_response(response);
    return sent;
}

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *why)
{
    char *text = NULL;
    if (asprintf(&text, "%s\n", why) < 0) return MHD_NO;
    return answer(c, status, "text/plain; charset=utf-8", text);
}

/* Answers a post. `why`: the reason for which a part of it was refused; NULL: nothing was. The other parts are kept. If
 * the file cannot be written, the state becomes `before` again, since the learner will send the post again. */
static enum MHD_Result saved(board *b, struct MHD_Connection *c, json_t *before, const char *why)
{
    bool written = state_save(b->state, b->file);
    if (!written && json_object_clear(b->state) == 0) json_object_update(b->state, before);
    json_decref(before);
    if (!written) return refuse(c, 500, "the board's file could not be written");
    return why ? refuse(c, 400, why) : answer(c, 200, "application/json", strdup("{}"));
}

static enum MHD_Result post_message(board *b, struct MHD_Connection *c, const json_t *message)
{
    json_t *before = json_deep_copy(b->state);
    return saved(b, c, before, state_add_message(b->state, message, time(NULL)));
}

/* Events come as a list: a learner who was offline sends all unsent events in one request. */
static enum MHD_Result post_events(board *b, struct MHD_Connection *c, const json_t *events)
{
    if (!json_is_array(events)) return refuse(c, 400, "wanted a list of events");
    size_t i;
    json_t *event, *before = json_deep_copy(b->state);
    const char *why = NULL;
    json_array_foreach(events, i, event)
    {
        const char *refused = state_take_event(b->state, event, time(NULL));
        if (refused) why = refused;
    }
    return saved(b, c, before, why);
}

static const char ring_news[] = "Become a rank of one training: run this in a cell.\n";

/* Who joins the board later is shown the line of the last ring alone. */
static void forget_older_rings(json_t *messages)
{
    for (size_t i = json_array_size(messages); i-- > 0;) {
        const char *text = json_string_value(json_object_get(json_array_get(messages, i), "text"));
        /* The last message stays: the next one is numbered after it. */
        bool last = i + 1 == json_array_size(messages);
        if (!last && text && strncmp(text, ring_news, strlen(ring_news)) == 0) json_array_remove(messages, i);
    }
}

static enum MHD_Result open_ring(board *b, struct MHD_Connection *c, const json_t *wanted)
{
    const char *why = ring_open(&b->ring, wanted);
    if (why) return refuse(c, 400, why);
    char *line = ring_line(b->ring), *text = NULL;
    if (line && asprintf(&text, "%s%s", ring_news, line) < 0) text = NULL;
    json_t *message = text ? json_pack("{s:s}", "text", text) : NULL;
    enum MHD_Result done = message ? post_message(b, c, message) : MHD_NO;
    forget_older_rings(json_object_get(b->state, "messages"));
    json_decref(message);
    free(text);
    free(line);
    return done;
}

static void put_address(const void *at, char text[static 64])
{
    struct sockaddr_in four;
    memcpy(&four, at, sizeof four);
    if (four.sin_family != AF_INET || !inet_ntop(AF_INET, &four.sin_addr, text, 64)) snprintf(text, 64, "127.0.0.1");
}

static enum MHD_Result take_place(board *b, struct MHD_Connection *c, const json_t *request)
{
    char reason[1200];
    json_t *reply = NULL;
    ring_path path;
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof own;
    put_address(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr, path.learner);
    getsockname(MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, (struct sockaddr *)&own,
                &size);
    put_address(&own, path.board);
    const char *why = ring_take(b->ring, request, &path, time(NULL), &reply, reason);
    if (why) return refuse(c, 409, why);
    char *text = json_dumps(reply, JSON_COMPACT);
    json_decref(reply);
    return answer(c, 200, "application/json", text);
}

static enum MHD_Result take(board *b, struct MHD_Connection *c, bool instructor, const char *path, const json_t *value)
{
    if (strcmp(path, "/ring") == 0) return instructor ? open_ring(b, c, value) : take_place(b, c, value);
    return instructor ? post_message(b, c, value) : post_events(b, c, value);
}

static enum MHD_Result post(board *b, struct MHD_Connection *c, bool instructor, const char *path, const body *sent)
{
    bool known = strcmp(path, "/ring") == 0 || strcmp(path, instructor ? "/messages" : "/events") == 0;
    if (!known) return refuse(c, 404, "there is no such address on this board");
    if (sent->too_large) return refuse(c, 413, "a request has at most 64 KB");
    json_error_t error;
    json_t *value = json_loadb(sent->text ? sent->text : "", sent->size, 0, &error);
    if (!value) return refuse(c, 400, "wanted JSON");
    enum MHD_Result done = take(b, c, instructor, path, value);
    json_decref(value);
    return done;
}

static enum MHD_Result get(board *b, struct MHD_Connection *c, bool instructor, const char *path)
{
    if (!instructor && strcmp(path, "/messages") == 0) {
        const char *after = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "after");
        return answer(c, 200, "application/json", state_messages_after(b->state, after ? strtol(after, NULL, 10) : 0));
    }
    if (instructor && (!*path || strcmp(path, "/") == 0))
        return answer(c, 200, "text/html; charset=utf-8", strdup(board_page));
    if (instructor && strcmp(path, "/state") == 0)
        return answer(c, 200, "application/json", state_for_instructor(b->state, ring_shown(b->ring, time(NULL))));
    if (instructor && strcmp(path, "/results.csv") == 0)
        return answer(c, 200, "text/csv; charset=utf-8", state_as_csv(b->state));
    return refuse(c, 404, "there is no such address on this board");
}

static const char *key_of(const board *b, const char *who)
{
    return json_string_value(json_object_get(b->state, who));
}

/* Compares in a time that does not depend on the first difference. */
static bool same_key(const char *key, const char *given, size_t length)
{
    unsigned char difference = strlen(key) != length;
    for (size_t i = 0; i < length && i < strlen(key); i++) difference |= (unsigned char)(key[i] ^ given[i]);
    return !difference;
}

static enum MHD_Result collect(body *into, const char *data, size_t *size)
{
    if (into->size + *size > BODY_MOST) {
        into->too_large = true;
    } else {
        char *larger = realloc(into->text, into->size + *size);
        if (!larger) return MHD_NO;
        memcpy(larger + into->size, data, *size);
        into->text = larger;
        into->size += *size;
    }
    *size = 0;
    return MHD_YES;
}

static enum MHD_Result serve(void *of, struct MHD_Connection *c, const char *url, const char *method,
                             const char *version, const char *data, size_t *size, void **request)
{
    (void)version;
    board *b = of;
    if (!*request) return (*request = calloc(1, sizeof(body))) ? MHD_YES : MHD_NO;
    if (*size) return collect(*request, data, size);
    const char *key = url + (*url == '/');
    size_t length = strcspn(key, "/");
    bool instructor = same_key(key_of(b, "instructor_key"), key, length);
    if (!instructor && !same_key(key_of(b, "learner_key"), key, length))
        return refuse(c, 403, "this address has no key of the class: ask the instructor for the URL");
    if (strcmp(method, "GET") == 0) return get(b, c, instructor, key + length);
    if (strcmp(method, "POST") == 0) return post(b, c, instructor, key + length, *request);
    return refuse(c, 405, "this board answers GET and POST");
}

static void forget_request(void *of, struct MHD_Connection *c, void **request, enum MHD_RequestTerminationCode why)
{
    (void)of;
    (void)c;
    (void)why;
    body *sent = *request;
    if (sent) free(sent->text);
    free(sent);
}

static void print_addresses(const board *b, const char *address, const char *host, int port)
{
    if (!host) host = strcmp(address, "0.0.0.0") == 0 ? "THIS-MACHINE" : address;
    printf("The board:    http://%s:%d/%s\n", host, port, key_of(b, "instructor_key"));
    printf("For learners: kolo-board join http://%s:%d/%s NAME\n", host, port, key_of(b, "learner_key"));
    puts("Ctrl-C ends it; the next start goes on with the same class.");
    fflush(stdout);
}

static struct MHD_Daemon *listen_at(board *b, const struct sockaddr_in *at)
{
    return MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, 0, NULL, NULL, serve, b,
                            MHD_OPTION_SOCK_ADDR, at, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS, MHD_OPTION_LISTENING_ADDRESS_REUSE,
                            1u, MHD_OPTION_NOTIFY_COMPLETED, forget_request, NULL, MHD_OPTION_END);
}

int board_serve(const char *file, const char *address, const char *host, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, address, &at.sin_addr) != 1)
        return board_say(BOARD_WRONG_USE, "--address is an IPv4 address of this machine, got '%s'", address);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    board b = {.state = state_open(file), .file = file};
    if (!b.state) return BOARD_FAILED;
    struct MHD_Daemon *daemon = listen_at(&b, &at);
    if (!daemon) {
        board_say(BOARD_FAILED, "port %d of %s cannot be opened (%s): choose another with --port", port, address,
                  strerror(errno));
        json_decref(b.state);
        return BOARD_FAILED;
    }
    print_addresses(&b, address, host, MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    int signal;
    sigwait(&ends, &signal);
    MHD_stop_daemon(daemon);
    json_decref(b.ring);
    json_decref(b.state);
    return BOARD_OK;
}
