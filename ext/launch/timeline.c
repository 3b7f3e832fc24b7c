/* See timeline.h. */
#include "launch/timeline.h"

#include "core/timeline_file.h"
#include "launch/say.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VARIABLE "KOLO_TIMELINE"

static int refuse(const char *path, const char *why)
{
    return launch_say(KOLORUN_FAILED, "--timeline: wanted a file that can be written, got %s: %s", path, why);
}

/* The length of the folder's part of a path, with the last "/". */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* An existing file must be one that may be written, and in any case its folder, where the trace is put in place. */
static int check(const char *path, const char *given)
{
    char folder[PATH_MAX];
    struct stat info;
    snprintf(folder, sizeof folder, "%.*s", (int)folder_length(path), path);
    if (!path[folder_length(path)]) return refuse(given, strerror(EISDIR));
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return refuse(given, strerror(EISDIR));
        if (!S_ISREG(info.st_mode)) return refuse(given, "it is a device or a pipe");
        if (access(path, W_OK)) return refuse(given, strerror(errno));
    } else if (errno != ENOENT) return refuse(given, strerror(errno));
    return access(folder, W_OK | X_OK) ? refuse(given, strerror(errno)) : KOLORUN_GO_ON;
}

int timeline_prepare(const struct launch_options *options)
{
    char here[PATH_MAX] = "", path[2 * PATH_MAX];
    const char *given = options->timeline ? options->timeline : getenv(VARIABLE);
    if (!given || (!*given && !options->timeline)) return KOLORUN_GO_ON;
    if (!*given) return launch_say(KOLORUN_WRONG_USE, "--timeline: wanted the name of a file, got an empty one");
    if (given[0] != '/' && !getcwd(here, sizeof here)) return refuse(given, strerror(errno));
    snprintf(path, sizeof path, "%s%s%s", here, *here ? "/" : "", given);
    if (strlen(path) + 32 > PATH_MAX) return refuse(given, strerror(ENAMETOOLONG));
    int code = check(path, given);
    if (code != KOLORUN_GO_ON) return code;
    kolo_timeline_remove_parts(path);
    return setenv(VARIABLE, path, 1) ? launch_say(KOLORUN_FAILED, "out of memory") : KOLORUN_GO_ON;
}

/* Returns whether the trace of the ranks' files was put in place; false with errno 0: there are none. */
static bool write_trace(const char *path, int *ranks)
{
    char temporary[PATH_MAX + 32];
    kolo_timeline_trace trace;
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    FILE *out = fopen(temporary, "we");
    if (!out) return false;
    kolo_timeline_begin_trace(&trace, out);
    bool any = kolo_timeline_add_parts(&trace, path), whole = kolo_timeline_end_trace(&trace);
    int error = any ? errno : 0;
    if (fclose(out)) whole = false;
    *ranks = trace.ranks;
    if (any && whole && rename(temporary, path) == 0) return true;
    unlink(temporary);
    errno = error;
    return false;
}

void timeline_finish(void)
{
    const char *path = getenv(VARIABLE);
    int ranks = 0;
    if (!path || !*path || !kolo_timeline_has_parts(path)) return;
    if (write_trace(path, &ranks))
        launch_say(0, "%s: the timeline of %d %s until the end of the job", path, ranks, ranks == 1 ? "rank" : "ranks");
    else if (errno) launch_say(0, "%s: the timeline cannot be written: %s", path, strerror(errno));
    kolo_timeline_remove_parts(path);
}
