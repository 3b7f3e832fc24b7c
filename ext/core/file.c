#define _GNU_SOURCE /* O_TMPFILE */
/* Writing files completely or not at all: see file.h. */
#include "core/file.h"
#include "core/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINKS_MAX     40  /* the kernel's limit */
#define TEMPORARY_MAX 100 /* files that this process can write to one folder at the same time */

static kolo_status cannot_write(const char *path, int error)
{
    kolo_status code = error == ENOENT || error == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO;
    return kolo_fail(code, "%s: wanted a file that can be written, got: %s", path, strerror(error));
}

/* The length of the folder's part of a path, including the last "/"; 0: the path has no folder. */
static int folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

/* Follows symbolic links of the target, also to a file that does not exist yet. */
static kolo_status follow_links(kolo_file *file)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        char link[PATH_MAX], next[2 * PATH_MAX];
        ssize_t length = readlink(file->target, link, sizeof link - 1);
        if (length < 0 && (errno == EINVAL || errno == ENOENT)) return KOLO_OK; /* not a link, or not there */
        if (length < 0) return cannot_write(file->path, errno);
        link[length] = 0;
        snprintf(next, sizeof next, "%.*s%s", link[0] == '/' ? 0 : folder_length(file->target), file->target, link);
        if (strlen(next) >= sizeof file->target) return cannot_write(file->path, ENAMETOOLONG);
        strcpy(file->target, next);
    }
    return cannot_write(file->path, ELOOP);
}

/* Checks that the target can be written. *mode becomes the permissions of the existing file, or -1. */
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

/* Names of files that are being written: ".kolo-PID-NUMBER.tmp". The process that writes such a file holds its lock
 * (flock), so a file without a lock was left by a process that was killed. */
#define TEMPORARY_PREFIX ".kolo-"
#define TEMPORARY_SUFFIX ".tmp"

static kolo_status name_temporary(kolo_file *file, int number)
{
    int folder = folder_length(file->target);
    int length = snprintf(file->temporary, sizeof file->temporary, "%.*s" TEMPORARY_PREFIX "%ld-%d" TEMPORARY_SUFFIX,
                          folder, file->target, (long)getpid(), number);
    return length < (int)sizeof file->temporary ? KOLO_OK : cannot_write(file->path, ENAMETOOLONG);
}

static void folder_of(const char *target, char folder[PATH_MAX])
{
    snprintf(folder, PATH_MAX, "%.*s.", folder_length(target), target);
}

static bool is_temporary(const char *name)
{
    return strncmp(name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) == 0 && kolo_ends_with(name, TEMPORARY_SUFFIX);
}

/* Whether the name in the folder, an open one or AT_FDCWD, still refers to the open file. */
static bool is_at(int fd, int folder, const char *name)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

/* Removes the files that killed processes left in the target's folder. Errors are ignored. */
static void remove_leftovers(const char *target)
{
    char folder[PATH_MAX];
    folder_of(target, folder);
    DIR *listing = opendir(folder);
    int there = listing ? dirfd(listing) : -1;
    for (struct dirent *entry; there >= 0 && (entry = readdir(listing));) {
        if (!is_temporary(entry->d_name)) continue;
        int fd = openat(there, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd < 0) continue;
        bool left = flock(fd, LOCK_EX | LOCK_NB) == 0; /* or its writer has completed it, and writes a new one */
        if (left && is_at(fd, there, entry->d_name)) unlinkat(there, entry->d_name, 0);
        close(fd);
    }
    if (listing) closedir(listing);
}

/* Locks the open file. False: another process has it locked, to remove it as a leftover. File systems without locks
 * have no such process. */
static bool lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* Opens a new file with a temporary name in the target's folder, for file systems without O_TMPFILE. */
static kolo_status open_named(kolo_file *file)
{
    for (int i = 0; i < TEMPORARY_MAX; i++) {
        KOLO_TRY(name_temporary(file, i));
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd < 0 && errno != EEXIST) return cannot_write(file->path, errno);
        if (file->fd < 0) continue;
        /* Another process may have removed the file as a leftover before it was locked. */
        if (lock(file->fd) && is_at(file->fd, AT_FDCWD, file->temporary)) return KOLO_OK;
        close(file->fd);
    }
    file->fd = -1;
    return cannot_write(file->path, EEXIST);
}

/* Opens a file without a name if possible: the kernel removes it if the process is killed. put_in_place() gives the
 * complete file a name. */
static kolo_status open_temporary(kolo_file *file)
{
    char folder[PATH_MAX];
    remove_leftovers(file->target);
    folder_of(file->target, folder);
    file->temporary[0] = 0;
    bool can_be_named = access("/proc/self/fd", X_OK) == 0;
    file->fd = can_be_named ? open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666) : -1;
    if (file->fd < 0) return open_named(file);
    lock(file->fd);
    return KOLO_OK;
}

/* Gives the open file a name. Returns 0 or errno. */
static int link_as(const kolo_file *file, const char *name)
{
    char open_file[64];
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", file->fd);
    return linkat(AT_FDCWD, open_file, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* Gives the complete file the target's name. Returns 0 or errno. A link cannot replace an existing file, so the file
 * then gets a temporary name first, and rename() replaces the target. If the process is killed between the two calls,
 * the next writer removes the temporary file. */
static int put_in_place(kolo_file *file)
{
    if (!file->temporary[0]) {
        int error = link_as(file, file->target);
        for (int i = 0; error == EEXIST && i < TEMPORARY_MAX; i++) {
            if (name_temporary(file, i) != KOLO_OK) return ENAMETOOLONG;
            error = link_as(file, file->temporary);
            if (error == 0) break;
        }
        if (error != 0) file->temporary[0] = 0; /* there is no temporary name to remove */
        if (error != 0 || !file->temporary[0]) return error;
    }
    return rename(file->temporary, file->target) == 0 ? 0 : errno;
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

/* write() that returns an error if a file exceeds the size limit, instead of ending the process with SIGXFSZ. */
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
    if (file->temporary[0]) unlink(file->temporary);
    file->fd = -1;
}

/* Makes the new name survive a power failure. Errors are ignored: some file systems cannot sync a folder, but write its
 * names by themselves. */
static void sync_folder(const char *target)
{
    char folder[PATH_MAX];
    folder_of(target, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

kolo_status kolo_file_commit(kolo_file *file)
{
    int error = fsync(file->fd) == 0 ? put_in_place(file) : errno;
    if (error != 0) {
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
