/* The interface between the C kernel and the server of Jupyter's protocol (jupyter/server.hpp): JSON text both ways.
 * The caller frees strings that a function returns. */
#ifndef KERNEL_FRONT_H
#define KERNEL_FRONT_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel calls these functions of the front, on any thread. */
typedef struct front {
    void *self;
    /* Publishes on iopub: the message's type and its content. */
    void (*publish)(void *self, const char *type, const char *content);
    /* Asks the user for a line; NULL when interrupted. Only while a cell runs, on the thread that runs it. */
    char *(*ask)(void *self, const char *prompt);
} front;

typedef struct session session;

/* `executable`: the kernel's own path, beside which everything else is found. NULL, and a sentence, on failure. */
session *session_open(const front *f, const char *executable, char **problem);
/* Ends the worker and the processes that it left behind, and deletes the session's folder. `alone`: no other thread
 * uses the session now or later. Without it the session's memory stays until the process ends. */
void session_close(session *s, bool alone);

/* One cell: the content of the execute_reply. */
char *session_execute(session *s, const char *code, bool silent, bool store, const char *user_expressions,
                      bool allow_stdin);
/* The cursor's place is counted in characters, not bytes. */
char *session_complete(session *s, const char *code, int cursor_characters);
char *session_inspect(session *s, const char *code, int cursor_characters, int detail);
char *session_is_complete(session *s, const char *code);
/* Also while a cell runs: the MIME bundle of the variable whose name is all of `code`; NULL when it is no variable, or
 * its value cannot be read. */
char *session_glance(session *s, const char *code);
char *session_history(session *s, const char *request);
/* The content of a debug_request; that of the debug_reply. Any thread but the one that runs cells. Events are published
 * as "debug_event". */
char *session_debug(session *s, const char *request);
bool session_has_debugger(void);
unsigned session_count(const session *s); /* cells executed: the number of the last stored one */

/* A comm_open, comm_msg or comm_close of the front end's, by its type: {"type", "content"} of the message to publish in
 * answer; NULL: none. Any thread, any time; waits for nothing. */
char *session_comm(session *s, const char *type, const char *content);
/* Behind session_comm(), on a thread that may wait: where no cell runs, variables get the values of the sliders that
 * were moved. Else they get them before the next cell. */
void session_settle_sliders(session *s);
/* The content of a comm_info_reply about comms of that target; "": of all. */
char *session_comm_info(session *s, const char *target);

/* Any thread, any time: ends the running cell, if one runs. */
void session_interrupt(session *s);
/* To be called before a cell begins: forgets an interrupt that came too late for the cell before. */
void session_forget_interrupt(session *s);
/* A cell that the debugger holds goes on to its end. May wait for the debugger. */
void session_interrupt_debugger(session *s);

#ifdef __cplusplus
}
#endif

#endif
