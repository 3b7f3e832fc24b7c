#define _GNU_SOURCE
#include "display.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static bool watch_socket(display *d, int socket)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = socket};
    return epoll_ctl(d->ready, EPOLL_CTL_ADD, socket, &event) == 0;
}

bool display_open(display *d, const char *folder)
{
    *d = (display){.listener = -1, .ready = -1};
    unsigned char random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random) return false;
    text token = {0};
    for (size_t i = 0; i < sizeof random; i++) text_addf(&token, "%02x", random[i]);
    d->token = text_take(&token);
    d->path = format_text("%s/display", folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(d->path) >= sizeof address.sun_path) return false;
    memcpy(address.sun_path, d->path, strlen(d->path) + 1);
    d->ready = epoll_create1(EPOLL_CLOEXEC);
    d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return d->listener >= 0 && !bind(d->listener, (struct sockaddr *)&address, sizeof address) &&
           !chmod(d->path, 0600) && !listen(d->listener, SOMAXCONN) && watch_socket(d, d->listener);
}

static void drop_client(display *d, size_t i)
{
    close(d->clients[i].socket);
    text_free(&d->clients[i].frame);
    d->clients[i] = d->clients[--d->count];
}

void display_tell(const display *d, const char *library, const char *folder, names *environment)
{
    char *lines[] = {format_text("KOLO_DISPLAY=%s", d->path), format_text("KOLO_DISPLAY_TOKEN=%s", d->token),
                     format_text("KOLO_KERNEL_LIBRARY=%s", access(library, R_OK) ? "" : library),
                     format_text("KOLO_KERNEL_CELLS=%s", folder)};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        names_add(environment, lines[i]);
        free(lines[i]);
    }
}

void display_close(display *d)
{
    while (d->count) drop_client(d, 0);
    if (d->listener >= 0) close(d->listener);
    if (d->ready >= 0) close(d->ready);
    if (d->path) unlink(d->path);
    free(d->path);
    free(d->token);
    free(d->clients);
    names_free(&d->shown);
    *d = (display){.listener = -1, .ready = -1};
}

int display_watch(const display *d)
{
    return d->ready;
}

void display_begin(display *d)
{
    names_free(&d->shown);
}

static const char *text_of(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static char *clear_of(display *d, json_t *frame)
{
    names_free(&d->shown);
    return json_is_true(json_object_get(frame, "wait")) ? copy_of("{\"wait\":true}") : copy_of("{\"wait\":false}");
}

static char *content_of(display *d, json_t *frame, const char **type)
{
    const char *kind = text_of(frame, "kind"), *id = text_of(frame, "id");
    *type = "clear_output";
    if (!strcmp(kind, "clear")) return clear_of(d, frame);
    json_t *data = json_object_get(frame, "data"), *metadata = json_object_get(frame, "metadata");
    bool update = !strcmp(kind, "update");
    if (!json_is_object(data) || (!update && strcmp(kind, "display")) || (update && !*id)) return NULL;
    bool known = names_have(&d->shown, id);
    *type = update && known ? "update_display_data" : "display_data";
    if (*id && !known) names_add(&d->shown, id);
    json_t *transient = *id ? json_pack("{s:s}", "display_id", id) : json_object();
    json_t *content =
        json_pack("{s:O, s:o, s:o}", "data", data, "metadata",
                  json_is_object(metadata) ? json_incref(metadata) : json_object(), "transient", transient);
    char *dump = content ? json_dumps(content, JSON_COMPACT) : NULL;
    json_decref(content);
    return dump;
}

static bool publish_frame(display *d, output *o, const char *bytes, size_t size)
{
    json_t *frame = json_loadb(bytes, size, 0, NULL);
    const char *type = NULL;
    bool ours = frame && !strcmp(text_of(frame, "token"), d->token);
    char *content = ours ? content_of(d, frame, &type) : NULL;
    if (content) output_publish(o, type, content);
    bool published = content != NULL;
    free(content);
    json_decref(frame);
    return published;
}

static size_t frame_size(const text *t)
{
    const unsigned char *p = (const unsigned char *)t->data;
    return (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
}

static void acknowledge(int socket, bool accepted)
{
    char byte = accepted ? DISPLAY_ACCEPTED : DISPLAY_REFUSED;
    (void)!send(socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void take_frame(display_client *c, size_t size)
{
    memmove(c->frame.data, c->frame.data + size + 4, c->frame.size - size - 4);
    c->frame.size -= size + 4;
}

/* Publishes the frames that are whole. False: one is larger than any may be. */
static bool serve_frames(display *d, display_client *c, output *o, void (*drain)(void *), void *closure)
{
    c->held = false;
    while (c->frame.size >= 4) {
        size_t size = frame_size(&c->frame);
        if (size > DISPLAY_LARGEST) {
            acknowledge(c->socket, false);
            return false;
        }
        if (c->frame.size < size + 4) break;
        drain(closure);
        c->held = !output_may_publish(o, size);
        if (c->held) break;
        acknowledge(c->socket, publish_frame(d, o, c->frame.data + 4, size));
        take_frame(c, size);
    }
    return true;
}

/* False when the client has gone, or has sent something wrong. */
static bool serve_client(display *d, display_client *c, output *o, void (*drain)(void *), void *closure)
{
    static char block[1 << 16];
    ssize_t got = 0;
    if (c->held && !serve_frames(d, c, o, drain, closure)) return false;
    while (!c->held && (got = recv(c->socket, block, sizeof block, MSG_DONTWAIT)) > 0) {
        c->heard = seconds_now();
        text_add_bytes(&c->frame, block, (size_t)got);
        if (!serve_frames(d, c, o, drain, closure)) return false;
    }
    return c->held || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

void display_drop_held(display *d)
{
    for (size_t i = 0; i < d->count && d->held; i++) {
        display_client *c = &d->clients[i];
        if (!c->held) continue;
        acknowledge(c->socket, true);
        take_frame(c, frame_size(&c->frame));
        c->held = false;
    }
    d->held = 0;
}

static void make_room(display *d)
{
    size_t oldest = 0;
    if (d->count < DISPLAY_CLIENTS) return;
    for (size_t i = 1; i < d->count; i++) {
        if (d->clients[i].heard < d->clients[oldest].heard) oldest = i;
    }
    drop_client(d, oldest);
}

void display_serve(display *d, output *o, void (*drain)(void *closure), void *closure)
{
    struct epoll_event first;
    if (epoll_wait(d->ready, &first, 1, 0) <= 0 && !d->held) return;
    for (int socket; (socket = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
        make_room(d);
        d->clients = need_grown(d->clients, d->count, &d->capacity, sizeof *d->clients);
        d->clients[d->count++] = (display_client){.socket = socket, .heard = seconds_now()};
        watch_socket(d, socket);
    }
    for (size_t i = 0; i < d->count;) {
        if (serve_client(d, &d->clients[i], o, drain, closure)) i++;
        else drop_client(d, i);
    }
    d->held = 0;
    for (size_t i = 0; i < d->count; i++) d->held += d->clients[i].held;
}
