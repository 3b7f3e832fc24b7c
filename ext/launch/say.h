/* Messages of kolorun: one sentence on stderr, with an exit code. */
#ifndef KOLO_LAUNCH_SAY_H
#define KOLO_LAUNCH_SAY_H

enum { KOLORUN_GO_ON = -1, KOLORUN_DONE = 0, KOLORUN_FAILED = 1, KOLORUN_WRONG_USE = 2 };

/* Writes "kolorun: SENTENCE\n" to stderr with one write(). Returns `code`, for the caller to return. */
int launch_say(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
