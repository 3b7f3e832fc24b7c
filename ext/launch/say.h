/* kolorun's own voice: one sentence on stderr, and the exit code that goes with it. */
#ifndef KOLO_LAUNCH_SAY_H
#define KOLO_LAUNCH_SAY_H

enum { KOLORUN_GO_ON = -1, KOLORUN_DONE = 0, KOLORUN_FAILED = 1, KOLORUN_WRONG_USE = 2 };

/* Writes "kolorun: <sentence>" and a newline to stderr in one piece; returns `code`, so that callers can return it. */
int launch_say(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
