/* See json.h. */
#include "core/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"

kolo_status kolo_json_write(const char *path, json_t *whole, size_t flags, const char *what)
{
    char *text = whole ? json_dumps(whole, flags) : NULL;
    json_decref(whole);
    if (!text) return kolo_fail_memory(1 << 12, what);
    size_t length = strlen(text);
    text[length] = '\n'; /* replaces the terminating 0: a text file ends with a newline */
    kolo_status status = kolo_file_write(path, text, length + 1);
    free(text);
    return status;
}

/* Opens without blocking, so that a pipe without a writer is refused like everything else that is not a file. */
static kolo_status open_file(const char *path, const char *what, int *fd)
{
    struct stat info;
    if (!path) return kolo_fail(KOLO_INVALID, "wanted the name of a file, got NULL");
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return kolo_fail(errno == ENOENT || errno == ENOTDIR ? KOLO_NOT_FOUND : KOLO_IO,
                         "%s: wanted a file to read, got: %s", path, strerror(errno));
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s: wanted %s, got a folder or a device", path, what);
}

kolo_status kolo_json_read(const char *path, const char *what, json_t **whole)
{
    json_error_t error;
    int fd = -1;
    *whole = NULL;
    kolo_status status = open_file(path, what, &fd);
    if (status == KOLO_OK) *whole = json_loadfd(fd, 0, &error);
    if (fd >= 0) close(fd);
    KOLO_TRY(status);
    if (*whole) return KOLO_OK;
    return kolo_fail(KOLO_FORMAT, "%s, line %d: wanted %s in JSON, got: %s", path, error.line, what, error.text);
}
