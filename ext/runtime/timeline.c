/* kolo_start_timeline and kolo_stop_timeline: the ranks record, rank 0 writes the trace of all. See timeline.h.
 *
 * Each rank records in a file beside the trace, core/timeline_file.h. At the end rank 0 gets what the files contain in
 * messages, since the other ranks may be on hosts with other disks. */
#include "runtime/timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cores.h"
#include "core/file.h"
#include "core/timeline.h"
#include "runtime/runtime.h"

static struct {
    char path[PATH_MAX]; /* of the trace; "": nothing is recorded */
    char part[PATH_MAX]; /* this rank's file */
    pid_t process;       /* a forked child has no recording */
} current;

static bool is_recording(void)
{
    return current.path[0] && current.process == getpid();
}

static void forget(void)
{
    kolo_timeline_close();
    current.path[0] = 0;
}

/* ---------------------------------------------------------------- beginning */

/* The ranks agree: the first failure of any is that of all. */
static kolo_status agree(kolo_comm *ranks, kolo_status status)
{
    int32_t failed = status != KOLO_OK;
    KOLO_TRY(ranks->kind->allreduce(ranks, &failed, 1, KOLO_TYPE_INT32, KOLO_REDUCE_MAX));
    if (status != KOLO_OK || !failed) return status;
    return kolo_fail(KOLO_IO, "the timeline cannot be recorded on all ranks");
}

/* Makes the path absolute, because the program may change its folder. Rank 0 writes the trace. */
static kolo_status take_path(const char *path)
{
    char folder[PATH_MAX] = "";
    if (kolo_rank() == 0) KOLO_TRY(kolo_check_writable(path));
    if (path[0] != '/' && !getcwd(folder, sizeof folder))
        return kolo_fail(KOLO_IO, "%s: wanted a file in the current folder, got: %s", path, strerror(errno));
    int length = path[0] == '/' ? snprintf(current.path, PATH_MAX, "%s", path)
                                : snprintf(current.path, PATH_MAX, "%s/%s", folder, path);
    if (length < PATH_MAX && kolo_timeline_part_name(current.path, kolo_rank(), current.part)) return KOLO_OK;
    current.path[0] = 0;
    return kolo_fail(KOLO_IO, "%s: wanted a shorter path", path);
}

/* A host without the trace's folder keeps the rank's file in its own, without a name, since no kolorun looks for it. */
static kolo_status open_elsewhere(kolo_comm *ranks)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || !*folder) folder = "/tmp";
    int length = snprintf(current.part, PATH_MAX, "%s/kolo-timeline-%ld.part", folder, (long)getpid());
    if (length >= PATH_MAX) return kolo_fail(KOLO_IO, "%s: wanted a shorter path", folder);
    KOLO_TRY(kolo_timeline_open(current.part, ranks->rank, ranks->size));
    unlink(current.part);
    return KOLO_OK;
}

static kolo_status open_part(kolo_comm *ranks)
{
    kolo_status status = kolo_timeline_open(current.part, ranks->rank, ranks->size);
    if (status != KOLO_OK && ranks->rank > 0) {
        kolo_failure_take();
        status = open_elsewhere(ranks);
    }
    KOLO_TRY(status);
    kolo_timeline_header *header = kolo_timeline_file();
    header->cores = kolo_cores_usable();
    header->threads = kolo_threads();
    header->clock.at[0] = header->clock.at[1] = header->zero = kolo_timeline_now();
    current.process = getpid();
    return KOLO_OK;
}

/* At the beginning rank 0's clock becomes the trace's time 0. All ranks begin to record later, since Perfetto drops
 * events of negative times. */
static kolo_status align(kolo_comm *ranks, int which)
{
    kolo_timeline_clock *clock = &kolo_timeline_file()->clock;
    char name[KOLO_CLOCK_NAME];
    kolo_clock_name(name);
    KOLO_TRY(kolo_clock_offset(ranks, name, kolo_timeline_now, &clock->offset[which], &clock->error[which]));
    clock->at[which] = kolo_timeline_now();
    if (which == 1) return KOLO_OK;
    clock->offset[1] = clock->offset[0];
    kolo_timeline_file()->zero = clock->at[0];
    return ranks->kind->broadcast(ranks, &kolo_timeline_file()->zero, sizeof(int64_t), 0);
}

/* Files of an earlier job that was killed are removed before a rank makes a new one. */
static kolo_status start(const char *path)
{
    kolo_comm *ranks = kolo_world_comm();
    if (!path || !*path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got %s", path ? "\"\"" : "NULL");
    if (is_recording())
        return kolo_fail(KOLO_INVALID, "a timeline is being recorded for %s: wanted kolo_stop_timeline() before",
                         current.path);
    kolo_status status = take_path(path);
    if (status == KOLO_OK && ranks->rank == 0) kolo_timeline_remove_parts(current.path);
    status = agree(ranks, status);
    if (status == KOLO_OK) status = agree(ranks, open_part(ranks));
    if (status == KOLO_OK) status = align(ranks, 0);
    if (status == KOLO_OK) kolo_timeline_go();
    if (status == KOLO_OK || !current.path[0]) return status;
    unlink(current.part);
    forget();
    return status;
}

/* ---------------------------------------------------------------- collecting */

/* Room for the events of one row. */
static kolo_status allocate_events(kolo_timeline_event **events)
{
    const size_t bytes = KOLO_TIMELINE_EVENTS * sizeof **events;
    *events = malloc(bytes);
    return *events ? KOLO_OK : kolo_fail_memory(bytes, "a timeline");
}

static kolo_status read_own_row(int row, kolo_timeline_event *events, int *count)
{
    *count = kolo_timeline_read_row(kolo_timeline_descriptor(), kolo_timeline_file(), row, events);
    return *count < 0 ? kolo_fail(KOLO_IO, "%s: reading it failed: %s", current.part, strerror(errno)) : KOLO_OK;
}

static kolo_status send_part(kolo_comm *ranks)
{
    const kolo_timeline_header *header = kolo_timeline_file();
    kolo_timeline_event *events = NULL;
    int count = 0;
    KOLO_TRY(allocate_events(&events));
    kolo_status status = ranks->kind->send(ranks, header, sizeof *header, 0, KOLO_TAG_TIMELINE);
    for (int i = 0; i < header->rows && status == KOLO_OK; i++) {
        status = read_own_row(i, events, &count);
        if (status == KOLO_OK)
            status = ranks->kind->send(ranks, events, (size_t)count * sizeof *events, 0, KOLO_TAG_TIMELINE);
    }
    free(events);
    return status;
}

static kolo_status receive_part(kolo_comm *ranks, int rank, kolo_timeline_trace *trace, kolo_timeline_header *header,
                                kolo_timeline_event *events)
{
    const size_t room = KOLO_TIMELINE_EVENTS * sizeof *events;
    kolo_message message;
    KOLO_TRY(ranks->kind->receive(ranks, header, sizeof *header, rank, KOLO_TAG_TIMELINE, &message));
    kolo_timeline_add_rank(trace, header);
    for (int i = 0; i < header->rows; i++) {
        KOLO_TRY(ranks->kind->receive(ranks, events, room, rank, KOLO_TAG_TIMELINE, &message));
        kolo_timeline_add_row(trace, header, i, events, (int)(message.bytes / (int64_t)sizeof *events));
    }
    return KOLO_OK;
}

static kolo_status add_own_part(kolo_timeline_trace *trace, kolo_timeline_event *events)
{
    const kolo_timeline_header *header = kolo_timeline_file();
    int count = 0;
    kolo_timeline_add_rank(trace, header);
    for (int i = 0; i < header->rows; i++) {
        KOLO_TRY(read_own_row(i, events, &count));
        kolo_timeline_add_row(trace, header, i, events, count);
    }
    return KOLO_OK;
}

static kolo_status add_all_parts(kolo_comm *ranks, kolo_timeline_trace *trace)
{
    kolo_timeline_event *events = NULL;
    kolo_timeline_header *header = malloc(sizeof *header);
    kolo_status status = header ? allocate_events(&events) : kolo_fail_memory(sizeof *header, "a timeline");
    if (status == KOLO_OK) status = add_own_part(trace, events);
    for (int r = 1; r < ranks->size && status == KOLO_OK; r++) status = receive_part(ranks, r, trace, header, events);
    free(events);
    free(header);
    return status;
}

/* ---------------------------------------------------------------- the trace */

static void tell_what_is_missing(const kolo_timeline_trace *trace)
{
    if (trace->left_out > 0)
        kolo_warn("the timeline keeps the newest %d events of each thread: %lld older ones are left out",
                  KOLO_TIMELINE_EVENTS - 1, (long long)trace->left_out);
    if (trace->unplaced > 0)
        kolo_warn("the timeline lacks %lld threads, since there was no room for them on the disk, or they were more "
                  "than %d",
                  (long long)trace->unplaced, KOLO_TIMELINE_ROWS);
}

static kolo_status cannot_write(int error)
{
    return kolo_fail(KOLO_IO, "%s: writing it failed: %s", current.path, strerror(error));
}

/* Writes the trace to an open file by add(). */
static kolo_status fill(const kolo_file *file, kolo_comm *ranks,
                        kolo_status (*add)(kolo_comm *ranks, kolo_timeline_trace *trace))
{
    kolo_timeline_trace trace;
    int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out && fd >= 0) close(fd);
    if (!out) return cannot_write(errno);
    kolo_timeline_begin_trace(&trace, out);
    kolo_status status = add(ranks, &trace);
    errno = EIO;
    bool whole = kolo_timeline_end_trace(&trace);
    int error = errno;
    if (fclose(out) != 0) whole = false;
    if (status == KOLO_OK && !whole) status = cannot_write(error);
    if (status == KOLO_OK) tell_what_is_missing(&trace);
    return status;
}

static kolo_status write_trace(kolo_file *file, kolo_comm *ranks,
                               kolo_status (*add)(kolo_comm *ranks, kolo_timeline_trace *trace))
{
    kolo_status status = fill(file, ranks, add);
    if (status == KOLO_OK) return kolo_file_commit(file);
    kolo_file_abandon(file);
    return status;
}

static kolo_status add_files(kolo_comm *ranks, kolo_timeline_trace *trace)
{
    (void)ranks;
    kolo_timeline_add_parts(trace, current.path);
    return KOLO_OK;
}

static kolo_status collect(kolo_comm *ranks)
{
    kolo_file file = {.fd = -1};
    KOLO_TRY(align(ranks, 1));
    KOLO_TRY(agree(ranks, ranks->rank == 0 ? kolo_file_begin(&file, current.path) : KOLO_OK));
    return agree(ranks, ranks->rank == 0 ? write_trace(&file, ranks, add_all_parts) : send_part(ranks));
}

static kolo_status stop(void)
{
    if (!is_recording()) return kolo_fail(KOLO_INVALID, "no timeline is being recorded");
    kolo_timeline_halt();
    kolo_status status = collect(kolo_world_comm());
    if (status != KOLO_COMM)
        unlink(current.part); /* ranks that cannot meet leave their parts, and kolorun makes the trace */
    forget();
    return status;
}

/* ---------------------------------------------------------------- the calls */

kolo_status kolo_start_timeline_at(const char *path, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_start_timeline", here);
    return kolo_leave(scope, start(path));
}

kolo_status kolo_stop_timeline_at(kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_stop_timeline", here);
    return kolo_leave(scope, stop());
}

kolo_status kolo_timeline_begin_by_environment(void)
{
    const char *path = getenv("KOLO_TIMELINE");
    return path && *path && !is_recording() ? start(path) : KOLO_OK;
}

/* Other ranks may be writing still, so their files stay, and the last rank to fail has the most of them. */
static kolo_status write_what_is_there(void)
{
    kolo_file file;
    bool alone = kolo_size() == 1;
    kolo_timeline_halt();
    if (!alone && getenv("KOLORUN_OUTPUT")) return KOLO_OK;
    KOLO_TRY(kolo_file_begin(&file, current.path));
    KOLO_TRY(write_trace(&file, kolo_world_comm(), add_files));
    if (alone) unlink(current.part);
    return KOLO_OK;
}

kolo_status kolo_timeline_finish(bool failed)
{
    if (!is_recording()) return KOLO_OK;
    kolo_status status = failed ? write_what_is_there() : stop();
    if (failed) forget();
    return status;
}
