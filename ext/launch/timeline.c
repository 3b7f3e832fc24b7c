/* See timeline.h. */
#include "launch/timeline.h"

#include "core/timeline_file.h"
#include "launch/rank_file.h"
#include "launch/say.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "KOLO_TIMELINE"

int timeline_prepare(const struct launch_options *options)
{
    char path[PATH_MAX];
    const char *given = options->timeline ? options->timeline : getenv(VARIABLE);
    if (!given || (!*given && !options->timeline)) return KOLORUN_GO_ON;
    int code = rank_file_check("--timeline", given, path);
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
