/* Runs gnuplot without a shell. Its standard input, output and error are files in memory, because pipes can fill up,
 * break or block: see gnuplot.h. */
#define _GNU_SOURCE /* memfd_create, addclosefrom */
#include "show/gnuplot.h"
#include "core/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE   20.0 /* seconds */
#define OUTPUT_MAX (64 << 20)

extern char **environ;

typedef struct streams {
    int input, output, complaints;
} streams;

static kolo_status open_streams(streams *s, const char *script, size_t size)
{
    s->input = memfd_create("kolo-plot", MFD_CLOEXEC);
    s->output = memfd_create("kolo-picture", MFD_CLOEXEC);
    s->complaints = memfd_create("kolo-complaints", MFD_CLOEXEC);
    if (s->input < 0 || s->output < 0 || s->complaints < 0)
        return kolo_fail(KOLO_IO, "drawing a plot: wanted three files in memory, got: %s", strerror(errno));
    for (size_t done = 0; done < size;) {
        ssize_t written = write(s->input, script + done, size - done);
        if (written < 0 && errno != EINTR) return kolo_fail(KOLO_IO, "drawing a plot: %s", strerror(errno));
        if (written > 0) done += (size_t)written;
    }
    lseek(s->input, 0, SEEK_SET);
    return KOLO_OK;
}

static void close_streams(const streams *s)
{
    if (s->input >= 0) close(s->input);
    if (s->output >= 0) close(s->output);
    if (s->complaints >= 0) close(s->complaints);
}

/* Starts gnuplot in a separate process group, with no signal blocked or ignored, and no descriptors but the three. */
static int spawn(const streams *s, pid_t *child)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, s->input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, s->output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, s->complaints, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    char *const arguments[] = {"gnuplot", "-d", NULL}; /* -d: does not read ~/.gnuplot */
    int error = posix_spawnp(child, arguments[0], &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Whether gnuplot exited in time with 0. True also if other code of this process has reaped it: then the caller can
 * only check its output. */
static bool ended_well(pid_t child)
{
    int status = 0;
    for (double deadline = kolo_now() + PATIENCE;;) {
        pid_t result = waitpid(child, &status, WNOHANG);
        if (result == child) return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        if (result < 0 && errno != EINTR) return true;
        if (kolo_now() > deadline) break;
        poll(NULL, 0, 2);
    }
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

static kolo_status collect(int fd, char **text, size_t *size)
{
    off_t length = lseek(fd, 0, SEEK_END);
    if (length < 0 || length > OUTPUT_MAX) return kolo_fail(KOLO_IO, "drawing a plot: wanted a picture below 64 MB");
    if (!(*text = malloc((size_t)length + 1))) return kolo_fail_memory((size_t)length, "a picture");
    ssize_t got = pread(fd, *text, (size_t)length, 0);
    *size = got > 0 ? (size_t)got : 0;
    (*text)[*size] = 0;
    return KOLO_OK;
}

/* Fails with gnuplot's message, which is its last line, after the faulty line and a caret. */
static kolo_status complain(int fd)
{
    char *text = NULL;
    size_t size;
    KOLO_TRY(collect(fd, &text, &size));
    while (size > 0 && text[size - 1] == '\n') text[--size] = 0;
    const char *line = strrchr(text, '\n');
    kolo_fail(KOLO_INTERNAL, "gnuplot could not draw the plot: %.200s",
              *text ? (line ? line + 1 : text) : "it took too long");
    free(text);
    return KOLO_INTERNAL;
}

kolo_status kolo_gnuplot(const char *script, size_t script_size, char **output, size_t *output_size)
{
    streams s = {-1, -1, -1};
    pid_t child;
    int error = 0;
    kolo_status status = open_streams(&s, script, script_size);
    *output = NULL;
    if (status == KOLO_OK && (error = spawn(&s, &child)) != 0)
        status = kolo_fail(KOLO_UNSUPPORTED, "drawing a plot takes gnuplot (the package gnuplot-nox), got: %s",
                           strerror(error));
    if (status == KOLO_OK) status = ended_well(child) ? collect(s.output, output, output_size) : complain(s.complaints);
    if (status == KOLO_OK && *output_size == 0) status = complain(s.complaints);
    if (status != KOLO_OK) free(*output), *output = NULL;
    close_streams(&s);
    return status;
}
