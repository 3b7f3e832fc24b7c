/* The processes behind the session: a guard, a worker that it forks, and the pipes between. Starts them, speaks with
 * them, and pumps what the worker prints and displays while it waits. One thread at a time.
 * Read first: worker/protocol.h, output.h. */
#ifndef KERNEL_MACHINE_H
#define KERNEL_MACHINE_H

#include "cells/text.h"
#include "output.h"
#include "patience.h"
#include "worker/protocol.h"

#include <stdatomic.h>

struct display;

typedef struct machine {
    output *out;
    struct display *display;
    names environment;    /* "NAME=value" for each new worker */
    char *program, *folder;
    uint64_t token;
    pid_t guard, worker;  /* 0: none */
    int guard_socket, control, wake, out_pipe, error_pipe;
    int input;            /* the write end of the running cell's stdin, or -1 */
    char *input_file;     /* what the cell reads instead of asking; NULL: nothing */
    bool asks;            /* the cell's reads may be put to the user */
    bool orphans_ended;   /* the guard is gone, and what it left has been ended */
    bool unsent;          /* the last request could not be sent: `last` and `payload` say why */
    bool below;           /* another guard is above this machine's, and does for it what its keeper would */
    bool starting;        /* the guard has been asked for a worker and has not yet named it */
    atomic_bool traced;   /* a debugger is attached to the worker */
    bool running;         /* a cell or a program runs in the worker */
    bool ended_idle;      /* the worker ended while none did */
    bool unreported;      /* the worker has ended of itself, and the user has not been told */
    double interrupted;   /* when the interrupt came; 0: none */
    patience patience;    /* since then */
    double probed;        /* when it was last looked whether somebody waits for input */
    int64_t wall, user, system; /* nanoseconds that cells and programs have run, until somebody sets them to 0 */
    message last;         /* of the last reply */
    char *payload;        /* of the last reply, MESSAGE_LIMIT bytes */
    size_t payload_size;
    bool fatal_seen;      /* `last` is the worker's last word; its end follows */
    const struct machine *sibling; /* another machine of this process, or NULL: its family is not to be swept */
    char *culled;         /* why the guard has ended processes of the cell; NULL: it has not */
    int status;           /* wait status of the worker that ended */
    bool stopped, forced; /* it ended because it had stopped itself; because an interrupt could not end its cell */
} machine;

typedef enum outcome { OUTCOME_ANSWER, OUTCOME_ENDED } outcome;

/* Before machine_open(), so that machine_close() may follow in any case. */
void machine_blank(machine *m);
/* program: kolo-worker's path; folder: the session's, deleted by the guard when the kernel is gone. */
bool machine_open(machine *m, output *out, const char *program, const char *folder);
void machine_close(machine *m);

/* Starts a worker (and a guard, if that is gone too). False when none comes up. */
bool machine_start_worker(machine *m);
bool machine_has_worker(const machine *m);
/* Lets an idle worker end as a program does, exit handlers and all, within a second. False: it goes on, or is none. */
bool machine_ask_to_end(machine *m);
/* Ends the worker and all it left behind. `gently`: asked to end first, and what is left by SIGTERM. */
void machine_stop_worker(machine *m, bool gently);

/* Sends a message and waits for its answer, pumping. OUTCOME_ENDED when the worker is gone; m->status says how. A
 * message that cannot be sent or whose answer was cut has the answer code -1, number ENDING_REFUSED and a sentence. */
outcome machine_ask(machine *m, uint32_t kind, const void *payload, size_t size);
/* The same for a message that says more than its kind. */
outcome machine_tell(machine *m, message request, const void *payload, size_t size);
outcome machine_peek(machine *m, uint64_t address, size_t size);
/* Runs a cell (MESSAGE_RUN) or a program (MESSAGE_SHELL) with `asks` for its reads; interrupts are passed on. */
outcome machine_run(machine *m, uint32_t kind, const void *payload, size_t size, bool asks);

/* The same without waiting: machine_begin sends, machine_turn looks (at most `wait` ms, 0: only what is there now)
 * until it says that the answer or the end has come, machine_finish closes the cell's input and takes its last words.
 */
void machine_begin(machine *m, uint32_t kind, const void *payload, size_t size, bool asks);
bool machine_turn(machine *m, int wait, outcome *result);
outcome machine_finish(machine *m, outcome result);
/* What to poll for news, besides the display: MACHINE_WATCHED descriptors. And how long to wait for them, in ms. */
enum { MACHINE_WATCHED = 5 };
void machine_watch(const machine *m, int *descriptors);
int machine_delay(const machine *m);

/* Reads what is in the pipes now, and ends what a guard that is gone has left. */
void machine_drain(machine *m);
/* Has an interrupt come? `interrupted` says when. */
void machine_take_wake(machine *m);
/* Any thread: forgets an interrupt that nobody has taken yet. */
void machine_forget_wake(machine *m);
/* Any thread. */
void machine_interrupt(machine *m);
/* The worker's present folder; the caller frees. */
char *machine_folder(const machine *m);

#endif
