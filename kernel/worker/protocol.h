/* Messages between kernel, supervisor and worker: packets over SOCK_SEQPACKET sockets, one message each, descriptors
 * beside it. A packet without the token is ignored, since a cell may write to any descriptor it finds. A packet that
 * has the token and was cut, or is of another version, is reported to the function that waits for an answer. */
#ifndef KERNEL_WORKER_PROTOCOL_H
#define KERNEL_WORKER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <sys/types.h>

/* The worker's own signals, which a cell cannot touch: where a rank's cell is (ranks/join.c), an interrupt where SIGINT
 * is the cell's, and the wish for a MESSAGE_FATAL before the worker is killed. */
#define SIGNAL_WHERE      (__SIGRTMAX - 2)
#define SIGNAL_INTERRUPT  (__SIGRTMAX - 1)
#define SIGNAL_LAST_WORDS __SIGRTMAX

/* Goes up with each change of these messages. A supervisor of another version ends with EXIT_OTHER_VERSION at once.
 */
enum { PROTOCOL_VERSION = 6, EXIT_OTHER_VERSION = 2 };

enum message_kind {
    /* kernel to supervisor */
    MESSAGE_START = 1, /* descriptors: control, stdin, stdout, stderr; payload: environment "NAME=value\0…" */
    MESSAGE_SWEEP, /* end the worker and everything it left behind; answered by MESSAGE_ENDED for the worker */
    MESSAGE_WATCH, /* number 1: a cell runs; 0: it has ended */
    MESSAGE_DEBUGGER, /* descriptor: a socket, on which lldb-dap is to speak; it closes when there is none */
    /* supervisor to kernel */
    MESSAGE_STARTED, /* number: the worker's process id */
    MESSAGE_ENDED, /* number: process id; code: its wait status */
    MESSAGE_CULLED, /* processes of the cells have been ended, or the worker is about to be; payload: why, a sentence */
    /* kernel to worker */
    MESSAGE_LOAD, /* payload: object path, libraries to load first ("one:two", or ""), then pairs slot, definition: see
                     KEEPS_STATICS */
    MESSAGE_RUN, /* payload: object path, function; descriptor: stdin */
    MESSAGE_SHELL, /* payload: arguments of a program; descriptor: stdin */
    MESSAGE_RESOLVE, /* payload: names; answered with those that nothing defines */
    MESSAGE_NAME, /* payload: the address of a function; answered with its name, or with code -1 */
    MESSAGE_ADDRESS, /* payload: a link name; answered with its address, or with code -1 */
    MESSAGE_PEEK, /* address, size; answered with the bytes, or with code -1 where there is no such memory */
    MESSAGE_FOLDER, /* payload: where to go */
    MESSAGE_SETENV, /* payload: name, value ("" and number 1: unset) */
    MESSAGE_POKE, /* address; payload: the bytes to put there; answered with code -1 where there is no such memory */
    /* worker to kernel */
    MESSAGE_READY,
    MESSAGE_ANSWER, /* to LOAD, RESOLVE, NAME, ADDRESS, PEEK, FOLDER, POKE; code 0 or -1; payload */
    MESSAGE_DONE, /* the cell has ended: number is an `exit_kind`, code with it; address, size: of the value */
    MESSAGE_FATAL, /* the worker is about to end; number, code and payload as for DONE; size 1: on another thread than
                      the cells' */
};

enum exit_kind {
    STATUS_RETURNED,
    STATUS_EXIT, /* code: of exit() */
    STATUS_SIGNAL, /* code: the signal; address: where */
    STATUS_INTERRUPTED,
    STATUS_UNDEFINED, /* payload begins with the name of the function */
    STATUS_PROGRAM, /* of MESSAGE_SHELL; code: wait status */
    STATUS_REFUSED, /* payload begins with what could not be done, as a sentence */
    STATUS_OVERFLOW, /* the stack was full; address: how many calls of the cells' were on it; code: SIGSEGV or SIGBUS */
};

/* Before a definition: the same function, compiled again; its `static` variables keep their values. */
#define KEEPS_STATICS '='

/* After a fault the payload lists frames, innermost first: "path\0offset in hexadecimal\0symbol\0" each. */

typedef struct message {
    uint64_t token;
    uint32_t version, length; /* PROTOCOL_VERSION, and the payload's bytes: message_send() sets both */
    uint32_t kind;
    int32_t number, code;
    uint64_t address, size;
    int64_t wall, user, system; /* DONE: nanoseconds that the cell took, and its processor times */
} message;

enum { MESSAGE_LIMIT = 160 * 1024, MESSAGE_DESCRIPTORS = 4 };

/* Sends one packet. False when that failed: errno is EMSGSIZE for a payload that is too large (MESSAGE_LIMIT, or what
 * the system takes at once), EPIPE or ECONNRESET when the other side is gone. */
bool message_send(int socket, const message *m, const void *payload, size_t size, const int *descriptors, size_t count);

enum { MESSAGE_GONE = -1, MESSAGE_NONE = -2, MESSAGE_BROKEN = -3 };

/* Receives one packet: its payload's size, or MESSAGE_GONE when the other side is gone, MESSAGE_NONE for a packet to
 * ignore, MESSAGE_BROKEN for one that was cut or is of another version (its kind is in `m`, `payload` is ""). Received
 * descriptors (close-on-exec) go to `descriptors`, room for MESSAGE_DESCRIPTORS, unused ones -1. `payload` has room for
 * MESSAGE_LIMIT bytes and is NUL-terminated beyond its size. */
ssize_t message_receive(int socket, uint64_t token, message *m, char *payload, int *descriptors);

#endif
