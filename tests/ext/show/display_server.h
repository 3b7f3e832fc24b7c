/* A notebook's end of the display socket, for the tests of what is shown: see ext/show/display.h for the protocol. */
#ifndef KOLO_TEST_DISPLAY_SERVER_H
#define KOLO_TEST_DISPLAY_SERVER_H

#include "ext/data/files.h"

#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A server in a thread: reads frames of all its connections, keeps them, answers. */
#define CLIENTS_MAX 16
static struct server {
    pthread_t thread;
    pthread_mutex_t lock;    /* of what follows */
    unsigned char answer;    /* 0: none at all */
    int frames_a_connection; /* then it hangs up; 0: never */
    int frames, connections;
    json_t *frame[64];
    struct pollfd polled[1 + CLIENTS_MAX]; /* the listening socket, and the clients in the order they came */
    int served[CLIENTS_MAX];
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline int locked(const int *number)
{
    pthread_mutex_lock(&server.lock);
    int value = *number;
    pthread_mutex_unlock(&server.lock);
    return value;
}
#define FRAMES      locked(&server.frames)
#define CONNECTIONS locked(&server.connections)

static inline bool read_exactly(int from, void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = recv(from, (char *)bytes + done, size - done, 0);
        if (got <= 0) return false;
        done += (size_t)got;
    }
    return true;
}

static inline bool serve_frame(int client)
{
    unsigned char length[4];
    if (!read_exactly(client, length, 4)) return false;
    size_t size = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    char *text = malloc(size);
    bool whole = read_exactly(client, text, size);
    pthread_mutex_lock(&server.lock);
    if (whole) server.frame[server.frames++] = json_loadb(text, size, 0, NULL);
    unsigned char answer = server.answer;
    pthread_mutex_unlock(&server.lock);
    free(text);
    if (whole && answer) send(client, &answer, 1, MSG_NOSIGNAL);
    return whole;
}

static inline void serve_client(int i)
{
    bool more = serve_frame(server.polled[1 + i].fd);
    pthread_mutex_lock(&server.lock);
    bool enough = ++server.served[i] == server.frames_a_connection;
    pthread_mutex_unlock(&server.lock);
    if (more && !enough) return;
    close(server.polled[1 + i].fd);
    server.polled[1 + i].fd = -1; /* poll() passes over it */
}

/* Until the listening socket is shut down. */
static inline void *serve(void *nothing)
{
    for (int clients = 0;;) {
        poll(server.polled, 1 + (nfds_t)clients, -1);
        for (int i = 0; i < clients; i++)
            if (server.polled[1 + i].fd >= 0 && server.polled[1 + i].revents) serve_client(i);
        if (!server.polled[0].revents) continue;
        int client = clients < CLIENTS_MAX ? accept(server.polled[0].fd, NULL, NULL) : -1;
        if (client < 0) break;
        server.polled[1 + clients++] = (struct pollfd){.fd = client, .events = POLLIN};
        pthread_mutex_lock(&server.lock);
        server.connections = clients;
        pthread_mutex_unlock(&server.lock);
    }
    return nothing;
}

static inline int start(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    server.polled[0] = (struct pollfd){.fd = listening, .events = POLLIN};
    server.answer = 0x06;
    server.frames = server.connections = server.frames_a_connection = 0;
    memset(server.served, 0, sizeof server.served);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 8)) return -1;
    setenv("KOLO_DISPLAY", "socket", 1);
    setenv("KOLO_DISPLAY_TOKEN", "secret", 1);
    kolo_clear_error();
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static inline int stop(void **state)
{
    (void)state;
    shutdown(server.polled[0].fd, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    for (int i = 0; i <= server.connections; i++)
        if (server.polled[i].fd >= 0) close(server.polled[i].fd);
    unlink("socket");
    unsetenv("KOLO_DISPLAY");
    for (int i = 0; i < server.frames; i++) json_decref(server.frame[i]);
    return 0;
}

/* Of a frame that was answered. */
static inline json_t *frame_at(int frame)
{
    assert_in_range(frame, 0, FRAMES - 1);
    pthread_mutex_lock(&server.lock);
    json_t *found = server.frame[frame];
    pthread_mutex_unlock(&server.lock);
    return found;
}

static inline const char *text_of(int frame, const char *key)
{
    return json_string_value(json_object_get(frame_at(frame), key));
}

static inline const char *data_of(int frame, const char *mime)
{
    return json_string_value(json_object_get(json_object_get(frame_at(frame), "data"), mime));
}

/* For a test to change how it answers. */
static inline void serve_so(unsigned char answer, int frames_a_connection)
{
    pthread_mutex_lock(&server.lock);
    server.answer = answer;
    server.frames_a_connection = frames_a_connection;
    pthread_mutex_unlock(&server.lock);
}

#endif
