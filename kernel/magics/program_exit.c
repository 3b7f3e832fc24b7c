/* How a program of %%run ended: its exit code, or the fault and its line. See magics.h, crash_runtime/crash_runtime.h. */
#define _GNU_SOURCE
#include "exit_status.h"
#include "crash_runtime/crash_runtime.h"
#include "magics/magics.h"
#include "worker/checks.h"
#include "worker/protocol.h"
#include "report.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static result plain_exit(int status)
{
    if (WIFSIGNALED(status))
        return error_result("ProgramError", "the program was ended by a signal: %s", strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) > 128)
        return error_result("ProgramError", "the program ended with exit code %d (%s)", WEXITSTATUS(status),
                            strsignal(WEXITSTATUS(status) - 128));
    if (WEXITSTATUS(status))
        return error_result("ProgramError", "the program ended with exit code %d", WEXITSTATUS(status));
    return (result){0};
}

static const char *reason_of(int why)
{
    switch (why) {
    case CRASH_INDEX: return "an index is outside of its array";
    case CRASH_UNREACHABLE:
        return "__builtin_unreachable() was reached, or a function declared noreturn has returned";
    case CRASH_SMASHED:
        return "this function has written beyond the end of one of its arrays, over its own stack frame";
    default: return NULL;
    }
}

/* The note's frames as a worker would tell them, behind what was refused. */
static text packed_frames(const char *program, const char *reason, const char *offsets)
{
    text frames = {0};
    if (reason) text_add_bytes(&frames, reason, strlen(reason) + 1);
    char *copy = copy_of(offsets), *rest;
    for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        text_add_bytes(&frames, program, strlen(program) + 1);
        text_add_bytes(&frames, one, strlen(one) + 1);
        text_add_bytes(&frames, "", 1);
    }
    free(copy);
    return frames;
}

/* The check at a function's end has no line of its own: what stands before it has. */
static char *with_line(session *s, const char *program, const char *offset)
{
    enum { STEP = 4, FARTHEST = 256 };
    unsigned long at = strtoul(offset, NULL, 16);
    for (unsigned back = 0; back < FARTHEST && back < at; back += STEP) {
        char *before = format_text("%lx", at - back);
        text one = packed_frames(program, NULL, before);
        char *place = place_of_frames(s, one.data, one.size);
        text_free(&one);
        if (place) {
            free(place);
            return before;
        }
        free(before);
    }
    return copy_of(offset);
}

/* "signal reason address offset offset …": what follows the address, or NULL when the note is another. */
static char *read_note(char *note, int *number, int *why, unsigned long *address)
{
    char *after[3];
    *number = (int)strtol(note, &after[0], 10);
    *why = (int)strtol(after[0], &after[1], 10);
    *address = strtoul(after[1], &after[2], 16);
    return after[0] > note && after[1] > after[0] && after[2] > after[1] ? after[2] : NULL;
}

result program_exit_result(session *s, const char *program, int status)
{
    char *path = format_text("%s" CRASH_NOTE, program), *note = read_whole_file(path);
    int number = 0, why = 0, signalled = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    unsigned long address = 0;
    result r;
    char *rest = note ? read_note(note, &number, &why, &address) : NULL;
    if (rest && number == signalled) {
        char *detail = strchr(rest, MARK_INDEX), *words = detail ? copy_of(detail) : NULL;
        if (detail) *detail = 0;
        const char *reason = words ? words : reason_of(why);
        char *offsets = why == CRASH_SMASHED ? with_line(s, program, rest) : copy_of(rest);
        text frames = packed_frames(program, reason, offsets);
        r = exit_status_result(s, &(exit_status){.status = reason ? STATUS_REFUSED : STATUS_SIGNAL,
                                                 .code = number,
                                                 .address = address,
                                                 .deep = why == CRASH_STACK,
                                                 .frames = frames.data,
                                                 .frames_size = frames.size});
        text_free(&frames);
        free(offsets);
        free(words);
    } else {
        r = plain_exit(status);
    }
    unlink(path);
    free(path);
    free(note);
    return r;
}
