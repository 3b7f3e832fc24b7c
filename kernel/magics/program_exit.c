/* The exit code of a program of %%run, or its fault with the line. See magics.h, crash_runtime/crash_runtime.h. */
#define _GNU_SOURCE
#include "exit_status.h"
#include "crash_runtime/crash_runtime.h"
#include "magics/magics.h"
#include "report.h"

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

/* The program's note, as a worker's last words. False: there is none, or it was cut. */
static bool read_note(const char *path, text *note, exit_status *e)
{
    message head;
    if (!read_bytes(path, note) || note->size < sizeof head) return false;
    memcpy(&head, note->data, sizeof head);
    *e = (exit_status){.status = head.number,
                       .code = head.code,
                       .address = head.address,
                       .frames = note->data + sizeof head,
                       .frames_size = head.length};
    return head.version == PROTOCOL_VERSION && head.length == note->size - sizeof head;
}

result program_exit_result(session *s, const char *program, int status)
{
    char *path = format_text("%s" CRASH_NOTE, program);
    int signalled = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - 128;
    text note = {0};
    exit_status e;
    bool noted = read_note(path, &note, &e) && e.code == signalled;
    result r = noted ? exit_status_result(s, &e) : plain_exit(status);
    unlink(path);
    free(path);
    text_free(&note);
    return r;
}
