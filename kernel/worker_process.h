/* The processes behind the session: a supervisor, a worker that it forks, and the pipes between. Starts them, speaks
 * with them, and pumps what the worker prints and displays while it waits. One thread at a time. Read first:
 * worker/protocol.h, output.h. */
#ifndef KERNEL_WORKER_PROCESS_H
#define KERNEL_WORKER_PROCESS_H

#include "cells/text.h"
#include "output.h"
#include "patience.h"
#include "worker/protocol.h"

#include <stdatomic.h>

struct display;

typedef struct worker_process {
    output *out;
    struct display *display;
    names environment;    /* "NAME=value" for each new worker */
    char *program, *folder;
    uint64_t token;
    pid_t supervisor, process; /* 0: none; `process` is the worker */
    int supervisor_socket, control, wake, out_pipe, error_pipe;
    int input;            /* the write end of the running cell's stdin, or -1 */
    char *input_file;     /* what the cell reads instead of asking; NULL: nothing */
    bool asks;            /* the cell's reads may be put to the user */
    bool orphans_ended;   /* the supervisor is gone, and what it left has been ended */
    bool unsent;          /* the last request could not be sent: `last` and `payload` say why */
    bool below;           /* another supervisor is above this one's, and does for it what its reaper would */
    bool starting;        /* the supervisor has been asked for a worker and has not yet named it */
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
    const struct worker_process *sibling; /* another worker of this process, whose processes are spared; or NULL */
    char *culled;         /* why the supervisor has ended processes of the cell; NULL: it has not */
    int status;           /* wait status of the worker that ended */
    bool stopped, forced; /* it ended because it had stopped itself; because an interrupt could not end its cell */
} worker_process;

typedef enum outcome { OUTCOME_ANSWER, OUTCOME_ENDED } outcome;

/* Before worker_open(), so that worker_close() may follow in any case. */
void worker_blank(worker_process *w);
/* program: kolo-worker's path; folder: the session's, deleted by the supervisor when the kernel is gone. */
bool worker_open(worker_process *w, output *out, const char *program, const char *folder);
void worker_close(worker_process *w);

/* Starts a worker (and a supervisor, if that is gone too). False when none comes up. */
bool worker_start(worker_process *w);
bool worker_is_up(const worker_process *w);
/* Lets an idle worker end as a program does, exit handlers and all, within a second. False: it goes on, or is none. */
bool worker_ask_to_end(worker_process *w);
/* Ends the worker and all it left behind. `gently`: asked to end first, and what is left by SIGTERM. */
void worker_stop(worker_process *w, bool gently);

/* Sends a message and waits for its answer, pumping. OUTCOME_ENDED when the worker is gone; w->status says how. A
 * message that cannot be sent or whose answer was cut has the answer code -1, number STATUS_REFUSED and a sentence. */
outcome worker_ask(worker_process *w, uint32_t kind, const void *payload, size_t size);
/* The same for a message that says more than its kind. */
outcome worker_tell(worker_process *w, message request, const void *payload, size_t size);
outcome worker_peek(worker_process *w, uint64_t address, size_t size);
/* Runs a cell (MESSAGE_RUN) or a program (MESSAGE_SHELL) with `asks` for its reads; interrupts are passed on. */
outcome worker_run(worker_process *w, uint32_t kind, const void *payload, size_t size, bool asks);

/* The same without waiting: worker_begin sends, worker_turn looks (at most `wait` ms, 0: only what is there now)
 * until it says that the answer or the end has come, worker_finish closes the cell's input and takes its last words.
 */
void worker_begin(worker_process *w, uint32_t kind, const void *payload, size_t size, bool asks);
bool worker_turn(worker_process *w, int wait, outcome *result);
outcome worker_finish(worker_process *w, outcome result);
/* The descriptors to poll besides the display, WORKER_WATCHED of them, and for how many ms. */
enum { WORKER_WATCHED = 5 };
void worker_watch(const worker_process *w, int *descriptors);
int worker_delay(const worker_process *w);

/* Reads what is in the pipes now, and ends what a supervisor that is gone has left. */
void worker_drain(worker_process *w);
/* Serves the programs that display something, after what they have printed. */
void worker_serve_display(worker_process *w);
/* Has an interrupt come? `interrupted` says when. */
void worker_take_wake(worker_process *w);
/* Any thread: forgets an interrupt that nobody has taken yet. */
void worker_forget_wake(worker_process *w);
/* Any thread. */
void worker_interrupt(worker_process *w);
/* The worker's present folder; the caller frees. */
char *worker_folder(const worker_process *w);

#endif
