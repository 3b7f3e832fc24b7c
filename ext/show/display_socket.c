/* The connection to the notebook's display socket: see display.h. Each process has one; it is opened again after a
 * fork or a failure. No call here can block for ever, or end the process by SIGPIPE. */
#include "show/display.h"
#include "core/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE    5.0  /* seconds for one frame */
#define RETRY_AFTER 30.0 /* seconds without sending if no answer came in time: a training must not wait each time */
#define ACCEPTED    0x06

typedef enum outcome { SHOWN, REFUSED, BROKEN, LATE } outcome;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;
static pid_t owner;        /* the process that connected: a forked child must not share it */
static double quiet_until; /* kolo_now() before which nothing is sent */

bool kolo_display_expected(void)
{
    const char *path = getenv("KOLO_DISPLAY");
    return path && *path;
}

const char *kolo_display_token(void)
{
    const char *token = getenv("KOLO_DISPLAY_TOKEN");
    return token ? token : "";
}

static void disconnect(void)
{
    if (connection >= 0) close(connection);
    connection = -1;
}

/* Waits for the connection to be ready for `events`; false when time is up. */
static bool wait_for(short events, double deadline)
{
    for (;;) {
        double left = deadline - kolo_now();
        struct pollfd ready = {.fd = connection, .events = events};
        if (left <= 0) return false;
        int result = poll(&ready, 1, (int)(left * 1000) + 1);
        if (result > 0) return true;
        if (result < 0 && errno != EINTR) return true; /* the next call on the socket reports the error */
    }
}

static outcome connect_to(double deadline)
{
    const char *path = getenv("KOLO_DISPLAY");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || strlen(path) >= sizeof address.sun_path) return BROKEN;
    strcpy(address.sun_path, path);
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection < 0) return BROKEN;
    owner = getpid();
    while (connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
        if (errno == EISCONN) break;
        if (errno != EAGAIN && errno != EINTR) return BROKEN;
        if (kolo_now() > deadline) return LATE; /* EAGAIN: the listener's queue is full */
        poll(NULL, 0, 10);
    }
    return SHOWN;
}

static outcome send_all(const void *bytes, size_t size, double deadline)
{
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(connection, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
        if (sent > 0) done += (size_t)sent;
        else if (sent == 0 || (errno != EAGAIN && errno != EINTR)) return BROKEN;
        else if (errno == EAGAIN && !wait_for(POLLOUT, deadline)) return LATE;
    }
    return SHOWN;
}

static outcome receive_answer(double deadline)
{
    unsigned char answer;
    for (;;) {
        ssize_t got = recv(connection, &answer, 1, 0);
        if (got == 1) return answer == ACCEPTED ? SHOWN : REFUSED;
        if (got == 0 || (errno != EAGAIN && errno != EINTR)) return BROKEN;
        if (!wait_for(POLLIN, deadline)) return LATE;
    }
}

static outcome exchange(const char *json, size_t size, double deadline)
{
    unsigned char length[4];
    outcome result = SHOWN;
    for (int i = 0; i < 4; i++) length[i] = (unsigned char)(size >> (8 * i));
    if (connection >= 0 && owner != getpid()) disconnect();
    if (connection < 0) result = connect_to(deadline);
    if (result == SHOWN) result = send_all(length, sizeof length, deadline);
    if (result == SHOWN) result = send_all(json, size, deadline);
    if (result == SHOWN) result = receive_answer(deadline);
    if (result == BROKEN || result == LATE) disconnect();
    return result;
}

bool kolo_display_send(const char *json, size_t size)
{
    if (size > UINT32_MAX) return false;
    pthread_mutex_lock(&lock);
    double now = kolo_now();
    outcome result = LATE;
    if (now >= quiet_until) {
        bool kept = connection >= 0;
        result = exchange(json, size, now + PATIENCE);
        if (result == BROKEN && kept)
            result = exchange(json, size, now + PATIENCE); /* the old connection may be to an earlier kernel */
        if (result == LATE) quiet_until = kolo_now() + RETRY_AFTER;
    }
    pthread_mutex_unlock(&lock);
    return result == SHOWN;
}
