/* Showing lines and redraws, in place or as a log, and writing the files of --output-filename: see output.h. */
#define _GNU_SOURCE 1 /* asprintf */
#include "launch/output.h"

#include "launch/say.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TAG = 80 }; /* bytes of the longest tag */

enum output_place output_place_of(int fd)
{
    struct stat info;
    const char *display = getenv("KOLO_DISPLAY");
    if (isatty(fd)) return OUTPUT_TERMINAL;
    return display && *display && !(fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) ? OUTPUT_NOTEBOOK : OUTPUT_FILE;
}

static const char *stream_name(int stream)
{
    return stream == OUTPUT_STDOUT ? "stdout" : "stderr";
}

static int open_file(const char *folder, int rank, int digits, const char *name, bool restart)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/rank.%0*d", folder, digits, rank);
    if (length < 0 || (size_t)length + 16 > sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (mkdir(path, 0777) && errno != EEXIST) return -1;
    snprintf(path + length, sizeof path - (size_t)length, "/%s", name);
    return open(path, O_WRONLY | O_CREAT | (restart ? O_APPEND : O_TRUNC) | O_CLOEXEC, 0666);
}

/* mkdir -p. Returns 0 or an errno. */
static int make_folders(const char *folder)
{
    char path[4096];
    if (!*folder || snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path)
        return *folder ? ENAMETOOLONG : ENOENT;
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        if (mkdir(path, 0777) && errno != EEXIST) return errno;
        *at = '/';
    }
    return mkdir(path, 0777) && errno != EEXIST ? errno : 0;
}

/* Removes the files that an earlier job with more ranks has left. A folder that holds anything else is kept. */
static void remove_others(const char *folder, int ranks, int digits)
{
    char pattern[4096];
    glob_t found = {0};
    if (snprintf(pattern, sizeof pattern, "%s/rank.[0-9]*", folder) >= (int)sizeof pattern) return;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) {
            const char *number = strrchr(found.gl_pathv[i], '.') + 1;
            char *end = NULL, path[4096 + 16];
            long rank = strtol(number, &end, 10);
            if (*end || (rank < ranks && strlen(number) == (size_t)digits)) continue;
            for (int stream = 0; stream < 2; stream++) {
                snprintf(path, sizeof path, "%s/%s", found.gl_pathv[i], stream_name(stream));
                unlink(path);
            }
            rmdir(found.gl_pathv[i]);
        }
    globfree(&found);
}

static int open_files(struct output *output, const char *folder, bool restart)
{
    int digits = snprintf(NULL, 0, "%d", output->ranks - 1); /* leading zeros (rank.07), so that names sort */
    int error = make_folders(folder);
    output->folder = folder;
    if (!error && !restart) remove_others(folder, output->ranks, digits);
    for (int rank = 0; rank < output->ranks && !error; rank++)
        for (int stream = 0; stream < 2 && !error; stream++) {
            int file = open_file(folder, rank, digits, stream_name(stream), restart);
            output->rank[rank].source[stream].file = file;
            if (file < 0) error = errno;
        }
    if (error)
        return launch_say(KOLORUN_WRONG_USE, "--output-filename %s: cannot write there: %s", folder, strerror(error));
    return KOLORUN_GO_ON;
}

int output_open(struct output *output, int ranks, const char *folder, bool restart)
{
    *output = (struct output){.ranks = ranks, .fd = {STDOUT_FILENO, STDERR_FILENO}, .bar_rank = -1};
    output->place = output_place_of(STDOUT_FILENO);
    output->rank = calloc((size_t)ranks, sizeof *output->rank);
    if (!output->rank) return launch_say(KOLORUN_FAILED, "out of memory for %d ranks", ranks);
    for (int rank = 0; rank < ranks; rank++) output->rank[rank].source[0].file = output->rank[rank].source[1].file = -1;
    return folder ? open_files(output, folder, restart) : KOLORUN_GO_ON;
}

/* The columns of `text` on the screen: its characters, without colour sequences. */
static int width_of(const char *text)
{
    int width = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '\033' && at[1] == '[') {
            at += 2 + strspn(at + 2, "0123456789;?");
            if (!*at) break;
        } else if (((unsigned char)*at & 0xC0) != 0x80) {
            width++;
        }
    }
    return width;
}

static void erase_bar(struct output *output)
{
    if (output->bar_rank < 0) return;
    int fd = output->fd[output->bar_stream];
    if (output->place == OUTPUT_TERMINAL) queue_print(&output->queue, fd, "\r\033[K");
    else queue_print(&output->queue, fd, "\r%*s\r", width_of(output->bar), "");
}

static void forget_bar(struct output *output)
{
    free(output->bar);
    output->bar = NULL;
    output->bar_rank = -1;
}

void output_finish_bar(struct output *output)
{
    if (output->bar_rank >= 0) queue_print(&output->queue, output->fd[output->bar_stream], "\n");
    forget_bar(output);
}

/* Writes the beginning of a line: the time, if the user wants it, and the tag. */
static void print_tag(const struct output *output, int rank, enum output_stream stream, char tag[TAG])
{
    char date[32] = "";
    struct timespec now;
    struct tm parts;
    if (output->timestamps && !clock_gettime(CLOCK_REALTIME, &now) && localtime_r(&now.tv_sec, &parts) &&
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts))
        snprintf(date + strlen(date), sizeof date - strlen(date), ".%03ld ", now.tv_nsec / 1000000);
    snprintf(tag, TAG, "%s[1,%d]<%s>:", date, rank, stream_name(stream));
}

/* Shows a line above the bar of another source, or in place of the bar of the same source. */
void output_show_line(struct output *output, int rank, enum output_stream stream, const char *text, size_t length)
{
    int fd = output->fd[stream];
    char tag[TAG];
    if (output->rank[rank].hidden) return;
    erase_bar(output);
    if (output->bar_rank == rank && output->bar_stream == stream) forget_bar(output);
    print_tag(output, rank, stream, tag);
    queue_print(&output->queue, fd, "%s", tag);
    queue_bytes(&output->queue, fd, text, length);
    queue_print(&output->queue, fd, "\n");
    if (output->bar_rank >= 0) queue_print(&output->queue, output->fd[output->bar_stream], "%s", output->bar);
}

/* Shows a bar. There is one bottom line for bars, so only the bar of the lowest rank is shown. */
void output_show_redraw(struct output *output, int rank, enum output_stream stream, const char *text, size_t length)
{
    char *bar = NULL, tag[TAG];
    if (output->rank[rank].hidden) return;
    if (output->place == OUTPUT_FILE) {
        output_show_line(output, rank, stream, text, length);
        return;
    }
    if (output->bar_rank >= 0 && output->bar_rank < rank) return;
    print_tag(output, rank, stream, tag);
    if (asprintf(&bar, "%s%.*s", tag, (int)length, text) < 0) return;
    erase_bar(output);
    forget_bar(output);
    output->bar_rank = rank;
    output->bar_stream = stream;
    output->bar = bar;
    queue_print(&output->queue, output->fd[stream], "%s", bar);
}

void output_say(struct output *output, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0) text = NULL;
    va_end(arguments);
    if (!text) return;
    erase_bar(output);
    queue_print(&output->queue, STDERR_FILENO, "kolorun: %s\n", text);
    if (output->bar_rank >= 0) queue_print(&output->queue, output->fd[output->bar_stream], "%s", output->bar);
    free(text);
}

bool output_close(struct output *output)
{
    bool complete = !output->incomplete;
    for (int rank = 0; output->rank && rank < output->ranks; rank++)
        for (int stream = 0; stream < 2; stream++) {
            struct output_source *source = &output->rank[rank].source[stream];
            if (source->file >= 0) close(source->file);
            free(source->text);
        }
    free(output->rank);
    free(output->bar);
    queue_free(&output->queue);
    *output = (struct output){.bar_rank = -1};
    return complete;
}
