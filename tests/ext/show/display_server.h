/* A notebook's end of the display socket, for the tests of what is shown: see ext/show/display.h for the protocol. */
#ifndef KOLO_TEST_DISPLAY_SERVER_H
#define KOLO_TEST_DISPLAY_SERVER_H

#include "ext/data/files.h"

#include <jansson.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A server in a thread: reads frames of one connection after another, keeps them, answers. */
static struct server {
    pthread_t thread;
    pthread_mutex_t lock;
    int listening;
    unsigned char answer; /* 0: none at all */
    int frames_a_connection; /* then it hangs up; 0: never */
    int frames, connections;
    int client[16];
    json_t *frame[64];
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

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
    if (!read_exactly(client, text, size)) return false;
    pthread_mutex_lock(&server.lock);
    server.frame[server.frames++] = json_loadb(text, size, 0, NULL);
    pthread_mutex_unlock(&server.lock);
    free(text);
    if (server.answer) send(client, &server.answer, 1, MSG_NOSIGNAL);
    return true;
}

static inline void *serve_client(void *client)
{
    int frames = 0;
    while (serve_frame((int)(intptr_t)client) && ++frames != server.frames_a_connection) {}
    shutdown((int)(intptr_t)client, SHUT_RDWR);
    return NULL;
}

static inline void *serve(void *nothing)
{
    (void)nothing;
    for (int client; (client = accept(server.listening, NULL, NULL)) >= 0;) {
        pthread_t thread;
        server.client[server.connections++] = client;
        pthread_create(&thread, NULL, serve_client, (void *)(intptr_t)client);
        pthread_detach(thread);
    }
    return NULL;
}

static inline int start(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    server.listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    server.answer = 0x06;
    server.frames = server.connections = server.frames_a_connection = 0;
    if (bind(server.listening, (struct sockaddr *)&address, sizeof address) || listen(server.listening, 8)) return -1;
    setenv("KOLO_DISPLAY", "socket", 1);
    setenv("KOLO_DISPLAY_TOKEN", "secret", 1);
    kolo_clear_error();
    return pthread_create(&server.thread, NULL, serve, NULL);
}

static inline int stop(void **state)
{
    (void)state;
    shutdown(server.listening, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    for (int i = 0; i < server.connections; i++) shutdown(server.client[i], SHUT_RDWR);
    close(server.listening);
    unlink("socket");
    unsetenv("KOLO_DISPLAY");
    for (int i = 0; i < server.frames; i++) json_decref(server.frame[i]);
    return 0;
}

static inline const char *text_of(int frame, const char *key)
{
    return json_string_value(json_object_get(server.frame[frame], key));
}

static inline const char *data_of(int frame, const char *mime)
{
    return json_string_value(json_object_get(json_object_get(server.frame[frame], "data"), mime));
}

#endif
