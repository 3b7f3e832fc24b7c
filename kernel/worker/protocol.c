#define _GNU_SOURCE
#include "worker/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool message_send(int socket, const message *m, const void *payload, size_t size, const int *descriptors, size_t count)
{
    message head = *m;
    head.version = PROTOCOL_VERSION;
    head.length = (uint32_t)size;
    if (size >= MESSAGE_LIMIT) {
        errno = EMSGSIZE;
        return false;
    }
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)(uintptr_t)payload, size}};
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = size ? 2 : 1};
    char room[CMSG_SPACE(MESSAGE_DESCRIPTORS * sizeof(int))] __attribute__((aligned(8))) = {0};
    if (count) {
        packet.msg_control = room;
        packet.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *beside = CMSG_FIRSTHDR(&packet);
        *beside = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
        memcpy(CMSG_DATA(beside), descriptors, count * sizeof(int));
    }
    ssize_t sent;
    do sent = sendmsg(socket, &packet, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent >= 0;
}

static void take_descriptors(struct msghdr *packet, int *descriptors)
{
    for (size_t i = 0; i < MESSAGE_DESCRIPTORS; i++) descriptors[i] = -1;
    struct cmsghdr *head = CMSG_FIRSTHDR(packet);
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return;
    size_t bytes = head->cmsg_len - CMSG_LEN(0);
    if (bytes > MESSAGE_DESCRIPTORS * sizeof(int)) bytes = MESSAGE_DESCRIPTORS * sizeof(int);
    memcpy(descriptors, CMSG_DATA(head), bytes);
}

ssize_t message_receive(int socket, uint64_t token, message *m, char *payload, int *descriptors)
{
    struct iovec parts[2] = {{m, sizeof *m}, {payload, MESSAGE_LIMIT - 1}};
    char room[CMSG_SPACE(MESSAGE_DESCRIPTORS * sizeof(int))] __attribute__((aligned(8)));
    struct msghdr packet = {.msg_iov = parts, .msg_iovlen = 2, .msg_control = room, .msg_controllen = sizeof room};
    ssize_t got;
    do got = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? MESSAGE_NONE : MESSAGE_GONE;
    take_descriptors(&packet, descriptors);
    bool ours = (size_t)got >= sizeof *m && m->token == token;
    bool whole = ours && !(packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && m->version == PROTOCOL_VERSION &&
                 m->length == (size_t)got - sizeof *m;
    payload[whole ? (size_t)got - sizeof *m : 0] = 0;
    if (whole) return got - (ssize_t)sizeof *m;
    for (size_t i = 0; i < MESSAGE_DESCRIPTORS; i++) {
        if (descriptors[i] >= 0) close(descriptors[i]);
        descriptors[i] = -1;
    }
    return ours ? MESSAGE_BROKEN : MESSAGE_NONE;
}
