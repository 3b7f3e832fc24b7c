/* Writing files whole or not at all: see file.h. */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX     40  /* as the kernel follows */
#define TEMPORARY_MAX 100 /* leftovers of killed processes that had this one's number */

static kolo_status cannot_write(const char *path, int error)
{
    kolo_status code = error == ENOENT || error == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO;
    return kolo_fail(code, "%s: wanted a file that can be written, got: %s", path, strerror(error));
}

/* The folder of a path, with its "/", or "" for the working folder. */
static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

/* Follows the links of the last component, also those that lead to nothing yet. */
static kolo_status follow_links(kolo_file *file)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        char link[PATH_MAX], next[2 * PATH_MAX];
        ssize_t length = readlink(file->target, link, sizeof link - 1);
        if (length < 0 && (errno == EINVAL || errno == ENOENT)) return KOLO_OK; /* no link, or nothing there */
        if (length < 0) return cannot_write(file->path, errno);
        link[length] = 0;
        snprintf(next, sizeof next, "%.*s%s", link[0] == '/' ? 0 : folder_length(file->target), file->target, link);
        if (strlen(next) >= sizeof file->target) return cannot_write(file->path, ENAMETOOLONG);
        strcpy(file->target, next);
    }
    return cannot_write(file->path, ELOOP);
}

/* mode: of what is there already, or -1. */
static kolo_status check_target(kolo_file *file, int *mode)
{
    struct stat info;
    *mode = -1;
    if (stat(file->target, &info) != 0) return errno == ENOENT ? KOLO_OK : cannot_write(file->path, errno);
    if (S_ISDIR(info.st_mode)) return kolo_fail(KOLO_IO, "%s: wanted a file to write, got a folder", file->path);
    if (!S_ISREG(info.st_mode))
        return kolo_fail(KOLO_IO, "%s: wanted a file to write, got a device or a pipe", file->path);
    if (access(file->target, W_OK) != 0) return cannot_write(file->path, errno);
    *mode = (int)(info.st_mode & 0777);
    return KOLO_OK;
}

/* A new file in the target's folder: a rename within one file system is one step. */
static kolo_status open_temporary(kolo_file *file)
{
    int folder = folder_length(file->target);
    for (int i = 0; i < TEMPORARY_MAX; i++) {
        int length = snprintf(file->temporary, sizeof file->temporary, "%.*s.kolo-%ld-%d.tmp", folder, file->target,
                              (long)getpid(), i);
        if (length >= (int)sizeof file->temporary) return cannot_write(file->path, ENAMETOOLONG);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0) return KOLO_OK;
        if (errno != EEXIST) return cannot_write(file->path, errno);
    }
    return cannot_write(file->path, EEXIST);
}

kolo_status kolo_file_begin(kolo_file *file, const char *path)
{
    int mode;
    file->fd = -1;
    if (!path || !*path)
        return kolo_fail(KOLO_INVALID, "wanted the name of a file, got %s", path ? "an empty one" : "NULL");
    file->path = path;
    if (strlen(path) >= sizeof file->target) return cannot_write("the file's name", ENAMETOOLONG);
    strcpy(file->target, path);
    KOLO_TRY(follow_links(file));
    if (!file->target[folder_length(file->target)]) return cannot_write(path, EISDIR);
    if (strlen(file->target + folder_length(file->target)) > NAME_MAX) return cannot_write(path, ENAMETOOLONG);
    KOLO_TRY(check_target(file, &mode));
    KOLO_TRY(open_temporary(file));
    if (mode >= 0 && fchmod(file->fd, (mode_t)mode) != 0) {
        int error = errno;
        kolo_file_abandon(file);
        return cannot_write(path, error);
    }
    return KOLO_OK;
}

/* write(), where a limit on file sizes answers with an error as a full disk does, and not with a deadly signal. */
static ssize_t write_without_signal(int fd, const void *bytes, size_t size)
{
    sigset_t limit, before, waiting;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    sigpending(&waiting);
    pthread_sigmask(SIG_BLOCK, &limit, &before);
    ssize_t written = write(fd, bytes, size);
    int error = errno;
    if (written < 0 && error == EFBIG && !sigismember(&waiting, SIGXFSZ))
        sigtimedwait(&limit, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

kolo_status kolo_file_add(kolo_file *file, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t written = write_without_signal(file->fd, (const char *)bytes + done, size - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return kolo_fail(KOLO_IO, "%s: writing it failed: %s", file->path, strerror(errno));
        done += (size_t)written;
    }
    return KOLO_OK;
}

void kolo_file_abandon(kolo_file *file)
{
    if (file->fd < 0) return;
    close(file->fd);
    unlink(file->temporary);
    file->fd = -1;
}

/* The new name too survives a power cut. Some file systems cannot do that to a folder; they do it by themselves. */
static void sync_folder(const char *target)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s.", folder_length(target), target);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

kolo_status kolo_file_commit(kolo_file *file)
{
    if (fsync(file->fd) != 0 || rename(file->temporary, file->target) != 0) {
        int error = errno;
        kolo_file_abandon(file);
        return kolo_fail(KOLO_IO, "%s: writing it failed: %s", file->path, strerror(error));
    }
    close(file->fd);
    file->fd = -1;
    sync_folder(file->target);
    return KOLO_OK;
}

kolo_status kolo_file_write(const char *path, const void *bytes, size_t size)
{
    kolo_file file;
    KOLO_TRY(kolo_file_begin(&file, path));
    kolo_status status = kolo_file_add(&file, bytes, size);
    if (status == KOLO_OK) return kolo_file_commit(&file);
    kolo_file_abandon(&file);
    return status;
}

kolo_status kolo_check_writable(const char *path)
{
    kolo_file file;
    KOLO_TRY(kolo_file_begin(&file, path));
    kolo_file_abandon(&file);
    return KOLO_OK;
}
