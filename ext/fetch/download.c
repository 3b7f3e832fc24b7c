/* Downloads: a file appears complete and checked, or not at all, even if several processes fetch it at the same time.
 *
 * The process that fetches holds a lock on PATH.lock; others wait, and then find the file. The received bytes are in
 * PATH.part, which is renamed to PATH when the checksum is right. An interrupted transfer is resumed from PATH.part.
 * A later call resumes it, too, but only with a checksum, which tells whether the parts belong together. Read fetch.h
 * first. */
#include "core/clock.h"
#include "core/plugin.h"
#include "runtime/runtime.h"
#include "fetch/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRIES    6  /* in a row in which no byte is received */
#define PATIENCE 60 /* seconds: the default of .patience */

typedef struct download {
    kolo_fetch_sink sink; /* the first member: the callbacks cast its address to the download's */
    const kolo_download_args *args;
    const kolo_fetcher *fetcher;
    char part[PATH_MAX], lock[PATH_MAX];
    int lock_fd, part_fd;
    void *sum;           /* the checksum so far, of `done` bytes */
    int64_t done, total; /* bytes in the part; bytes of the file, -1: unknown */
    bool shown;          /* progress is shown on the terminal's last line */
    double shown_at;     /* kolo_now() when progress was shown last; 0: not yet */
} download;

static kolo_status io_failed(const char *path, const char *what)
{
    int error = errno;
    return kolo_fail(error == ENOENT || error == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO, "%s: %s: %s", path, what,
                     strerror(error));
}

static void pause_for(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* ------------------------------------------------------------------------------------------ the lock */

/* Whether the locked file still has that name: the previous holder of the lock may have removed it. */
static bool is_current(int fd, const char *path)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

static kolo_status take_lock(download *d)
{
    bool said = false;
    for (;;) {
        d->lock_fd = open(d->lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (d->lock_fd < 0) return io_failed(d->lock, "wanted a lock file beside the file to be fetched");
        while (flock(d->lock_fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR) return io_failed(d->lock, "locking it failed");
            if (kolo_stop_requested()) return kolo_fail(KOLO_INTERRUPTED, "%s: stopped", d->args->path);
            if (!said && d->args->verbose > 0) kolo_warn("%s: another process fetches it: waiting", d->args->path);
            said = true;
            pause_for(50);
        }
        if (is_current(d->lock_fd, d->lock)) return KOLO_OK;
        close(d->lock_fd);
        d->lock_fd = -1;
    }
}

static void give_lock(download *d)
{
    if (d->lock_fd < 0) return;
    if (is_current(d->lock_fd, d->lock)) unlink(d->lock);
    close(d->lock_fd);
}

/* ------------------------------------------------------------------------------------------ sums */

static kolo_status begin_sum(download *d)
{
    if (d->sum) d->fetcher->sum_end(d->sum, NULL);
    d->sum = d->fetcher->sum_begin();
    return d->sum ? KOLO_OK : kolo_fail_memory(1024, "a checksum");
}

/* Starts a checksum with the contents of a file; *size becomes their length. */
static kolo_status sum_file(download *d, int fd, const char *path, int64_t *size)
{
    char *bytes = malloc(1 << 16);
    ssize_t got = -1;
    if (!bytes) return kolo_fail_memory(1 << 16, "a checksum");
    kolo_status status = begin_sum(d);
    for (*size = 0; status == KOLO_OK && (got = pread(fd, bytes, 1 << 16, (off_t)*size)) > 0; *size += got)
        d->fetcher->sum_add(d->sum, bytes, (size_t)got);
    if (status == KOLO_OK && got < 0) status = io_failed(path, "reading it failed");
    free(bytes);
    return status;
}

static bool sum_is_right(download *d, char text[KOLO_SHA256_TEXT])
{
    d->fetcher->sum_end(d->sum, text);
    d->sum = NULL;
    return !d->args->sha256 || strcasecmp(text, d->args->sha256) == 0;
}

/* ------------------------------------------------------------------------------------------ hooks of the fetcher */

static kolo_status restart(download *d)
{
    if (ftruncate(d->part_fd, 0) != 0) return io_failed(d->part, "emptying it failed");
    d->done = 0;
    return begin_sum(d);
}

static kolo_status on_begin(kolo_fetch_sink *sink, int64_t from, int64_t total)
{
    download *d = (download *)sink;
    d->total = total;
    return from == d->done ? KOLO_OK : restart(d);
}

/* Shows the progress on a terminal, at most five times a second. `last`: ends the line. */
static void show_progress(download *d, bool last)
{
    double now = kolo_now(), since = now - d->shown_at;
    if (d->args->verbose < 1 || !isatty(STDERR_FILENO) || (since < 0.2 && !last) || (last && !d->shown)) return;
    d->shown_at = now;
    d->shown = true;
    double megabytes = (double)d->done / 1e6;
    if (d->total > 0)
        fprintf(stderr, "\r%3.0f %% of %.1f MB ", 100.0 * (double)d->done / (double)d->total, (double)d->total / 1e6);
    else fprintf(stderr, "\r%.1f MB ", megabytes);
    if (last) fputc('\n', stderr);
    fflush(stderr);
}

static kolo_status on_bytes(kolo_fetch_sink *sink, const void *bytes, size_t size)
{
    download *d = (download *)sink;
    for (size_t written = 0; written < size;) {
        ssize_t some =
            pwrite(d->part_fd, (const char *)bytes + written, size - written, (off_t)(d->done + (int64_t)written));
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) return io_failed(d->part, "writing it failed");
        written += (size_t)some;
    }
    d->fetcher->sum_add(d->sum, bytes, size);
    d->done += (int64_t)size;
    show_progress(d, false);
    return KOLO_OK;
}

static bool on_stopped(kolo_fetch_sink *sink)
{
    (void)sink;
    return kolo_stop_requested();
}

/* ------------------------------------------------------------------------------------------ fetching */

static kolo_status not_fetched(const download *d, const kolo_fetch_result *result)
{
    if (!*result->why) return result->status; /* a function of the sink failed, and has reported it */
    if (result->status == KOLO_INTERRUPTED) return kolo_fail(KOLO_INTERRUPTED, "%s: stopped", d->args->url);
    if (result->again)
        return kolo_fail(result->status, "%s: wanted the whole file, got %" PRId64 " bytes in %d tries (%s)",
                         d->args->url, d->done, TRIES, result->why);
    return kolo_fail(result->status, "%s: wanted a file to fetch, got: %s", d->args->url, result->why);
}

/* Fetches the rest of the file, from the end of the part on. A try that receives bytes resets the count of tries. */
static kolo_status fetch_rest(download *d)
{
    int patience = d->args->patience > 0 ? d->args->patience : PATIENCE;
    for (int tries = 0;;) {
        int64_t before = d->done;
        kolo_fetch_result result = d->fetcher->get(d->args->url, d->done, patience, &d->sink);
        if (result.status == KOLO_OK) return KOLO_OK;
        tries = d->done > before ? 0 : tries + 1;
        if (!result.again || tries == TRIES) return not_fetched(d, &result);
        for (int waited = 0; waited < 100 << tries && !kolo_stop_requested(); waited += 50) pause_for(50);
    }
}

/* Opens the part. One that an earlier call left is used only with a checksum, which tells whether it belongs to the
 * same file; otherwise it is emptied. */
static kolo_status open_part(download *d)
{
    d->part_fd = open(d->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (d->part_fd < 0) return io_failed(d->part, "wanted a file that can be written");
    return d->args->sha256 ? sum_file(d, d->part_fd, d->part, &d->done) : restart(d);
}

static kolo_status wrong_sum(const download *d, const char *text)
{
    unlink(d->part);
    return kolo_fail(KOLO_FORMAT, "%s: wanted a file with the SHA-256 %s, got %s: it was removed", d->args->url,
                     d->args->sha256, text);
}

/* Fetches the file. If the checksum is wrong and a part of an earlier call was used, fetches the whole file once
 * more. */
static kolo_status fetch(download *d)
{
    char text[KOLO_SHA256_TEXT];
    KOLO_TRY(open_part(d));
    bool resumed = d->done > 0;
    for (;; resumed = false) {
        KOLO_TRY(fetch_rest(d));
        if (sum_is_right(d, text)) break;
        if (!resumed) return wrong_sum(d, text);
        KOLO_TRY(restart(d));
    }
    show_progress(d, true);
    if (fsync(d->part_fd) != 0 || rename(d->part, d->args->path) != 0)
        return io_failed(d->args->path, "writing it failed");
    return KOLO_OK;
}

/* Accepts a file that exists already. If .sha256 is given, its checksum must be right. */
static kolo_status check_there(download *d)
{
    char text[KOLO_SHA256_TEXT];
    int64_t size;
    if (!d->args->sha256) return KOLO_OK;
    int fd = open(d->args->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_failed(d->args->path, "wanted a file to read");
    kolo_status status = sum_file(d, fd, d->args->path, &size);
    close(fd);
    KOLO_TRY(status);
    if (sum_is_right(d, text)) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT,
                     "%s: there is a file already, with the SHA-256 %s, where %s was wanted: remove it,"
                     " or fetch to another name",
                     d->args->path, text, d->args->sha256);
}

static kolo_status check(download *d)
{
    const kolo_download_args *args = d->args;
    const char *why, *digits = "0123456789abcdefABCDEF";
    if (!args->url || !*args->url) return kolo_fail(KOLO_INVALID, "wanted an address, got none");
    if (!args->path || !*args->path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got none");
    if (args->sha256 && (strlen(args->sha256) != 64 || strspn(args->sha256, digits) != 64))
        return kolo_fail(KOLO_INVALID, "wanted .sha256 of 64 hexadecimal digits, got \"%s\"", args->sha256);
    if (snprintf(d->part, sizeof d->part, "%s.part", args->path) >= (int)sizeof d->part)
        return kolo_fail(KOLO_INVALID, "wanted the name of a file, got one too long");
    snprintf(d->lock, sizeof d->lock, "%.*s.lock", PATH_MAX - 6, args->path);
    const kolo_plugin *plugin = kolo_plugin_load("curl", &why);
    if (!plugin || !plugin->fetcher) return kolo_fail(KOLO_UNSUPPORTED, "fetching needs libcurl: %s", why);
    d->fetcher = plugin->fetcher;
    return KOLO_OK;
}

static kolo_status run(download *d)
{
    struct stat info;
    KOLO_TRY(check(d));
    KOLO_TRY(take_lock(d));
    bool there = stat(d->args->path, &info) == 0;
    if (there && !S_ISREG(info.st_mode))
        return kolo_fail(KOLO_IO, "%s: wanted the name of a file, got a folder or a device", d->args->path);
    return there ? check_there(d) : fetch(d);
}

kolo_status kolo_download_at(const kolo_download_args *args, kolo_here here)
{
    kolo_scope scope = kolo_enter("kolo_download", here);
    download *d = calloc(1, sizeof *d);
    if (!d) return kolo_leave(scope, kolo_fail_memory(sizeof *d, "a download"));
    d->args = args;
    d->sink = (kolo_fetch_sink){on_begin, on_bytes, on_stopped};
    d->lock_fd = d->part_fd = -1;
    kolo_status status = run(d);
    if (d->sum) d->fetcher->sum_end(d->sum, NULL);
    bool useless = d->done == 0 || !args->sha256; /* a later call could not resume from it */
    if (status != KOLO_OK && d->part_fd >= 0 && useless) unlink(d->part);
    if (d->part_fd >= 0) close(d->part_fd);
    give_lock(d);
    free(d);
    if (status == KOLO_INTERRUPTED) kolo_stop_obeyed();
    return kolo_leave(scope, status);
}
